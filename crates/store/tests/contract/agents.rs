//! What is known of agents beside what they said: openings, what they were allowed, and who has been quiet.

use rethread_domain::message::NewMessage;
use rethread_domain::opening::{How, Opening};
use rethread_domain::session::Beginning;
use rethread_domain::{Fact, SessionId, Status};
use rethread_store::{Append, Grant, OpeningCount};
use rethread_testkit::{TestStore, at, beginning, user};

use crate::on_each;
use crate::upkeep::dump;

fn attached(agent: &str, how: How, why: Option<&str>, ms: u64) -> Fact {
    Fact::Attached(Opening {
        conversation: "main".to_owned(),
        agent: agent.to_owned(),
        how,
        why: why.map(str::to_owned),
        ms,
        native: None,
    })
}

fn count(agent: &str, how: How, why: Option<&str>, numbers: (u64, u64, u64)) -> OpeningCount {
    let (count, median_ms, most_ms) = numbers;
    let why = why.map(str::to_owned);
    OpeningCount { agent: agent.to_owned(), how, why, count, median_ms, most_ms }
}

#[test]
fn openings_are_counted_by_agent_way_and_reason() {
    on_each(async |store| {
        assert_eq!(store.openings(None).await.unwrap(), []);
        let (id, other) = (store.begin().await, store.begin().await);
        let gone = Some("session_gone");
        for ms in [900, 5, 7] {
            store.note(id, attached("codex", How::Resumed, None, ms)).await;
        }
        for (session, fact) in [
            (other, attached("codex", How::Retold, gone, 30)),
            (id, attached("codex", How::Retold, None, 20)),
            (other, attached("codex", How::Retold, gone, 10)),
            (other, attached("claude", How::Resumed, None, 1)),
        ] {
            let append = Append { facts: vec![fact], ..Append::new(session, Vec::new()) };
            store.append(append).await.unwrap();
        }
        let expected = [
            count("claude", How::Resumed, None, (1, 1, 1)),
            count("codex", How::Resumed, None, (3, 7, 900)),
            count("codex", How::Retold, None, (1, 20, 20)),
            count("codex", How::Retold, gone, (2, 30, 30)),
        ];
        assert_eq!(store.openings(None).await.unwrap(), expected);
        store.rebuild().await.unwrap();
        assert_eq!(store.openings(None).await.unwrap(), expected);
        for target in TestStore::each().await {
            target.take_in(dump(store, id).await).await.unwrap();
            assert_eq!(target.openings(None).await.unwrap(), expected[1..3]);
        }
        store.erase(id).await.unwrap();
        assert_eq!(store.openings(None).await.unwrap(), [expected[0].clone(), expected[3].clone()]);
        store.expect_sound().await;
    });
}

#[test]
fn openings_are_counted_for_each_user_and_to_three_digits() {
    on_each(async |store| {
        let mut sessions = Vec::new();
        for user in ["anna", "ben"] {
            let id = SessionId::generate();
            let beginning = Beginning { user: user.to_owned(), ..beginning() };
            store.start(id, beginning, at(0)).await.unwrap();
            sessions.push(id);
        }
        for (session, ms) in [(0, 1_234), (0, 1_239), (0, 98_765), (1, 7)] {
            store.note(sessions[session], attached("codex", How::Loaded, None, ms)).await;
        }
        let loaded = |numbers| vec![count("codex", How::Loaded, None, numbers)];
        assert_eq!(store.openings(Some("anna")).await.unwrap(), loaded((3, 1_230, 98_700)));
        assert_eq!(store.openings(Some("ben")).await.unwrap(), loaded((1, 7, 7)));
        assert_eq!(store.openings(Some("carl")).await.unwrap(), []);
        assert_eq!(store.openings(None).await.unwrap(), loaded((4, 1_230, 98_700)));
        store.erase(sessions[0]).await.unwrap();
        assert_eq!(store.openings(Some("anna")).await.unwrap(), []);
        assert_eq!(store.openings(None).await.unwrap(), loaded((1, 7, 7)));
        store.expect_sound().await;
    });
}

#[test]
fn an_opening_of_a_newer_version_does_not_hide_the_others() {
    on_each(async |store| {
        let id = store.begin().await;
        let newer =
            r#"{"what":"attached","conversation":"main","agent":"codex","how":"beamed","ms":1}"#;
        let newer: Fact = serde_json::from_str(newer).unwrap();
        assert!(matches!(newer, Fact::Unknown(_)));
        store.note(id, newer).await;
        store.note(id, attached("codex", How::Fresh, None, 3)).await;
        let expected = [count("codex", How::Fresh, None, (1, 3, 3))];
        assert_eq!(store.openings(None).await.unwrap(), expected);
    });
}

fn grant(project: &str, what: &str, allowed: bool) -> Grant {
    Grant {
        user: "anna".to_owned(),
        project: project.to_owned(),
        agent: "codex".to_owned(),
        what: what.to_owned(),
        allowed,
    }
}

#[test]
fn what_was_decided_for_good_is_known_until_it_is_forgotten() {
    on_each(async |store| {
        let granted = async |user: &str, project: &str, agent: &str, what: &str| {
            store.granted(user, project, agent, what).await.unwrap()
        };
        assert_eq!(store.grants().await.unwrap(), []);
        for one in [
            grant("/shop", "edit", true),
            grant("/shop", "execute: rm", false),
            grant("/blog", "edit", true),
            // The last word counts.
            grant("/shop", "edit", false),
        ] {
            store.grant(one, at(1)).await.unwrap();
        }
        assert_eq!(granted("anna", "/shop", "codex", "edit").await, Some(false));
        assert_eq!(granted("anna", "/blog", "codex", "edit").await, Some(true));
        assert_eq!(granted("anna", "/shop", "codex", "execute: rm").await, Some(false));
        for (user, project, agent, what) in [
            ("bert", "/shop", "codex", "edit"),
            ("anna", "/shop/a", "codex", "edit"),
            ("anna", "/shop", "claude", "edit"),
            ("anna", "/shop", "codex", "execute"),
        ] {
            assert_eq!(granted(user, project, agent, what).await, None, "nobody said so");
        }
        let expected = [
            grant("/blog", "edit", true),
            grant("/shop", "edit", false),
            grant("/shop", "execute: rm", false),
        ];
        assert_eq!(store.open_again().await.grants().await.unwrap(), expected);
        assert_eq!(store.ungrant("/shop").await.unwrap(), 2);
        assert_eq!(store.ungrant("/shop").await.unwrap(), 0);
        assert_eq!(store.grants().await.unwrap(), expected[..1]);
        store.grant(grant("/blog", "exactly {}", true), at(1)).await.unwrap();
        assert_eq!(store.ungrant_unlike("claude", "exactly ").await.unwrap(), 0);
        assert_eq!(store.ungrant_unlike("codex", "exactly ").await.unwrap(), 1);
        assert_eq!(store.ungrant_unlike("codex", "exactly ").await.unwrap(), 0);
        assert_eq!(store.grants().await.unwrap(), [grant("/blog", "exactly {}", true)]);
    });
}

#[test]
fn active_sessions_in_which_nothing_was_said_for_a_while_are_quiet() {
    on_each(async |store| {
        let said = async |minute| -> SessionId {
            let id = store.begin().await;
            store.add(id, vec![NewMessage { at: at(minute), ..user("Hello.") }]).await.unwrap();
            id
        };
        let (first, second, third) = (said(10).await, said(20).await, said(30).await);
        for fact in [
            Fact::Moved { to: Status::Paused },
            Fact::Moved { to: Status::Completed },
            Fact::Moved { to: Status::Archived },
            Fact::Deleted,
        ] {
            let id = said(5).await;
            let before = store.session(id).await.unwrap();
            store.change(&before, fact, at(6)).await.unwrap();
        }
        let quiet = async |minute, limit| store.quiet_since(at(minute), limit).await.unwrap();
        assert_eq!(quiet(10, 9).await, []);
        assert_eq!(quiet(11, 9).await, [first]);
        assert_eq!(quiet(31, 9).await, [third, second, first]);
        assert_eq!(quiet(31, 2).await, [third, second]);
        store.add(first, vec![NewMessage { at: at(40), ..user("Still here.") }]).await.unwrap();
        assert_eq!(quiet(40, 9).await, [third, second]);
    });
}

#[test]
fn native_sessions_that_were_made_for_a_session_are_known_for_good() {
    on_each(async |store| {
        let (id, imported) = (store.begin().await, store.begin().await);
        let opened = |conversation: &str, how, native: Option<&str>| {
            let Fact::Attached(opening) = attached("codex", how, None, 1) else { unreachable!() };
            let (conversation, native) = (conversation.to_owned(), native.map(str::to_owned));
            Fact::Attached(Opening { conversation, native, ..opening })
        };
        for fact in [
            opened("main", How::Fresh, Some("n1")),
            opened("main", How::Retold, Some("n2")),
            opened("main", How::Untold, Some("n3")),
            opened("main", How::Resumed, Some("theirs")),
            opened("side", How::Fresh, Some("n4")),
            opened("main", How::Failed, None),
        ] {
            store.note(id, fact).await;
        }
        let came = |agent: &str| Fact::Imported {
            agent: agent.to_owned(),
            native: "theirs".to_owned(),
            branch: None,
            origin: None,
        };
        store.note(imported, came("claude")).await;
        let check = async |store: &TestStore| {
            let mut natives = store.opened_natives().await.unwrap();
            natives.sort();
            let expected = ["n1", "n2", "n3", "n4"];
            assert_eq!(natives, expected.map(|native| ("codex".into(), native.into(), id)));
            for native in expected {
                assert_eq!(store.holder_of("codex", native).await.unwrap(), Some(id), "{native}");
                assert_eq!(store.holder_of("claude", native).await.unwrap(), None, "{native}");
                let is_first = native == "n1";
                assert_eq!(
                    store.began_in(id, "codex", native).await.unwrap(),
                    is_first,
                    "{native}"
                );
            }
            assert_eq!(store.holder_of("codex", "theirs").await.unwrap(), None);
            assert!(!store.began_in(id, "claude", "theirs").await.unwrap());
            assert!(store.began_in(imported, "claude", "theirs").await.unwrap());
            assert_eq!(store.imported_from(id).await.unwrap(), None);
            assert_eq!(store.imported_from(imported).await.unwrap().as_deref(), Some("claude"));
            assert_eq!(store.imported_sessions().await.unwrap(), [imported].into());
        };
        check(store).await;
        store.rebuild().await.unwrap();
        check(store).await;
        store.expect_sound().await;
    });
}
