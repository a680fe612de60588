//! Whether two passages say the same of a thing at different times: only then is the later one marked as what holds now.
//!
//! Texts that look alike are mostly about different things. Sure is only what says the same in the same words and differs in a
//! value: a number, a version, a name in quotation marks, or how something stands.

/// So many words have to be the same around the value.
const SAME_WORDS: usize = 4;

/// Before a number, these make a name of it: step 1 and step 2 are two things.
const LABELS: &[&str] = &[
    "step",
    "phase",
    "task",
    "section",
    "part",
    "item",
    "pr",
    "issue",
    "line",
    "lines",
    "page",
    "chapter",
    "plan",
    "wave",
    "test",
    "option",
    "point",
    "milestone",
    "шаг",
    "этап",
    "задача",
    "passo",
    "fase",
    "krok",
    "etapa",
];

/// How something stands.
const STANDINGS: &[&str] = &[
    "done",
    "pending",
    "failed",
    "failing",
    "passed",
    "passing",
    "open",
    "closed",
    "completed",
    "complete",
    "on",
    "off",
    "enabled",
    "disabled",
    "true",
    "false",
    "yes",
    "no",
    "green",
    "red",
    "broken",
    "fixed",
];

/// Whether a sentence of one says the same as a sentence of the other but for a value.
pub(super) fn differ_in_a_value(a: &str, b: &str) -> bool {
    let others: Vec<Vec<&str>> = sentences(b).collect();
    sentences(a).any(|one| others.iter().any(|other| is_changed(&one, other)))
}

/// The words of each sentence that is long enough.
fn sentences(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().flat_map(|line| line.split(". ")).filter_map(|sentence| {
        let words: Vec<&str> = sentence
            .split_whitespace()
            .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '`'))
            .filter(|word| !word.is_empty())
            .collect();
        (words.len() > SAME_WORDS).then_some(words)
    })
}

fn is_changed(one: &[&str], other: &[&str]) -> bool {
    let same = |pair: &(&&str, &&str)| pair.0.eq_ignore_ascii_case(pair.1);
    let before = one.iter().zip(other).take_while(same).count();
    let (Some(value), Some(changed)) = (one.get(before), other.get(before)) else { return false };
    let Some(last) = before.checked_sub(1).map(|at| one[at].to_lowercase()) else { return false };
    let after = one[before + 1..].iter().zip(&other[before + 1..]).take_while(same).count();
    // What a list is numbered by is no value either.
    let is_name = LABELS.contains(&last.as_str()) || last.bytes().all(|byte| byte.is_ascii_digit());
    before + after >= SAME_WORDS && !is_name && is_value(value) && is_value(changed)
}

fn is_value(word: &str) -> bool {
    let is_quoted = word.starts_with('`') && word.len() > 2;
    is_quoted
        || word.chars().any(|char| char.is_ascii_digit())
        || STANDINGS.contains(&word.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_a_value_is_the_same_thing() {
        for (a, b) in [
            (
                "The server listens on port 5173 behind it.",
                "The server listens on port 8080, moved.",
            ),
            ("All 151 tests pass with no failures.", "Good.\nAll 187 tests pass with no failures."),
            ("The deploy to staging is pending", "The deploy to staging is done"),
            (
                "We store the notes in `sqlite` for now.",
                "We store the notes in `postgres` since today.",
            ),
        ] {
            assert!(differ_in_a_value(a, b) && differ_in_a_value(b, a), "{a} / {b}");
        }
    }

    #[test]
    fn what_merely_looks_alike_is_not() {
        for (a, b) in [
            ("Now register all 20 tools in server.py.", "Now register the new tools in server.py."),
            ("Now let's use git mv to move the file", "Now let's use git mv to move the file"),
            ("We are done with step 1 of it", "We are done with step 2 of it"),
            ("The parser of the tables is broken", "The parser of the headers is slow"),
            ("Port 80", "Port 81"),
        ] {
            assert!(!differ_in_a_value(a, b), "{a} / {b}");
        }
    }
}
