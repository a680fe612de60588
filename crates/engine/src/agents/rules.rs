//! Permission rules that the user set beforehand: about kinds of tools, commands and files.

use std::collections::BTreeMap;
use std::str::FromStr;

use rethread_domain::consent::{Intent, KINDS};
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
/// Begins a rule about commands whose words begin with what follows, and about nothing else.
pub const COMMAND: &str = "command:";
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
            let is_all_named = !intent.paths.is_empty() && intent.paths.iter().all(is_named);
            return is_all_named.then_some(true);
        }
        if self.allow(intent) && !self.may_mean_another_name(intent) {
            return Some(true);
        }
        match self.consent {
            _ if self.only_allowed => Some(false),
            Consent::Allow if self.may_mean_another_name(intent) => None,
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
        if !self.disallow(intent) && self.may_mean_another_name(intent) {
            return None;
        }
        let edit = Intent { kind: "edit".to_owned(), ..intent.clone() };
        let is_listed = || self.allow(intent) || self.allow(&edit);
        Some(!self.disallow(intent) && (!self.only_allowed || is_listed()))
    }

    /// Whether a rule that forbids files may be about one of the intent's under another name: only a person can tell.
    fn may_mean_another_name(&self, intent: &Intent) -> bool {
        let is_named = |path: &String| self.allowed.contains(path);
        let is_about_kinds = |tool: &String| KINDS.iter().any(|kind| is_kind(tool, kind));
        !intent.linked.iter().all(is_named) && !self.disallowed.iter().all(is_about_kinds)
    }

    fn allow(&self, intent: &Intent) -> bool {
        self.allowed.iter().any(|tool| is_kind(tool, &intent.kind) || names(tool, intent))
    }

    fn disallow(&self, intent: &Intent) -> bool {
        let commands = intent.command.iter().flat_map(|line| commands(line));
        let places = intent.paths.iter().chain(&intent.mentioned);
        let others = places.chain(&intent.url).chain([&intent.title]);
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
    let command_rule = rule.strip_prefix(COMMAND);
    let tool = command_rule.unwrap_or_else(|| words(rule));
    let fits = |text: &str| after(text, tool).is_some_and(|rest| !goes_on(tool, rest));
    if let Some(command) = &intent.command {
        // In another folder, or with other variables (`PATH`, `LD_PRELOAD`), the same words run something else.
        let is_inside = intent.folder.as_ref().is_none_or(|folder| {
            !folder.starts_with('/') && !folder.split('/').any(|name| name == "..")
        });
        return is_inside
            && !intent.has_other_arguments()
            && after(command, tool).is_some_and(|rest| only_adds_arguments(tool, rest));
    }
    if command_rule.is_some() {
        return false;
    }
    if !intent.paths.is_empty() {
        // What is fetched into a file is about both.
        let is_plain = |path: &str| !path.split('/').any(|name| name == "..");
        // The beginning of one name says nothing of a file that has several.
        let is_meant = |path: &String| rule == path || !intent.linked.contains(path);
        return intent.url.is_none()
            && !intent.may_lead_elsewhere()
            && intent.paths.iter().all(|path| is_plain(path) && fits(path) && is_meant(path));
    }
    match &intent.url {
        Some(url) => fits(url),
        None => {
            let is_about_titles = rule.starts_with(TITLE) || rule.starts_with(MCP);
            let title = begins(&intent.title, tool);
            is_about_titles
                && intent.kind == "other"
                && title.is_some_and(|rest| !goes_on(tool, rest))
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

/// What follows the words of a rule that allows. Letter by letter: on a disk, and to a shell, another case is another name.
fn after<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    text.strip_prefix(words).filter(|_| !words.trim().is_empty())
}

/// What follows the name of a tool in a text, in whatever case.
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
mod tests;
