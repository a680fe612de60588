//! Tool restrictions of an invocation, in the names that clients use.

use rethread_domain::consent::KINDS;
use rethread_domain::quote::one_line;
use rethread_engine::agents::{COMMAND, Rules, TITLE};

use crate::error::Failure;

/// Names that agents give their tools, with the kind of each.
const NAMES: &[(&str, &str)] = &[
    ("Bash", "execute"),
    ("Shell", "execute"),
    ("Terminal", "execute"),
    ("run_shell_command", "execute"),
    ("Edit", "edit"),
    ("MultiEdit", "edit"),
    ("Write", "edit"),
    ("NotebookEdit", "edit"),
    ("write_file", "edit"),
    ("replace", "edit"),
    ("apply_patch", "edit"),
    ("patch", "edit"),
    ("Read", "read"),
    ("read_file", "read"),
    ("read_many_files", "read"),
    ("Grep", "search"),
    ("Glob", "search"),
    ("LS", "search"),
    ("list_directory", "search"),
    ("search_file_content", "search"),
    ("WebFetch", "fetch"),
    ("WebSearch", "fetch"),
    ("web_fetch", "fetch"),
];

/// The prefix of tools of MCP servers.
const MCP: &str = "mcp__";
const LONGEST: usize = 128;
const MOST: usize = 200;

/// One tool, or all tools of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Kind(&'static str),
    Title(String),
    /// Commands by their first words.
    Command(String),
}

impl Rule {
    /// An allowed tool. A pattern in brackets allows no more than it says: `Bash(git status:*)` the commands that begin so.
    fn allowed(name: &str) -> Result<Vec<Self>, Failure> {
        let Some((tool, pattern)) = name.trim().split_once('(') else { return Self::parse(name) };
        let is_command = Self::parse(tool)?.contains(&Self::Kind("execute"));
        let words = pattern.strip_suffix(')').and_then(|pattern| pattern.strip_suffix('*'));
        let words = words.and_then(|words| words.strip_suffix([':', ' '])).map(str::trim);
        match words.filter(|words| is_command && !words.is_empty() && !words.contains('*')) {
            Some(words) => Ok(vec![Self::Command(words.to_owned())]),
            None => Err(Failure::new(
                format!("{:?} cannot be allowed as it stands", one_line(name, 60)),
                "a pattern is understood for commands, by their first words, such as Bash(git status:*); otherwise name the tool alone",
            )),
        }
    }

    fn parse(name: &str) -> Result<Vec<Self>, Failure> {
        let plain = name.split('(').next().unwrap_or(name).trim();
        if let Some(kind) = KINDS.iter().find(|kind| kind.eq_ignore_ascii_case(plain)) {
            return Ok(vec![Self::Kind(kind)]);
        }
        if let Some((known, kind)) =
            NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(plain))
        {
            return Ok(vec![Self::Kind(kind), Self::Title(known.to_lowercase())]);
        }
        let title = name.strip_prefix(TITLE).or_else(|| name.starts_with(MCP).then_some(name));
        match title.map(str::trim).filter(|title| !title.is_empty() && title.len() <= LONGEST) {
            Some(title) => Ok(vec![Self::Title(title.to_lowercase())]),
            None => Err(Failure::new(
                format!("There is no tool {:?}", one_line(name, 60)),
                format!(
                    "give kinds ({}), names of common tools (Bash, Edit, Write, Read, Grep, WebFetch, …), mcp__SERVER__TOOL, \
                     or title:TEXT for tools whose title begins with TEXT",
                    KINDS.join(", ")
                ),
            )),
        }
    }

    /// In the form of the permission gate.
    fn text(&self) -> String {
        match self {
            Self::Kind(kind) => (*kind).to_owned(),
            Self::Title(title) => format!("{TITLE}{title}"),
            Self::Command(words) => format!("{COMMAND}{words}"),
        }
    }
}

/// What an invocation allows and forbids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Restriction {
    allowed: Vec<Rule>,
    disallowed: Vec<Rule>,
}

impl Restriction {
    pub(crate) fn parse(allowed: &[String], disallowed: &[String]) -> Result<Self, Failure> {
        if allowed.len() + disallowed.len() > MOST {
            let hint = format!("name at most {MOST} tools; a kind stands for all of its tools");
            return Err(Failure::new("Too many tools are named", hint));
        }
        if let Some(both) = allowed.iter().find(|name| disallowed.contains(name)) {
            let what = format!("{:?} is both allowed and disallowed", one_line(both, 60));
            return Err(Failure::new(what, "name it in one of the lists"));
        }
        let parse = |names: &[String], one: fn(&str) -> Result<Vec<Rule>, Failure>| {
            let rules: Result<Vec<Vec<Rule>>, Failure> =
                names.iter().map(|name| one(name)).collect();
            rules.map(|rules| rules.concat())
        };
        Ok(Self {
            allowed: parse(allowed, Rule::allowed)?,
            disallowed: parse(disallowed, Rule::parse)?,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.allowed.is_empty() && self.disallowed.is_empty()
    }

    /// Whether a tool call violates it, by the same rules as the permission gate. Thinking is not a use of a tool.
    pub(crate) fn forbids(&self, kind: &str, title: &str) -> bool {
        let (mut allowed, disallowed) = self.lists();
        // Which command it was is judged at the gate; here only its title is known.
        if self.allowed.iter().any(|rule| matches!(rule, Rule::Command(_))) {
            allowed.push("execute".to_owned());
        }
        // An allow list does not exclude thinking.
        let only_allowed = !allowed.is_empty() && kind != "think";
        Rules { allowed, disallowed, only_allowed, ..Rules::default() }.forbid(kind, title)
    }

    /// The lists in the form of the permission gate: kinds, and beginnings of titles.
    pub(crate) fn lists(&self) -> (Vec<String>, Vec<String>) {
        let texts = |rules: &[Rule]| rules.iter().map(Rule::text).collect();
        (texts(&self.allowed), texts(&self.disallowed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allowed: &[&str], disallowed: &[&str], kind: &str, title: &str, forbidden: bool) {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let restriction = Restriction::parse(&owned(allowed), &owned(disallowed)).unwrap();
        assert_eq!(restriction.forbids(kind, title), forbidden, "{restriction:?} {kind} {title}");
    }

    #[test]
    fn a_tool_is_known_by_its_kind_its_name_or_its_title() {
        check(&[], &[], "execute", "rm", false);
        check(&[], &["execute"], "execute", "rm", true);
        check(&[], &["Bash(rm:*)"], "execute", "rm", true);
        check(&[], &["Bash"], "other", "bash: rm", true);
        check(&["read", "search"], &[], "edit", "a.rs", true);
        check(&["Read"], &[], "read", "a.rs", false);
        check(&["read"], &[], "think", "hm", false);
        check(&["read"], &[], "other", "?", true);
        check(&[], &["title:cargo publish"], "execute", "cargo publish --dry-run", true);
        check(&[], &["mcp__shop__buy"], "other", "mcp__shop__buy", true);
        check(&["execute"], &["title:rm"], "execute", "rm -rf", true);
        check(&["title:ls"], &[], "execute", "ls -l", false);
        check(&["title:ls"], &[], "execute", "lsof", true);
    }

    #[test]
    fn a_pattern_allows_no_more_than_it_says() {
        let lists = |name: &str| {
            Restriction::parse(&[name.to_owned()], &[]).map(|restriction| restriction.lists().0)
        };
        for name in ["Bash(git status:*)", "Bash(git status *)", "execute( git status:*)"] {
            assert_eq!(lists(name).unwrap(), ["command:git status"], "{name}");
        }
        for name in
            ["Bash(ls)", "Bash(*)", "Bash(:*)", "Bash(git * push:*)", "Edit(src/**)", "Bash(ls"]
        {
            let refused = lists(name).unwrap_err().to_string();
            assert!(refused.contains("cannot be allowed as it stands"), "{name}: {refused}");
        }
        check(&["Bash(git status:*)"], &[], "execute", "`git status`", false);
        check(&["Bash(git status:*)"], &[], "edit", "a.rs", true);
    }

    #[test]
    fn mistakes_are_told() {
        let refused = |allowed: &[&str], disallowed: &[&str]| {
            let owned =
                |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
            Restriction::parse(&owned(allowed), &owned(disallowed)).unwrap_err().to_string()
        };
        assert!(refused(&["Bsah"], &[]).contains("There is no tool \"Bsah\". Give kinds (read, "));
        assert!(refused(&["title: "], &[]).contains("There is no tool"));
        assert!(refused(&[""], &[]).contains("There is no tool"));
        assert!(refused(&["edit"], &["edit"]).contains("both"));
        assert!(refused(&vec!["edit"; 201], &[]).contains("at most 200"));
    }
}
