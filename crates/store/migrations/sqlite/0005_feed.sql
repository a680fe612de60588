-- The feed: what has changed, in the order of commits. Rows are only added. It cannot be made anew from the log,
-- which does not know in which order things happened in different sessions.
create table feed (
    no       integer primary key autoincrement,
    at       integer not null,
    user     text    not null,
    kind     text    not null,
    session  text,
    workflow text,
    first    integer not null,  -- numbers of messages, facts or events
    last     integer not null
) strict;

-- What is there already, in the order in which it was last touched.
insert into feed (at, user, kind, session, workflow, first, last)
select at, user, kind, session, workflow, first, last from (
    select last_active_at as touched, no, 1 as step, started_at as at, user, 'SESSION_STARTED' as kind, id as session,
        null as workflow, 1 as first, 1 as last
    from session
    union all
    select last_active_at, no, 2, last_active_at, user, 'MESSAGES_APPENDED', id, null, base_seq + 1, last_seq
    from session where last_seq > base_seq
    union all
    select last_active_at, no, 3, deleted_at, user, 'SESSION_DELETED', id, null, facts, facts
    from session where deleted_at is not null
    union all
    select updated_at, no, 4, created_at, user, 'WORKFLOW_CREATED', null, id, 1, 1
    from workflow
)
order by touched, no, step;

-- Lists go on from any place in their order, at the same cost.
drop index session_of_user;
drop index session_of_project;
drop index session_parent;
drop index session_deleted;
create index session_of_user on session (user, last_active_at, id) where deleted_at is null;
create index session_of_project on session (project, last_active_at, id) where deleted_at is null;
create index session_parent on session (parent, last_active_at, id) where parent is not null;
create index session_deleted on session (deleted_at, id) where deleted_at is not null;

drop index workflow_of_user;
drop index workflow_in_worktree;
drop index workflow_by_status;
create index workflow_of_user on workflow (user, status, created_at, id);
create index workflow_in_worktree on workflow (worktree, status, created_at, id);
create index workflow_by_status on workflow (status, created_at, id);
