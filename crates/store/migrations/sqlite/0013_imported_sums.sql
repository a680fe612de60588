-- How far the files of other agents were read is checked like everything else.
alter table imported add column sum integer;
update imported set sum = checksum(source, native, agent, session, stamp, cursor, seq, gone_at);
