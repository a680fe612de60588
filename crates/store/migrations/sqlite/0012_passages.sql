-- What is kept of the passages of a message, for choosing among them without reading its text: a part of the search index,
-- made with it and made anew with it.
create table passage (
    id   integer primary key,
    data blob    not null,
    sum  integer
) strict;
