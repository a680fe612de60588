//! Whether a permission rule can be enforced with an agent, and what that takes: a rule that the agent ignores is none.

use std::collections::BTreeMap;

use rethread_engine::agents::{Consent, Holds};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::presets::Entry;

/// What enforces each rule. A rule that is missing cannot be enforced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HoldTable {
    pub ask: Option<Hold>,
    pub allow: Option<Hold>,
    pub deny: Option<Hold>,
}

/// What an agent needs so that it asks before it acts. Nothing, if it always does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hold {
    /// Modes in which it asks: the first is set unless the user chose another of them.
    pub mode: Vec<String>,
    pub options: BTreeMap<String, String>,
    pub env: BTreeMap<String, String>,
    pub args: Vec<String>,
}

/// Whether a rule can be enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kept {
    Yes,
    No,
    /// Unknown: the agent's questions are answered by the rule, but it may not ask.
    Unknown,
}

impl Entry {
    fn held(&self, consent: Consent) -> Option<&Hold> {
        let holds = self.hold.as_ref()?;
        match consent {
            Consent::Ask => holds.ask.as_ref(),
            Consent::Allow => holds.allow.as_ref(),
            Consent::Deny => holds.deny.as_ref(),
            Consent::Agent => None,
        }
    }

    /// Whether a rule can be enforced with this agent.
    pub fn keeps(&self, consent: Consent) -> Kept {
        match consent {
            // Allowing whatever is asked takes nothing.
            Consent::Allow | Consent::Agent => Kept::Yes,
            _ if self.held(consent).is_some() => Kept::Yes,
            _ if self.hold.is_some() => Kept::No,
            Consent::Ask | Consent::Deny => Kept::Unknown,
        }
    }

    /// Changes the entry so that a rule is enforced. Returns what has to be set in each session, or why a mode that the user wants
    /// does not go with the rule.
    pub fn hold(&mut self, consent: Consent) -> Result<Holds, String> {
        let Some(hold) = self.held(consent).cloned() else { return Ok(Holds::default()) };
        let holds = Holds { modes: hold.mode, options: hold.options };
        let is_strict = matches!(consent, Consent::Ask | Consent::Deny);
        if let Some(mode) = self.mode.as_deref().filter(|mode| is_strict && !holds.fits(mode)) {
            return Err(format!(
                "in mode {mode:?} {} acts without asking, so `--permissions {}` cannot be kept (it can in {})",
                self.name,
                consent.name(),
                holds.modes.join(", ")
            ));
        }
        self.command.extend(hold.args);
        for (name, value) in hold.env {
            let known = self.env.get(&name).map(String::as_str);
            let value = known.map_or(value.clone(), |known| stricter(&value, known));
            self.env.insert(name, value);
        }
        Ok(holds)
    }
}

/// Merges two objects of rules: what one of them denies stays denied.
fn stricter(ours: &str, known: &str) -> String {
    let parse = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    let (Some(mut ours), Some(known)) = (parse(ours), parse(known)) else { return ours.to_owned() };
    ours.extend(known.into_iter().filter(|(_, rule)| rule == "deny"));
    Value::Object(ours).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry {
        crate::entries(&toml::Table::new()).unwrap().remove(name).unwrap()
    }

    #[test]
    fn what_is_kept_is_known_of_each_agent_that_is_known() {
        for (name, ask, deny) in [
            ("claude", Kept::Yes, Kept::Yes),
            ("codex", Kept::Yes, Kept::Yes),
            ("opencode", Kept::Yes, Kept::Yes),
            ("kilo", Kept::Yes, Kept::Yes),
            ("goose", Kept::Yes, Kept::Yes),
            ("qwen", Kept::Yes, Kept::Yes),
            ("vibe", Kept::Yes, Kept::Yes),
            ("pi", Kept::No, Kept::No),
            ("droid", Kept::Unknown, Kept::Unknown),
        ] {
            let entry = entry(name);
            assert_eq!(entry.keeps(Consent::Ask), ask, "{name}");
            assert_eq!(entry.keeps(Consent::Deny), deny, "{name}");
            assert_eq!(entry.keeps(Consent::Allow), Kept::Yes, "{name}");
            assert_eq!(entry.keeps(Consent::Agent), Kept::Yes, "{name}");
        }
    }

    #[test]
    fn an_agent_is_held_by_its_mode_its_environment_or_its_arguments() {
        let mut codex = entry("codex");
        assert_eq!(codex.hold(Consent::Deny).unwrap().modes, ["read-only"]);
        codex.mode = Some("agent".into());
        let refused = codex.hold(Consent::Ask).unwrap_err();
        assert!(refused.contains("\"agent\"") && refused.contains("read-only"), "{refused}");
        for consent in [Consent::Agent, Consent::Allow] {
            assert!(codex.hold(consent).is_ok());
        }
        let mut copilot = entry("copilot");
        copilot.hold(Consent::Deny).unwrap();
        assert!(copilot.command.contains(&"--deny-tool=write".to_owned()));

        let mut opencode = entry("opencode");
        opencode
            .env
            .insert("OPENCODE_PERMISSION".into(), r#"{"read":"deny","edit":"allow"}"#.into());
        opencode.hold(Consent::Ask).unwrap();
        let rules: Value = serde_json::from_str(&opencode.env["OPENCODE_PERMISSION"]).unwrap();
        assert_eq!((&rules["bash"], &rules["edit"]), (&"ask".into(), &"ask".into()));
        assert_eq!(rules["read"], "deny");
    }
}
