//! The agent: acts on what the client sent, in the order in which it was sent.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::errors::{Error, Kind};
use crate::faults;
use crate::flags::Flags;
use crate::lock;
use crate::memory::{Fact, Store};
use crate::script::Ending;
use crate::second;
use crate::session::{Origin, Session, Shared, listed};
use crate::time::now_ms;
use crate::turn::Turn;
use crate::wire::{Frame, Signal, Wire};

const PROTOCOL_VERSION: u16 = 1;

/// How many sessions `session/list` returns at a time.
const PAGE: usize = 50;

#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) flags: Arc<Flags>,
    pub(crate) wire: Arc<Wire>,
    pub(crate) store: Arc<Store>,
    pub(crate) sessions: HashMap<String, Shared>,
    /// What the names of new sessions begin with, and how many there were.
    prefix: String,
    made: u64,
    authenticated: bool,
}

impl Agent {
    pub(crate) fn new(flags: Arc<Flags>, wire: Arc<Wire>) -> io::Result<Self> {
        let own = || format!("ref-{:x}-{:x}", now_ms(), std::process::id());
        Ok(Self {
            store: Arc::new(Store::open(&flags.memory)?),
            sessions: HashMap::new(),
            prefix: flags.ids.clone().unwrap_or_else(own),
            made: 0,
            authenticated: !flags.auth_required,
            flags,
            wire,
        })
    }

    pub(crate) fn receive(&mut self, frame: Frame) {
        match frame {
            Frame::Response { id, reply } => self.wire.deliver(&id, reply),
            Frame::Invalid(error) => self.wire.respond(&Value::Null, Err(error)),
            Frame::Notification { method, params } => {
                self.may_die(&method);
                if method == "session/cancel" && !self.flags.ignore_cancel {
                    self.cancel(params["sessionId"].as_str().unwrap_or_default());
                }
            }
            Frame::Request { id, method, params } => {
                self.may_die(&method);
                if !self.flags.hang_on.contains(&method) {
                    self.serve(&id, &method, &params);
                }
            }
        }
    }

    fn serve(&mut self, id: &Value, method: &str, params: &Value) {
        let answer = match method {
            "initialize" => Ok(self.greeted(params)),
            "authenticate" => {
                self.authenticated = true;
                Ok(json!({}))
            }
            "session/new" | "session/resume" | "session/set_config_option"
                if self.wire.is_second() =>
            {
                self.open_second(method, params)
            }
            "session/load" | "session/set_mode" if self.wire.is_second() => {
                Err(Error::no_method(method))
            }
            "session/new" => self.create(params),
            "session/load" if self.flags.load => self.load(params),
            "session/resume" if self.flags.resume => self.resume(params),
            "session/list" if self.flags.list => self.list(params),
            "session/close" if !self.flags.no_close => self.close(params),
            "session/set_mode" => self.set_mode(params),
            "session/set_config_option" => self.set_option(params),
            "session/prompt" => match self.prompt(id, params) {
                // The turn answers when it ends.
                Ok(None) => return,
                Ok(Some(answer)) => Ok(answer),
                Err(error) => Err(error),
            },
            _ => Err(Error::no_method(method)),
        };
        let succeeded = answer.is_ok();
        let opened = match method {
            "session/new" => answer.as_ref().ok().and_then(|answer| answer["sessionId"].as_str()),
            "session/load" | "session/resume" => params["sessionId"].as_str(),
            _ => None,
        };
        let opened = opened.filter(|_| succeeded).map(str::to_owned);
        self.wire.respond(id, answer);
        if let Some(session) = opened.filter(|_| !self.flags.command.is_empty()) {
            self.tell_commands(&session);
        }
        if succeeded && method == "initialize" {
            self.wire.write_endless_line(self.flags.endless_line.unwrap_or_default());
        } else if succeeded
            && (method == "session/load"
                || (method == "session/resume" && self.flags.replay_on_resume))
        {
            self.replay_late(params);
        }
    }

    fn greeted(&self, params: &Value) -> Value {
        let answer = self.initialize();
        if self.flags.second && second::is_asked_for(params) {
            self.wire.be_second();
            return second::greeted(&answer);
        }
        answer
    }

    /// What version 2 asks in the same words, and wants answered in others.
    fn open_second(&mut self, method: &str, params: &Value) -> Result<Value, Error> {
        let answer = match method {
            "session/new" => self.create(params),
            "session/set_config_option" => {
                return self.set_option(params).map(|mut answer| {
                    second::options(&mut answer);
                    answer
                });
            }
            _ if params["replayFrom"].is_object() => self.load(params),
            _ => self.resume(params),
        };
        answer.map(second::opened)
    }

    fn tell_commands(&self, session: &str) {
        let named = |name: &String| json!({ "name": name, "description": format!("Does {name}") });
        let commands: Vec<Value> = self.flags.command.iter().map(named).collect();
        let update =
            json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands });
        self.wire.update(session, update);
    }

    fn may_die(&self, method: &str) {
        if self.flags.die_on.iter().any(|fatal| fatal == method) {
            faults::die();
        }
    }

    fn initialize(&self) -> Value {
        let flags = &self.flags;
        let offered = [("resume", flags.resume), ("list", flags.list), ("close", !flags.no_close)];
        let offered = offered.into_iter().filter(|(_, offered)| *offered);
        let sessions: serde_json::Map<String, Value> =
            offered.map(|(name, _)| (name.to_owned(), json!({}))).collect();
        let login = json!({ "id": "login", "name": "Log in", "description": "Always succeeds" });
        let logins = if flags.auth_required { vec![login] } else { Vec::new() };
        json!({
            "protocolVersion": flags.wrong_version.unwrap_or(PROTOCOL_VERSION),
            "agentInfo": {
                "name": "reference",
                "title": "Reference agent",
                "version": env!("CARGO_PKG_VERSION"),
            },
            "agentCapabilities": {
                "loadSession": flags.load,
                "promptCapabilities": {
                    "image": false,
                    "audio": false,
                    "embeddedContext": !flags.no_embedded,
                },
                "mcpCapabilities": { "http": false, "sse": false },
                "sessionCapabilities": sessions,
            },
            "authMethods": logins,
        })
    }

    fn create(&mut self, params: &Value) -> Result<Value, Error> {
        self.require_login()?;
        let cwd = folder(params)?;
        require_servers(params)?;
        self.made += 1;
        let id = format!("{}-{}", self.prefix, self.made);
        let session = Session::new(&id, cwd, Origin::New);
        let mut answer = session.settings();
        answer["sessionId"] = json!(id);
        self.sessions.insert(id, Arc::new(Mutex::new(session)));
        Ok(answer)
    }

    fn list(&self, params: &Value) -> Result<Value, Error> {
        let mut found = Vec::new();
        if self.store.lasts() {
            for kept in self.store.all().map_err(Error::internal)? {
                found.extend(listed(&kept.id, &kept.cwd, &kept.entries));
            }
        } else {
            for session in self.sessions.values() {
                let session = lock(session);
                found.extend(listed(&session.id, &session.cwd, &session.entries));
            }
        }
        found.retain(|(_, info)| params["cwd"].is_null() || params["cwd"] == info["cwd"]);
        found.sort_by_cached_key(|(updated, info)| {
            (std::cmp::Reverse(*updated), info["sessionId"].to_string())
        });
        let start = match &params["cursor"] {
            Value::Null => 0,
            cursor => {
                let start = cursor.as_str().and_then(|cursor| cursor.parse::<usize>().ok());
                start.ok_or_else(|| Error::invalid_params("no such cursor"))?
            }
        };
        let more = found.len() > start.saturating_add(PAGE);
        let page: Vec<Value> =
            found.into_iter().skip(start).take(PAGE).map(|found| found.1).collect();
        let mut answer = json!({ "sessions": page });
        if more {
            answer["nextCursor"] = json!((start + PAGE).to_string());
        }
        Ok(answer)
    }

    fn close(&mut self, params: &Value) -> Result<Value, Error> {
        let session = self.opened(params, "session/close")?;
        let id = lock(&session).id.clone();
        self.cancel(&id);
        lock(&session).open = false;
        if self.store.lasts() {
            self.sessions.remove(&id);
        }
        Ok(json!({}))
    }

    fn set_mode(&self, params: &Value) -> Result<Value, Error> {
        let session = self.opened(params, "session/set_mode")?;
        lock(&session).set_mode(text(params, "modeId")?)?;
        Ok(json!({}))
    }

    fn set_option(&self, params: &Value) -> Result<Value, Error> {
        let session = self.opened(params, "session/set_config_option")?;
        let mut session = lock(&session);
        session.set_option(text(params, "configId")?, text(params, "value")?)?;
        Ok(json!({ "configOptions": session.options() }))
    }

    /// Starts a turn. What the user said is remembered before anything else happens.
    fn prompt(&self, request: &Value, params: &Value) -> Result<Option<Value>, Error> {
        let id = text(params, "sessionId")?;
        let shape = self.flags.error_shape;
        let found = self.sessions.get(id).filter(|session| {
            let session = lock(session);
            let lost = self.flags.lose_on_prompt && session.origin == Origin::Attached;
            session.open && session.origin != Origin::Hollow && !lost
        });
        let Some(session) = found else {
            return match shape.kind {
                Kind::Refusal => Ok(Some(json!({ "stopReason": "refusal" }))),
                _ => Err(shape.error(id, "session/prompt")),
            };
        };
        let blocks = self.blocks(params)?;
        let (handle, signals) = mpsc::channel();
        let number = {
            let mut session = lock(session);
            if session.turn.is_some() {
                return Err(Error::invalid_request("a prompt is already running in this session"));
            }
            session.add(Fact::Told { blocks: blocks.clone() });
            if !self.flags.persist_nothing_until_end {
                session.save(&self.store).map_err(Error::internal)?;
            }
            session.turn = Some(handle.clone());
            session.prompts().count()
        };
        if self.wire.is_second() {
            let message = format!("{id}-user-{number}");
            self.wire.update(id, second::accepted(&message, &blocks));
            self.wire.respond(request, Ok(json!({ "messageId": message })));
            self.wire.update(id, second::running());
        }
        let turn = Turn {
            wire: Arc::clone(&self.wire),
            flags: Arc::clone(&self.flags),
            store: Arc::clone(&self.store),
            session: Arc::clone(session),
            id: id.to_owned(),
            request: request.clone(),
            number,
            handle,
            signals,
            parts: Vec::new(),
            blocks,
            ending: Ending::default(),
        };
        thread::spawn(move || turn.run());
        Ok(None)
    }

    fn blocks(&self, params: &Value) -> Result<Vec<Value>, Error> {
        let blocks = params["prompt"].as_array();
        let blocks = blocks.ok_or_else(|| Error::invalid_params("prompt must be an array"))?;
        for block in blocks {
            match block["type"].as_str() {
                Some("resource") if self.flags.no_embedded => {
                    return Err(Error::invalid_params("embedded resources are not accepted"));
                }
                Some("text" | "resource" | "resource_link" | "image" | "audio") => {}
                _ => return Err(Error::invalid_params("unknown content block")),
            }
        }
        Ok(blocks.clone())
    }

    fn cancel(&self, id: &str) {
        let session = self.sessions.get(id).map(|session| lock(session));
        if let Some(turn) = session.as_ref().and_then(|session| session.turn.as_ref()) {
            // The turn may be over at this very moment.
            drop(turn.send(Signal::Cancel));
        }
    }

    pub(crate) fn require_login(&self) -> Result<(), Error> {
        if self.authenticated { Ok(()) } else { Err(Error::auth_required()) }
    }

    fn opened(&self, params: &Value, method: &str) -> Result<Shared, Error> {
        let id = text(params, "sessionId")?;
        let found = self.sessions.get(id).filter(|session| lock(session).open);
        found.cloned().ok_or_else(|| self.flags.error_shape.error(id, method))
    }
}

/// A required text among the parameters.
pub(crate) fn text<'a>(params: &'a Value, name: &str) -> Result<&'a str, Error> {
    let found = params[name].as_str();
    found.ok_or_else(|| Error::invalid_params(&format!("{name} must be a string")))
}

/// The folder of the session, which must be absolute.
pub(crate) fn folder(params: &Value) -> Result<&str, Error> {
    let cwd = text(params, "cwd")?;
    if std::path::Path::new(cwd).is_absolute() {
        return Ok(cwd);
    }
    Err(Error::invalid_params("cwd must be absolute"))
}

pub(crate) fn require_servers(params: &Value) -> Result<(), Error> {
    if params["mcpServers"].is_array() {
        return Ok(());
    }
    Err(Error::invalid_params("mcpServers must be an array"))
}
