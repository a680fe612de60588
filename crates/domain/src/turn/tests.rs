//! What becomes of a turn, in whatever pieces it comes.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const BY: Speaker<'_> =
    Speaker { agent: "claude", model: None, conversation: "main", cost_usd: None };

fn messages_of(updates: Vec<Update>, end: End) -> Vec<NewMessage> {
    let mut turn = Turn::default();
    for (second, update) in (1..).zip(updates) {
        turn.take(update, Timestamp::from_second(second).unwrap());
    }
    turn.messages(&BY, &end, Timestamp::UNIX_EPOCH)
}

fn text(text: &str) -> Update {
    Update::Text { text: text.to_owned() }
}

fn tool(id: &str, title: Option<&str>, output: Option<&str>) -> Update {
    Update::Tool(Tool {
        id: id.to_owned(),
        title: title.map(str::to_owned),
        output: output.map(str::to_owned),
        ..Tool::default()
    })
}

fn shapes(messages: &[NewMessage]) -> Vec<(Role, &str)> {
    messages.iter().map(|message| (message.role, message.content.as_str())).collect()
}

fn done() -> End {
    End::Stopped("end_turn".to_owned())
}

#[test]
fn pieces_stand_in_the_order_in_which_they_began() {
    let messages = messages_of(
        vec![
            text("I "),
            text("look"),
            tool("1", Some("grep"), None),
            text("then"),
            tool("1", None, Some("found")),
        ],
        done(),
    );
    assert_eq!(
        shapes(&messages),
        [(Role::Assistant, "I look"), (Role::Tool, "grep\nfound"), (Role::Assistant, "then")]
    );
}

#[test]
fn what_a_tool_tells_anew_takes_the_place_of_what_it_told_before() {
    let mut turn = Turn::default();
    let mut grown = Vec::new();
    for number in 0..100 {
        let output = "x".repeat(1000);
        turn.take(tool("1", Some("watch"), Some(&output)), Timestamp::UNIX_EPOCH);
        grown.push(turn.bytes());
        assert_eq!(grown[number], grown[0], "{number}");
    }
    turn.take(text(&"y".repeat(1000)), Timestamp::UNIX_EPOCH);
    assert!(turn.bytes() >= grown[0] + 1000);
}

#[test]
fn thoughts_are_kept_beside_what_followed_them() {
    let thought = Update::Thought { text: "hm".to_owned() };
    let messages = messages_of(vec![text("a"), thought.clone(), text("b"), thought], done());
    assert_eq!(shapes(&messages).len(), 3);
    assert_eq!(messages[1].extras.other["thoughts"], "hm");
    assert_eq!(messages[2].content, "");
}

#[test]
fn an_interrupted_turn_is_marked_even_if_nothing_was_said() {
    let messages = messages_of(Vec::new(), End::Interrupted);
    assert_eq!(shapes(&messages), [(Role::Assistant, "")]);
    assert_eq!(messages[0].extras.other[INTERRUPTED], true);
    assert!(messages_of(Vec::new(), done()).is_empty());
}

#[test]
fn what_was_refused_is_listed() {
    let asked = |title: &str, answer: &str| {
        Update::Permission(Permission {
            tool: title.into(),
            title: title.into(),
            kind: "execute".into(),
            answer: answer.into(),
            by: "policy".into(),
        })
    };
    let mut turn = Turn::default();
    for (title, answer) in
        [("rm", "reject_once"), ("ls", "allow_once"), ("cp", "cancelled"), ("mv", "allow_always")]
    {
        turn.take(asked(title, answer), Timestamp::UNIX_EPOCH);
    }
    let refused: Vec<String> = turn.refused().into_iter().map(|asked| asked.title).collect();
    assert_eq!(refused, ["rm", "cp"]);
}

#[test]
fn a_permission_goes_with_its_tool_call() {
    let asked = Permission {
        tool: "1".into(),
        title: "rm".into(),
        kind: "execute".into(),
        answer: "reject_once".into(),
        by: "user".into(),
    };
    let messages = messages_of(vec![Update::Permission(asked)], done());
    assert_eq!(shapes(&messages), [(Role::Tool, "execute: rm")]);
    assert_eq!(messages[0].extras.other["permissions"][0]["answer"], "reject_once");
}

#[test]
fn unknown_updates_are_kept_up_to_a_bound() {
    let raw = |n: usize| Update::Other { raw: json!({ "x": "y".repeat(n) }) };
    let messages = messages_of(vec![text("a"), raw(10), raw(MOST_RAW_BYTES)], done());
    assert_eq!(messages[0].extras.other["updates"].as_array().unwrap().len(), 1);
    assert_eq!(messages[0].extras.other["updates_dropped"], 1);
}

fn update() -> impl Strategy<Value = Update> {
    let said = || "[a-c\n]{0,3}";
    let some = || prop::option::of("[a-c]{0,2}");
    let id = || select(&["1", "2"][..]);
    prop_oneof![
        4 => said().prop_map(|text| Update::Text { text }),
        3 => said().prop_map(|text| Update::Thought { text }),
        2 => (id(), some(), some(), some()).prop_map(|(id, title, status, output)| {
            Update::Tool(Tool { id: id.into(), title, status, output, ..Tool::default() })
        }),
        1 => id().prop_map(|tool| Update::Permission(Permission {
            tool: tool.into(),
            title: "rm".into(),
            kind: "execute".into(),
            answer: "allow_once".into(),
            by: "user".into(),
        })),
        1 => (0..9_u64).prop_map(|n| Update::Usage { input_tokens: n, output_tokens: n }),
        1 => (0..9_u64).prop_map(|used| Update::Context { used, size: 9, spent_usd: None }),
        1 => (0..9_u32).prop_map(|n| Update::Plan { entries: json!([n]) }),
        1 => (0..9_u32).prop_map(|n| Update::Other { raw: json!({ "new": n }) }),
        1 => said().prop_map(|title| Update::Title { title }),
        1 => said().prop_map(|mode| Update::Mode { mode }),
    ]
}

/// The updates in batches of these sizes, what belongs together in one piece, as they are written down.
fn joined(updates: &[(Timestamp, Update)], sizes: &[usize]) -> Vec<(Timestamp, Update)> {
    let mut rest = updates;
    let mut all = Vec::new();
    for size in sizes.iter().cycle() {
        let (batch, after) = rest.split_at(rest.len().min(*size));
        let mut written: Vec<(Timestamp, Update)> = Vec::new();
        for (at, update) in batch {
            if !written.last_mut().is_some_and(|(_, last)| last.join(update)) {
                written.push((*at, update.clone()));
            }
        }
        all.append(&mut written);
        rest = after;
        if rest.is_empty() {
            return all;
        }
    }
    all
}

/// Written down and read again.
fn kept(update: &Update) -> Update {
    serde_json::from_str(&serde_json::to_string(update).unwrap()).unwrap()
}

fn folded(updates: &[(Timestamp, Update)], end: &End) -> Vec<NewMessage> {
    let mut turn = Turn::default();
    for (at, update) in updates {
        turn.take(kept(update), *at);
    }
    turn.messages(&BY, end, Timestamp::UNIX_EPOCH)
}

fn timed(updates: Vec<Update>) -> Vec<(Timestamp, Update)> {
    (1..).map(|second| Timestamp::from_second(second).unwrap()).zip(updates).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn updates_that_were_joined_become_the_same_messages(
        updates in prop::collection::vec(update(), 0..40),
        sizes in prop::collection::vec(1..9_usize, 1..5),
    ) {
        let updates = timed(updates);
        let pieces = joined(&updates, &sizes);
        for end in [done(), End::Interrupted, End::Failed("no".into())] {
            prop_assert_eq!(folded(&pieces, &end), folded(&updates, &end));
        }
    }

    #[test]
    fn nothing_that_was_said_or_thought_is_lost_or_said_twice(
        updates in prop::collection::vec(update(), 0..40),
    ) {
        let (mut said, mut thought) = (String::new(), String::new());
        for update in &updates {
            match update {
                Update::Text { text } => said.push_str(text),
                Update::Thought { text } => thought.push_str(text),
                _ => (),
            }
        }
        for end in [done(), End::Interrupted] {
            let messages = folded(&timed(updates.clone()), &end);
            let answers = messages.iter().filter(|message| message.role == Role::Assistant);
            prop_assert_eq!(answers.map(|one| one.content.as_str()).collect::<String>(), said.as_str());
            let thoughts = messages.iter().filter_map(|one| one.extras.other.get("thoughts"));
            prop_assert_eq!(thoughts.filter_map(Value::as_str).collect::<String>(), thought.as_str());
        }
    }

    #[test]
    fn a_turn_that_nobody_ended_differs_by_its_mark_only(
        updates in prop::collection::vec(update(), 0..40),
    ) {
        let ended = folded(&timed(updates.clone()), &done());
        let mut cut = folded(&timed(updates), &End::Interrupted);
        let marked: Vec<bool> =
            cut.iter_mut().map(|one| one.extras.other.shift_remove(INTERRUPTED).is_some()).collect();
        prop_assert!(marked.iter().rev().copied().eq((0..cut.len()).map(|n| n == 0)));
        if ended.is_empty() {
            prop_assert_eq!(shapes(&cut), [(Role::Assistant, "")]);
        } else {
            prop_assert_eq!(cut, ended);
        }
    }
}
