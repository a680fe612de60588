//! Passes tool restrictions on to an agent in its own way, if it has one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::presets::Entry;

/// How an agent is told not to use tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Restrict {
    /// Arguments, once for each tool, whose name replaces `{}`.
    pub args: Vec<String>,
    /// A variable that holds a JSON object with "deny" for each tool.
    pub env: Option<String>,
    /// Whether a new session takes the tools as `_meta.claudeCode.options.disallowedTools`.
    pub meta: bool,
    /// The agent's own names for the tools of a kind.
    pub tools: BTreeMap<String, Vec<String>>,
}

impl Entry {
    /// Why tool restrictions cannot be enforced; `None` if they can.
    pub fn unrestrictable(&self) -> Option<&'static str> {
        (!self.quirks.asks && self.restrict.is_none())
            .then_some("it asks nobody before it uses a tool, and cannot be told not to")
    }

    /// Changes the entry so that the agent itself does without tools of some kinds; returns whether it has a way.
    pub fn restrict_tools(&mut self, allowed: &[String], disallowed: &[String]) -> bool {
        let Some(restrict) = &self.restrict else { return false };
        let is_in =
            |list: &[String], kind: &str| list.iter().any(|name| name.eq_ignore_ascii_case(kind));
        let is_denied =
            |kind: &str| is_in(disallowed, kind) || !allowed.is_empty() && !is_in(allowed, kind);
        let denied = restrict.tools.iter().filter(|(kind, _)| is_denied(kind));
        let denied: Vec<String> = denied.flat_map(|(_, tools)| tools.iter().cloned()).collect();
        if denied.is_empty() {
            return false;
        }
        for tool in &denied {
            self.command.extend(restrict.args.iter().map(|part| part.replace("{}", tool)));
        }
        if let Some(name) = &restrict.env {
            let rules: Map<String, Value> =
                denied.iter().map(|tool| (tool.clone(), "deny".into())).collect();
            self.env.insert(name.clone(), Value::Object(rules).to_string());
        }
        if restrict.meta {
            self.meta = Some(json!({ "claudeCode": { "options": { "disallowedTools": denied } } }));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry {
        crate::entries(&toml::Table::new()).unwrap().remove(name).unwrap()
    }

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn each_agent_is_told_in_its_own_way() {
        let mut qwen = entry("qwen");
        assert!(qwen.restrict_tools(&[], &owned(&["execute"])));
        assert_eq!(qwen.command[2..], ["--exclude-tools", "run_shell_command"]);

        let mut opencode = entry("opencode");
        assert!(opencode.restrict_tools(&owned(&["read", "edit"]), &[]));
        assert_eq!(
            opencode.env["OPENCODE_PERMISSION"],
            r#"{"bash":"deny","webfetch":"deny","websearch":"deny"}"#
        );

        let mut claude = entry("claude");
        assert!(claude.restrict_tools(&[], &owned(&["Execute"])));
        let expected = json!({"claudeCode": {"options": {"disallowedTools": ["Bash"]}}});
        assert_eq!(claude.meta, Some(expected));
    }

    #[test]
    fn what_an_agent_has_no_name_for_is_not_told() {
        let mut qwen = entry("qwen");
        assert!(!qwen.restrict_tools(&[], &owned(&["title: rm"])));
        assert_eq!(qwen, entry("qwen"));
        let mut codex = entry("codex");
        assert!(!codex.restrict_tools(&[], &owned(&["execute"])));
        assert_eq!(codex.unrestrictable(), None);
        assert!(entry("pi").unrestrictable().is_some());
    }
}
