-- Sessions, and the log of what was said and done in them.

create table session (
    no             integer primary key autoincrement,  -- never used again
    id             text    not null unique,
    user           text    not null,
    project        text    not null,
    kind           text    not null,
    agent          text,
    model          text,
    command        text,
    prompt_hash    text,
    tools          text,                               -- json
    title          text,
    title_from     integer not null,
    summary        text,
    status         integer not null,
    archived_from  integer,
    started_at     integer not null,                   -- all times: unix microseconds
    last_active_at integer not null,
    deleted_at     integer,
    forked_from    text,
    forked_at      integer,
    branch         text,
    head           text,
    facts          integer not null,
    last_seq       integer not null,
    base_seq       integer not null,                   -- up to here the messages are shared, see segment
    indexed_seq    integer not null,                   -- up to here the search index has them
    conversations  integer not null,
    tokens         integer not null,
    runs           integer not null,
    input_tokens   integer not null,
    output_tokens  integer not null,
    cost_nano      integer not null,
    current        integer,
    turn           integer not null,
    epoch          integer not null,
    head_price     integer not null,
    title_price    integer not null,
    summary_prices blob,
    title_indexed  integer not null default 0          -- whether the search index has title and summary
) strict;

create index session_handle on session (substr(id, 25));
create index session_of_user on session (user, last_active_at) where deleted_at is null;
create index session_of_project on session (project, last_active_at) where deleted_at is null;
create index session_unindexed on session (no) where indexed_seq < last_seq;
create index session_untitled on session (no) where title_indexed = 0;
create index session_active on session (last_active_at) where status = 0 and deleted_at is null;
create index session_deleted on session (deleted_at) where deleted_at is not null;
create index session_fork on session (forked_from) where forked_from is not null;

-- The truth, with `fact`. Rows are added, and changed only by a purge.
create table message (
    id           integer primary key,  -- session.no << 32 | seq
    role         integer not null,
    conversation integer not null,
    at           integer not null,
    prev         integer not null,     -- the message before it in its conversation, or 0
    tokens       integer,              -- null: nobody counted
    price        integer,              -- as a quotation
    cuts         blob,
    body         text    not null,     -- all of it, or its beginning and its end
    head_bytes   integer,              -- where the beginning ends
    bytes        integer,              -- how long all of it is
    blob         integer,              -- where all of it is
    extras       text,                 -- json
    given_id     text,
    purged_at    integer
) strict;

create unique index message_given_id on message (id >> 32, given_id) where given_id is not null;

create table fact (
    no      integer primary key,  -- in the order of commits
    session integer not null,
    n       integer not null,
    after   integer not null,     -- the message that it came after
    at      integer not null,
    what    text    not null,     -- json
    unique (session, n)
) strict;

create index fact_attached on fact (no) where substr(what, 1, 18) = '{"what":"attached"';

-- A fork shares messages: its numbers lo to hi are those of source.
create table segment (
    session integer not null,
    lo      integer not null,
    hi      integer not null,
    source  integer not null,
    primary key (session, lo)
) strict, without rowid;

create index segment_source on segment (source);

create table conversation (
    session        integer not null,
    n              integer not null,
    name           text    not null,
    title          text,
    created_at     integer not null,
    last_at        integer not null,
    last_seq       integer not null,
    messages       integer not null,
    tokens         integer not null,
    turn           integer not null,
    running        text,
    summary        text,             -- json
    name_price     integer not null,
    heading_price  integer not null,
    summary_prices blob,
    primary key (session, n)
) strict, without rowid;

create unique index conversation_name on conversation (session, name);
create index conversation_turn on conversation (session, turn);

create table agent_use (
    session integer not null,
    agent   text    not null,
    runs    integer not null,
    primary key (session, agent)
) strict, without rowid;

-- Up to where an agent's own session holds a conversation.
create table holding (
    session      integer not null,
    conversation text    not null,
    agent        text    not null,
    what         text    not null,  -- json
    primary key (session, conversation, agent)
) strict, without rowid;

-- Turns that have begun and not ended, and what came of them so far. Whoever finds one that nobody drives
-- makes messages of it.
create table underway (
    session      integer not null,
    conversation text    not null,
    at           integer not null,
    what         text    not null,  -- json
    primary key (session, conversation)
) strict, without rowid;

create table stream (
    no           integer primary key autoincrement,
    session      integer not null,
    conversation text    not null,
    at           integer not null,
    what         text    not null   -- json
) strict;

create index stream_turn on stream (session, conversation, no);

-- What a person allowed or refused an agent for good, in one project.
create table permission (
    user    text    not null,
    project text    not null,
    agent   text    not null,
    what    text    not null,
    allowed integer not null,
    at      integer not null,
    primary key (user, project, agent, what)
) strict, without rowid;

-- Long texts, compressed, once for each user.
create table blob (
    no    integer primary key,
    owner text    not null,
    hash  blob    not null,
    bytes integer not null,
    uses  integer not null,
    data  blob    not null,
    unique (owner, hash)
) strict;

-- What other processes ask of whoever drives a session.
create table command (
    no           integer primary key autoincrement,
    session      integer not null,
    at           integer not null,
    what         text    not null,
    conversation text,              -- of a prompt
    prompt       text,
    taken        integer not null default 0,
    answer       text
) strict;

create index command_session on command (session, no);

create table meta (
    name  text not null primary key,
    value integer not null
) strict, without rowid;

-- The search index: terms as the domain makes them, so the tokenizer only has to split at spaces.
create virtual table message_index using fts5 (
    terms, content = '', contentless_delete = 1, detail = none,
    tokenize = "ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'"
);
create virtual table title_index using fts5 (
    terms, content = '', contentless_delete = 1, detail = none,
    tokenize = "ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'"
);
