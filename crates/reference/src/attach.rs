//! Coming back to a native session: load, which shows it again, and resume, which does not.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::agent::{Agent, folder, require_servers, text};
use crate::errors::{Error, Kind};
use crate::flags::Replay;
use crate::lock;
use crate::replay::{another, replay};
use crate::session::{Origin, Session, Shared};

impl Agent {
    pub(crate) fn load(&mut self, params: &Value) -> Result<Value, Error> {
        require_servers(params)?;
        let session = self.attach(params, "session/load")?;
        let mut session = lock(&session);
        if self.flags.replay == Replay::Wrong {
            session.remember_instead(another());
        }
        if self.flags.replay != Replay::Late {
            replay(&self.wire, &session.id, &session.entries);
        }
        Ok(session.settings())
    }

    pub(crate) fn resume(&mut self, params: &Value) -> Result<Value, Error> {
        let session = self.attach(params, "session/resume")?;
        let session = lock(&session);
        if self.flags.replay_on_resume && self.flags.replay != Replay::Late {
            replay(&self.wire, &session.id, &session.entries);
        }
        Ok(session.settings())
    }

    /// Replays after the response, when that is asked for.
    pub(crate) fn replay_late(&self, params: &Value) {
        if self.flags.replay != Replay::Late {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(self.flags.replay_delay_ms));
        let id = params["sessionId"].as_str().unwrap_or_default();
        if let Some(session) = self.sessions.get(id) {
            replay(&self.wire, id, &lock(session).entries);
        }
    }

    fn attach(&mut self, params: &Value, method: &str) -> Result<Shared, Error> {
        self.require_login()?;
        let id = text(params, "sessionId")?;
        let cwd = folder(params)?;
        let shape = self.flags.error_shape;
        let session = match self.known(id) {
            Some(session) => session,
            None => {
                let origin = match shape.kind {
                    Kind::Error(..) => return Err(shape.error(id, method)),
                    Kind::Refusal => Origin::Hollow,
                    Kind::Empty => Origin::Attached,
                };
                Arc::new(Mutex::new(Session::new(id, cwd, origin)))
            }
        };
        {
            let mut session = lock(&session);
            session.open = true;
            cwd.clone_into(&mut session.cwd);
        }
        self.sessions.insert(id.to_owned(), Arc::clone(&session));
        Ok(session)
    }

    /// The session of that name, unless it is lost.
    fn known(&self, id: &str) -> Option<Shared> {
        if self.flags.lose {
            return None;
        }
        let held = self.sessions.get(id).cloned();
        held.or_else(|| Some(Arc::new(Mutex::new(Session::kept(self.store.read(id)?)))))
    }
}
