-- Which sessions came from agents, and in which native sessions conversations were opened, is found without going through the log.
create index fact_imported on fact (session) where substr(what, 1, 18) = '{"what":"imported"';
drop index fact_attached;
create index fact_attached on fact (session) where substr(what, 1, 18) = '{"what":"attached"';
