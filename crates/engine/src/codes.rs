//! The table of error codes: exit code, HTTP status, title and default hint. Doors may add wording of their own.
//! docs/errors.md lists the same.

use Hint::{Nothing, Say};

/// A kind of error.
#[derive(Debug, Clone, Copy)]
pub struct Code {
    /// The stable name
    pub name: &'static str,
    /// The exit code: 1 refused or not found, 2 bad input, 70 internal error, 130 cancelled
    pub exit: u8,
    /// The HTTP status
    pub status: u16,
    /// The meaning
    pub title: &'static str,
    pub hint: Hint,
}

/// What to do next, unless the error itself says more.
#[derive(Debug, Clone, Copy)]
pub enum Hint {
    Say(&'static str),
    /// None, for this reason.
    Nothing(&'static str),
}

impl Code {
    /// The row of a code; that of `internal` for an unknown one.
    pub fn of(name: &str) -> &'static Self {
        let row = CODES.iter().find(|code| code.name == name);
        row.unwrap_or(&CODES[0])
    }

    pub fn hint(&self) -> Option<String> {
        match self.hint {
            Say(hint) => Some(hint.to_owned()),
            Nothing(_) => None,
        }
    }
}

/// The code that reports the error also gives the hint.
const SAID_THERE: Hint = Nothing("the place that reports it says what to do");

#[rustfmt::skip] // A table: one row, one line.
pub const CODES: &[Code] = &[
    row("internal", 70, 500, "This is a fault of Rethread", Say("`rethread doctor` looks closer")),
    // What was given.
    row("usage", 2, 400, "The command line is not understood", Say("`rethread help` lists commands and options")),
    row("bad_request", 2, 400, "The request cannot be read", SAID_THERE),
    row("bad_input", 2, 422, "Invalid request", SAID_THERE),
    row("bad_id", 2, 422, "This is not an id", Say("`rethread list` shows the ids of sessions")),
    row("bad_name", 2, 422, "This name is not allowed", SAID_THERE),
    row("bad_cursor", 2, 422, "This cursor was not given by this server", Say("give `next` of the previous answer, unchanged")),
    row("bad_plan", 1, 422, "The plan cannot be used", Say("correct the file and try again; `rethread workflow start --help` shows a plan")),
    row("bad_settings", 2, 409, "The settings cannot be used", Say("`rethread config show` shows what is set")),
    row("bad_store_url", 2, 503, "This is not the address of a store", Say("for instance `--store sqlite:/home/me/sessions.db` or `--store postgres://me@db.example/sessions`")),
    row("limit_not_positive", 2, 422, "The limit is below 1", SAID_THERE),
    row("id_taken", 2, 409, "The message id is taken", Say("a new message needs an id of its own, or none")),
    row("key_reused", 1, 409, "The idempotency key stands for another request", Say("each request needs a key of its own")),
    row("unknown_agent", 1, 422, "There is no such agent", SAID_THERE),
    row("unknown_kind", 1, 422, "There is no such kind of session in this workspace", SAID_THERE),
    row("unknown_option", 2, 422, "The question has no such option", SAID_THERE),
    row("body_too_large", 2, 413, "The request is too large", SAID_THERE),
    row("unsupported_media_type", 2, 415, "Unsupported content type", SAID_THERE),
    row("method_not_allowed", 2, 405, "Method not allowed", SAID_THERE),
    row("confirmation_needed", 1, 409, "Confirmation is needed", SAID_THERE),
    // Who may.
    row("unauthenticated", 1, 401, "A token is needed", SAID_THERE),
    row("forbidden", 1, 403, "The token's role does not allow this", SAID_THERE),
    row("wrong_host", 1, 403, "The Host header names another server", SAID_THERE),
    row("wrong_origin", 1, 403, "Pages of other sites get no answer", SAID_THERE),
    // What is not there.
    row("not_found", 1, 404, "There is no such page", SAID_THERE),
    row("session_not_found", 1, 404, "There is no such session", Say("`rethread list` lists the sessions")),
    row("message_not_found", 1, 404, "There is no such message", Say("`rethread show ID --all` shows every message with its number")),
    row("workflow_not_found", 1, 404, "There is no such workflow", Say("`rethread workflow list` lists the workflows")),
    row("snapshot_not_found", 1, 404, "There is no such snapshot", Say("`rethread workflow snapshots ID` lists those of a workflow")),
    row("turn_not_found", 1, 404, "There is no such turn", SAID_THERE),
    row("question_not_found", 1, 404, "There is no such question", SAID_THERE),
    row("token_not_found", 1, 404, "There is no such token", Say("`rethread token list` lists the tokens")),
    row("io", 1, 500, "A file cannot be used", Say("check that it exists and that you have access to it")),
    // What does not fit the state.
    row("ambiguous_id", 1, 409, "The id could mean several", Say("give more of the id")),
    row("ambiguous", 1, 409, "The words could mean several sessions", Say("give an id: `rethread resume ID`")),
    row("refused", 1, 409, "Not possible in this state", SAID_THERE),
    row("session_archived", 1, 409, "The session is archived", Say("`rethread unarchive ID` brings it back")),
    row("session_completed", 1, 409, "The session is completed", Say("`rethread activate --yes ID` takes it up again; so does `--yes` of `rethread resume` and `rethread continue`")),
    row("session_deleted", 1, 409, "The session is deleted", Say("`rethread undelete ID` brings it back")),
    row("session_exists", 1, 409, "The session already exists", Say("to import it again, delete it for good first")),
    row("not_recorded", 1, 422, "Sessions in this folder are not recorded", Say("the setting record.exclude says so; `rethread config path` shows the file")),
    row("folder", 1, 409, "The folder of the session cannot be used", Say("`rethread doctor` looks through the folders of a workspace")),
    row("conflict", 1, 409, "Somebody else changed it first", Say("try again")),
    row("conversation_busy", 1, 409, "Another process has the conversation open", Say("try again when it has ended")),
    row("elsewhere", 1, 409, "The process that has the conversation open could not do it", Say("the process that has the conversation open says more")),
    row("taken", 1, 409, "Another process had begun with it, and goes on", Say("Ctrl-C there cancels it; so does `rethread stop ID`")),
    row("interrupted", 1, 409, "The process that was asked ended in the middle of the answer", Say("what had been said is kept; `rethread resume ID` takes it up again")),
    row("question_closed", 1, 409, "The question is not open any more", SAID_THERE),
    row("command_hidden", 1, 409, "A part of the command is hidden here", SAID_THERE),
    row("events_ahead", 1, 409, "No such event yet", SAID_THERE),
    row("workflow_busy", 1, 409, "Another process runs the workflow", Say("`rethread workflow status ID` shows it, `rethread workflow pause ID` stops it")),
    row("worktree_taken", 1, 409, "Another workflow works in this folder", Say("wait until it is over, or give another folder")),
    row("lease_lost", 1, 409, "Another process runs the workflow now", Say("nothing was written; `rethread workflow status ID` shows its status")),
    row("workflow_not_begun", 1, 409, "The workflow was made, and did not begin", SAID_THERE),
    // Agents.
    row("not_installed", 1, 409, "The agent is not installed here", Say("`rethread agents` lists those that are, and how to install others")),
    row("permissions_not_kept", 1, 422, "These permission rules cannot be enforced with this agent", SAID_THERE),
    row("not_resumable", 1, 409, "The agent cannot take up the conversation in its own session", Say("--policy auto tells it the story so far in a new session")),
    row("not_written", 1, 409, "The session cannot be written for the agent", Say("`rethread resume ID --with AGENT`, without --native, tells it the story so far")),
    row("no_native_program", 1, 422, "The agent has no program of its own that could be started", Say("`rethread resume ID` goes on with it in Rethread's own window")),
    row("no_answer", 1, 502, "The agent gave no answer", Say("what was said is kept; try again, or go on with another agent: `rethread continue --with AGENT`")),
    row("model_error", 1, 502, "The model behind the agent failed", Say("what was said is kept; try again, or go on with another agent: `rethread continue --with AGENT`")),
    row("usage_limit", 1, 502, "A usage limit of the model is reached", Say("what was said is kept; try again, or go on with another agent: `rethread continue --with AGENT`")),
    row("cannot_start", 1, 502, "The agent cannot be started", Say("check the command in `rethread config show`")),
    row("folder_gone", 1, 502, "The folder that the agent works in is gone", Say("bring the folder back; the session itself is kept")),
    row("agent_ended", 1, 502, "The agent ended", Say("what was said is kept; `rethread continue` takes it up again")),
    row("timed_out", 1, 502, "The agent did not answer in time", Say("what was said is kept; the settings under [talk] allow more time")),
    row("silent", 1, 502, "The agent was silent for too long", Say("the session is kept; the setting talk.answer_seconds gives the agent more time")),
    row("turn_too_large", 1, 502, "The turn has become too large", Say("what was said so far is kept; the setting talk.max_turn_bytes allows more")),
    row("wrong_version", 1, 502, "The agent speaks another version of ACP", Say("another version of the agent may speak version 1")),
    row("line_too_long", 1, 502, "The agent sent too long a line", Say("the setting talk.max_line_bytes allows longer ones")),
    row("nonsense", 1, 502, "The agent sent something unreadable", Say("what was said is kept; try again, or go on with another agent: `rethread continue --with AGENT`")),
    row("agent_refused", 1, 502, "The agent refused", Say("what was said is kept; try again, or go on with another agent: `rethread continue --with AGENT`")),
    row("session_gone", 1, 502, "The agent does not know its session any more", Say("--policy auto tells it the story so far in a new session")),
    row("needs_login", 1, 502, "The agent needs a login", Say("start the agent by itself once and log in there")),
    row("unsupported", 1, 502, "The agent cannot do this", Say("choose one that it has, do without, or use an agent that can do it")),
    row("not_taken", 1, 502, "The agent did not take a setting", Say("set it in the agent itself, or do without; `--permissions agent` claims nothing of it")),
    row("cancelled", 130, 409, "It was cancelled", Say("what was said is kept; `rethread continue` takes it up again")),
    // The server and the store.
    row("too_many_requests", 1, 429, "Too many requests", SAID_THERE),
    row("too_many_streams", 1, 429, "Too many event clients", SAID_THERE),
    row("too_many_turns", 1, 429, "Too many agents are at work", SAID_THERE),
    row("stopping", 1, 503, "The server is stopping", SAID_THERE),
    row("store_locked", 1, 503, "Another process has been writing for too long", Say("try again when the other process has finished")),
    row("store_read_only", 1, 503, "The store cannot be written to", Say("reading and searching work; to write, make the file and its folder writable")),
    row("store_not_open", 1, 503, "The store cannot be opened", Say("check that the folder exists and that you may read and write it")),
    row("not_a_store", 1, 503, "This file is not a store", Say("give another file with `--store sqlite:PATH`")),
    row("store_newer", 1, 503, "A newer Rethread made the store", Say("upgrade rethread; the store was not touched")),
    row("store_damaged", 1, 500, "The store is damaged", Say("`rethread doctor` looks closer; `rethread restore` brings back a backup")),
    row("storage_full", 1, 507, "No space is left for the store", Say("everything acknowledged is kept; free some space and try again")),
];

const fn row(name: &'static str, exit: u8, status: u16, title: &'static str, hint: Hint) -> Code {
    Code { name, exit, status, title, hint }
}
