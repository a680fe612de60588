-- The search index of messages, of our own making: in FTS5 an older session paid for all that came after it. A run is a sorted
-- tree of blocks that is never changed; runs of about the same size are merged. It is filled anew after this step.
drop table message_index;

create table posting (
    no   integer primary key,
    data blob    not null,
    sum  integer
) strict;

create table posting_run (
    no       integer primary key,
    leaf     integer not null,  -- the first block; the others follow it
    leaves   integer not null,
    root     integer not null,  -- the block that leads to all others
    depth    integer not null,  -- how many levels of directories there are
    lo       integer not null,  -- the first and the last message that it has
    hi       integer not null,
    messages integer not null,
    sum      integer
) strict;

-- Messages that were taken out, and are still in a run.
create table posting_gone (
    key integer primary key
) strict;
