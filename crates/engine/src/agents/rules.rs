//! Permission rules that the user set beforehand: about kinds of tools, commands and files.

use std::collections::BTreeMap;
use std::str::FromStr;

use rethread_domain::consent::Intent;
use rethread_domain::opening::Settings;

/// What an agent may do without asking the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Consent {
    /// The user is asked; if nobody can be asked, the answer is no.
    #[default]
    Ask,
    Allow,
    Deny,
    /// As the agent is configured: its questions are put to the user, and no claim is made about what it does not ask.
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

/// What must be set in an agent's session so that it asks, and the rules can be enforced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holds {
    /// Modes in which it asks, if it has modes; the first is set unless the user chose another of them.
    pub modes: Vec<String>,
    pub options: BTreeMap<String, String>,
}

impl Holds {
    /// Whether the rules are enforced in a mode.
    pub fn fits(&self, mode: &str) -> bool {
        self.modes.is_empty() || self.modes.iter().any(|known| known.eq_ignore_ascii_case(mode))
    }

    /// Whether there is nothing that the agent itself has to keep.
    pub(super) fn is_empty(&self) -> bool {
        self.modes.is_empty() && self.options.is_empty()
    }

    /// Whether the rules are no longer enforced, by what the agent reports.
    pub(super) fn is_left_for(&self, reported: &Settings) -> bool {
        let has_left = |(name, value): (&String, &String)| {
            reported.options.get(name).is_some_and(|now| !now.eq_ignore_ascii_case(value))
        };
        reported.mode.as_deref().is_some_and(|mode| !self.fits(mode))
            || self.options.iter().any(has_left)
    }

    /// What else must be set if the user wants a mode.
    pub(super) fn settings(&self, mode: Option<&str>) -> Settings {
        let is_kept = mode.is_some_and(|mode| self.fits(mode));
        let mode = self.modes.first().filter(|_| !is_kept).cloned();
        Settings { mode, options: self.options.clone(), ..Settings::default() }
    }
}

/// Begins a rule about tools whose title begins with what follows.
pub const TITLE: &str = "title:";
/// Begins the names of tools of MCP servers.
const MCP: &str = "mcp__";

/// What is decided before anybody is asked.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    pub consent: Consent,
    /// Tools by kind, commands by their first words, files by the beginning of their path; by title only where the rule says so
    /// ([`TITLE`]) or names a tool of an MCP server: a title is the agent's own wording.
    pub allowed: Vec<String>,
    /// The same, and titles, also within a word.
    pub disallowed: Vec<String>,
    /// Whether everything that is not allowed is refused.
    pub only_allowed: bool,
}

impl Rules {
    /// Whether a tool is forbidden by its kind or its title, whatever a person would answer.
    pub fn forbid(&self, kind: &str, title: &str) -> bool {
        let is_listed = |list: &[String], goes_on: fn(&str, &str) -> bool| {
            list.iter().any(|tool| {
                let words = words(tool);
                is_kind(tool, kind)
                    || begins(title, words).is_some_and(|rest| !goes_on(words, rest))
            })
        };
        is_listed(&self.disallowed, |_, _| false)
            || (self.only_allowed && !is_listed(&self.allowed, goes_on))
    }

    /// Whether everything is allowed, except for files that protect the project.
    pub(super) fn allow_everything(&self) -> bool {
        self.consent == Consent::Allow && self.disallowed.is_empty() && !self.only_allowed
    }

    /// The decision of the rules about an intent.
    pub(super) fn decide(&self, intent: &Intent) -> Option<bool> {
        if self.disallow(intent) || self.consent == Consent::Deny {
            return Some(false);
        }
        if !intent.guarded.is_empty() {
            // Files that protect the project need a rule, or an answer, for just that file.
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

    /// Files of the project may be read unless a rule forbids it. Whoever may edit only certain files may read
    /// just those.
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
        let commands = intent.command.iter().flat_map(|line| commands(line));
        let others = intent.paths.iter().chain(&intent.url).chain([&intent.title]);
        let texts: Vec<String> = commands.chain(others.cloned()).collect();
        self.disallowed.iter().any(|tool| {
            is_kind(tool, &intent.kind)
                || texts.iter().any(|text| begins(text.trim_start(), words(tool)).is_some())
        })
    }
}

/// Words of the shell after which a command follows.
const BEFORE_COMMANDS: &[&str] = &[
    "!", "if", "then", "elif", "else", "while", "until", "do", "time", "coproc", "in", "function",
];
/// Programs that run what their arguments say.
const WRAPPERS: &[&str] = &[
    "ash", "bash", "builtin", "busybox", "chroot", "command", "dash", "doas", "env", "eval",
    "exec", "find", "fish", "flock", "ionice", "ksh", "nice", "nohup", "parallel", "script",
    "setsid", "sh", "ssh", "stdbuf", "strace", "su", "sudo", "taskset", "timeout", "unshare",
    "watch", "xargs", "zsh",
];

/// The commands of a line, as far as they can be seen without a shell: each as it stands, and without what may stand
/// before it (variables, redirections, a folder, quotes). Of a program that runs others, every word may begin a command.
fn commands(line: &str) -> impl Iterator<Item = String> {
    line.split([';', '&', '|', '(', ')', '{', '`', '\n']).flat_map(|part| {
        let mut rest = part.trim_start();
        while let Some((word, more)) = rest.split_once([' ', '\t']) {
            let is_variable = word.contains('=') && !word.starts_with(['=', '-', '/']);
            let redirected = word.trim_start_matches(|c: char| c.is_ascii_digit());
            let is_redirection = redirected.starts_with(['<', '>']);
            if !is_variable && !is_redirection && !BEFORE_COMMANDS.contains(&word) {
                break;
            }
            rest = more.trim_start();
            if is_redirection && redirected.trim_start_matches(['<', '>']).is_empty() {
                // The file is the next word.
                rest = rest.split_once([' ', '\t']).map_or("", |(_, more)| more.trim_start());
            }
        }
        let mut commands = vec![part.trim_start().to_owned()];
        let bare = unquoted(rest);
        let own = by_name(&bare);
        let program = own.split([' ', '\t']).next().unwrap_or_default();
        if WRAPPERS.contains(&program) {
            let words = bare.match_indices([' ', '\t']).map(|(at, _)| bare[at..].trim_start());
            commands.extend(words.flat_map(|words| [words.to_owned(), by_name(words)]));
        }
        // Only the name of the program: quotes in its arguments may be part of what a rule names.
        let (name, more) = rest.split_at(rest.find([' ', '\t']).unwrap_or(rest.len()));
        let name = unquoted(name);
        commands.extend([format!("{name}{more}"), format!("{}{more}", by_name(&name))]);
        commands
    })
}

fn unquoted(text: &str) -> String {
    text.chars().filter(|c| !['\\', '\'', '"'].contains(c)).collect()
}

/// A command without the folder of its program.
fn by_name(command: &str) -> String {
    let program = command.find([' ', '\t']).unwrap_or(command.len());
    let name = command[..program].rfind('/').map_or(0, |slash| slash + 1);
    command[name..].to_owned()
}

/// The words of a rule, without what says where they stand.
fn words(tool: &str) -> &str {
    tool.strip_prefix(TITLE).unwrap_or(tool)
}

/// Whether a rule names the command, or all of the files. The title counts only if there is neither, and the rule is about titles:
/// it is the agent's own wording.
fn names(rule: &str, intent: &Intent) -> bool {
    let tool = words(rule);
    let fits = |text: &str| begins(text, tool).is_some_and(|rest| !goes_on(tool, rest));
    if let Some(command) = &intent.command {
        // In another folder, or with other variables (`PATH`, `LD_PRELOAD`), the same words run something else.
        let is_inside = intent.folder.as_ref().is_none_or(|folder| {
            !folder.starts_with('/') && !folder.split('/').any(|name| name == "..")
        });
        return is_inside
            && !intent.has_other_arguments()
            && begins(command, tool).is_some_and(|rest| only_adds_arguments(tool, rest));
    }
    if !intent.paths.is_empty() {
        let is_plain = |path: &str| !path.split('/').any(|name| name == "..");
        return intent.paths.iter().all(|path| is_plain(path) && fits(path));
    }
    match &intent.url {
        Some(url) => fits(url),
        None => {
            let is_about_titles = rule.starts_with(TITLE) || rule.starts_with(MCP);
            is_about_titles && intent.kind == "other" && fits(&intent.title)
        }
    }
}

/// Whether the rest of a command only adds arguments: allowing `ls` does not allow `ls; rm x`, nor the program `ls/x`.
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
        // The empty name is a prefix of everything.
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

/// Whether the last word of a name continues: allowing `ls` does not allow `lsof`.
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
            (Intent { kind: "other".into(), ..Intent::default() }, None),
            (Intent { kind: "delete".into(), ..Intent::default() }, None),
            (command("cargo test --all"), Some(true)),
        ] {
            let intent = called(intent);
            assert_eq!(rules.decide(&intent), expected, "{intent:?}");
        }
        // A rule that is about titles says so, and covers only what has nothing else to be known by.
        let tool = |kind: &str, title: &str| Intent {
            kind: kind.into(),
            title: title.into(),
            ..Intent::default()
        };
        let rules = self::rules(Consent::Ask, &["title:make", "mcp__shop__list"], &[]);
        for (intent, expected) in [
            (tool("other", "make it so"), Some(true)),
            (tool("other", "mcp__shop__list"), Some(true)),
            (tool("other", "mcp__shop__list_all"), None),
            (tool("delete", "make room"), None),
            (tool("switch_mode", "make mode bypass"), None),
            (tool("execute", "make"), None),
            (command("make all"), Some(true)),
            (command("rm -rf make"), None),
        ] {
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
        with.rest.insert("args".into(), json!("; rm x"));
        assert_eq!(rules.decide(&with), None);
        for (name, value, expected) in [
            ("script", json!("rm -rf /"), None),
            ("shell", json!("/tmp/evil"), None),
            ("run_as", json!("root"), None),
            ("explanation", json!({"script": "rm"}), None),
            ("explanation", json!("It runs the tests."), Some(true)),
            ("run_in_background", json!(true), Some(true)),
            ("script", json!(""), Some(true)),
            ("timeout", json!(1000), Some(true)),
        ] {
            let mut with = command("cargo test");
            with.rest.insert(name.into(), value);
            assert_eq!(rules.decide(&with), expected, "{name}");
        }
        for (folder, expected) in [("crates/a", Some(true)), ("/tmp/evil", None), ("../evil", None)]
        {
            let elsewhere = Intent { folder: Some(folder.into()), ..command("cargo test") };
            assert_eq!(rules.decide(&elsewhere), expected, "{folder}");
        }
    }

    #[test]
    fn what_is_disallowed_is_so_in_the_middle_of_a_line() {
        let rules = rules(Consent::Allow, &[], &["rm"]);
        for line in [
            "rm x",
            "ls; rm x",
            "ls && rm x",
            "ls | rm",
            "(rm x)",
            "ls\n rm x",
            "echo `rm x`",
            "{ rm x; }",
            "! rm x",
            "if true; then rm x; fi",
            "A=1 B=2 rm x",
            "sudo env A=1 rm x",
            "/bin/rm x",
            r"\rm x",
            "'rm' x",
            "r\"m\" x",
            "if rm x; then ls; fi",
            "while rm x; do ls; done",
            "case a in a) rm x;; esac",
            "2>/dev/null rm x",
            "> out rm x",
            "bash -c 'rm x'",
            "/bin/sh -ec \"rm x\"",
            "env -i rm x",
            "sudo -u anna /bin/rm x",
            "timeout 5 rm x",
            "ls | xargs -n 1 rm",
            "find . -name a -exec rm {} +",
            "nohup nice rm x",
        ] {
            assert_eq!(rules.decide(&command(line)), Some(false), "{line}");
        }
        for line in ["ls", "ls rm", "git commit -m 'rm x'", "a/rmdir x", "make A=rm", "if true"] {
            assert_eq!(rules.decide(&command(line)), Some(line != "a/rmdir x"), "{line}");
        }
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
