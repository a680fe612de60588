-- Who may come in over the network. Of a secret only its hash is kept.
create table token (
    no         integer primary key autoincrement,  -- in the order in which they were made
    id         text    not null unique,
    hash       blob    not null unique,
    name       text    not null,
    role       text    not null,
    user       text    not null,
    pass       text    not null,
    created_at integer not null,
    expires_at integer,
    revoked_at integer,
    used_at    integer,
    parent     text                                -- the token that it was made with
) strict;

create index token_parent on token (parent) where parent is not null;

-- What was asked for under a key, and the id of what comes of it: asked again, it is the same.
create table reserved (
    key     blob    not null primary key,  -- hashes, both
    request blob    not null,
    id      text    not null,
    at      integer not null
) strict, without rowid;

create index reserved_at on reserved (at);

-- What a session took each day: a sum of its own messages, not of those that a fork shares.
create table usage_day (
    day           integer not null,  -- days since 1970, UTC
    session       integer not null,
    agent         text    not null,  -- the message's, else the session's, else empty
    messages      integer not null,
    tokens        integer not null,
    input_tokens  integer not null,
    output_tokens integer not null,
    cost_nano     integer not null,
    context       real,              -- how full a context was at most, from 0 to 1
    primary key (day, session, agent)
) strict, without rowid;

create index usage_day_of on usage_day (session);
