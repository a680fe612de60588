-- What was deleted here for good: a session, or the first line of one in a folder that others still use. Whatever
-- comes by git, these are not taken in again.
create table gone (
    id text    not null primary key,
    at integer not null
) strict, without rowid;
