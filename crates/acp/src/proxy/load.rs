//! A session that is known is opened again, and shown from the record.

use std::time::Duration;

use rethread_engine::program::Fault;
use serde_json::json;
use tokio::time::timeout;

use super::raw::{self, Raw};
use super::session::{Have, Next, SessionTask};
use super::{commands, forward, history, replies};
use crate::frame::Fields;

/// How long the answer to a load waits for the agent, for its modes and options. Some editors give up after 20 seconds.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

impl SessionTask {
    /// A session that is known: its history comes from the record, while the agent opens it in the background.
    pub(super) async fn load(&mut self, id: &str, method: &str, raw: &Raw<'_>) -> Next {
        self.binding.set_params(raw.params);
        match self.found().await {
            Ok(true) => (),
            Ok(false) => {
                forward::unknown(&self.hub, id, method, raw).await;
                return if self.session.is_none() { Next::Leave } else { Next::GoOn };
            }
            Err(fault) => {
                let fault = replies::fault(&self.binding, &fault);
                self.hub.outbox.say(raw::error(id, &fault)).await;
                return Next::Leave;
            }
        }
        if matches!(self.have, Have::Nothing) {
            self.have = Have::Opening(self.opening());
        }
        let shows = match wants_history(method, raw.params) {
            Ok(shows) => shows,
            Err(fault) => {
                self.hub.outbox.say(raw::error(id, &fault)).await;
                return Next::GoOn;
            }
        };
        if shows && let Err(error) = self.replay().await {
            let fault = replies::fault(&self.binding, &Fault::Engine(error));
            self.hub.outbox.say(raw::error(id, &fault)).await;
            return Next::GoOn;
        }
        if matches!(self.have, Have::Opening(_)) {
            let _slow = timeout(LONGEST_WAIT, self.changed()).await;
        }
        if self.binding.is_second {
            let state = if matches!(self.have, Have::Turn(_)) { "running" } else { "idle" };
            self.hub.outbox.say(replies::state(&self.binding.id, state)).await;
        }
        let answer = self.loaded();
        self.hub.outbox.say(raw::result(id, &answer)).await;
        if !matches!(self.have, Have::Opening(_)) {
            self.flush().await;
        }
        Next::GoOn
    }

    /// What a load is answered with: never null, which some editors cannot read.
    fn loaded(&self) -> String {
        let opened = self.binding.opened().unwrap_or_else(|| "{}".to_owned());
        let opened = Fields::parse(&opened).unwrap_or_default();
        let mut answer = "{}".to_owned();
        for name in ["modes", "models", "configOptions"] {
            if let Some(value) = opened.get(name).filter(|value| *value != "null") {
                answer = raw::set(&answer, name, value);
            }
        }
        if let Some(theirs) = opened.get("availableCommands").filter(|all| all.starts_with('[')) {
            answer = raw::set(&answer, "availableCommands", &commands::with_ours(theirs));
        }
        let how = match &self.have {
            Have::Talk(talk) => talk.opening().map(|opening| opening.how.as_str()),
            _ => None,
        };
        match how {
            Some(how) => {
                let meta = json!({ "rethread": { "opened": how } }).to_string();
                raw::set(&answer, "_meta", &meta)
            }
            None => answer,
        }
    }

    /// Whether the session that the editor means is known.
    pub(super) async fn found(&mut self) -> Result<bool, Fault> {
        if self.session.is_none() {
            let user = self.hub.program.user()?;
            let engine = &self.hub.engine;
            self.session =
                engine.session_for_editor(&user, &self.hub.first.agent, &self.binding.id).await?;
        }
        Ok(self.session.is_some())
    }

    async fn replay(&mut self) -> rethread_engine::Result<()> {
        let Some(session) = &self.session else { return Ok(()) };
        let engine = &self.hub.engine;
        let conversation = engine.selected_conversation(session.id, None).await?;
        let mut after = 0;
        while let Some((messages, last)) =
            engine.history_after(session.id, &conversation, after).await?
        {
            for message in &messages {
                for line in history::frames(&self.binding.id, message, self.binding.is_second) {
                    self.hub.outbox.say(line).await;
                }
            }
            after = last;
        }
        Ok(())
    }
}

/// Whether the history is to be shown: a load shows it, and a resume where version 2 asks for it.
fn wants_history(method: &str, params: &str) -> Result<bool, String> {
    let from = Fields::parse(params).and_then(|params| params.get("replayFrom"));
    let kind = from.and_then(Fields::parse).and_then(|from| from.text("type"));
    match from {
        _ if method == "session/load" => Ok(true),
        None | Some("null") => Ok(false),
        Some(_) if kind.as_deref() == Some("start") => Ok(true),
        Some(_) => {
            let reason = "a session is replayed from its start, or not at all";
            Err(raw::fault(-32602, reason, &json!({ "reason": reason })))
        }
    }
}
