//! Another agent goes on in a session, while the editor stays where it is.

use rethread_engine::program::Fault;
use serde_json::json;

use super::binding::Binding;
use super::hub::Hub;
use super::session::{Have, SessionTask};
use super::turn::Told;
use super::{commands, replies};
use crate::frame::{self, Fields};

impl SessionTask {
    /// Lets the agent of this name go on; says what came of it.
    pub(super) async fn switch(&mut self, name: &str) -> Result<String, Fault> {
        let before = self.binding.backend();
        if name.is_empty() {
            let installed = self.hub.program.agents()?.into_iter().filter(|one| one.is_installed);
            let names: Vec<String> = installed.map(|one| format!("`{}`", one.name)).collect();
            return Ok(format!(
                "Say which agent goes on: `/rethread-switch AGENT`, with one of {}. Now it is `{}`.",
                names.join(", "),
                before.agent
            ));
        }
        let next = self.hub.backend(name)?;
        if next.agent == before.agent {
            return Ok(format!("{name} answers here already."));
        }
        self.close().await;
        self.binding.switch(&next);
        match self.open().await {
            Ok(talk) => self.have = Have::Talk(Box::new(talk)),
            Err(fault) => {
                // The next request opens it again.
                self.binding.switch(&before);
                return Err(fault);
            }
        }
        self.told = Told::default();
        tell_what_it_offers(&self.hub, &self.binding).await;
        Ok(format!(
            "*Rethread: {name} goes on here. Before its next answer it learns what it has missed.*"
        ))
    }
}

/// The editor knows the commands and the options of the agent before.
async fn tell_what_it_offers(hub: &Hub, binding: &Binding) {
    let commands = frame::tree(&commands::with_ours("[]"));
    let commands =
        json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands });
    let line = replies::update(&binding.id, &commands);
    hub.outbox.say(line).await;
    let opened = binding.opened().unwrap_or_default();
    let options = Fields::parse(&opened).and_then(|opened| opened.get("configOptions"));
    if let Some(options) = options.filter(|all| all.starts_with('[')) {
        let options = frame::tree(options);
        let options = json!({ "sessionUpdate": "config_option_update", "configOptions": options });
        hub.outbox.say(replies::update(&binding.id, &options)).await;
    }
}
