//! Makes the store that later versions are tested with: `cargo run -p rethread-store --example fixture`.
//!
//! To be run once for each version of the schema, before it is released. It writes to
//! `tests/fixtures/stores/v<VERSION>/` and does nothing where that is there already.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A tool of the tests.

#[path = "../tests/stores/described.rs"]
mod described;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use futures::executor::block_on;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::message::{Extras, NewMessage, Usage};
use rethread_domain::opening::{How, Opening, Settings, Underway, Watermark};
use rethread_domain::summary::{Author, Point, Summary};
use rethread_domain::turn::{Permission, Tool, Update};
use rethread_domain::{Fact, Role, SessionId, Status};
use rethread_store::{Append, Grant, Store, StoreUrl, open};
use rethread_testkit::{Texts, assistant, at, beginning, tool, user};

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let (expected, schema) = block_on(async {
        let store = open(&StoreUrl::Sqlite(path.clone())).await.unwrap();
        fill(&store).await;
        while store.index(u32::MAX).await.unwrap() > 0 {}
        store.compact().await.unwrap();
        let schema = store.usage().await.unwrap().schema;
        (described::described(&*store).await, schema)
    });
    let target =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/stores/v{schema}"));
    if target.exists() {
        return;
    }
    fs::create_dir_all(&target).unwrap();
    // The store is closed: everything is in its one file.
    fs::copy(&path, target.join("store.db")).unwrap();
    let expected = serde_json::to_string_pretty(&expected).unwrap();
    fs::write(target.join("expected.json"), expected + "\n").unwrap();
}

/// The same ids every time.
fn id(number: u32) -> SessionId {
    format!("01990000-0000-7000-8000-{number:012}").parse().unwrap()
}

async fn fill(store: &Arc<dyn Store>) {
    let first = id(1);
    store.start(first, beginning(), at(0)).await.unwrap();
    add(store, first, talk()).await;
    store.purge(first, 3, at(30)).await.unwrap();
    store.fork(first, 5, id(2), at(40)).await.unwrap();
    let on = NewMessage { at: at(41), ..user("We go on here, in the fork.") };
    add(store, id(2), vec![on, NewMessage { at: at(42), ..assistant("Gladly.") }]).await;
    store.fork(id(2), 6, id(3), at(50)).await.unwrap();
    change(
        store,
        id(3),
        Fact::Titled { title: "A fork of a fork".into(), from: TitleFrom::Person },
    )
    .await;
    change(
        store,
        first,
        Fact::Summarised { conversation: Some("main".into()), summary: summary() },
    )
    .await;
    change(store, first, Fact::Summarised { conversation: None, summary: summary() }).await;
    change(store, first, Fact::Moved { to: Status::Paused }).await;
    for (number, fact) in [(4, Fact::Moved { to: Status::Archived }), (5, Fact::Deleted)] {
        store.start(id(number), beginning(), at(60)).await.unwrap();
        add(store, id(number), vec![user("Something else.")]).await;
        change(store, id(number), fact).await;
    }
    // The source of this one is gone for good.
    store.start(id(6), beginning(), at(70)).await.unwrap();
    add(store, id(6), vec![user("It is kept for its fork."), user("It is not.")]).await;
    store.fork(id(6), 1, id(7), at(71)).await.unwrap();
    store.erase(id(6)).await.unwrap();
    converse(store, id(8)).await;
}

/// A conversation with an agent that was opened once: one turn has ended, one has not.
async fn converse(store: &Arc<dyn Store>, session: SessionId) {
    store.start(session, beginning(), at(80)).await.unwrap();
    let attached = Opening {
        conversation: "main".into(),
        agent: "codex".into(),
        how: How::Retold,
        why: Some("session_gone".into()),
        ms: 120,
        native: None,
    };
    let append = Append { facts: vec![Fact::Attached(attached)], ..request(session, 81) };
    store.append(append).await.unwrap();
    let answer = NewMessage { at: at(82), ..assistant("It is fixed.") };
    let ends = Append {
        ends: Some("main".into()),
        holds: Some(watermark()),
        ..Append::new(session, vec![answer])
    };
    store.append(ends).await.unwrap();
    store.append(request(session, 83)).await.unwrap();
    let updates = (84..).map(at).zip(updates()).collect();
    store.stream(session, "main", updates).await.unwrap();
    let grant = Grant {
        user: "anna".into(),
        project: "/shop".into(),
        agent: "codex".into(),
        what: "execute: cargo test".into(),
        allowed: true,
    };
    store.grant(grant, at(90)).await.unwrap();
}

fn request(session: SessionId, minute: i64) -> Append {
    let begins = Underway {
        conversation: "main".into(),
        agent: "codex".into(),
        model: Some("gpt-5".into()),
        request: 0,
        watermark: Some(watermark()),
        keeps_request: None,
    };
    let asked = NewMessage { at: at(minute), ..user("Please fix the total of the cart.") };
    Append { begins: Some(begins), ..Append::new(session, vec![asked]) }
}

fn watermark() -> Watermark {
    Watermark {
        conversation: "main".into(),
        agent: "codex".into(),
        native: "native-1".into(),
        upto: 0,
        beyond: Vec::new(),
        messages: 0,
        in_doubt: None,
        left_at: None,
        settings: Settings {
            model: Some("gpt-5".into()),
            mode: Some("plan".into()),
            options: [("effort".to_owned(), "high".to_owned())].into(),
        },
        spent_usd: Some(0.25),
    }
}

/// One of every kind.
fn updates() -> Vec<Update> {
    let raw = serde_json::json!({"later": [1, null]});
    vec![
        Update::Thought { text: "Where is it?".into() },
        Update::Text { text: "I look.".into() },
        Update::Tool(Tool {
            id: "call-1".into(),
            title: Some("cargo test".into()),
            kind: Some("execute".into()),
            status: Some("completed".into()),
            output: Some("ok\n".into()),
            raw: raw.as_object().unwrap().clone(),
        }),
        Update::Permission(Permission {
            tool: "call-1".into(),
            title: "cargo test".into(),
            kind: "execute".into(),
            answer: "allow_always".into(),
            by: "user".into(),
        }),
        Update::Plan { entries: serde_json::json!([{"content": "look", "status": "completed"}]) },
        Update::Usage { input_tokens: 12, output_tokens: 3 },
        Update::Context { used: 900, size: 200_000, spent_usd: Some(0.5) },
        Update::Title { title: "The total of the cart".into() },
        Update::Mode { mode: "code".into() },
        Update::Other { raw },
    ]
}

fn talk() -> Vec<NewMessage> {
    let usage = Usage { input_tokens: 120, output_tokens: 30, cost_usd: Some(0.0125) };
    let mut extras = Extras {
        agent: Some("codex".into()),
        model: Some("gpt-5".into()),
        usage: Some(usage),
        tool_calls: Some(serde_json::json!([{"name": "read_file"}])),
        ..Extras::default()
    };
    extras.other.insert("later".into(), serde_json::json!({"unknown": [1, null]}));
    let review = |message: NewMessage| NewMessage { conversation: "review".into(), ..message };
    vec![
        NewMessage {
            id: Some("turn-1".into()),
            ..user("Which library do we use for the database?")
        },
        NewMessage {
            extras,
            at: at(1),
            ..assistant("We decided on better-sqlite3 because it is fast.")
        },
        NewMessage { at: at(2), ..user("The password is hunter2xyzzy.") },
        review(NewMessage { at: at(3), ..user("数据库连接失败, what's wrong with C++?") }),
        review(NewMessage { at: at(4), ..tool(&Texts::new(9).text(40_000)) }),
        NewMessage { at: at(5), ..user("Thank you.") },
    ]
}

fn summary() -> Summary {
    let text = "We decided on better-sqlite3 because it is fast.".to_owned();
    let point = Point { seq: 2, at: at(1), role: Role::Assistant, text: text.clone(), weight: 3.5 };
    Summary { by: Author::Rules, upto: 2, folded: 2, text, points: vec![point] }
}

async fn add(store: &Arc<dyn Store>, session: SessionId, messages: Vec<NewMessage>) {
    store.append(Append::new(session, messages)).await.unwrap();
}

async fn change(store: &Arc<dyn Store>, session: SessionId, fact: Fact) {
    let before = store.session(session).await.unwrap();
    store.change(&before, fact, at(80)).await.unwrap();
}
