//! Fields of a task: `key: value`, of a line or in a parenthesis.

use std::ops::Range;

use super::super::task::TaskState;
use rethread_domain::near;

/// No task may take longer: 30 days.
const MOST_SECONDS: u64 = 30 * 86_400;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    DependsOn,
    Agent,
    Model,
    Effort,
    Verify,
    Expect,
    Review,
    Retries,
    TimeLimit,
    OnFailure,
    Approve,
    State,
}

impl Key {
    const ALL: [Self; 12] = [
        Self::DependsOn,
        Self::Agent,
        Self::Model,
        Self::Effort,
        Self::Verify,
        Self::Expect,
        Self::Review,
        Self::Retries,
        Self::TimeLimit,
        Self::OnFailure,
        Self::Approve,
        Self::State,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::DependsOn => "depends on",
            Self::Agent => "agent",
            Self::Model => "model",
            Self::Effort => "effort",
            Self::Verify => "verify",
            Self::Expect => "expect",
            Self::Review => "review",
            Self::Retries => "retries",
            Self::TimeLimit => "time limit",
            Self::OnFailure => "on failure",
            Self::Approve => "approve",
            Self::State => "state",
        }
    }

    /// Whether it may also stand below the title of the plan, for all tasks that say nothing else.
    pub(super) const fn is_of_plan(self) -> bool {
        matches!(
            self,
            Self::Model | Self::Effort | Self::Retries | Self::TimeLimit | Self::OnFailure
        )
    }

    /// What is to be written there and what it means, for people and for agents that write plans. `None` for what is
    /// written by us.
    const fn taught(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::DependsOn => ("T0, T2", "the tasks that have to be done before it"),
            Self::Agent => ("NAME", "the agent that does it, where it is another than usual"),
            Self::Model => ("NAME", "the model that it is done with, as the agent calls it"),
            Self::Effort => ("high", "how hard the model is to think, as the agent calls it"),
            Self::Verify => (
                "`COMMAND`",
                "the command that shows that it is done, in backticks; without them, the name of a command of the user's settings",
            ),
            Self::Expect => (
                "green",
                "what the command has to give: `green`, or `red` for a task that only writes tests that fail until a later task",
            ),
            Self::Review => ("NAME", "the agent that reviews it"),
            Self::Retries => (
                "3",
                "how often it is tried again by itself after trouble that passes: overload, a usage limit, the network",
            ),
            Self::TimeLimit => ("1h 30m", "how long one attempt may take, its check included"),
            Self::OnFailure => (
                "ask",
                "what follows if it fails: `stop` begins nothing more until the user has decided; `ask` asks, and what does not depend on it goes on; `continue` leaves it out, with all that depends on it",
            ),
            Self::Approve => (
                "is the change good to go out?",
                "what the user is asked before it begins; it waits until they have approved",
            ),
            Self::State => return None,
        })
    }

    fn read(text: &str) -> Option<Self> {
        let name = normal(text)?;
        Self::ALL.into_iter().find(|key| key.as_str() == name)
    }

    /// The field that was meant by a name that no field has.
    fn near(text: &str) -> Option<Self> {
        let name = normal(text)?;
        Self::ALL.into_iter().find(|key| {
            let known = key.as_str();
            // `depends`, `reviewer`.
            // `- time: noon` was text before there was a `time limit`.
            let is_begun = name.len() >= 4 && known.starts_with(&name) && !key.is_of_plan();
            let goes_on = name.strip_prefix(known).is_some_and(|rest| {
                (1..=3).contains(&rest.len()) && rest.bytes().all(|c| c.is_ascii_alphabetic())
            });
            let is_joined = name.replace(' ', "") == known.replace(' ', "");
            near::is_slip(&name, known) || is_begun || goes_on || is_joined
        })
    }
}

/// A name as it is compared; longer than any key: not worth a copy.
fn normal(text: &str) -> Option<String> {
    let name = text.trim().trim_matches('*');
    let name = Some(name).filter(|name| (1..=16).contains(&name.len()))?;
    Some(name.replace(['_', '-'], " ").to_ascii_lowercase())
}

/// Every field that a plan may have, a line each.
pub(super) fn taught() -> String {
    let line = |key: Key| {
        let (value, meaning) = key.taught()?;
        Some(format!("- {}: {value} ({meaning})\n", key.as_str()))
    };
    Key::ALL.into_iter().filter_map(line).collect()
}

/// A field whose name is misspelt: where it stands, what it says, and what was meant.
#[derive(Debug, Clone)]
pub(super) struct Misspelt {
    pub(super) at: usize,
    pub(super) name: String,
    pub(super) meant: Key,
}

/// Whether this part of the text is a field with a misspelt name.
pub(super) fn misspelt(text: &str, part: Range<usize>) -> Option<Misspelt> {
    let (name, _) = text.get(part.clone())?.split_once(':')?;
    if Key::read(name).is_some() {
        return None;
    }
    let meant = Key::near(name)?;
    Some(Misspelt { at: part.start, name: name.trim().trim_matches('*').to_owned(), meant })
}

/// A field, and where its value stands.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) key: Key,
    pub(super) value: Range<usize>,
    /// The list item it is, unless it stands in a parenthesis.
    pub(super) item: Option<Range<usize>>,
    /// Whether taking its line out would change what the lines around it mean.
    pub(super) is_stuck: bool,
}

/// Reads `key: value` from this part of the text.
pub(super) fn read(text: &str, part: Range<usize>) -> Option<(Key, Range<usize>)> {
    let words = text.get(part.clone())?;
    let (name, value) = words.split_once(':')?;
    // `**verify:** tests` has its mark behind the colon.
    let bold = if name.trim_start().starts_with("**") && value.starts_with("**") { 2 } else { 0 };
    let key = Key::read(name)?;
    let from = part.start + name.len() + 1 + bold;
    Some((key, trimmed(text, from..part.end)))
}

/// The part without white space around it.
pub(super) fn trimmed(text: &str, part: Range<usize>) -> Range<usize> {
    let words = text.get(part.clone()).unwrap_or_default();
    let start = part.start + (words.len() - words.trim_start().len());
    start..(start + words.trim().len())
}

/// The fields of a parenthesis that ends this text, and where it begins; only where all of it is fields. Those with
/// misspelt names are given beside.
pub(super) fn in_parenthesis(
    text: &str,
    part: Range<usize>,
    wrong: &mut Vec<Misspelt>,
) -> Option<(usize, Vec<Field>)> {
    let words = text.get(part.clone())?;
    if !words.ends_with(')') {
        return None;
    }
    let (mut open, mut cuts, mut is_code) = (Vec::new(), Vec::new(), false);
    for (at, byte) in words.bytes().enumerate() {
        match byte {
            b'`' => is_code = !is_code,
            b'(' if !is_code => open.push((at, cuts.len())),
            b';' if !is_code => cuts.push(at),
            b')' if !is_code && at + 1 < words.len() => drop(open.pop()),
            _ => (),
        }
    }
    let (begin, first_cut) = open.pop().filter(|_| !is_code)?;
    let ends = cuts.get(first_cut..)?.iter().copied().chain([words.len() - 1]);
    let mut from = begin + 1;
    let mut fields = Vec::new();
    for end in ends {
        let words = part.start + from..part.start + end;
        from = end + 1;
        if let Some(found) = misspelt(text, words.clone()) {
            wrong.push(found);
            continue;
        }
        let (key, value) = read(text, words)?;
        fields.push(Field { key, value, item: None, is_stuck: false });
    }
    Some((part.start + begin, fields))
}

/// The ids in a list of them.
pub(super) fn ids(value: &str) -> Vec<String> {
    let marks = |c: char| c.is_whitespace() || matches!(c, '`' | '*' | '[' | ']');
    let mut found: Vec<String> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for id in value.split([',', ';']).map(|id| id.trim_matches(marks)).filter(|id| !id.is_empty()) {
        if known.insert(id) {
            found.push(id.to_owned());
        }
    }
    if let [only] = found.as_slice()
        && (only.eq_ignore_ascii_case("none") || only == "-")
    {
        found.clear();
    }
    found
}

/// The text of a value that is inline code from end to end.
pub(super) fn code(value: &str) -> Option<&str> {
    let ticks = value.len() - value.trim_start_matches('`').len();
    let inner = value.get(ticks..value.len().checked_sub(ticks)?)?;
    let is_whole = ticks > 0 && value.len() - value.trim_end_matches('`').len() == ticks;
    let has_end = inner.split(|c| c != '`').any(|run| run.len() == ticks);
    if !is_whole || has_end || inner.trim().is_empty() {
        return None;
    }
    let padded = inner.strip_prefix(' ').and_then(|inner| inner.strip_suffix(' '));
    Some(padded.unwrap_or(inner))
}

/// A command as inline code.
pub(super) fn as_code(command: &str) -> String {
    let longest = command.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let ticks = "`".repeat(longest + 1);
    let edges = |c: char| c == '`' || c == ' ';
    let pad = if command.starts_with(edges) || command.ends_with(edges) { " " } else { "" };
    format!("{ticks}{pad}{command}{pad}{ticks}")
}

/// A length of time: `90s`, `45 minutes`, `1h 30m`; in seconds.
pub(super) fn seconds(value: &str) -> Option<u64> {
    let mut rest = Some(value).filter(|value| value.len() <= 40)?.trim();
    let mut total = 0_u64;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.len() - after.trim_start_matches(|c: char| c.is_alphabetic()).len();
        let (unit, after) = after.split_at(letters);
        let each = match unit.to_ascii_lowercase().as_str() {
            "s" | "sec" | "second" | "seconds" => 1,
            "m" | "min" | "minute" | "minutes" => 60,
            "h" | "hour" | "hours" => 3_600,
            "d" | "day" | "days" => 86_400,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(each)?)?;
        rest = after.trim_start_matches([' ', ',']);
    }
    Some(total).filter(|total| (1..=MOST_SECONDS).contains(total))
}

/// A length of time as it is written into a plan.
pub(super) fn in_units(seconds: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let mut left = seconds;
    let mut parts = Vec::new();
    for (each, unit) in units {
        if left >= each {
            parts.push(format!("{}{unit}", left / each));
            left %= each;
        }
    }
    parts.join(" ")
}

/// A state as people write it.
pub(super) fn state(value: &str) -> Option<TaskState> {
    let name = Some(value).filter(|value| value.len() <= 16)?.replace(['_', '-'], " ");
    match name.to_ascii_lowercase().as_str() {
        "done" => Some(TaskState::Completed),
        name => TaskState::ALL.into_iter().find(|state| shown(*state) == name),
    }
}

/// A state as it is written into a plan.
pub(super) const fn shown(state: TaskState) -> &'static str {
    match state {
        TaskState::InProgress => "in progress",
        state => state.as_str(),
    }
}
