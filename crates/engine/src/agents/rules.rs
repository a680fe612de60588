//! What the user decided beforehand: rules about kinds of tools, commands and files.

use std::collections::BTreeMap;
use std::str::FromStr;

use rethread_domain::consent::Intent;
use rethread_domain::opening::Settings;

/// What an agent may do without being allowed to by the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Consent {
    /// The user is asked; where nobody can be asked, the answer is no.
    #[default]
    Ask,
    Allow,
    Deny,
    /// As the agent is set up: what it asks is put to the user, and nothing is claimed about what it does not ask.
    Agent,
}

impl Consent {
    /// Every rule, by the name that users give it.
    pub const ALL: [(&'static str, Self); 4] =
        [("ask", Self::Ask), ("allow", Self::Allow), ("deny", Self::Deny), ("agent", Self::Agent)];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("ask", |(name, _)| name)
    }
}

impl FromStr for Consent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, known)| *known);
        known.ok_or_else(|| {
            format!("{text:?} is not a rule for permissions (expected ask, allow, deny or agent)")
        })
    }
}

/// What an agent needs set in its own session so that it asks, and the rules can be kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holds {
    /// Modes in which it does, where it has such; the first is set unless the user chose another of them.
    pub modes: Vec<String>,
    pub options: BTreeMap<String, String>,
}

impl Holds {
    /// Whether the rules are kept in a mode.
    pub fn fits(&self, mode: &str) -> bool {
        self.modes.is_empty() || self.modes.iter().any(|known| known.eq_ignore_ascii_case(mode))
    }

    /// What is still to be set where the user wants a mode.
    pub(super) fn settings(&self, mode: Option<&str>) -> Settings {
        let is_kept = mode.is_some_and(|mode| self.fits(mode));
        let mode = self.modes.first().filter(|_| !is_kept).cloned();
        Settings { mode, options: self.options.clone(), ..Settings::default() }
    }
}

/// What is decided before anybody is asked.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    pub consent: Consent,
    /// Tools by kind, commands by their first words, files by the beginning of their path.
    pub allowed: Vec<String>,
    /// The same, and titles; in the middle of a word too.
    pub disallowed: Vec<String>,
    /// Whether what is not allowed is refused, whatever else would be decided.
    pub only_allowed: bool,
}

impl Rules {
    /// Whether a tool is forbidden by its kind or its title, whatever anybody who is asked would say.
    pub fn forbid(&self, kind: &str, title: &str) -> bool {
        let is_listed = |list: &[String], goes_on: fn(&str, &str) -> bool| {
            list.iter().any(|tool| {
                is_kind(tool, kind) || begins(title, tool).is_some_and(|rest| !goes_on(tool, rest))
            })
        };
        is_listed(&self.disallowed, |_, _| false)
            || (self.only_allowed && !is_listed(&self.allowed, goes_on))
    }

    /// Whether nothing is refused or asked about, but for what guards the project.
    pub(super) fn allow_everything(&self) -> bool {
        self.consent == Consent::Allow && self.disallowed.is_empty() && !self.only_allowed
    }

    /// What the rules say of an intent, before anybody is asked.
    pub(super) fn decide(&self, intent: &Intent) -> Option<bool> {
        if self.disallow(intent) || self.consent == Consent::Deny {
            return Some(false);
        }
        if !intent.guarded.is_empty() {
            // What guards the project itself needs a rule, or an answer, for just that file.
            let is_named = |path: &String| self.allowed.contains(path);
            return intent.paths.iter().all(is_named).then_some(true);
        }
        if self.allow(intent) {
            return Some(true);
        }
        match self.consent {
            _ if self.only_allowed => Some(false),
            Consent::Allow => Some(true),
            Consent::Ask | Consent::Deny | Consent::Agent => None,
        }
    }

    /// The files of the project are what is talked about: they may be read unless something is said against it. Whoever
    /// may edit only has to read what it edits.
    pub(super) fn may_read(&self, intent: &Intent) -> Option<bool> {
        if !intent.guarded.is_empty() {
            return self.decide(intent);
        }
        let edit = Intent { kind: "edit".to_owned(), ..intent.clone() };
        let is_listed = || self.allow(intent) || self.allow(&edit);
        Some(!self.disallow(intent) && (!self.only_allowed || is_listed()))
    }

    fn allow(&self, intent: &Intent) -> bool {
        self.allowed.iter().any(|tool| is_kind(tool, &intent.kind) || names(tool, intent))
    }

    fn disallow(&self, intent: &Intent) -> bool {
        let commands =
            intent.command.iter().flat_map(|line| line.split([';', '&', '|', '(', '\n']));
        let texts = commands.chain(intent.paths.iter().map(String::as_str));
        let texts: Vec<&str> =
            texts.chain(intent.url.as_deref()).chain([intent.title.as_str()]).collect();
        self.disallowed.iter().any(|tool| {
            is_kind(tool, &intent.kind)
                || texts.iter().any(|text| begins(text.trim_start(), tool).is_some())
        })
    }
}

/// Whether a rule names the command, or all of the files. The title counts only for what is neither: it is the
/// agent's own words.
fn names(tool: &str, intent: &Intent) -> bool {
    let fits = |text: &str| begins(text, tool).is_some_and(|rest| !goes_on(tool, rest));
    if let Some(command) = &intent.command {
        // With other variables (`PATH`, `LD_PRELOAD`) the same words run something else.
        return !intent.sets_variables()
            && begins(command, tool).is_some_and(|rest| only_adds_arguments(tool, rest));
    }
    if !intent.paths.is_empty() {
        let is_plain = |path: &str| !path.split('/').any(|name| name == "..");
        return intent.paths.iter().all(|path| is_plain(path) && fits(path));
    }
    match &intent.url {
        Some(url) => fits(url),
        None => intent.kind != "execute" && fits(&intent.title),
    }
}

/// Whether what follows the words of a rule only adds arguments: to allow `ls` is not to allow `ls; rm x`, nor the
/// program `ls/x`.
fn only_adds_arguments(tool: &str, rest: &str) -> bool {
    let is_apart = rest.is_empty() || rest.starts_with([' ', '\t']);
    let ends_in_word = tool.ends_with(|c: char| c.is_alphanumeric() || "_-.".contains(c));
    let more = [';', '&', '|', '`', '$', '<', '>', '(', ')', '{', '}', '\n', '\r', '\\'];
    (is_apart || !ends_in_word) && !rest.contains(more)
}

fn is_kind(tool: &str, kind: &str) -> bool {
    !tool.trim().is_empty() && tool.eq_ignore_ascii_case(kind)
}

/// What follows the name of a tool in a text.
fn begins<'a>(text: &'a str, tool: &str) -> Option<&'a str> {
    if tool.trim().is_empty() {
        // It is at the beginning of everything.
        return None;
    }
    let mut rest = text.chars();
    for wanted in tool.chars() {
        if !rest.next()?.to_lowercase().eq(wanted.to_lowercase()) {
            return None;
        }
    }
    Some(rest.as_str())
}

/// Whether the last word of a name goes on: to allow `ls` is not to allow `lsof`.
fn goes_on(tool: &str, rest: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    tool.ends_with(is_word) && rest.starts_with(is_word)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn command(line: &str) -> Intent {
        Intent { kind: "execute".into(), command: Some(line.into()), ..Intent::default() }
    }

    fn file(kind: &str, path: &str) -> Intent {
        Intent { kind: kind.into(), paths: vec![path.into()], ..Intent::default() }
    }

    fn rules(consent: Consent, allowed: &[&str], disallowed: &[&str]) -> Rules {
        let owned = |list: &[&str]| list.iter().map(|&tool| tool.to_owned()).collect();
        let (allowed, disallowed) = (owned(allowed), owned(disallowed));
        Rules { consent, allowed, disallowed, ..Rules::default() }
    }

    #[track_caller]
    fn check(consent: Consent, allowed: &[&str], disallowed: &[&str], expected: Option<bool>) {
        let rules = rules(consent, allowed, disallowed);
        assert_eq!(rules.decide(&command("cargo test")), expected, "{rules:?}");
    }

    #[test]
    fn a_mode_in_which_rules_are_kept_may_be_chosen_and_no_other() {
        let modes = ["default", "plan"].map(str::to_owned).to_vec();
        let holds = Holds { modes, ..Holds::default() };
        let set = |mode: Option<&str>| holds.settings(mode).mode;
        assert_eq!(set(None).as_deref(), Some("default"));
        assert_eq!(set(Some("Plan")), None);
        assert_eq!(set(Some("acceptEdits")).as_deref(), Some("default"));
        assert!(!holds.fits("acceptEdits") && Holds::default().fits("acceptEdits"));
    }

    #[test]
    fn what_is_disallowed_stays_so_whatever_else_is_said() {
        check(Consent::Ask, &[], &[], None);
        check(Consent::Agent, &[], &[], None);
        check(Consent::Allow, &[], &[], Some(true));
        check(Consent::Deny, &["execute"], &[], Some(false));
        check(Consent::Ask, &["Cargo"], &[], Some(true));
        check(Consent::Allow, &["execute"], &["execute"], Some(false));
        check(Consent::Ask, &["edit"], &["read"], None);
    }

    #[test]
    fn where_only_some_are_allowed_no_other_is() {
        for consent in [Consent::Ask, Consent::Allow] {
            let rules = Rules { only_allowed: true, ..rules(consent, &["read"], &[]) };
            assert_eq!(rules.decide(&command("cargo test")), Some(false));
            assert_eq!(rules.decide(&file("read", "a.rs")), Some(true));
            assert_eq!(rules.may_read(&file("read", "a.rs")), Some(true));
        }
        let only =
            |allowed: &str| Rules { only_allowed: true, ..rules(Consent::Ask, &[allowed], &[]) };
        assert_eq!(only("execute").may_read(&file("read", "a.rs")), Some(false));
        assert_eq!(only("edit").may_read(&file("read", "a.rs")), Some(true));
    }

    #[test]
    fn part_of_a_word_allows_nothing_and_disallows() {
        check(Consent::Ask, &["cargo te"], &[], None);
        check(Consent::Ask, &["car"], &[], None);
        check(Consent::Ask, &["cargo"], &[], Some(true));
        check(Consent::Ask, &["cargo "], &[], Some(true));
        check(Consent::Ask, &["CARGO TEST"], &[], Some(true));
        check(Consent::Ask, &["cargo test --all"], &[], None);
        check(Consent::Ask, &["", " "], &[], None);
        check(Consent::Allow, &[], &["car"], Some(false));
        check(Consent::Allow, &[], &["", " "], Some(true));
    }

    #[test]
    fn a_title_allows_neither_commands_nor_files() {
        let called = |mut intent: Intent| {
            intent.title = "cargo test".into();
            intent
        };
        let rules = rules(Consent::Ask, &["cargo test"], &[]);
        for (intent, expected) in [
            (command("rm -rf things"), None),
            (file("edit", "a.rs"), None),
            // Nobody knows which command it is.
            (Intent { kind: "execute".into(), ..Intent::default() }, None),
            (Intent { kind: "other".into(), ..Intent::default() }, Some(true)),
            (command("cargo test --all"), Some(true)),
        ] {
            let intent = called(intent);
            assert_eq!(rules.decide(&intent), expected, "{intent:?}");
        }
    }

    #[test]
    fn allowed_words_do_not_bring_another_command_along() {
        let rules = rules(Consent::Ask, &["cargo test", "ls | wc"], &[]);
        for (line, expected) in [
            ("cargo test -p a", Some(true)),
            ("cargo test; rm x", None),
            ("cargo test && rm x", None),
            ("cargo test | sh", None),
            ("cargo test $(rm x)", None),
            ("cargo test `rm x`", None),
            ("cargo test > a", None),
            ("cargo test\nrm x", None),
            ("ls | wc", Some(true)),
            // Programs in a folder that is called as the rule is.
            ("cargo test/evil", None),
            ("cargo test=evil", None),
        ] {
            assert_eq!(rules.decide(&command(line)), expected, "{line}");
        }
        let mut with = command("cargo test");
        with.rest.insert("env".into(), json!({"PATH": "./evil"}));
        assert_eq!(rules.decide(&with), None);
        with.rest.insert("env".into(), json!({}));
        assert_eq!(rules.decide(&with), Some(true));
    }

    #[test]
    fn what_is_disallowed_is_so_in_the_middle_of_a_line() {
        let rules = rules(Consent::Allow, &[], &["rm"]);
        for line in ["rm x", "ls; rm x", "ls && rm x", "ls | rm", "(rm x)", "ls\n rm x"] {
            assert_eq!(rules.decide(&command(line)), Some(false), "{line}");
        }
        assert_eq!(rules.decide(&command("ls")), Some(true));
    }

    #[test]
    fn files_are_allowed_by_the_beginning_of_their_path() {
        let rules = rules(Consent::Ask, &["src/"], &[]);
        assert_eq!(rules.decide(&file("edit", "src/a.rs")), Some(true));
        assert_eq!(rules.decide(&file("edit", "src/../.git/config")), None);
        assert_eq!(rules.decide(&file("edit", "srcs/a.rs")), None);
        let mut two = file("edit", "src/a.rs");
        two.paths.push("b.rs".into());
        assert_eq!(rules.decide(&two), None);
    }

    #[test]
    fn what_is_guarded_needs_a_rule_for_just_that() {
        let mut intent = file("edit", ".git/config");
        intent.guarded = vec!["it is part of the repository itself".into()];
        for (consent, allowed, expected) in [
            (Consent::Ask, &[][..], None),
            (Consent::Allow, &[], None),
            (Consent::Allow, &["edit"], None),
            (Consent::Ask, &[".git/"], None),
            (Consent::Ask, &[".git/config"], Some(true)),
            (Consent::Deny, &[".git/config"], Some(false)),
        ] {
            let rules = rules(consent, allowed, &[]);
            assert_eq!(rules.decide(&intent), expected, "{rules:?}");
            let read = Intent { kind: "read".into(), ..intent.clone() };
            assert_eq!(rules.may_read(&read), expected, "{rules:?}");
        }
    }
}
