-- How often conversations were opened: a sum of the facts that say so, of which only the long times are rounded.
create table opening_sum (
    user  text    not null,
    agent text    not null,
    how   text    not null,
    why   text    not null,  -- empty where there is none
    ms    integer not null,  -- three digits of it
    times integer not null,
    primary key (user, agent, how, why, ms)
) strict, without rowid;
