-- Sessions that were read from the files of other agents, so that each is read once, and only what is new of it later.
create table imported (
    source  text    not null,  -- the file
    native  text    not null,  -- which session of a database; empty where the file is one session
    agent   text    not null,
    session text,              -- ours; null where nothing was taken in
    stamp   text    not null,  -- how it stood when it was read
    cursor  text,              -- json: where to go on
    seq     integer not null,  -- the newest message that came from there
    gone_at integer,           -- since when the agent does not have it any more
    primary key (source, native)
) strict, without rowid;

create index imported_session on imported (session) where session is not null;
