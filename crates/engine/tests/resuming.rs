//! Resuming a session, through the use cases and a real store.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

use std::path::Path;
use std::process::Command;

use futures::executor::block_on;
use jiff::Timestamp;
use rethread_domain::context::Limits;
use rethread_domain::retell::{Part, Reason};
use rethread_domain::session::{Beginning, Move};
use rethread_domain::summary::{Author, Summary};
use rethread_domain::{Fact, Role, SessionId, Status, quote, tokens};
use rethread_engine::{Clock, ContextOptions, Engine, Error, Pruning, Recorder, entry};
use rethread_store::{Append, StoreUrl};
use rethread_testkit::{TestStore, assistant, at, beginning, user};

fn now() -> Timestamp {
    "2026-11-15T21:38:00Z".parse().unwrap()
}

/// An engine on a store of its own, and a session about the folder it is in.
fn session() -> (tempfile::TempDir, Engine, SessionId) {
    let dir = tempfile::tempdir().unwrap();
    let url = StoreUrl::Sqlite(dir.path().join("s.db"));
    let engine = Engine::new(block_on(rethread_store::open(&url)).unwrap(), Clock::Fixed(now()));
    let beginning = Beginning {
        kind: "debug".into(),
        agent: Some("claude".into()),
        ..Beginning::new("anna", dir.path().display().to_string())
    };
    let id = block_on(engine.start(beginning)).unwrap().id;
    (dir, engine, id)
}

fn say(engine: &Engine, id: SessionId, lines: impl IntoIterator<Item = String>) {
    let mut recorder = block_on(Recorder::open(engine, id, Pruning::default())).unwrap();
    let messages =
        lines.into_iter().map(|line| entry::parse(line.as_bytes(), now(), u64::MAX).unwrap());
    block_on(recorder.record(messages.collect())).unwrap();
    block_on(recorder.finish()).unwrap();
}

fn said(role: &str, content: &str) -> String {
    serde_json::json!({"role": role, "content": content}).to_string()
}

fn talk(count: u32) -> impl Iterator<Item = String> {
    (1..=count).map(|number| {
        let role = if number % 2 == 1 { "user" } else { "assistant" };
        said(
            role,
            &format!("Step {number}: we decided to look at handler_{number} because it fails."),
        )
    })
}

fn git(folder: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.org",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(arguments)
        .output()
        .unwrap();
    assert!(done.status.success(), "git {arguments:?}");
}

#[test]
fn a_context_tells_what_was_committed_meanwhile() {
    let (dir, engine, id) = session();
    git(dir.path(), &["init", "-q"]);
    git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "first"]);
    say(&engine, id, [said("user", "login.rs rotates the cookie too early")]);
    let before = block_on(engine.context(id, &ContextOptions::default())).unwrap();
    assert!(!before.context.contains("Changes in the repository"), "{}", before.context);

    git(dir.path(), &["checkout", "-q", "-b", "fix"]);
    std::fs::create_dir(dir.path().join("src")).unwrap();
    for file in ["src/login.rs", "src/other.rs"] {
        std::fs::write(dir.path().join(file), "x").unwrap();
    }
    git(dir.path(), &["add", "src"]);
    git(dir.path(), &["commit", "-q", "-m", "Rotate later\u{1b}[31m\n\nbody"]);
    let after = block_on(engine.context(id, &ContextOptions::default())).unwrap();
    for part in [
        "## Changes in the repository since then",
        "> branch: fix (was main)",
        "> commits since then: 1",
        "Rotate later",
        "> changed files that this session talked about: src/login.rs\n",
    ] {
        assert!(after.context.contains(part), "{part}: {}", after.context);
    }
    assert!(!after.context.contains('\u{1b}'));
    assert!(tokens::count(&after.context) <= after.token_count && after.token_count <= 10_000);
}

#[test]
fn a_margin_is_kept_back() {
    let (_dir, engine, id) = session();
    say(&engine, id, talk(60));
    let limits = Limits { tokens: 1000, messages: 60, conversations: 3 };
    let context = |margin| {
        block_on(
            engine.context(id, &ContextOptions { limits, prompt: None, margin, explain: false }),
        )
        .unwrap()
        .token_count
    };
    assert!(context(0.0) > 800 && context(0.0) <= 1000);
    assert!(context(0.5) > 350 && context(0.5) <= 500);
}

#[test]
fn the_metadata_is_that_of_the_specification() {
    let (_dir, engine, id) = session();
    say(&engine, id, [
        said("user", "one"),
        r#"{"role":"assistant","content":"two","usage":{"input_tokens":10,"output_tokens":5,"cost_usd":0.1}}"#.into(),
        r#"{"role":"tool","content":"three"}"#.into(),
        r#"{"role":"assistant","content":"four","usage":{"input_tokens":20,"output_tokens":5,"cost_usd":0.2}}"#.into(),
        r#"{"role":"user","content":"five","conversation":"other"}"#.into(),
        r#"{"role":"assistant","content":"six","agent":"codex","conversation":"other"}"#.into(),
    ]);
    let context = block_on(engine.context(id, &ContextOptions::default())).unwrap();
    let found = serde_json::to_value(&context.metadata).unwrap();
    let expected = serde_json::json!({
        "conversation_count": 2,
        "message_count": 6,
        "total_tokens": 6,
        "agent_interaction_count": 2,
        "recent_agents": [{"name": "claude", "usage_count": 1}, {"name": "codex", "usage_count": 1}],
        "costs": {"total_cost_usd": 0.3, "total_input_tokens": 30, "total_output_tokens": 10},
        "resumed_at": "2026-11-15T21:38:00Z",
        "included": {"conversations": 2, "messages": 6, "tokens": found["included"]["tokens"]},
        "omitted": {"messages": 0},
    });
    assert_eq!(found, expected);
}

#[test]
fn pruning_folds_old_messages_and_loses_none() {
    let (_dir, engine, id) = session();
    say(&engine, id, talk(40));
    let pruned = block_on(engine.prune(id, 10)).unwrap();
    assert_eq!((pruned.messages, pruned.conversations), (30, 1));
    let conversation = &block_on(engine.conversations(id)).unwrap()[0];
    assert_eq!(conversation.summarised_upto(), 30);
    assert_eq!(block_on(engine.session(id)).unwrap().last_seq, 40);
    let limits = Limits { tokens: 700, messages: 3, conversations: 3 };
    let options = ContextOptions { limits, prompt: None, margin: 0.0, explain: false };
    let context = block_on(engine.context(id, &options)).unwrap().context;
    assert!(context.contains("> 2026-11-15 user: Step 1: we decided"), "{context}");
    assert_eq!(block_on(engine.prune(id, 10)).unwrap().messages, 0, "nothing is folded twice");
}

#[test]
fn pruning_happens_by_itself_past_the_threshold() {
    let (_dir, engine, id) = session();
    say(&engine, id, talk(200));
    assert_eq!(block_on(engine.conversations(id)).unwrap()[0].summarised_upto(), 0);
    say(&engine, id, talk(1));
    assert_eq!(block_on(engine.conversations(id)).unwrap()[0].summarised_upto(), 151);
}

#[test]
fn what_cannot_be_resumed_is_refused_by_name() {
    let (_dir, engine, id) = session();
    let context = |limits| {
        block_on(engine.context(id, &ContextOptions { limits, ..ContextOptions::default() }))
    };
    assert!(matches!(context(Limits { tokens: 0, ..Limits::default() }), Err(Error::Limit(_))));
    block_on(engine.shift(id, Move::Archive)).unwrap();
    assert!(!block_on(engine.can_resume(id)).unwrap());
    assert!(matches!(context(Limits::default()), Err(Error::Refused(_))));
    let unarchived = block_on(engine.shift(id, Move::Unarchive)).unwrap();
    assert_eq!(unarchived.status(), Status::Paused);
    let unknown = block_on(engine.context(SessionId::generate(), &ContextOptions::default()));
    assert!(matches!(unknown, Err(Error::NotFound(_))));
}

#[test]
fn with_the_next_prompt_what_it_needs_comes_from_anywhere() {
    let (_dir, engine, id) = session();
    let mut lines: Vec<String> = talk(400).collect();
    lines[20] = said("user", "Remember: the staging passkey is heron-42.");
    say(&engine, id, lines);
    let limits = Limits { tokens: 1500, messages: 5, conversations: 1 };
    let context = |prompt: Option<&str>| {
        let options = ContextOptions {
            limits,
            prompt: prompt.map(str::to_owned),
            margin: 0.0,
            explain: false,
        };
        block_on(engine.context(id, &options)).unwrap().context
    };
    assert!(
        !context(None).contains("\n> Remember:"),
        "a summary may tell it, the message is not there"
    );
    let told = context(Some("What was the passkey for staging?"));
    assert!(told.contains("\n> Remember: the staging passkey is heron-42.\n"), "{told}");
    assert!(told.contains("On 2026-11-15:"), "{told}");
    assert!(told.contains("Step 400"), "the last message is there as well");
}

#[test]
fn an_explanation_says_why_each_piece_is_there_and_what_it_costs() {
    let (_dir, engine, id) = session();
    let mut lines: Vec<String> = talk(400).collect();
    lines[20] = said("user", "Remember: the staging passkey is heron-42.");
    say(&engine, id, lines);
    let limits = Limits { tokens: 1500, messages: 5, conversations: 1 };
    let prompt = Some("What was the passkey for staging?".to_owned());
    let options = ContextOptions { limits, prompt, explain: true, ..ContextOptions::default() };
    let made = block_on(engine.context(id, &options)).unwrap();
    let unexplained = ContextOptions { explain: false, ..options };
    let plain = block_on(engine.context(id, &unexplained)).unwrap();
    assert_eq!((made.context, made.token_count), (plain.context, plain.token_count));
    assert_eq!(plain.explanation, None);
    let explanation = made.explanation.unwrap();
    let tokens: u32 = explanation.pieces.iter().map(|piece| piece.tokens).sum();
    assert_eq!(tokens, made.token_count, "the pieces are all there is");
    let found = explanation.pieces.iter().find(|piece| piece.seq == Some(21)).unwrap();
    assert_eq!(found.part, Part::Earlier);
    let price = tokens::count(&quote::quoted("Remember: the staging passkey is heron-42."));
    assert_eq!((found.tokens, found.role), (price, Some(Role::User)));
    let words = |reason: &Reason| matches!(reason, Reason::Words { words } if words.contains(&"passkey".to_owned()));
    assert!(found.why.iter().any(words), "{found:?}");
    let last = explanation.pieces.last().unwrap();
    assert_eq!((last.part, last.seq), (Part::Recent, Some(400)));
    assert_eq!(last.why, [Reason::Newest]);
    assert!(!explanation.nearly.is_empty());
    assert!(explanation.nearly.iter().all(|piece| {
        piece.why.last().is_some_and(|why| matches!(why, Reason::NoRoom | Reason::MessageShare))
    }));
}

#[test]
fn a_prompt_that_names_nothing_asks_for_what_is_open() {
    let (_dir, engine, id) = session();
    let filler =
        |n: usize| said("assistant", &format!("Looked at module number {n}, nothing odd there."));
    let mut lines: Vec<String> = (0..120).map(filler).collect();
    lines[60] = said(
        "tool",
        "$ make check\nerror: undefined symbol frobnicate in linker stage\nexit code 2",
    );
    lines[70] =
        said("tool", "$ make docs\nerror: missing page about bicycles in the manual\nexit code 2");
    lines[75] =
        said("tool", "$ make docs\nthe page about bicycles in the manual is built\nexit code 0");
    lines[80] = said("assistant", "The importer for old archives remains to be written.");
    say(&engine, id, lines);
    let limits = Limits { tokens: 900, messages: 6, conversations: 1 };
    let context = |prompt: &str| {
        let prompt = Some(prompt.to_owned());
        let options = ContextOptions { limits, prompt, ..ContextOptions::default() };
        block_on(engine.context(id, &options)).unwrap().context
    };
    for prompt in ["go on with what was failing", "продолжай, что там с ошибкой?", "l'errore?"]
    {
        let told = context(prompt);
        assert!(told.contains("frobnicate"), "{prompt}: {told}");
        let (open, done) = (told.find("frobnicate"), told.find("missing page about bicycles"));
        assert!(open.is_some() && done.is_none_or(|at| told[at..].contains("[...]")), "{told}");
    }
    for prompt in ["continue", "what's next?", "continua", "继续", "weiter bitte"] {
        let told = context(prompt);
        assert!(told.contains("The importer for old archives remains"), "{prompt}: {told}");
        assert!(told.contains("module number 119"), "{prompt}: {told}");
    }
}

#[test]
fn commands_that_worked_are_told_from_those_that_did_not() {
    let (_dir, engine, id) = session();
    let mut lines: Vec<String> = talk(60).collect();
    lines[10] = said("tool", "$ ./deploy staging\nconnection refused\nexit code 1");
    lines[20] = said("tool", "$ ./deploy staging --tunnel\nall five services are up\nexit code 0");
    lines[59] = said("tool", "$ ls missing\nexit code 2");
    say(&engine, id, lines);
    let limits = Limits { tokens: 1200, messages: 3, conversations: 1 };
    let prompt = Some("how was deploy to staging run?".to_owned());
    let options = ContextOptions { limits, prompt, ..ContextOptions::default() };
    let made = block_on(engine.context(id, &options)).unwrap();
    let told = &made.context;
    assert!(told.contains("Tool (failed):\n> $ ./deploy staging\n"), "{told}");
    assert!(told.contains("Tool (worked):\n> $ ./deploy staging --tunnel\n"), "{told}");
    assert!(told.contains("UTC, failed):\n> $ ls missing"), "{told}");
    assert_eq!(made.token_count, tokens::count(told));
}

#[test]
fn of_several_statements_about_a_thing_the_latest_is_marked() {
    let (_dir, engine, id) = session();
    let mut lines: Vec<String> = talk(60).collect();
    let port = |port: u32, more: &str| {
        said(
            "user",
            &format!(
                "The preview server of the shop listens on port {port} behind the proxy{more}."
            ),
        )
    };
    lines[10] = port(5173, " on my laptop");
    lines[30] = port(8080, ", moved by Anna yesterday");
    say(&engine, id, lines);
    let limits = Limits { tokens: 1200, messages: 3, conversations: 1 };
    let prompt = Some("on which port does the preview server listen?".to_owned());
    let options = ContextOptions { limits, prompt, ..ContextOptions::default() };
    let told = block_on(engine.context(id, &options)).unwrap().context;
    assert!(
        told.contains("[earlier]\n\n> The preview server of the shop listens on port 5173"),
        "{told}"
    );
    assert!(
        told.contains("[now]\n\n> The preview server of the shop listens on port 8080"),
        "{told}"
    );
}

#[test]
fn a_recent_message_that_finds_no_place_is_told_when_the_prompt_needs_it() {
    let (_dir, engine, id) = session();
    let long = "Nothing of interest happened in this round of the long run. ".repeat(8);
    let mut lines: Vec<String> = (0..30).map(|_| said("assistant", &long)).collect();
    lines[14] = said("user", "The rollout must not touch us-east before Monday.");
    say(&engine, id, lines);
    let limits = Limits { tokens: 900, messages: 20, conversations: 1 };
    let context = |prompt: Option<&str>| {
        let options = ContextOptions {
            limits,
            prompt: prompt.map(str::to_owned),
            margin: 0.0,
            explain: false,
        };
        block_on(engine.context(id, &options)).unwrap().context
    };
    let rule = "\n> The rollout must not touch us-east before Monday.\n";
    assert!(!context(None).contains(rule), "it is among the last 20, but they do not all fit");
    assert!(context(Some("When may the rollout touch us-east?")).contains(rule));
}

#[test]
fn what_was_deleted_is_erased_by_itself_after_thirty_days() {
    let (dir, engine, id) = session();
    say(&engine, id, talk(3));
    block_on(engine.delete(id)).unwrap();
    let later = |days: i64| {
        let url = StoreUrl::Sqlite(dir.path().join("s.db"));
        let now = now() + jiff::SignedDuration::from_hours(24 * days);
        Engine::new(block_on(rethread_store::open(&url)).unwrap(), Clock::Fixed(now))
    };
    for (days, is_there) in [(29, true), (31, false)] {
        let engine = later(days);
        block_on(engine.tidy(jiff::SignedDuration::from_mins(5))).unwrap();
        assert_eq!(block_on(engine.session(id)).is_ok(), is_there, "after {days} days");
    }
}

/// What an older version wrote without knowing that there is a secret in it: nothing is marked.
#[test]
fn what_was_written_under_older_rules_leaves_without_what_they_recognise_now() {
    block_on(async {
        let store = TestStore::sqlite().await;
        let key = format!("rtk_{}", "0a1b2c3d".repeat(8));
        let long = format!("{} {key} {}", "a ".repeat(40_000), "b ".repeat(40_000));
        let id = store.start(SessionId::generate(), beginning(), at(0)).await.unwrap().id;
        let mut messages = vec![user(&format!("my token is {key}")), assistant(&long)];
        messages.extend((0..3).map(|_| assistant(&format!("It ends with {key}"))));
        let text = format!("- the token is {key}");
        let (by, upto) = (Author::Rules, 1);
        let summary = Summary { by, upto, folded: 1, text, points: Vec::new() };
        let facts = [None, Some("main".to_owned())]
            .map(|conversation| Fact::Summarised { conversation, summary: summary.clone() });
        store.append(Append::new(id, messages)).await.unwrap();
        store.append(Append { facts: facts.into(), ..Append::new(id, vec![]) }).await.unwrap();
        for prompt in [None, Some("what is the token?")] {
            let limits = Limits { tokens: 200_000, ..Limits::default() };
            let options = ContextOptions {
                limits,
                prompt: prompt.map(Into::into),
                ..ContextOptions::default()
            };
            let made = store.engine().context(id, &options).await.unwrap();
            assert!(!made.context.contains("0a1b2c3d"), "{}", made.context);
            assert!(made.context.matches("[redacted: rethread token]").count() > 4);
            assert_eq!(made.token_count, tokens::count(&made.context));
        }
    });
}
