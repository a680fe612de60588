//! The names of failing tests, as cargo, nextest, pytest, jest, vitest and go print them.

use std::borrow::Cow;
use std::collections::HashSet;

use super::{MOST_NAMES, plain};

/// A line that is longer names no test.
const LONGEST_LINE: usize = 4_096;

/// Names of one tool. What its summary says counts more than what it said on the way.
#[derive(Debug, Default)]
struct Tool {
    sure: Vec<String>,
    seen: Vec<String>,
}

impl Tool {
    fn saw(&mut self, name: &str) {
        add(&mut self.seen, name);
    }

    fn sums_up(&mut self, name: &str) {
        add(&mut self.sure, name);
    }

    fn settled(self) -> Vec<String> {
        if self.sure.is_empty() { self.seen } else { self.sure }
    }
}

/// Room for doubles, but not for everything.
fn add(names: &mut Vec<String>, name: &str) {
    let name = name.trim();
    if !name.is_empty() && names.len() < 10 * MOST_NAMES {
        names.push(name.to_owned());
    }
}

/// What was found in an output.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) failing: Vec<String>,
    /// Where the summary of failures begins.
    pub(super) summary: Option<usize>,
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is what one tool has said so far")]
struct Reader {
    cargo: Tool,
    nextest: Tool,
    pytest: Tool,
    jest: Tool,
    vitest: Tool,
    go: Tool,
    /// In the list of failures of cargo, or between the first word of failures and the result.
    cargo_failures: bool,
    is_listing: bool,
    has_nextest_summary: bool,
    has_pytest_summary: bool,
    has_jest_failures: bool,
    summary: Option<usize>,
}

impl Names {
    pub(super) fn of(output: &str, code: Option<i32>, command: &str) -> Self {
        let mut reader = Reader::default();
        let mut at = 0;
        for line in output.split_inclusive('\n') {
            if line.len() <= LONGEST_LINE {
                let has_escape = line.contains('\u{1b}');
                let words = if has_escape { plain(line).into() } else { Cow::Borrowed(line) };
                let words = words.trim_end();
                reader.take(words.rsplit('\r').next().unwrap_or_default(), at);
            }
            at += line.len();
        }
        reader.settled(code, command)
    }
}

impl Reader {
    fn take(&mut self, line: &str, at: usize) {
        self.take_cargo(line, at);
        self.take_nextest(line, at);
        self.take_pytest(line, at);
        self.take_js(line, at);
        let go = line.trim_start().strip_prefix("--- FAIL: ");
        if let Some((name, _)) = go.and_then(|rest| rest.rsplit_once(" (")) {
            self.go.saw(name);
        }
    }

    fn take_cargo(&mut self, line: &str, at: usize) {
        if line == "failures:" {
            (self.cargo_failures, self.is_listing) = (true, true);
            return;
        }
        if self.is_listing {
            match line.strip_prefix("    ") {
                Some(name) if !name.starts_with(' ') => {
                    self.summary = self.summary.or(Some(at));
                    return self.cargo.saw(name);
                }
                _ => self.is_listing = false,
            }
        }
        if line.starts_with("test result: ") {
            self.cargo_failures = false;
        } else if !self.cargo_failures {
            let plain =
                line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"));
            let quiet = line.strip_suffix(" --- FAILED");
            if let Some(name) = plain.or(quiet) {
                self.cargo.saw(name.strip_suffix(" - should panic").unwrap_or(name));
            }
        }
    }

    fn take_nextest(&mut self, line: &str, at: usize) {
        let words = line.trim_start();
        if words.starts_with("Summary [") {
            self.has_nextest_summary = true;
            self.summary = Some(at);
            return;
        }
        let Some((status, rest)) = words.split_once(" [") else { return };
        let again = status.strip_prefix("TRY ").and_then(|rest| rest.split_once(' '));
        let kind = again.map_or(status, |(_, kind)| kind);
        let is_failure =
            matches!(kind, "FAIL" | "TIMEOUT" | "ABORT" | "XFAIL" | "FAIL + LEAK" | "LEAK-FAIL")
                || kind.starts_with("SIG") && !kind.contains(' ');
        let Some((_, name)) = rest.split_once("s] ").filter(|_| is_failure) else { return };
        let name = name.trim_start();
        let counted = name.strip_prefix('(').and_then(|name| name.split_once(") "));
        let name = counted.map_or(name, |(_, name)| name);
        if self.has_nextest_summary {
            self.nextest.sums_up(name);
        } else if again.is_none() {
            self.nextest.saw(name);
        }
    }

    fn take_pytest(&mut self, line: &str, at: usize) {
        if line.starts_with('=') && line.contains(" short test summary info ") {
            self.has_pytest_summary = true;
            self.summary = Some(at);
            return;
        }
        let told = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "));
        if let Some(rest) = told.filter(|rest| self.has_pytest_summary && rest.contains("::")) {
            self.pytest.sums_up(pytest_name(rest));
            return;
        }
        // On the way, with -v: `file::name FAILED   [ 28%]`, or of one of several workers.
        let Some((before, after)) =
            line.split_once(" FAILED").or_else(|| line.split_once(" ERROR"))
        else {
            return;
        };
        if before.starts_with("[gw") {
            self.pytest.saw(pytest_name(after));
        } else if before.contains(".py::") && (after.is_empty() || after.ends_with("%]")) {
            self.pytest.saw(before);
        }
    }

    fn take_js(&mut self, line: &str, at: usize) {
        if line.starts_with("Tests:") && line.contains(" failed") {
            self.has_jest_failures = true;
            return;
        }
        if line == "Summary of all failing tests" {
            self.summary = Some(at);
            return;
        }
        let words = line.trim_start();
        let indent = line.len() - words.len();
        if let Some(name) = words.strip_prefix("● ").filter(|_| indent == 2) {
            let is_other = matches!(name, "Console" | "Test suite failed to run")
                || name.starts_with("Cannot log after");
            if !is_other {
                self.jest.saw(name);
            }
        } else if let Some(name) = words.strip_prefix("FAIL  ").filter(|name| name.contains(" > "))
        {
            if self.vitest.sure.is_empty() {
                self.summary = Some(at);
            }
            self.vitest.sums_up(name);
        } else if let Some(name) = words.strip_prefix("× ").filter(|name| name.contains(" > ")) {
            let timed = name.rsplit_once(' ').filter(|(_, time)| is_time(time));
            self.vitest.saw(timed.map_or(name, |(name, _)| name));
        }
    }

    /// Of the tools that the command names; of all where it names none, or where they say nothing.
    fn settled(self, code: Option<i32>, command: &str) -> Names {
        let is_jest_sure = code != Some(0) || self.has_jest_failures;
        let jest = if is_jest_sure { self.jest } else { Tool::default() };
        let tools = [
            (["cargo t", "rustc --test"], self.cargo.settled()),
            (["nextest", "cargo n"], self.nextest.settled()),
            (["pytest", "py.test"], self.pytest.settled()),
            (["jest", "jest"], jest.settled()),
            (["vitest", "vitest"], self.vitest.settled()),
            (["go test", "gotest"], self.go.settled()),
        ];
        let is_named = |words: &[&str; 2]| words.iter().any(|word| command.contains(word));
        let named = tools.iter().filter(|(words, _)| is_named(words));
        let mut failing = unique(named.flat_map(|(_, names)| names));
        let has_named = tools.iter().any(|(words, _)| is_named(words));
        if failing.is_empty() && !(has_named && code == Some(0)) {
            failing = unique(tools.iter().flat_map(|(_, names)| names));
        }
        let summary = self.summary.filter(|_| !failing.is_empty());
        Names { failing, summary }
    }
}

fn unique<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut known = HashSet::new();
    names.filter(|name| known.insert(name.as_str())).take(MOST_NAMES).cloned().collect()
}

fn is_time(word: &str) -> bool {
    let number = word.strip_suffix("ms").or_else(|| word.strip_suffix('s'));
    number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
}

/// The name ends where the reason begins: at ` - ` outside of brackets.
fn pytest_name(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 && text[at..].starts_with(" - ") => return &text[..at],
            _ => (),
        }
    }
    if depth == 0 { text } else { text.split(" - ").next().unwrap_or(text) }
}
