-- Sessions that live in a folder beside the code, and how far the folder follows the log.
create table folder (
    session integer not null primary key,
    root    text    not null,  -- the workspace
    path    text    not null,  -- beneath it
    seq     integer not null,  -- up to here the folder has the messages
    last_id text    not null,  -- what it knows the last of them by
    facts   integer not null,  -- how many facts there were when it was described
    told    text    not null,  -- what it says of the session, in short
    log     text    not null,  -- how its log stood when we left it
    card    text    not null   -- and its session.json
) strict, without rowid;

create index folder_place on folder (root, path);
