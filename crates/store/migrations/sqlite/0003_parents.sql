-- Sessions that the agent of another session started.

alter table session add column parent text;

create index session_parent on session (parent, last_active_at) where parent is not null;
