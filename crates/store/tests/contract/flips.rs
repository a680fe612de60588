//! A bit that flips in the file of a store is told, or changes nothing that is shown.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use futures::executor::block_on;
use rethread_domain::access::{Pass, Role as AccessRole, Token, TokenId};
use rethread_domain::message::{Extras, NewMessage, Usage};
use rethread_domain::search::Filter;
use rethread_domain::{Fact, SessionId};
use rethread_store::{
    Grant, ListFilter, Search, Span, Store, StoreUrl, UsageFilter, WorkflowFilter, open,
};
use rethread_testkit::{TestStore, Texts, assistant, at, tool, try_context, user};
use rethread_workflow::{Event, TaskSpec, WorkflowId};

use crate::talks::{beginning, ending, text};
use crate::workflows::charter;

const FLIPS: u64 = 2_000;
const QUERIES: [&str; 4] = ["basket", "login", "\"survive a login\"", "rev*"];

/// What the store holds that is asked for by name.
struct Known {
    sessions: Vec<SessionId>,
    workflow: WorkflowId,
}

/// A small store with something of everything.
async fn filled(store: &TestStore) -> Known {
    let usage = Usage { input_tokens: 5, output_tokens: 7, cost_usd: Some(0.5) };
    let extras = Extras { agent: Some("codex".into()), usage: Some(usage), ..Extras::default() };
    let id = store.begin().await;
    let messages = vec![
        NewMessage { id: Some("first".into()), ..user("The basket has to survive a login") },
        NewMessage { extras, at: at(9), ..assistant("Done: it is kept in cents, and merged.") },
        NewMessage { conversation: "review".into(), ..user("Review the login once more") },
        tool(&Texts::new(6).text(40_000)),
    ];
    store.add(id, messages).await.unwrap();
    store.append(beginning(id, "main", "Another request about the basket")).await.unwrap();
    store.stream(id, "main", vec![(at(2), text("Part of "))]).await.unwrap();
    store.append(ending(id, "main", "Part of an answer")).await.unwrap();
    store.append(beginning(id, "main", "What comes next?")).await.unwrap();
    store.stream(id, "main", vec![(at(2), text("Half a word"))]).await.unwrap();
    let fork = store.fork(id, 3, SessionId::generate(), at(60)).await.unwrap().id;
    store.add(fork, vec![user("Go on from the login")]).await.unwrap();
    let gone = store.begin().await;
    store.add(gone, vec![user("Deleted"), user("purged")]).await.unwrap();
    store.purge(gone, 2, at(70)).await.unwrap();
    store.note(gone, Fact::Deleted).await;
    let workflow = WorkflowId::generate();
    let spec = |n: u32| TaskSpec { id: format!("T{n}"), ..TaskSpec::default() };
    let events = vec![
        Event::Created(charter("anna", "/work")),
        Event::Planned { tasks: (1..4).map(spec).collect() },
        Event::TaskBegan { task: "T1".into(), attempt: 1, session: id, agent: "codex".into() },
    ];
    store.create_workflow(workflow, events, at(1)).await.unwrap();
    let grant = Grant {
        user: "anna".into(),
        project: "/work".into(),
        agent: "codex".into(),
        what: "execute: ls".into(),
        allowed: true,
    };
    store.grant(grant, at(1)).await.unwrap();
    store.create_token(token(), "secret").await.unwrap();
    store.index_all().await;
    Known { sessions: vec![id, fork, gone], workflow }
}

fn token() -> Token {
    Token {
        id: TokenId::generate(),
        name: "laptop".into(),
        role: AccessRole::Read,
        user: "anna".into(),
        pass: Pass::Token,
        created_at: at(0),
        expires_at: None,
        revoked_at: None,
        used_at: None,
        parent: None,
    }
}

/// Everything that is shown, by name: as text, or that it was told to be damaged.
type Shown = BTreeMap<String, Result<String, String>>;

fn told<T: Debug>(result: rethread_store::Result<T>) -> Result<String, String> {
    result.map(|shown| format!("{shown:?}")).map_err(|error| error.to_string())
}

/// What is shown of each session by itself.
async fn shown_of_sessions(store: &Arc<dyn Store>, known: &Known, all: &mut Shown) {
    for (n, id) in known.sessions.iter().enumerate() {
        all.insert(format!("session {n}"), told(store.session(*id).await));
        all.insert(format!("conversations {n}"), told(store.conversations(*id).await));
        all.insert(format!("agents {n}"), told(store.agents(*id).await));
        all.insert(format!("holding {n}"), told(store.watermark(*id, "main", "codex").await));
        all.insert(format!("begun {n}"), told(store.begun(*id, "main").await));
        for prompt in [None, Some("what about the basket?")] {
            let context = try_context(store, *id, prompt).await;
            all.insert(format!("context {n} {prompt:?}"), context);
        }
        for (how, messages) in [
            ("messages", store.messages(*id, Span::after(1, 100)).await),
            ("heads", store.heads(*id, Span::newest(100)).await),
        ] {
            match messages {
                Ok(messages) => {
                    for message in messages {
                        let text = format!("{message:?}");
                        let text = if message.is_damaged() { Err(text) } else { Ok(text) };
                        all.insert(format!("{how} {n} {}", message.seq), text);
                    }
                }
                Err(error) => drop(all.insert(format!("{how} {n}"), Err(error.to_string()))),
            }
        }
        match store.facts(*id).await {
            Ok(facts) => {
                for (no, fact) in facts.iter().enumerate() {
                    let text = format!("{fact:?}");
                    let text = if text.contains("damaged") { Err(text) } else { Ok(text) };
                    all.insert(format!("fact {n} {no}"), text);
                }
            }
            Err(error) => drop(all.insert(format!("facts {n}"), Err(error.to_string()))),
        }
    }
}

async fn shown(store: &Arc<dyn Store>, known: &Known) -> Shown {
    let mut all = Shown::new();
    for deleted in [false, true] {
        let filter = ListFilter { deleted, limit: 50, ..ListFilter::default() };
        all.insert(format!("list {deleted}"), told(store.list(&filter).await));
    }
    shown_of_sessions(store, known, &mut all).await;
    for query in QUERIES {
        let hits =
            store.search(&Search::new(query, Filter::default(), 20)).await.map(|found| found.hits);
        all.insert(format!("search {query}"), told(hits));
    }
    let filter = WorkflowFilter { limit: 10, ..WorkflowFilter::default() };
    all.insert("workflows".into(), told(store.workflows(&filter).await));
    all.insert("workflow".into(), told(store.workflow(known.workflow).await));
    let events = store.workflow_events(known.workflow, 0).await;
    let events =
        told(events).and_then(|text| if text.contains("damaged") { Err(text) } else { Ok(text) });
    all.insert("events".into(), events);
    let feed = told(store.feed(0, None, 100).await);
    let feed = feed.and_then(|text| if text.contains("Damaged") { Err(text) } else { Ok(text) });
    all.insert("feed".into(), feed);
    let days = UsageFilter {
        from: jiff::civil::date(1970, 1, 1),
        to: jiff::civil::date(2100, 1, 1),
        user: None,
        project: None,
        agent: None,
    };
    all.insert("usage".into(), told(store.usage_by_day(&days).await));
    all.insert("openings".into(), told(store.openings(None).await));
    all.insert("grants".into(), told(store.grants().await));
    all.insert("tokens".into(), told(store.tokens().await));
    all
}

/// What the store says of its own health; nothing where it is well.
async fn complaints(store: &Arc<dyn Store>) -> Vec<String> {
    match store.check().await {
        Ok(health) => {
            let records = health.records.iter().map(ToString::to_string);
            records.chain(health.damage).chain(health.drift).collect()
        }
        Err(error) => vec![error.to_string()],
    }
}

/// Names of what is a text of its own: it is never shown other than it was, told or not.
fn is_record(name: &str) -> bool {
    ["messages ", "heads ", "fact ", "session "].iter().any(|kind| name.starts_with(kind))
}

/// Opens a store with one flipped bit; gives what is wrong with how it takes that.
async fn verdict(path: &Path, known: &Known, before: &Shown) -> Result<(), String> {
    let Ok(store) = open(&StoreUrl::Sqlite(path.to_owned())).await else { return Ok(()) };
    let after = shown(&store, known).await;
    let names = before.keys().chain(after.keys());
    let differs: Vec<&String> =
        names.filter(|name| before.get(*name) != after.get(*name)).collect();
    if differs.is_empty() {
        return Ok(());
    }
    for name in &differs {
        if let (true, Some(Ok(text))) = (is_record(name), after.get(*name)) {
            return Err(format!("{name} is altered: {text}\nwas: {:?}", before.get(*name)));
        }
    }
    if complaints(&store).await.is_empty() {
        let name = differs[0];
        return Err(format!(
            "{name} differs and nothing is reported: {:?}\nwas: {:?}",
            after.get(name),
            before.get(name)
        ));
    }
    Ok(())
}

/// A sequence of numbers that a seed gives.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 16
}

#[test]
#[expect(clippy::print_stdout, reason = "a run that fails can be repeated with its seed")]
fn a_flipped_bit_is_reported_or_changes_nothing_that_is_shown() {
    block_on(async {
        let store = TestStore::sqlite().await;
        let known = filled(&store).await;
        store.expect_sound().await;
        let copy = store.beside("copy.db");
        store.backup(&copy).await.unwrap();
        let bytes = std::fs::read(&copy).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flipped.db");
        std::fs::write(&path, &bytes).unwrap();
        let opened = open(&StoreUrl::Sqlite(path.clone())).await.unwrap();
        let before = shown(&opened, &known).await;
        assert_eq!(complaints(&opened).await, Vec::<String>::new());
        drop(opened);
        let is_whole =
            |(name, shown): (&String, &Result<String, String>)| !is_record(name) || shown.is_ok();
        assert!(before.iter().all(is_whole), "{before:?}");
        let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let mut state = std::env::var_os("FLIP_SEED").map_or_else(
            || u64::try_from(seed.as_micros()).unwrap(),
            |seed| seed.to_str().unwrap().parse().unwrap(),
        );
        println!("FLIP_SEED={state}");
        let mut wrong = Vec::new();
        for _ in 0..FLIPS {
            let place = next(&mut state) % (bytes.len() as u64 * 8);
            let (byte, bit) = (usize::try_from(place / 8).unwrap(), place % 8);
            let mut flipped = bytes.clone();
            flipped[byte] ^= 1 << bit;
            for suffix in ["-wal", "-shm"] {
                drop(std::fs::remove_file(folder.path().join(format!("flipped.db{suffix}"))));
            }
            std::fs::write(&path, &flipped).unwrap();
            if let Err(why) = verdict(&path, &known, &before).await {
                wrong.push(format!("bit {bit} of byte {byte} (page {}): {why}", byte / 4096 + 1));
            }
        }
        assert!(wrong.is_empty(), "{} of {FLIPS}:\n{}", wrong.len(), wrong.join("\n\n"));
    });
}
