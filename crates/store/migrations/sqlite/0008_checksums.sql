-- A checksum in every row, over all that is in it: a bit that flips on the disk is noticed when the row is read. A row
-- that is written without one gets it from a trigger. An update carries on whether the row was whole before: what is
-- damaged stays so until its checksum is set to null, which says that the whole row was written anew.

alter table message add column set_aside integer;  -- the row of `quarantine` that has what was here

-- Rows that could not be read any more, as they were.
create table quarantine (
    no      integer primary key,
    at      integer not null,
    tab     text    not null,
    session text,                -- or the id of a workflow
    place   integer,             -- the number of the message, fact or event
    row     blob    not null
) strict;

alter table session add column sum integer;
update session set sum = checksum(no, id, user, project, kind, agent, model, command, prompt_hash, tools, title,
    title_from, summary, status, archived_from, started_at, last_active_at, deleted_at, forked_from, forked_at,
    branch, head, facts, last_seq, base_seq, indexed_seq, conversations, tokens, runs, input_tokens, output_tokens,
    cost_nano, current, turn, epoch, head_price, title_price, summary_prices, parent, title_indexed);
create trigger session_sum_new after insert on session when new.sum is null begin
    update session set sum = checksum(new.no, new.id, new.user, new.project, new.kind, new.agent, new.model,
        new.command, new.prompt_hash, new.tools, new.title, new.title_from, new.summary, new.status,
        new.archived_from, new.started_at, new.last_active_at, new.deleted_at, new.forked_from, new.forked_at,
        new.branch, new.head, new.facts, new.last_seq, new.base_seq, new.indexed_seq, new.conversations, new.tokens,
        new.runs, new.input_tokens, new.output_tokens, new.cost_nano, new.current, new.turn, new.epoch,
        new.head_price, new.title_price, new.summary_prices, new.parent, new.title_indexed) where no = new.no;
end;
create trigger session_sum_anew after update of sum on session when new.sum is null begin
    update session set sum = checksum(new.no, new.id, new.user, new.project, new.kind, new.agent, new.model,
        new.command, new.prompt_hash, new.tools, new.title, new.title_from, new.summary, new.status,
        new.archived_from, new.started_at, new.last_active_at, new.deleted_at, new.forked_from, new.forked_at,
        new.branch, new.head, new.facts, new.last_seq, new.base_seq, new.indexed_seq, new.conversations, new.tokens,
        new.runs, new.input_tokens, new.output_tokens, new.cost_nano, new.current, new.turn, new.epoch,
        new.head_price, new.title_price, new.summary_prices, new.parent, new.title_indexed) where no = new.no;
end;
create trigger session_sum_kept after update of no, id, user, project, kind, agent, model, command, prompt_hash,
    tools, title, title_from, summary, status, archived_from, started_at, last_active_at, deleted_at, forked_from,
    forked_at, branch, head, facts, last_seq, base_seq, indexed_seq, conversations, tokens, runs, input_tokens,
    output_tokens, cost_nano, current, turn, epoch, head_price, title_price, summary_prices, parent, title_indexed on
    session when new.sum is not null begin
    update session set sum = carried(old.sum, checksum(old.no, old.id, old.user, old.project, old.kind, old.agent,
        old.model, old.command, old.prompt_hash, old.tools, old.title, old.title_from, old.summary, old.status,
        old.archived_from, old.started_at, old.last_active_at, old.deleted_at, old.forked_from, old.forked_at,
        old.branch, old.head, old.facts, old.last_seq, old.base_seq, old.indexed_seq, old.conversations, old.tokens,
        old.runs, old.input_tokens, old.output_tokens, old.cost_nano, old.current, old.turn, old.epoch,
        old.head_price, old.title_price, old.summary_prices, old.parent, old.title_indexed), checksum(new.no, new.id,
        new.user, new.project, new.kind, new.agent, new.model, new.command, new.prompt_hash, new.tools, new.title,
        new.title_from, new.summary, new.status, new.archived_from, new.started_at, new.last_active_at,
        new.deleted_at, new.forked_from, new.forked_at, new.branch, new.head, new.facts, new.last_seq, new.base_seq,
        new.indexed_seq, new.conversations, new.tokens, new.runs, new.input_tokens, new.output_tokens, new.cost_nano,
        new.current, new.turn, new.epoch, new.head_price, new.title_price, new.summary_prices, new.parent,
        new.title_indexed)) where no = new.no;
end;

alter table message add column sum integer;
update message set sum = checksum(id, role, conversation, at, tokens, price, cuts, body, head_bytes, blob, extras,
    given_id, purged_at, prev, bytes, set_aside);
create trigger message_sum_new after insert on message when new.sum is null begin
    update message set sum = checksum(new.id, new.role, new.conversation, new.at, new.tokens, new.price, new.cuts,
        new.body, new.head_bytes, new.blob, new.extras, new.given_id, new.purged_at, new.prev, new.bytes,
        new.set_aside) where id = new.id;
end;
create trigger message_sum_anew after update of sum on message when new.sum is null begin
    update message set sum = checksum(new.id, new.role, new.conversation, new.at, new.tokens, new.price, new.cuts,
        new.body, new.head_bytes, new.blob, new.extras, new.given_id, new.purged_at, new.prev, new.bytes,
        new.set_aside) where id = new.id;
end;
create trigger message_sum_kept after update of id, role, conversation, at, tokens, price, cuts, body, head_bytes,
    blob, extras, given_id, purged_at, prev, bytes, set_aside on message when new.sum is not null begin
    update message set sum = carried(old.sum, checksum(old.id, old.role, old.conversation, old.at, old.tokens,
        old.price, old.cuts, old.body, old.head_bytes, old.blob, old.extras, old.given_id, old.purged_at, old.prev,
        old.bytes, old.set_aside), checksum(new.id, new.role, new.conversation, new.at, new.tokens, new.price,
        new.cuts, new.body, new.head_bytes, new.blob, new.extras, new.given_id, new.purged_at, new.prev, new.bytes,
        new.set_aside)) where id = new.id;
end;

alter table fact add column sum integer;
update fact set sum = checksum(session, n, after, at, what);
create trigger fact_sum_new after insert on fact when new.sum is null begin
    update fact set sum = checksum(new.session, new.n, new.after, new.at, new.what) where session = new.session and n
        = new.n;
end;
create trigger fact_sum_anew after update of sum on fact when new.sum is null begin
    update fact set sum = checksum(new.session, new.n, new.after, new.at, new.what) where session = new.session and n
        = new.n;
end;
create trigger fact_sum_kept after update of session, n, after, at, what on fact when new.sum is not null begin
    update fact set sum = carried(old.sum, checksum(old.session, old.n, old.after, old.at, old.what),
        checksum(new.session, new.n, new.after, new.at, new.what)) where session = new.session and n = new.n;
end;

alter table segment add column sum integer;
update segment set sum = checksum(session, lo, hi, source);
create trigger segment_sum_new after insert on segment when new.sum is null begin
    update segment set sum = checksum(new.session, new.lo, new.hi, new.source) where session = new.session and lo =
        new.lo;
end;
create trigger segment_sum_anew after update of sum on segment when new.sum is null begin
    update segment set sum = checksum(new.session, new.lo, new.hi, new.source) where session = new.session and lo =
        new.lo;
end;
create trigger segment_sum_kept after update of session, lo, hi, source on segment when new.sum is not null begin
    update segment set sum = carried(old.sum, checksum(old.session, old.lo, old.hi, old.source), checksum(new.session,
        new.lo, new.hi, new.source)) where session = new.session and lo = new.lo;
end;

alter table conversation add column sum integer;
update conversation set sum = checksum(n, name, title, created_at, last_at, last_seq, messages, tokens, turn, running,
    summary, name_price, heading_price, summary_prices, session);
create trigger conversation_sum_new after insert on conversation when new.sum is null begin
    update conversation set sum = checksum(new.n, new.name, new.title, new.created_at, new.last_at, new.last_seq,
        new.messages, new.tokens, new.turn, new.running, new.summary, new.name_price, new.heading_price,
        new.summary_prices, new.session) where session = new.session and n = new.n;
end;
create trigger conversation_sum_anew after update of sum on conversation when new.sum is null begin
    update conversation set sum = checksum(new.n, new.name, new.title, new.created_at, new.last_at, new.last_seq,
        new.messages, new.tokens, new.turn, new.running, new.summary, new.name_price, new.heading_price,
        new.summary_prices, new.session) where session = new.session and n = new.n;
end;
create trigger conversation_sum_kept after update of n, name, title, created_at, last_at, last_seq, messages, tokens,
    turn, running, summary, name_price, heading_price, summary_prices, session on conversation when new.sum is not
    null begin
    update conversation set sum = carried(old.sum, checksum(old.n, old.name, old.title, old.created_at, old.last_at,
        old.last_seq, old.messages, old.tokens, old.turn, old.running, old.summary, old.name_price, old.heading_price,
        old.summary_prices, old.session), checksum(new.n, new.name, new.title, new.created_at, new.last_at,
        new.last_seq, new.messages, new.tokens, new.turn, new.running, new.summary, new.name_price, new.heading_price,
        new.summary_prices, new.session)) where session = new.session and n = new.n;
end;

alter table agent_use add column sum integer;
update agent_use set sum = checksum(session, agent, runs);
create trigger agent_use_sum_new after insert on agent_use when new.sum is null begin
    update agent_use set sum = checksum(new.session, new.agent, new.runs) where session = new.session and agent =
        new.agent;
end;
create trigger agent_use_sum_anew after update of sum on agent_use when new.sum is null begin
    update agent_use set sum = checksum(new.session, new.agent, new.runs) where session = new.session and agent =
        new.agent;
end;
create trigger agent_use_sum_kept after update of session, agent, runs on agent_use when new.sum is not null begin
    update agent_use set sum = carried(old.sum, checksum(old.session, old.agent, old.runs), checksum(new.session,
        new.agent, new.runs)) where session = new.session and agent = new.agent;
end;

alter table holding add column sum integer;
update holding set sum = checksum(session, conversation, agent, what);
create trigger holding_sum_new after insert on holding when new.sum is null begin
    update holding set sum = checksum(new.session, new.conversation, new.agent, new.what) where session = new.session
        and conversation = new.conversation and agent = new.agent;
end;
create trigger holding_sum_anew after update of sum on holding when new.sum is null begin
    update holding set sum = checksum(new.session, new.conversation, new.agent, new.what) where session = new.session
        and conversation = new.conversation and agent = new.agent;
end;
create trigger holding_sum_kept after update of session, conversation, agent, what on holding when new.sum is not null
    begin
    update holding set sum = carried(old.sum, checksum(old.session, old.conversation, old.agent, old.what),
        checksum(new.session, new.conversation, new.agent, new.what)) where session = new.session and conversation =
        new.conversation and agent = new.agent;
end;

alter table underway add column sum integer;
update underway set sum = checksum(session, conversation, at, what);
create trigger underway_sum_new after insert on underway when new.sum is null begin
    update underway set sum = checksum(new.session, new.conversation, new.at, new.what) where session = new.session
        and conversation = new.conversation;
end;
create trigger underway_sum_anew after update of sum on underway when new.sum is null begin
    update underway set sum = checksum(new.session, new.conversation, new.at, new.what) where session = new.session
        and conversation = new.conversation;
end;
create trigger underway_sum_kept after update of session, conversation, at, what on underway when new.sum is not null
    begin
    update underway set sum = carried(old.sum, checksum(old.session, old.conversation, old.at, old.what),
        checksum(new.session, new.conversation, new.at, new.what)) where session = new.session and conversation =
        new.conversation;
end;

alter table stream add column sum integer;
update stream set sum = checksum(no, session, conversation, at, what);
create trigger stream_sum_new after insert on stream when new.sum is null begin
    update stream set sum = checksum(new.no, new.session, new.conversation, new.at, new.what) where no = new.no;
end;
create trigger stream_sum_anew after update of sum on stream when new.sum is null begin
    update stream set sum = checksum(new.no, new.session, new.conversation, new.at, new.what) where no = new.no;
end;
create trigger stream_sum_kept after update of no, session, conversation, at, what on stream when new.sum is not null
    begin
    update stream set sum = carried(old.sum, checksum(old.no, old.session, old.conversation, old.at, old.what),
        checksum(new.no, new.session, new.conversation, new.at, new.what)) where no = new.no;
end;

alter table permission add column sum integer;
update permission set sum = checksum(user, project, agent, what, allowed, at);
create trigger permission_sum_new after insert on permission when new.sum is null begin
    update permission set sum = checksum(new.user, new.project, new.agent, new.what, new.allowed, new.at) where user =
        new.user and project = new.project and agent = new.agent and what = new.what;
end;
create trigger permission_sum_anew after update of sum on permission when new.sum is null begin
    update permission set sum = checksum(new.user, new.project, new.agent, new.what, new.allowed, new.at) where user =
        new.user and project = new.project and agent = new.agent and what = new.what;
end;
create trigger permission_sum_kept after update of user, project, agent, what, allowed, at on permission when new.sum
    is not null begin
    update permission set sum = carried(old.sum, checksum(old.user, old.project, old.agent, old.what, old.allowed,
        old.at), checksum(new.user, new.project, new.agent, new.what, new.allowed, new.at)) where user = new.user and
        project = new.project and agent = new.agent and what = new.what;
end;

alter table blob add column sum integer;
update blob set sum = checksum(no, owner, hash, bytes, uses);
create trigger blob_sum_new after insert on blob when new.sum is null begin
    update blob set sum = checksum(new.no, new.owner, new.hash, new.bytes, new.uses) where no = new.no;
end;
create trigger blob_sum_anew after update of sum on blob when new.sum is null begin
    update blob set sum = checksum(new.no, new.owner, new.hash, new.bytes, new.uses) where no = new.no;
end;
create trigger blob_sum_kept after update of no, owner, hash, bytes, uses on blob when new.sum is not null begin
    update blob set sum = carried(old.sum, checksum(old.no, old.owner, old.hash, old.bytes, old.uses),
        checksum(new.no, new.owner, new.hash, new.bytes, new.uses)) where no = new.no;
end;

alter table command add column sum integer;
update command set sum = checksum(no, session, at, what, conversation, prompt, taken, answer);
create trigger command_sum_new after insert on command when new.sum is null begin
    update command set sum = checksum(new.no, new.session, new.at, new.what, new.conversation, new.prompt, new.taken,
        new.answer) where no = new.no;
end;
create trigger command_sum_anew after update of sum on command when new.sum is null begin
    update command set sum = checksum(new.no, new.session, new.at, new.what, new.conversation, new.prompt, new.taken,
        new.answer) where no = new.no;
end;
create trigger command_sum_kept after update of no, session, at, what, conversation, prompt, taken, answer on command
    when new.sum is not null begin
    update command set sum = carried(old.sum, checksum(old.no, old.session, old.at, old.what, old.conversation,
        old.prompt, old.taken, old.answer), checksum(new.no, new.session, new.at, new.what, new.conversation,
        new.prompt, new.taken, new.answer)) where no = new.no;
end;

alter table folder add column sum integer;
update folder set sum = checksum(session, root, path, seq, last_id, facts, told, log, card);
create trigger folder_sum_new after insert on folder when new.sum is null begin
    update folder set sum = checksum(new.session, new.root, new.path, new.seq, new.last_id, new.facts, new.told,
        new.log, new.card) where session = new.session;
end;
create trigger folder_sum_anew after update of sum on folder when new.sum is null begin
    update folder set sum = checksum(new.session, new.root, new.path, new.seq, new.last_id, new.facts, new.told,
        new.log, new.card) where session = new.session;
end;
create trigger folder_sum_kept after update of session, root, path, seq, last_id, facts, told, log, card on folder
    when new.sum is not null begin
    update folder set sum = carried(old.sum, checksum(old.session, old.root, old.path, old.seq, old.last_id,
        old.facts, old.told, old.log, old.card), checksum(new.session, new.root, new.path, new.seq, new.last_id,
        new.facts, new.told, new.log, new.card)) where session = new.session;
end;

alter table workflow add column sum integer;
update workflow set sum = checksum(no, id, user, worktree, title, agent, status, tasks_done, tasks, sessions, task,
    paused_at, pause_reason, until, created_at, updated_at, cost_usd, tokens, events, epoch, lease_until, told);
create trigger workflow_sum_new after insert on workflow when new.sum is null begin
    update workflow set sum = checksum(new.no, new.id, new.user, new.worktree, new.title, new.agent, new.status,
        new.tasks_done, new.tasks, new.sessions, new.task, new.paused_at, new.pause_reason, new.until, new.created_at,
        new.updated_at, new.cost_usd, new.tokens, new.events, new.epoch, new.lease_until, new.told) where no = new.no;
end;
create trigger workflow_sum_anew after update of sum on workflow when new.sum is null begin
    update workflow set sum = checksum(new.no, new.id, new.user, new.worktree, new.title, new.agent, new.status,
        new.tasks_done, new.tasks, new.sessions, new.task, new.paused_at, new.pause_reason, new.until, new.created_at,
        new.updated_at, new.cost_usd, new.tokens, new.events, new.epoch, new.lease_until, new.told) where no = new.no;
end;
create trigger workflow_sum_kept after update of no, id, user, worktree, title, agent, status, tasks_done, tasks,
    sessions, task, paused_at, pause_reason, until, created_at, updated_at, cost_usd, tokens, events, epoch,
    lease_until, told on workflow when new.sum is not null begin
    update workflow set sum = carried(old.sum, checksum(old.no, old.id, old.user, old.worktree, old.title, old.agent,
        old.status, old.tasks_done, old.tasks, old.sessions, old.task, old.paused_at, old.pause_reason, old.until,
        old.created_at, old.updated_at, old.cost_usd, old.tokens, old.events, old.epoch, old.lease_until, old.told),
        checksum(new.no, new.id, new.user, new.worktree, new.title, new.agent, new.status, new.tasks_done, new.tasks,
        new.sessions, new.task, new.paused_at, new.pause_reason, new.until, new.created_at, new.updated_at,
        new.cost_usd, new.tokens, new.events, new.epoch, new.lease_until, new.told)) where no = new.no;
end;

alter table workflow_event add column sum integer;
update workflow_event set sum = checksum(id, at, what);
create trigger workflow_event_sum_new after insert on workflow_event when new.sum is null begin
    update workflow_event set sum = checksum(new.id, new.at, new.what) where id = new.id;
end;
create trigger workflow_event_sum_anew after update of sum on workflow_event when new.sum is null begin
    update workflow_event set sum = checksum(new.id, new.at, new.what) where id = new.id;
end;
create trigger workflow_event_sum_kept after update of id, at, what on workflow_event when new.sum is not null begin
    update workflow_event set sum = carried(old.sum, checksum(old.id, old.at, old.what), checksum(new.id, new.at,
        new.what)) where id = new.id;
end;

alter table workflow_session add column sum integer;
update workflow_session set sum = checksum(session, workflow, task);
create trigger workflow_session_sum_new after insert on workflow_session when new.sum is null begin
    update workflow_session set sum = checksum(new.session, new.workflow, new.task) where session = new.session and
        workflow = new.workflow;
end;
create trigger workflow_session_sum_anew after update of sum on workflow_session when new.sum is null begin
    update workflow_session set sum = checksum(new.session, new.workflow, new.task) where session = new.session and
        workflow = new.workflow;
end;
create trigger workflow_session_sum_kept after update of session, workflow, task on workflow_session when new.sum is
    not null begin
    update workflow_session set sum = carried(old.sum, checksum(old.session, old.workflow, old.task),
        checksum(new.session, new.workflow, new.task)) where session = new.session and workflow = new.workflow;
end;

alter table feed add column sum integer;
update feed set sum = checksum(no, at, user, kind, session, workflow, first, last);
create trigger feed_sum_new after insert on feed when new.sum is null begin
    update feed set sum = checksum(new.no, new.at, new.user, new.kind, new.session, new.workflow, new.first, new.last)
        where no = new.no;
end;
create trigger feed_sum_anew after update of sum on feed when new.sum is null begin
    update feed set sum = checksum(new.no, new.at, new.user, new.kind, new.session, new.workflow, new.first, new.last)
        where no = new.no;
end;
create trigger feed_sum_kept after update of no, at, user, kind, session, workflow, first, last on feed when new.sum
    is not null begin
    update feed set sum = carried(old.sum, checksum(old.no, old.at, old.user, old.kind, old.session, old.workflow,
        old.first, old.last), checksum(new.no, new.at, new.user, new.kind, new.session, new.workflow, new.first,
        new.last)) where no = new.no;
end;

alter table token add column sum integer;
update token set sum = checksum(no, id, hash, name, role, user, pass, created_at, expires_at, revoked_at, used_at,
    parent);
create trigger token_sum_new after insert on token when new.sum is null begin
    update token set sum = checksum(new.no, new.id, new.hash, new.name, new.role, new.user, new.pass, new.created_at,
        new.expires_at, new.revoked_at, new.used_at, new.parent) where no = new.no;
end;
create trigger token_sum_anew after update of sum on token when new.sum is null begin
    update token set sum = checksum(new.no, new.id, new.hash, new.name, new.role, new.user, new.pass, new.created_at,
        new.expires_at, new.revoked_at, new.used_at, new.parent) where no = new.no;
end;
create trigger token_sum_kept after update of no, id, hash, name, role, user, pass, created_at, expires_at,
    revoked_at, used_at, parent on token when new.sum is not null begin
    update token set sum = carried(old.sum, checksum(old.no, old.id, old.hash, old.name, old.role, old.user, old.pass,
        old.created_at, old.expires_at, old.revoked_at, old.used_at, old.parent), checksum(new.no, new.id, new.hash,
        new.name, new.role, new.user, new.pass, new.created_at, new.expires_at, new.revoked_at, new.used_at,
        new.parent)) where no = new.no;
end;

alter table reserved add column sum integer;
update reserved set sum = checksum(key, request, id, at);
create trigger reserved_sum_new after insert on reserved when new.sum is null begin
    update reserved set sum = checksum(new.key, new.request, new.id, new.at) where key = new.key;
end;
create trigger reserved_sum_anew after update of sum on reserved when new.sum is null begin
    update reserved set sum = checksum(new.key, new.request, new.id, new.at) where key = new.key;
end;
create trigger reserved_sum_kept after update of key, request, id, at on reserved when new.sum is not null begin
    update reserved set sum = carried(old.sum, checksum(old.key, old.request, old.id, old.at), checksum(new.key,
        new.request, new.id, new.at)) where key = new.key;
end;

alter table usage_day add column sum integer;
update usage_day set sum = checksum(day, session, agent, messages, tokens, input_tokens, output_tokens, cost_nano,
    context);
create trigger usage_day_sum_new after insert on usage_day when new.sum is null begin
    update usage_day set sum = checksum(new.day, new.session, new.agent, new.messages, new.tokens, new.input_tokens,
        new.output_tokens, new.cost_nano, new.context) where day = new.day and session = new.session and agent =
        new.agent;
end;
create trigger usage_day_sum_anew after update of sum on usage_day when new.sum is null begin
    update usage_day set sum = checksum(new.day, new.session, new.agent, new.messages, new.tokens, new.input_tokens,
        new.output_tokens, new.cost_nano, new.context) where day = new.day and session = new.session and agent =
        new.agent;
end;
create trigger usage_day_sum_kept after update of day, session, agent, messages, tokens, input_tokens, output_tokens,
    cost_nano, context on usage_day when new.sum is not null begin
    update usage_day set sum = carried(old.sum, checksum(old.day, old.session, old.agent, old.messages, old.tokens,
        old.input_tokens, old.output_tokens, old.cost_nano, old.context), checksum(new.day, new.session, new.agent,
        new.messages, new.tokens, new.input_tokens, new.output_tokens, new.cost_nano, new.context)) where day =
        new.day and session = new.session and agent = new.agent;
end;

alter table opening_sum add column sum integer;
update opening_sum set sum = checksum(user, agent, how, why, ms, times);
create trigger opening_sum_sum_new after insert on opening_sum when new.sum is null begin
    update opening_sum set sum = checksum(new.user, new.agent, new.how, new.why, new.ms, new.times) where user =
        new.user and agent = new.agent and how = new.how and why = new.why and ms = new.ms;
end;
create trigger opening_sum_sum_anew after update of sum on opening_sum when new.sum is null begin
    update opening_sum set sum = checksum(new.user, new.agent, new.how, new.why, new.ms, new.times) where user =
        new.user and agent = new.agent and how = new.how and why = new.why and ms = new.ms;
end;
create trigger opening_sum_sum_kept after update of user, agent, how, why, ms, times on opening_sum when new.sum is
    not null begin
    update opening_sum set sum = carried(old.sum, checksum(old.user, old.agent, old.how, old.why, old.ms, old.times),
        checksum(new.user, new.agent, new.how, new.why, new.ms, new.times)) where user = new.user and agent =
        new.agent and how = new.how and why = new.why and ms = new.ms;
end;
