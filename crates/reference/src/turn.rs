//! One prompt, from the moment it is accepted to its response.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use serde_json::{Value, json};

use crate::answers::{self, Ask};
use crate::errors::Error;
use crate::faults;
use crate::flags::Flags;
use crate::lock;
use crate::memory::{Fact, Part, Store, Tool};
use crate::replay::{agent_chunk, tool_call, tool_end, user_chunk};
use crate::script::{self, Ending};
use crate::second;
use crate::session::{Shared, words_said};
use crate::wire::{Signal, Wire};

/// How much the model of this agent could hold, if it were one.
const WINDOW: usize = 200_000;

/// A running prompt.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) wire: Arc<Wire>,
    pub(crate) flags: Arc<Flags>,
    pub(crate) store: Arc<Store>,
    pub(crate) session: Shared,
    /// The id of the session.
    pub(crate) id: String,
    /// The id of the request.
    pub(crate) request: Value,
    /// The how-manieth prompt of the session this is.
    pub(crate) number: usize,
    pub(crate) handle: Sender<Signal>,
    pub(crate) signals: Receiver<Signal>,
    /// What was said so far.
    pub(crate) parts: Vec<Part>,
    pub(crate) blocks: Vec<Value>,
    pub(crate) ending: Ending,
}

/// The client wants the turn to stop.
#[derive(Debug)]
pub(crate) struct Cancelled;

/// What a step comes to, unless it was cancelled.
pub(crate) type Step<T = ()> = Result<T, Cancelled>;

impl Turn {
    pub(crate) fn run(mut self) {
        if self.flags.echo {
            for block in &self.blocks {
                self.update(user_chunk(&self.id, self.number, block));
            }
        }
        let (asked, steps) = match self.flags.script.as_deref().and_then(script::take) {
            Some(answer) => {
                let steps = script::steps_of(&answer);
                (Ask::Say(answer), steps)
            }
            None => (answers::ask(&self.blocks), script::steps(&self.blocks)),
        };
        let outcome = self
            .flood(self.flags.flood, 100)
            .and_then(|()| if steps.is_empty() { self.answer(asked) } else { self.play(&steps) });
        let reason = self.ending.reason.take().unwrap_or_else(|| "end_turn".to_owned());
        self.end(if outcome.is_ok() { &reason } else { "cancelled" });
    }

    pub(crate) fn answer(&mut self, asked: Ask) -> Step {
        let text = match asked {
            Ask::Passkey => answers::passkey(&lock(&self.session)),
            Ask::Say(text) => text,
            Ask::Stream(chunks) => return self.stream(chunks),
            Ask::Permission(title) => self.ask_permission(&title)?,
            Ask::PermissionAs { call, is_told_before } => {
                self.ask_permission_as(&call, is_told_before)?
            }
            Ask::Shell(line) => self.run_command(&line, None)?,
            Ask::ShellAsked(line) => {
                let chosen = self.ask_permission(&line)?;
                let output = self.run_command(&line, None)?;
                format!("{chosen}: {output}")
            }
            Ask::Permissions(titles) => self.ask_permissions(&titles)?,
            Ask::Large { chunks, bytes } => return self.flood(chunks, bytes),
            Ask::Deep { place, levels, hangs } => {
                self.update(faults::deep(&place, levels, &self.tool_id()));
                self.say("sent");
                return if hangs { self.hang() } else { Ok(()) };
            }
            Ask::Read(path) => self.read_file(&path)?,
            Ask::Write { path, text } => self.write_file(&path, &text)?,
            Ask::Run { command, args } => self.run_command(&command, Some(&args))?,
            Ask::RunTwice { command, args } => {
                self.run_command(&command, Some(&args))?;
                self.run_command(&command, Some(&args))?;
                "done twice".to_owned()
            }
            Ask::RunAsked { command, args } => {
                self.ask_permission(&format!("{command} {}", args.join(" ")))?;
                self.run_command(&command, Some(&args))?;
                "done once".to_owned()
            }
            Ask::Mode => {
                let session = lock(&self.session);
                format!("mode {} model {}", session.mode, session.model)
            }
            Ask::Environment(name) => std::env::var_os(name)
                .map_or_else(|| "unset".to_owned(), |value| value.to_string_lossy().into_owned()),
            Ask::Cwd => lock(&self.session).cwd.clone(),
            Ask::ProcessCwd => {
                std::env::current_dir().map(|cwd| cwd.display().to_string()).unwrap_or_default()
            }
            Ask::Told => answers::told_as_json(&lock(&self.session)),
            Ask::Hang => return self.hang(),
            Ask::Die => self.die(),
            Ask::Exit => std::process::exit(0),
            Ask::Think(_)
            | Ask::Tool(_)
            | Ask::Plan(_)
            | Ask::Title(_)
            | Ask::UnknownUpdate
            | Ask::Other => {
                self.show(asked);
                answers::acknowledgement(&lock(&self.session))
            }
        };
        self.say(&text);
        // A cancellation that has already arrived is obeyed.
        self.pause(Duration::ZERO)
    }

    /// Sends what comes before an acknowledgement.
    fn show(&mut self, asked: Ask) {
        match asked {
            Ask::Think(text) => self.update(json!({
                "sessionUpdate": "agent_thought_chunk",
                "messageId": format!("{}-thought-{}", self.id, self.number),
                "content": { "type": "text", "text": text },
            })),
            Ask::Tool(title) => self.use_tool(&title),
            Ask::Plan(steps) => self.update(plan(&steps)),
            Ask::Title(title) => {
                lock(&self.session).add(Fact::Titled { title: title.clone() });
                self.update(json!({ "sessionUpdate": "session_info_update", "title": title }));
            }
            Ask::UnknownUpdate => {
                let unknown = json!({ "sessionUpdate": "weather_update", "sky": { "clouds": 3 } });
                self.update(unknown);
                let text = "This came with unknown fields. ";
                let mut known = agent_chunk(&self.id, self.number, text);
                known["weather"] = json!({ "sky": ["clear", null, 1.5] });
                known["content"]["font"] = json!("serif");
                self.update(known);
                self.remember(text);
            }
            _ => {}
        }
    }

    fn use_tool(&mut self, title: &str) {
        let tool = Tool {
            id: self.tool_id(),
            title: title.to_owned(),
            output: format!("output of {title}"),
            completed: true,
        };
        self.update(tool_call(&tool.id, title));
        self.end_tool(tool);
    }

    fn stream(&mut self, chunks: u64) -> Step {
        let delay = Duration::from_millis(self.flags.chunk_delay_ms);
        for number in 1..=chunks {
            if number == 1 {
                self.say("word1");
            } else {
                self.pause(delay)?;
                self.say(&format!(" word{number}"));
            }
        }
        Ok(())
    }

    /// Says much, and remembers nothing of it.
    fn flood(&self, chunks: u64, bytes: usize) -> Step {
        for number in 1..=chunks {
            self.pause(Duration::ZERO)?;
            let mut text = number.to_string();
            text.push_str(&" ".repeat(bytes.saturating_sub(text.len())));
            self.update(agent_chunk(&self.id, self.number, &text));
        }
        Ok(())
    }

    fn hang(&self) -> Step {
        loop {
            self.pause(Duration::from_hours(1))?;
        }
    }

    fn die(&mut self) -> ! {
        for chunk in ["half", " of", " an", " answer", " …"] {
            self.say(chunk);
        }
        faults::die()
    }

    /// Waits, and ends at once when the turn is cancelled.
    pub(crate) fn pause(&self, delay: Duration) -> Step {
        match self.signals.recv_timeout(delay) {
            Ok(Signal::Cancel) => Err(Cancelled),
            // A reply that nobody waits for, or time is over.
            Ok(Signal::Reply(..))
            | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(()),
        }
    }

    pub(crate) fn update(&self, update: Value) {
        self.wire.update(&self.id, update);
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.update(agent_chunk(&self.id, self.number, text));
        self.remember(text);
    }

    fn remember(&mut self, said: &str) {
        if self.flags.persist_halves {
            let parts = vec![Part::Text { text: said.to_owned() }];
            let mut session = lock(&self.session);
            session.add(Fact::Said { parts });
            if let Err(error) = session.save(&self.store) {
                faults::complain(&format!("reference-agent: {error}"));
            }
        }
        match self.parts.last_mut() {
            Some(Part::Text { text }) => text.push_str(said),
            _ => self.parts.push(Part::Text { text: said.to_owned() }),
        }
    }

    pub(crate) fn tool_id(&self) -> String {
        format!("{}-tool-{}", self.id, self.number)
    }

    pub(crate) fn end_tool(&mut self, tool: Tool) {
        self.update(tool_end(&tool));
        self.parts.push(Part::Tool(tool));
    }

    /// How full the context is, and what the session has cost.
    pub(crate) fn tell_context(&mut self, (used, size, cost): (u64, u64, Option<f64>)) {
        self.update(json!({
            "sessionUpdate": "usage_update",
            "used": used,
            "size": size,
            "cost": cost.map(|amount| json!({ "amount": amount, "currency": "USD" })),
        }));
    }

    /// Keeps what was said, then answers. The next prompt is welcome before the client can know that this one ended.
    fn end(mut self, reason: &str) {
        let parts = std::mem::take(&mut self.parts);
        let output = words_said(&parts);
        let (saved, input, used) = {
            let mut session = lock(&self.session);
            let is_kept =
                |part: &Part| self.flags.persist_halves && matches!(part, Part::Text { .. });
            let parts = parts.into_iter().filter(|part| !is_kept(part)).collect();
            session.add(Fact::Said { parts });
            session.turn = None;
            let (told, said) = session.words();
            (session.save(&self.store), told, told + said)
        };
        let spent = f64::from(u32::try_from(used).unwrap_or(u32::MAX)) / 1e6;
        let context = self.ending.context.unwrap_or((used as u64, WINDOW as u64, Some(spent)));
        let mut usage =
            json!({ "inputTokens": input, "outputTokens": output, "totalTokens": input + output });
        if self.ending.no_usage {
            usage = Value::Null;
        } else {
            self.tell_context(context);
        }
        let answer = match self.ending.refusal.take() {
            Some(refusal) => Err(Error::told(&refusal)),
            None => saved.map_err(Error::internal),
        };
        let answer = answer.map(|()| json!({ "stopReason": reason, "usage": usage }));
        if self.wire.is_second() {
            self.update(second::idle(answer.map_err(|error| error.to_json())));
        } else {
            self.wire.respond(&self.request, answer);
        }
        if self.flags.updates_after_end || self.flags.garbage {
            self.update(agent_chunk(&self.id, self.number, "after the end"));
        }
    }
}

fn plan(steps: &str) -> Value {
    let steps = if steps.is_empty() { "look, leap" } else { steps };
    let entries: Vec<Value> = steps
        .split(',')
        .map(|step| json!({ "content": step.trim(), "priority": "medium", "status": "pending" }))
        .collect();
    json!({ "sessionUpdate": "plan", "entries": entries })
}
