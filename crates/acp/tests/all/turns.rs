//! An agent that behaves: sessions, turns, permissions, settings.

use futures::StreamExt;
use futures::channel::mpsc;
use rethread_acp::probe;
use rethread_domain::turn::{Permission, Update};
use rethread_engine::agents::{Block, OpenRequest, Settings};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::world::{TestPermissions, WATCHDOG, World, answer, say, say_all, say_until, text};

#[tokio::test]
async fn a_turn_is_passed_on_in_order() {
    let world = World::new(&[]);
    let mut agent = world.open().await;
    assert_eq!(answer(&mut *agent, "say: hello").await, "hello");
    let (ended, updates) = say(&mut *agent, "stream: 2000").await;
    assert_eq!(ended.unwrap().stop, "end_turn");
    let words: Vec<String> = (1..=2000).map(|n| format!("word{n}")).collect();
    assert_eq!(text(&updates).trim(), words.join(" "));
    for (prompt, expected) in
        [("think: hm", "Thought"), ("tool: grep", "Tool"), ("plan: A, B", "Plan")]
    {
        let (_, updates) = say(&mut *agent, prompt).await;
        let shown = format!("{updates:?}");
        assert!(shown.contains(expected), "{prompt}: {shown}");
    }
    assert!(!agent.is_gone());
    agent.end().await;
}

#[tokio::test]
async fn unknown_updates_are_kept_and_titles_are_passed_on() {
    let world = World::new(&["--echo", "--updates-after-end"]);
    let mut agent = world.open().await;
    let (_, updates) = say(&mut *agent, "unknown update").await;
    assert!(updates.iter().any(|update| matches!(update, Update::Other { .. })), "{updates:?}");
    let (_, updates) = say(&mut *agent, "title: T").await;
    assert!(updates.contains(&Update::Title { title: "T".to_owned() }), "{updates:?}");
    for _ in 0..20 {
        // Neither an echo nor what comes after the end is part of it.
        let mut agent = world.open().await;
        assert_eq!(answer(&mut *agent, "say: x").await, "x");
    }
}

#[tokio::test]
async fn a_session_outlives_the_process() {
    let memory = tempfile::TempDir::new().unwrap();
    let memory = memory.path().to_str().unwrap();
    let world = World::new(&["--memory", memory, "--load", "--resume"]);
    let mut agent = world.start().await;
    let native = agent.open(OpenRequest::New).await.unwrap().native;
    answer(&mut *agent, "remember PASSKEY-tulip").await;
    agent.end().await;

    let mut agent = world.start().await;
    assert!(agent.abilities().load && agent.abilities().resume);
    let opened = agent.open(OpenRequest::Load(&native)).await.unwrap();
    assert_eq!(opened.native, native);
    let said: Vec<_> = opened.replayed.said.iter().map(|one| (one.is_user, &*one.text)).collect();
    assert_eq!(said, [(true, "remember PASSKEY-tulip"), (false, "ACK: I was told 1 message")]);
    assert!(opened.replayed.updates >= 2);
    assert_eq!(answer(&mut *agent, "what was the passkey").await, "The passkey is PASSKEY-tulip");

    let late = World::new(&["--memory", memory, "--load", "--replay", "late"]);
    let mut agent = late.start().await;
    let opened = agent.open(OpenRequest::Load(&native)).await.unwrap();
    assert_eq!(opened.replayed.said[0].text, "remember PASSKEY-tulip");
    assert_eq!(answer(&mut *agent, "say: no echo").await, "no echo");

    let mut agent = world.start().await;
    let opened = agent.open(OpenRequest::Resume(&native)).await.unwrap();
    assert_eq!(opened.replayed.updates, 0);
    assert_eq!(answer(&mut *agent, "what was the passkey").await, "The passkey is PASSKEY-tulip");
}

#[tokio::test]
async fn what_an_agent_cannot_do_is_not_asked_of_it() {
    let world = World::new(&[]);
    let mut agent = world.start().await;
    assert_eq!(agent.open(OpenRequest::Load("x")).await.unwrap_err().name(), "unsupported");
    assert_eq!(agent.open(OpenRequest::Resume("x")).await.unwrap_err().name(), "unsupported");
    let (ended, _) = say(&mut *agent, "say: x").await;
    assert_eq!(ended.unwrap_err().name(), "nonsense");
    agent.open(OpenRequest::New).await.unwrap();
    assert_eq!(answer(&mut *agent, "say: x").await, "x");
}

#[tokio::test]
async fn a_document_is_embedded_only_where_the_agent_takes_and_keeps_it() {
    for (flags, embeds, kind) in [
        (&[][..], false, "text"),
        (&[][..], true, "resource"),
        (&["--no-embedded"][..], true, "text"),
    ] {
        let mut world = World::new(flags);
        world.launcher.entry.quirks.embeds = embeds;
        let mut agent = world.open().await;
        let uri = "rethread://x".to_owned();
        let document = Block::Document { uri, text: "# before".to_owned() };
        let (ended, updates) = say_all(
            &mut *agent,
            vec![document, Block::Text("told?".to_owned())],
            &CancellationToken::new(),
        )
        .await;
        ended.unwrap();
        let told: Value = serde_json::from_str(&text(&updates)).unwrap();
        assert_eq!((&told[0]["kind"], &told[0]["text"]), (&kind.into(), &"# before".into()));
    }
}

#[tokio::test]
async fn the_folder_is_where_the_agent_works() {
    let world = World::new(&[]);
    let mut agent = world.open().await;
    let folder = world.folder.path().canonicalize().unwrap().display().to_string();
    assert_eq!(answer(&mut *agent, "process cwd?").await, folder);
    assert_eq!(answer(&mut *agent, "cwd?").await, world.folder.path().display().to_string());
}

#[tokio::test]
async fn our_secrets_stay_with_us() {
    let mut world = World::new(&[]);
    world.launcher.environment.push(("MODEL_KEY".into(), "hidden-heron".into()));
    world.launcher.environment.push(("HARMLESS".into(), "yes".into()));
    world.launcher.withheld = vec!["MODEL_KEY".into()];
    world.launcher.entry.env.insert("ADDED".to_owned(), "too".to_owned());
    let mut agent = world.open().await;
    for (name, expected) in
        [("RETHREAD_TOKEN", "unset"), ("MODEL_KEY", "unset"), ("HARMLESS", "yes"), ("ADDED", "too")]
    {
        assert_eq!(answer(&mut *agent, &format!("env: {name}")).await, expected, "{name}");
    }
    let run = answer(&mut *agent, "run: env").await;
    assert!(run.contains("HARMLESS=yes") && !run.contains("hidden-heron"), "{run}");
}

#[tokio::test]
async fn a_question_goes_to_the_desk_and_the_answer_is_written_down() {
    for (choose, said, written) in [
        ("allow_once", "allowed", "allow_once"),
        ("reject_once", "rejected", "reject_once"),
        ("none", "cancelled", "cancelled"),
    ] {
        let mut world = World::new(&[]);
        let permissions = TestPermissions { choose: Some(choose), ..TestPermissions::default() };
        world.permissions = std::sync::Arc::new(permissions);
        let mut agent = world.open().await;
        let (_, updates) = say(&mut *agent, "ask: remove it").await;
        assert!(text(&updates).contains(said), "{updates:?}");
        let asked = world.permissions.asked.lock().unwrap().clone();
        assert_eq!((asked.len(), asked[0].intent.headline().as_str()), (1, "remove it"));
        let answers: Vec<&Permission> = updates
            .iter()
            .filter_map(|update| match update {
                Update::Permission(permission) => Some(permission),
                _ => None,
            })
            .collect();
        assert_eq!(answers.len(), 1);
        assert_eq!((answers[0].answer.as_str(), answers[0].title.as_str()), (written, "remove it"));
    }
}

#[tokio::test]
async fn a_cancel_ends_the_turn_and_nothing_else() {
    let world = World::new(&[]);
    let mut agent = world.open().await;
    let cancel = CancellationToken::new();
    let (sender, updates) = mpsc::channel(1);
    let mut updates = updates.fuse();
    let block = Block::Text("stream: 1000000".to_owned());
    let prompt = agent.prompt(vec![block], sender, cancel.clone());
    let stop = async {
        updates.next().await;
        cancel.cancel();
        updates.collect::<Vec<_>>().await
    };
    let both = async { tokio::join!(prompt, stop) };
    let (ended, _) = tokio::time::timeout(WATCHDOG, both).await.unwrap();
    assert_eq!(ended.unwrap().stop, "cancelled");
    assert_eq!(answer(&mut *agent, "say: b").await, "b");
}

#[tokio::test]
async fn a_cancel_before_the_prompt_ends_the_turn() {
    let world = World::new(&["--load", "--resume"]);
    let mut agent = world.open().await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let (ended, _) = say_until(&mut *agent, "hang", &cancel).await;
    assert_eq!(ended.unwrap().stop, "cancelled");
    assert_eq!(answer(&mut *agent, "say: b").await, "b");
}

#[tokio::test]
async fn a_cancel_answers_what_the_agent_asks() {
    let mut world = World::new(&[]);
    world.permissions = std::sync::Arc::new(TestPermissions::default());
    let mut agent = world.open().await;
    let cancel = CancellationToken::new();
    let stop = async {
        world.permissions.bell.notified().await;
        cancel.cancel();
    };
    let asked = say_until(&mut *agent, "ask: may I", &cancel);
    let ((ended, updates), ()) = tokio::join!(asked, stop);
    assert_eq!(ended.unwrap().stop, "cancelled");
    let answered = updates.iter().any(
        |update| matches!(update, Update::Permission(permission) if permission.answer == "cancelled"),
    );
    assert!(answered, "{updates:?}");
}

#[tokio::test]
async fn settings_are_set_and_unknown_ones_are_told() {
    let world = World::new(&[]);
    let mut agent = world.open().await;
    let now = answer(&mut *agent, "mode?").await;
    let wanted = |mode: &str, model: &str| Settings {
        mode: Some(mode.to_owned()),
        model: Some(model.to_owned()),
        ..Settings::default()
    };
    agent.set(&wanted("plan", "large")).await.unwrap();
    assert_eq!(answer(&mut *agent, "mode?").await, "mode plan model large");
    agent.set(&wanted("code", "small")).await.unwrap();
    assert_eq!(answer(&mut *agent, "mode?").await, now);
    let unknown = Settings { mode: Some("no-such-mode".to_owned()), ..Settings::default() };
    assert_eq!(agent.set(&unknown).await.unwrap_err().name(), "unsupported");
    let unknown = Settings { model: Some("no-such-model".to_owned()), ..Settings::default() };
    assert_eq!(agent.set(&unknown).await.unwrap_err().name(), "unsupported");
    agent.set(&Settings::default()).await.unwrap();
}

#[tokio::test]
async fn what_an_agent_changes_by_itself_between_turns_is_reported() {
    let initialized = r#"{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":1,"agentCapabilities":
        {"sessionCapabilities":{"list":{}}}}}"#;
    let initialized = initialized.replace('\n', "") + "\n";
    let update = |update: &str| {
        let params = format!(r#"{{"sessionId":"s","update":{update}}}"#);
        format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#)
    };
    let options =
        r#"[{"id":"allow_all","currentValue":"on"},{"id":"web","currentValue":false},{"id":7},5]"#;
    let said = [
        r#"{"jsonrpc":"2.0","id":$ID,"result":{"stopReason":"end_turn"}}"#.to_owned(),
        update(r#"{"sessionUpdate":"current_mode_update","currentModeId":"yolo"}"#),
        update(&format!(r#"{{"sessionUpdate":"config_option_update","configOptions":{options}}}"#)),
        String::new(),
    ];
    let said = said.join("\n");
    let world = World::scripted(&[
        ("initialize", initialized.as_bytes()),
        ("session/prompt", said.as_bytes()),
    ]);
    let mut agent = world.open().await;
    assert_eq!(agent.reported().await, Settings::default());
    let (ended, _) = say(&mut *agent, "hello").await;
    assert_eq!(ended.unwrap().stop, "end_turn");
    // The answer to this comes after all that was said before.
    assert_eq!(agent.changed_at("s").await, None);
    let reported = agent.reported().await;
    assert_eq!(reported.mode.as_deref(), Some("yolo"));
    let options: Vec<(&str, &str)> =
        reported.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(options, [("allow_all", "on"), ("web", "false")]);
}

#[tokio::test]
async fn an_agent_can_be_asked_what_it_can_do() {
    let mut world = World::new(&["--load", "--list"]);
    world.launcher.entry.quirks.embeds = true;
    let abilities = probe(&world.launcher, world.folder.path()).await.unwrap();
    assert!(abilities.load && abilities.list && !abilities.resume && abilities.embedded);
    assert!(abilities.name.is_some() && abilities.version.is_some(), "{abilities:?}");
}
