-- Workflows: what happened to each, and a row that sums it up.
create table workflow (
    no           integer primary key autoincrement,  -- never used again
    id           text    not null unique,
    user         text    not null,
    worktree     text    not null,
    title        text    not null,
    agent        text    not null,
    status       integer not null,                   -- from 4 on: final
    tasks_done   integer not null,
    tasks        integer not null,
    sessions     integer not null,
    task         text,                               -- worked on, or next
    paused_at    integer,
    pause_reason text,
    until        integer,
    created_at   integer not null,
    updated_at   integer not null,
    cost_usd     real,
    tokens       integer not null,
    events       integer not null,
    epoch        integer not null default 0,         -- counts who ran it; not in the log, like the next two
    lease_until  integer not null default 0,
    told         integer not null default 0          -- up to this event others were told
) strict;

create index workflow_handle on workflow (substr(id, 25));
create index workflow_of_user on workflow (user, status);
create index workflow_in_worktree on workflow (worktree, status);
create index workflow_by_status on workflow (status);

-- The truth. Rows are only added.
create table workflow_event (
    id   integer primary key,  -- workflow.no << 32 | number of the event, from 1
    at   integer not null,
    what text    not null      -- json
) strict;

-- Which task a session is part of.
create table workflow_session (
    session  text    not null,
    workflow integer not null,
    task     text    not null,
    primary key (session, workflow)
) strict, without rowid;

create index workflow_session_of on workflow_session (workflow);
