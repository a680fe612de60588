//! Whatever a plan looks like: states are written back, and nothing else changes.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// Lines of plans, realistic and nasty, that are put together at random.
const LINES: &[&str] = &[
    "# Title",
    "## Notes",
    "### Deep",
    "",
    "",
    "",
    "Text of it.",
    "  indented",
    "\tTab",
    "    code",
    "```",
    "~~~",
    "---",
    "===",
    "***",
    "<div>",
    "</div>",
    "<!--",
    "-->",
    "<ScRiPt>",
    "</sCrIpT>",
    "<style>x</STYLE>",
    "<?",
    "<!D",
    "> quote",
    "- item",
    "* star",
    "-",
    "1. one",
    "  - nested",
    "  * other",
    "    - deeper",
    "- owner: me",
    "- agent: codex",
    "* verify: tests",
    "- verify: `cargo test`",
    "  - review: claude",
    "  - expect: red",
    "  more of it",
    "[a]: http://b",
    "  [c]: d",
    "ünïcödé 🦀",
    "Task 9: x",
    "---\ntitle: y\n---",
    "- state: blocked",
    "  - state: failed",
    "   - state: skipped",
    "\t- state: blocked",
    "| a | b |",
    "- - twice",
    "  ---",
    "  ```",
    "      six",
    "&amp; \\* \\",
    "- [ ]",
    "# ",
];

/// Beginnings of tasks; `%` becomes a number of their own.
const TASKS: &[&str] = &[
    "## Task t%: Title",
    "## Task t%: Title",
    "## Task t% — Dash ##",
    "## Task: None",
    "Task t%: Under\n---",
    "- [ ] t%: Item",
    "- [ ] t%: Item",
    "- [x] **t%** Bold",
    "* [X] t%: Star",
    "+ [ ] no id",
    "-\t[ ] t%: tab",
    "- [ ] t%: Item (verify: tests)",
    "- [ ] t%: Item (state: blocked; agent: x)",
    "  - [ ] t%: in",
    "1. [ ] t%: numbered",
    "10) [x] t%: paren",
    " - [ ] t%: one in",
    "   ## Task t%: three in",
    "> - [ ] t%: quoted",
    "- [ ] t%: wraps\n  over lines",
    "- [ ] t%: lazy\nline",
    "-\n  [ ] t%: below",
];

fn plans() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        3 => select(LINES).prop_map(str::to_owned),
        2 => select(TASKS).prop_map(str::to_owned),
        1 => (select(TASKS), select(LINES)).prop_map(|(task, line)| format!("{task}\n{line}")),
    ];
    // Not a lone CR: the parser does not take it for a line's end everywhere, and such a file stays as it is.
    let ends = select(&["\n", "\n", "\r\n"][..]);
    let lines = proptest::collection::vec(line, 1..14);
    (lines, ends, any::<bool>(), any::<bool>()).prop_map(|(lines, end, has_mark, has_end)| {
        let numbered =
            lines.iter().enumerate().map(|(at, line)| line.replace('%', &at.to_string()));
        let mut text = numbered.collect::<Vec<String>>().join("\n");
        if has_end {
            text.push('\n');
        }
        let text = text.replace('\n', end);
        if has_mark { format!("\u{feff}{text}") } else { text }
    })
}

fn is_subsequence(short: &str, long: &str) -> bool {
    let mut rest = long.chars();
    short.chars().all(|c| rest.any(|other| other == c))
}

/// Without what can tell a state.
fn bare(text: &str) -> String {
    let mut text = text.replace("[x]", "[ ]").replace("[X]", "[ ]");
    for state in TaskState::ALL {
        text = text.replace(field::shown(state), "");
    }
    text
}

fn check(text: &str, dice: &[u8]) -> Result<(), TestCaseError> {
    let Ok(before) = parse(text) else {
        prop_assert_eq!(with_states(text, &[("t1".to_owned(), TaskState::Failed)]), text);
        return Ok(());
    };
    let own: Vec<(String, TaskState)> =
        before.tasks.iter().map(|task| (task.id.clone(), task.state)).collect();
    prop_assert_eq!(with_states(text, &own), text);
    let mut wanted = before.clone();
    for (task, dice) in wanted.tasks.iter_mut().zip(dice.iter().cycle()) {
        task.state = TaskState::ALL[usize::from(*dice) % 6];
    }
    let states: Vec<(String, TaskState)> =
        wanted.tasks.iter().map(|task| (task.id.clone(), task.state)).collect();
    let new = with_states(text, &states);
    let after = parse(&new);
    prop_assert_eq!(after.as_ref(), Ok(&wanted), "\n{:?}\n{:?}", text, new);
    // What is gone or new is lines of states; the rest stands as it stood.
    let kept: String = bare(text).replace("- state: ", "");
    let kept_lines: Vec<&str> = kept.split(['\n', '\r']).filter(|l| !l.trim().is_empty()).collect();
    for line in kept_lines {
        prop_assert!(bare(&new).contains(line), "{:?} of {:?} is gone: {:?}", line, text, new);
    }
    if !text.contains("state:") {
        prop_assert!(is_subsequence(&bare(text), &bare(&new)), "{:?}\n{:?}", text, new);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn states_are_written_into_any_plan(text in plans(), dice in proptest::collection::vec(any::<u8>(), 1..6)) {
        check(&text, &dice)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_plan_that_was_read_can_be_written_as_sections(text in plans()) {
        if let Ok(plan) = parse(&text) {
            let again = parse(&written(&plan.title, &plan.tasks));
            let again = again.map_err(|problems| TestCaseError::fail(format!("{problems:?} {text:?}")))?;
            // Texts may have had to be tamed.
            let told = |plan: Plan| -> Vec<TaskSpec> {
                let bare = |task| TaskSpec { body: String::new(), ..task };
                plan.tasks.into_iter().map(bare).collect()
            };
            prop_assert_eq!(told(again), told(plan));
        }
        drop(from_agent(&text));
    }

    #[test]
    fn any_text_is_read_without_panic(text in "(\\PC|[-#*\\[\\]x: `()\n\r\t>]){0,200}", dice in any::<u8>()) {
        check(&text, &[dice])?;
        drop(from_agent(&text));
    }
}
