//! Plans as people write them.

use super::*;

fn plan(text: &str) -> Plan {
    parse(text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"))
}

fn problems(text: &str) -> Vec<String> {
    parse(text).unwrap_err().iter().map(ToString::to_string).collect()
}

const SECTIONS: &str = "---\ntitle: not a task\n---\n# The plan\n\nWhy.\n\n## Notes\n\n## Task tests: Write the tests\n- verify: `cargo test -q`\n- expect: red\n- owner: me\n\nBody.\n\n- [ ] only a note\n\n### Deeper\n\n```\n## Task fake: no\n```\n\n## Task code.1 — Make them green\n\n- depends on: tests\n- agent: codex\n- verify: tests\n- review: claude\n- state: In_Progress\n\nGo.\n\n## Task: No id\n";

#[test]
fn sections_are_read() {
    let plan = plan(SECTIONS);
    assert_eq!((plan.title.as_str(), plan.intro.as_str()), ("The plan", "Why.\n\n## Notes"));
    let ids: Vec<&str> = plan.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(ids, ["tests", "code.1", "3"]);
    let [tests, code, last] = plan.tasks.as_slice() else { panic!() };
    assert_eq!(tests.verify, Some(Verify::Text("cargo test -q".to_owned())));
    assert_eq!(tests.expect, Expect::Red);
    assert_eq!(
        tests.body,
        "- owner: me\n\nBody.\n\n- [ ] only a note\n\n### Deeper\n\n```\n## Task fake: no\n```"
    );
    assert_eq!(code.title, "Make them green");
    assert_eq!(code.depends_on, ["tests"]);
    assert_eq!((code.agent.as_deref(), code.review.as_deref()), (Some("codex"), Some("claude")));
    assert_eq!(code.verify, Some(Verify::Named("tests".to_owned())));
    assert_eq!((code.state, code.body.as_str()), (TaskState::InProgress, "Go."));
    assert_eq!((last.title.as_str(), last.state), ("No id", TaskState::Pending));
}

const CHECKLIST: &str = "# List\r\n\r\n- [x] **A** First\r\n- [ ] b: Second (depends on: A; verify: `a; (b)`)\r\n  - expect: red\r\n  - a note\r\n\r\n  More of it.\r\n- no task\r\n* [ ] Just do it: now\r\n";

#[test]
fn a_checklist_is_read() {
    let plan = plan(CHECKLIST);
    let [a, b, third] = plan.tasks.as_slice() else { panic!("{plan:?}") };
    assert_eq!((a.id.as_str(), a.title.as_str(), a.state), ("A", "First", TaskState::Completed));
    assert_eq!((b.id.as_str(), b.title.as_str()), ("b", "Second"));
    assert_eq!(b.depends_on, ["A"]);
    assert_eq!(b.verify, Some(Verify::Text("a; (b)".to_owned())));
    assert_eq!((b.expect, b.body.as_str()), (Expect::Red, "- a note\r\n\r\nMore of it."));
    assert_eq!((third.id.as_str(), third.title.as_str()), ("3", "Just do it: now"));
}

fn set(text: &str, id: &str, state: TaskState) -> String {
    with_states(text, &[(id.to_owned(), state)])
}

#[test]
fn states_are_written_and_nothing_else() {
    let done = set(SECTIONS, "tests", TaskState::Completed);
    assert_eq!(done, SECTIONS.replace("- verify: `c", "- state: completed\n- verify: `c"));
    let back = set(SECTIONS, "code.1", TaskState::Pending);
    assert_eq!(back, SECTIONS.replace("In_Progress", "pending"));
    let last = set(SECTIONS, "3", TaskState::Failed);
    assert_eq!(last, format!("{SECTIONS}- state: failed\n"));

    let open = set(CHECKLIST, "A", TaskState::Pending);
    assert_eq!(open, CHECKLIST.replace("[x]", "[ ]"));
    let failed = set(CHECKLIST, "A", TaskState::Failed);
    let line = "[ ] **A** First\r\n  - state: failed\r\n";
    assert_eq!(failed, CHECKLIST.replace("[x] **A** First\r\n", line));
    assert_eq!(set(&failed, "A", TaskState::Completed), CHECKLIST);
    let busy = set(CHECKLIST, "b", TaskState::InProgress);
    assert_eq!(busy, CHECKLIST.replace("  - expect", "  - state: in progress\r\n  - expect"));
    assert_eq!(set(&busy, "b", TaskState::Pending), CHECKLIST);
}

#[test]
fn a_line_that_holds_the_text_apart_is_not_taken_out() {
    let text =
        "- [ ] a: x\n  - state: blocked\n  ---\n- [ ] b: y\n  - state: blocked\n\n  * verify: t\n";
    let done = set(&set(text, "a", TaskState::Completed), "b", TaskState::Pending);
    assert_eq!(plan(&done).tasks[0].title, "x");
    assert_eq!(plan(&done).tasks[1].verify, None);
}

#[test]
fn all_problems_are_told_with_their_lines() {
    let text = "# P\n## Task a: x\n- depends on: b, ghost\n- state: maybe\n## Task b: y\n- depends on: a\n- expect: blue\n## Task a: z\n## Task c d: w\n## Task e:\n- depends on: e\n- verify: two words\n- [ ] no\n## Other\n- [x] f: g\n  - state: failed\n";
    let told = problems(text);
    let expected = [
        "line 2: task a depends on ghost, which is no task of this plan",
        "line 2: tasks depend on each other in a circle: a → b → a",
        "line 4: task a: state \"maybe\", expected",
        "line 7: task b: expect \"blue\", expected red or green",
        "line 8: the id a is taken by the task of line 2",
        "line 9: the id \"c d\" cannot be used",
        "line 10: task e has no title",
        "line 10: task e depends on itself",
        "line 12: task e: verify \"two words\", expected the name",
        "line 15: task f is checked, but its state is failed",
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.starts_with(expected), "{told} / {expected}");
    }
}

#[test]
fn what_is_no_plan_is_said() {
    assert!(problems("").first().is_some_and(|told| told.contains("no tasks")));
    assert!(problems("# Only\n## Task list\ntext\n")[0].contains("no tasks"));
    assert!(problems("## Task 7\nText.\n")[0].contains("no title"));
    assert!(problems(&"x".repeat(LONGEST + 1))[0].contains("bytes"));
    assert!(problems(&"- [ ] x\n".repeat(MOST_TASKS + 1))[0].contains("10001 tasks"));
    assert!(parse(&"- [ ] x\n".repeat(MOST_TASKS)).is_ok());
}

#[test]
fn fields_below_the_title_hold_for_all_tasks_that_say_nothing_else() {
    let fields = "- model: m1\n- retries: 5\n- on failure: continue\n- time limit: 45m\n";
    let (all, own) = ([Some(5), Some(5)], [Some(5), Some(0)]);
    for (text, retries) in [
        (format!("# P\n\nWhy.\n\n{fields}\n## Task a: x\n\n## Task b: y\n- retries: 0\n"), own),
        (format!("# P\n\nWhy.\n\n{fields}\n- [ ] a: x\n- [ ] b: y (retries: 0)\n"), own),
        (format!("# P\n{fields}\nWhy.\n\n* [ ] a: x\n* [ ] b: y\n"), all),
    ] {
        let plan = plan(&text);
        assert_eq!(plan.intro, "Why.", "{text}");
        let told: Vec<_> = plan.tasks.iter().map(|task| task.policy).collect();
        assert_eq!([told[0].retries, told[1].retries], retries, "{text}");
        for policy in told {
            let expected = (Some(2_700), Some(OnFailure::Continue));
            assert_eq!((policy.seconds, policy.on_failure), expected, "{text}");
        }
        assert!(plan.tasks.iter().all(|task| task.model.as_deref() == Some("m1")), "{text}");
        // States go where they went before, and nothing else is touched.
        let done = set(&text, "a", TaskState::Failed);
        assert_eq!(super::parse(&done).unwrap().tasks[1], plan.tasks[1], "{done}");
        let again = parse(&written("P", &plan.tasks)).unwrap();
        assert_eq!(again.tasks, plan.tasks);
    }
    // Any other list is the author's, as before.
    for list in ["- retries: 5\n- and so on\n", "- agent: x\n", "- time: noon\n"] {
        let plan = plan(&format!("# P\n\n{list}\n## Task a: x\n"));
        assert_eq!(
            (plan.intro.as_str(), plan.tasks[0].policy),
            (list.trim_end(), Policy::default())
        );
    }
    let told = problems(
        "# P\n- retries: many\n- on failure: cry\n\n## Task a: x\n- time limit: soon\n- time limt: 3m\n",
    );
    let expected = [
        "line 2: retries \"many\", expected a number up to 100",
        "line 3: on failure \"cry\", expected stop, ask or continue",
        "line 6: task a: time limit \"soon\", expected a time such as 45m or 1h 30m",
        "line 7: task a: there is no field \"time limt\": did you mean `time limit`?",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_long_chain_and_a_long_circle_are_no_trouble() {
    let chain = |last: &str| -> String {
        let on = |at: usize| if at == 0 { last.to_owned() } else { format!("t{}", at - 1) };
        (0..MOST_TASKS)
            .map(|at| format!("- [ ] t{at}: x (depends on: {})\n", on(at)))
            .collect::<Vec<String>>()
            .concat()
    };
    assert_eq!(plan(&chain("none")).tasks.len(), MOST_TASKS);
    let told = problems(&chain("t9999"));
    assert!(told.len() == 1 && told[0].contains("t0 → t9999 → t9998"), "{told:?}");
    assert!(told[0].ends_with("… → t0"), "{told:?}");
}

#[test]
fn a_written_plan_reads_back() {
    let tasks = plan(SECTIONS).tasks;
    let again = plan(&written("The plan", &tasks));
    assert_eq!((again.title.as_str(), &again.tasks), ("The plan", &tasks));
    let wild = TaskSpec {
        id: "w".to_owned(),
        title: "wild".to_owned(),
        body: "# Big\n\n```\nopen".to_owned(),
        verify: Some(Verify::Text("echo `x` ".to_owned())),
        ..TaskSpec::default()
    };
    let again = plan(&written("t", &[wild.clone(), tasks[2].clone()]));
    assert_eq!(again.tasks[0].verify, wild.verify);
    assert_eq!(again.tasks[0].body, "### Big\n\n```\nopen\n```");
    assert_eq!(again.tasks[1], tasks[2]);
}

#[test]
fn a_plan_is_found_in_what_an_agent_says() {
    let inner = "# Fix it\n\n## Task a: One\n\n```rust\nfn x() {}\n```\n\n## Task b: Two\n- depends on: a\n";
    for text in [
        inner.to_owned(),
        format!("Sure! Here is the plan:\n\n{inner}"),
        format!("Sure:\n\n```markdown\n{inner}```\n"),
        format!("Sure:\n\n````md\n{inner}````\n\nSay if it is good.\n"),
        format!("```\n{inner}"),
    ] {
        let plan = from_agent(&text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
        let ids: Vec<&str> = plan.tasks.iter().map(|task| task.id.as_str()).collect();
        assert_eq!((plan.title.as_str(), ids), ("Fix it", vec!["a", "b"]), "{text}");
        assert_eq!((plan.intro.as_str(), &plan.tasks[1].depends_on), ("", &vec!["a".to_owned()]));
    }
    assert!(from_agent("I cannot do that.").is_err());
}

#[test]
fn html_within_html_hides_no_more_than_the_parser_says() {
    // The declaration is ended by the text that a written plan needs; the line within it begins nothing.
    let text = "## Task t0: Title\n### Deep\n<!D\n  ```\n<?\n## Task t4: Title";
    let plan = parse(text).unwrap();
    assert_eq!(plan.tasks.len(), 1);
    let again = parse(&written(&plan.title, &plan.tasks)).unwrap();
    assert_eq!(again.tasks.len(), 1, "{again:?}");
    // In code, in a comment that is ended, and in an item, such a line is text.
    for (text, ids) in [
        ("```\n<!--\n```\n## Task A: One\n<!--\n## Task B: Two", &["A", "B"][..]),
        ("<!--\n<?\n## Task A: One\n-->\n## Task B: Two", &["B"]),
        ("<?\n<!D\n## Task A: One\n?>\n## Task B: Two", &["B"]),
        ("- [ ] A: One\n  <!--\n- [ ] B: Two", &["A", "B"]),
    ] {
        let plan = parse(text).unwrap();
        let found: Vec<&str> = plan.tasks.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(found, ids, "{text:?}");
    }
}

#[test]
fn many_beginnings_without_an_end_cost_no_more_than_a_few() {
    let lines = 40_000;
    for text in ["<!--\n".repeat(lines), format!("```\n{}```\n", "<?\n".repeat(lines))] {
        let begun = std::time::Instant::now();
        assert!(parse(&format!("## Task A: One\n{text}\n## Task B: Two")).is_ok());
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}

#[test]
fn html_that_nobody_ends_hides_no_task() {
    for html in [
        "<ScRiPt>",
        "<script>x</ScRiPt>",
        "<STYLE>",
        "<pre>",
        "<!--",
        "<?",
        "<?php",
        "<!D",
        "<![CDATA[",
    ] {
        let text =
            format!("## Task A: One\n\n{html}\n\n## Task B: Two\n\nx\n{html}\n## Task C: Three\n");
        let plan = plan(&text);
        let ids: Vec<&str> = plan.tasks.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(ids, ["A", "B", "C"], "{html}");
        assert_eq!(plan.tasks[0].body, html);
        let done = set(&text, "B", TaskState::Completed);
        assert_eq!(parse(&done).unwrap().tasks.len(), 3, "{done}");
    }
    let text = "## Task A: One\n\n<script>\n\n## Task B: </script>\n\nx </script>\n";
    assert_eq!(plan(text).tasks.len(), 2, "what a heading says ends nothing");
    // What is ended hides what stands in it.
    let text = "## Task A: One\n\n<!--\n## Task B: Two\n-->\n\n<PRE>\n\n## Task C: Three\n\n</PRE>\n\n## Task D: Four\n";
    let ids: Vec<String> = plan(text).tasks.into_iter().map(|task| task.id).collect();
    assert_eq!(ids, ["A", "D"]);
}

#[test]
fn a_misspelt_field_is_told_with_its_line_and_what_was_meant() {
    for (name, meant) in [
        ("verfy", "verify"),
        ("depends", "depends on"),
        ("dependson", "depends on"),
        ("depend_on", "depends on"),
        ("**exepct**", "expect"),
        ("reviewer", "review"),
        ("agents", "agent"),
        ("sate", "state"),
    ] {
        let shown = name.trim_matches('*');
        let wrong = format!("task a: there is no field {shown:?}: did you mean `{meant}`?");
        let section = problems(&format!("# P\n\n## Task a: x\n- agent: codex\n- {name}: y\n"));
        assert_eq!(section, [format!("line 5: {wrong}")]);
        let nested = problems(&format!("- [ ] a: x\n  - {name}: y\n"));
        assert_eq!(nested, [format!("line 2: {wrong}")]);
        let inline = problems(&format!("- [ ] a: x (agent: codex; {name}: y)\n"));
        assert_eq!(inline, [format!("line 1: {wrong}")]);
    }
    // Whatever else is in a list belongs to the text.
    let text =
        "## Task a: x\n- owner: me\n- note: y\n- see also: z\n- [ ] verfy: w\n\nverfy: later\n";
    assert!(plan(text).tasks[0].body.contains("- note: y"));
}

#[test]
fn the_parser_takes_what_is_taught() {
    let taught = fields();
    let lines: Vec<&str> = taught.lines().collect();
    assert_eq!(lines.len(), 11);
    let only: Vec<&str> = lines.iter().map(|line| line.split(" (").next().unwrap()).collect();
    let text = format!("## Task T0: a\n\n## Task T2: b\n\n## Task T3: c\n{}\n", only.join("\n"));
    let task = plan(&text).tasks.remove(2);
    assert_eq!((task.depends_on, task.body.as_str()), (vec!["T0".into(), "T2".into()], ""));
    assert_eq!(task.verify, Some(Verify::Text("COMMAND".to_owned())));
    assert!(task.agent.is_some() && task.review.is_some());
    assert_eq!(task.approve.as_deref(), Some("is the change good to go out?"));
    assert_eq!((task.model.as_deref(), task.effort.as_deref()), (Some("NAME"), Some("high")));
    let policy =
        Policy { retries: Some(3), seconds: Some(5_400), on_failure: Some(OnFailure::Ask) };
    assert_eq!(task.policy, policy);
}

/// What HTML without an end hides when a plan is read stays hidden when it is written anew.
#[test]
fn a_plan_with_html_that_nobody_ends_gains_no_task() {
    let text = "## Task t0: Title\n### Deep\n<!D\n  ```\n<?\n## Task t4: Title";
    for text in [text.to_owned(), format!("{text}\n"), text.replace('\n', "\r\n")] {
        let plan = parse(&text).unwrap();
        let again = written(&plan.title, &plan.tasks);
        let tasks = parse(&again).unwrap().tasks;
        let ids = |tasks: &[TaskSpec]| tasks.iter().map(|task| task.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&tasks), ids(&plan.tasks), "{text:?} {again:?}");
    }
}
