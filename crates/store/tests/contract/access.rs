//! Tokens, links and keys: each secret lets in whom it should, and nothing happens twice.

use std::process::{Command, Stdio};

use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp};
use rethread_domain::access::{Pass, Role, Token, TokenId};
use rethread_store::{Error, ReservedId, Store, StoreUrl, open};
use rethread_testkit::{TestStore, at};
use uuid::Uuid;

use crate::on_each;

/// Names the store to a process that takes part in a race.
const RACE_IN: &str = "RETHREAD_TEST_RACE_IN";
const RACERS: usize = 4;
const ROUNDS: usize = 10;

fn days(count: i64) -> Timestamp {
    at(0) + SignedDuration::from_hours(24 * count)
}

fn token(name: &str) -> Token {
    Token {
        id: TokenId::generate(),
        name: name.to_owned(),
        role: Role::Write,
        user: "anna".to_owned(),
        pass: Pass::Token,
        created_at: at(0),
        expires_at: None,
        revoked_at: None,
        used_at: None,
        parent: None,
    }
}

fn link(name: &str) -> Token {
    Token { pass: Pass::Link, expires_at: Some(at(10)), ..token(name) }
}

async fn create(store: &dyn Store, token: Token, secret: &str) -> Token {
    store.create_token(token, secret).await.unwrap()
}

#[test]
fn a_token_is_known_by_its_secret_which_is_nowhere() {
    on_each(async |store| {
        let made = create(&**store, token("ci"), "rtk_quite-secret").await;
        assert_eq!(store.token_by_secret("rtk_quite-secret").await.unwrap(), Some(made.clone()));
        assert_eq!(store.token_by_secret("rtk_quite-secre").await.unwrap(), None);
        assert_eq!(store.token_by_secret("").await.unwrap(), None);
        assert_eq!(store.token(&made.id).await.unwrap(), made);
        let other = create(&**store, token("other"), "another").await;
        assert_eq!(store.tokens().await.unwrap(), [other, made]);
        assert!(!store.holds("quite-secret"));
        assert!(store.create_token(token("twice"), "another").await.is_err());
    });
}

#[test]
fn revoking_ends_all_that_were_made_with_it_and_keeps_its_time() {
    on_each(async |store| {
        let parent = create(&**store, token("parent"), "1").await;
        let under = |of: &Token| Token { parent: Some(of.id.clone()), ..token("child") };
        let child = create(&**store, under(&parent), "2").await;
        let grandchild = create(&**store, under(&child), "3").await;
        let other = create(&**store, token("other"), "4").await;
        let revoked = store.revoke_token(&parent.id, at(5)).await.unwrap();
        assert_eq!(revoked, Token { revoked_at: Some(at(5)), ..parent.clone() });
        assert_eq!(store.revoke_token(&parent.id, at(9)).await.unwrap(), revoked);
        for ended in [&child, &grandchild] {
            assert_eq!(store.token(&ended.id).await.unwrap().revoked_at, Some(at(5)));
        }
        assert_eq!(store.token(&other.id).await.unwrap(), other);
        let late = store.create_token(under(&parent), "5").await;
        assert!(matches!(late, Err(Error::NoToken(id)) if id == parent.id));
        let missing = store.revoke_token(&TokenId::generate(), at(5)).await;
        assert!(matches!(missing, Err(Error::NoToken(_))));
    });
}

#[test]
fn a_token_does_not_outlive_its_parent() {
    on_each(async |store| {
        let parent = Token { expires_at: Some(at(60)), ..token("parent") };
        let parent = create(&**store, parent, "1").await;
        for (wanted, given) in [(None, at(60)), (Some(at(90)), at(60)), (Some(at(30)), at(30))] {
            let child =
                Token { parent: Some(parent.id.clone()), expires_at: wanted, ..token("child") };
            let secret = format!("{wanted:?}");
            let made = create(&**store, child, &secret).await;
            assert_eq!(made.expires_at, Some(given));
            assert_eq!(store.token_by_secret(&secret).await.unwrap(), Some(made));
        }
    });
}

#[test]
fn what_ended_long_ago_is_forgotten() {
    on_each(async |store| {
        let revoked = create(&**store, token("revoked"), "1").await;
        store.revoke_token(&revoked.id, days(1)).await.unwrap();
        create(&**store, Token { expires_at: Some(days(2)), ..token("expired") }, "2").await;
        create(&**store, token("good"), "3").await;
        let names = async || -> Vec<String> {
            store.tokens().await.unwrap().into_iter().map(|token| token.name).collect()
        };
        create(&**store, Token { created_at: days(31), ..token("later") }, "4").await;
        assert_eq!(names().await, ["later", "good", "expired", "revoked"]);
        create(&**store, Token { created_at: days(33), ..token("last") }, "5").await;
        assert_eq!(names().await, ["last", "later", "good"]);
    });
}

#[test]
fn when_it_was_used_never_goes_back() {
    on_each(async |store| {
        let id = create(&**store, token("ci"), "1").await.id;
        for (touched, used) in [(at(5), at(5)), (at(3), at(5)), (at(8), at(8))] {
            store.touch_token(&id, touched).await.unwrap();
            assert_eq!(store.token(&id).await.unwrap().used_at, Some(used));
        }
    });
}

#[test]
fn a_link_is_changed_once_for_what_it_says() {
    on_each(async |store| {
        let parent = create(&**store, token("parent"), "parent").await;
        let given = Token { role: Role::Read, parent: Some(parent.id.clone()), ..link("link") };
        create(&**store, given, "link").await;
        let wanted = Token { role: Role::Admin, user: "eve".into(), ..token("browser") };
        let new = store.redeem("link", wanted.clone(), "new", at(5)).await.unwrap().unwrap();
        let expected = Token {
            role: Role::Read,
            user: "anna".into(),
            pass: Pass::Browser,
            parent: Some(parent.id.clone()),
            created_at: at(5),
            ..wanted
        };
        assert_eq!(new, expected);
        assert_eq!(store.token_by_secret("new").await.unwrap(), Some(new));
        assert_eq!(store.redeem("link", token("b"), "again", at(5)).await.unwrap(), None);
        assert_eq!(store.token_by_secret("again").await.unwrap(), None);
        let used = store.token_by_secret("link").await.unwrap().unwrap();
        assert_eq!((used.revoked_at, used.used_at), (Some(at(5)), Some(at(5))));
        store.revoke_token(&parent.id, at(6)).await.unwrap();
        assert!(!store.token_by_secret("new").await.unwrap().unwrap().is_valid(at(6)));
    });
}

#[test]
fn only_a_link_that_is_valid_is_changed() {
    on_each(async |store| {
        let parent = create(&**store, token("parent"), "parent").await;
        create(&**store, link("late"), "late").await;
        create(&**store, Token { parent: Some(parent.id.clone()), ..link("ended") }, "ended").await;
        store.revoke_token(&parent.id, at(1)).await.unwrap();
        create(&**store, token("no link"), "token").await;
        for (secret, now) in [("late", at(10)), ("ended", at(2)), ("token", at(2)), ("none", at(2))]
        {
            let redeemed = store.redeem(secret, token("browser"), "new", now).await.unwrap();
            assert_eq!(redeemed, None, "{secret}");
        }
        assert_eq!(store.token_by_secret("new").await.unwrap(), None);
        assert!(store.token_by_secret("token").await.unwrap().unwrap().is_valid(at(2)));
    });
}

#[test]
fn a_key_stands_for_one_request_for_seven_days() {
    on_each(async |store| {
        let (first, second) = (Uuid::now_v7(), Uuid::now_v7());
        let reserve = async |request: &[u8], id, at| store.reserve("key", request, id, at).await;
        let new = reserve(b"a", first, at(0)).await.unwrap();
        assert_eq!(new, ReservedId { id: first, is_new: true });
        let again = ReservedId { id: first, is_new: false };
        assert_eq!(reserve(b"a", second, days(7)).await.unwrap(), again);
        assert!(matches!(reserve(b"b", second, at(1)).await, Err(Error::KeyReused)));
        assert_eq!(reserve(b"a", second, at(1)).await.unwrap(), again);
        let other = store.reserve("other", b"b", second, at(1)).await.unwrap();
        assert_eq!(other, ReservedId { id: second, is_new: true });
        let third = Uuid::now_v7();
        let later = reserve(b"b", third, days(8)).await.unwrap();
        assert_eq!(later, ReservedId { id: third, is_new: true });
        let reopened = store.open_again().await;
        let kept = reopened.reserve("key", b"b", first, days(8)).await.unwrap();
        assert_eq!(kept, ReservedId { id: third, is_new: false });
    });
}

/// Tries to be the first, in every round; gives how often it was, and what it was told.
async fn race(store: &dyn Store) -> String {
    let mut told = Vec::new();
    for round in 0..ROUNDS {
        let (link, mine) = (format!("link {round}"), Uuid::now_v7());
        let won = store.redeem(&link, token("browser"), &mine.to_string(), at(1)).await.unwrap();
        let key = format!("key {round}");
        let reserved = store.reserve(&key, b"same", mine, at(1)).await.unwrap();
        told.push(format!("{} {} {}", won.is_some(), reserved.is_new, reserved.id));
    }
    told.join("\n")
}

/// Each round has one winner, and everybody was told the same id.
fn expect_one_winner(told: &[String]) {
    for round in 0..ROUNDS {
        let lines: Vec<Vec<&str>> =
            told.iter().map(|told| told.lines().nth(round).unwrap().split(' ').collect()).collect();
        for column in [0, 1] {
            let winners = lines.iter().filter(|line| line[column] == "true").count();
            assert_eq!(winners, 1, "round {round}: {lines:?}");
        }
        assert!(lines.iter().all(|line| line[2] == lines[0][2]), "round {round}: {lines:?}");
    }
}

async fn with_links() -> TestStore {
    let store = TestStore::sqlite().await;
    for round in 0..ROUNDS {
        create(&*store, link("link"), &format!("link {round}")).await;
    }
    store
}

/// By itself a test of one; with the variable set, one process of several.
#[test]
fn one_process_can_race() {
    block_on(async {
        if let Some(path) = std::env::var_os(RACE_IN) {
            let store = open(&StoreUrl::Sqlite(path.clone().into())).await.unwrap();
            let told = race(&*store).await;
            let file = format!("{}.{}.told", path.to_str().unwrap(), std::process::id());
            std::fs::write(file, told).unwrap();
        } else {
            let store = with_links().await;
            expect_one_winner(&[race(&*store).await]);
        }
    });
}

#[test]
fn of_several_processes_one_wins() {
    let store = block_on(with_links());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["access::one_process_can_race", "--exact", "--quiet"]).env(RACE_IN, store.file());
    command.stdout(Stdio::null());
    let racers: Vec<_> = (0..RACERS).map(|_| command.spawn().unwrap()).collect();
    let mut told = Vec::new();
    for mut racer in racers {
        let file = format!("{}.{}.told", store.file().display(), racer.id());
        assert!(racer.wait().unwrap().success());
        told.push(std::fs::read_to_string(file).unwrap());
    }
    expect_one_winner(&told);
}

#[test]
fn of_several_threads_one_wins() {
    let store = block_on(with_links());
    let url = store.url();
    let told: Vec<String> = std::thread::scope(|scope| {
        let start = || scope.spawn(|| block_on(async { race(&*open(url).await.unwrap()).await }));
        let racers: Vec<_> = (0..RACERS).map(|_| start()).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    expect_one_winner(&told);
}
