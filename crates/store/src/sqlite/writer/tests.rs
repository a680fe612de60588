//! A job that is refused has written nothing, wherever it was refused, and its neighbours in the batch go on.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures::executor::block_on;
use jiff::Timestamp;
use rethread_domain::message::{Extras, NewMessage};
use rethread_domain::opening::Underway;
use rethread_domain::price::Price;
use rethread_domain::session::{Beginning, FactRecord};
use rethread_domain::turn::Update;
use rethread_domain::{Fact, Role, SessionId, Status};
use rusqlite::functions::FunctionFlags;

use super::*;
use crate::purges::Purging;
use crate::sqlite::locks::Locks;
use crate::sqlite::{append, facts, folders, index, purges, rebuild, rows, schema, talks, upkeep};
use crate::types::{Append, Dump, Grant, Home};

type Work = Box<dyn Fn(&Connection) -> Result<()> + Send>;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + 60 * minute).unwrap()
}

fn said(role: Role, content: &str, conversation: &str) -> NewMessage {
    NewMessage {
        id: None,
        role,
        content: content.to_owned(),
        at: at(5),
        conversation: conversation.to_owned(),
        extras: Extras { agent: Some("codex".to_owned()), ..Extras::default() },
        price: Price { tokens: Some(3), ..Price::default() },
    }
}

fn beginning() -> Beginning {
    let json = r#"{"user":"anna","project":"/work","kind":"chat"}"#;
    serde_json::from_str(json).unwrap()
}

fn turn(conversation: &str) -> Underway {
    let json = format!(r#"{{"conversation":"{conversation}","agent":"codex","request":0}}"#);
    serde_json::from_str(&json).unwrap()
}

/// Everything that a writer is asked for, in an order in which each can be done.
fn jobs(path: &Path) -> Vec<(&'static str, Work)> {
    let [id, fork, other] = [(); 3].map(|()| SessionId::generate());
    let locks = Locks::of(path);
    let long = "a long text ".repeat(8_000);
    vec![
        ("start", work(move |it| facts::start(it, id, beginning(), at(0)).map(drop))),
        (
            "append",
            work(move |it| {
                let messages = vec![
                    said(Role::User, "request", "main"),
                    said(Role::Tool, &long, "main"),
                    said(Role::User, "elsewhere", "review"),
                ];
                append::append(it, Append::new(id, messages)).map(drop)
            }),
        ),
        (
            "begin a turn",
            work(move |it| {
                let mut request = Append::new(id, vec![said(Role::User, "go on", "main")]);
                request.begins = Some(turn("main"));
                append::append(it, request).map(drop)
            }),
        ),
        (
            "stream",
            work(move |it| {
                let update = |text: &str| (at(6), Update::Text { text: text.to_owned() });
                talks::stream(it, id, "main", &[update("an"), update("swer")])
            }),
        ),
        (
            "end a turn",
            work(move |it| {
                let mut answer = Append::new(id, vec![said(Role::Assistant, "answer", "main")]);
                answer.ends = Some("main".to_owned());
                append::append(it, answer).map(drop)
            }),
        ),
        (
            "change",
            work(move |it| {
                let facts = rows::session_by_id(it, id)?.session.facts;
                facts::change(it, id, facts, &Fact::Moved { to: Status::Paused }, at(7)).map(drop)
            }),
        ),
        ("index", work(|it| index::catch_up(it, 100).map(drop))),
        ("fork", work(move |it| facts::fork(it, id, 3, fork, at(8)).map(drop))),
        ("place", work(move |it| folders::write(it, rows::session_by_id(it, id)?.no, &home()))),
        ("grant", work(|it| talks::grant(it, &grant(), at(9)))),
        (
            "purge",
            work(move |it| purges::purge(it, &Purging { id, seq: 2, renames: vec![id] }, at(10))),
        ),
        ("take in", work(move |it| rebuild::take_in(it, log(other)).map(drop))),
        ("rebuild", work(rebuild::everything)),
        ("erase", work(move |it| upkeep::erase(it, &locks, &rows::session_by_id(it, id)?))),
    ]
}

fn work(job: impl Fn(&Connection) -> Result<()> + Send + 'static) -> Work {
    Box::new(job)
}

fn home() -> Home {
    let text = || "x".to_owned();
    Home {
        root: "/work".to_owned(),
        path: text(),
        seq: 1,
        last_id: text(),
        facts: 1,
        told: text(),
        log: text(),
        card: text(),
    }
}

fn grant() -> Grant {
    let text = || "x".to_owned();
    Grant { user: text(), project: text(), agent: text(), what: text(), allowed: true }
}

/// The log of a session from elsewhere.
fn log(id: SessionId) -> Dump {
    let fact = |fact| FactRecord { after: 0, at: at(0), fact };
    let opened = Fact::Opened { n: 1, name: "main".to_owned() };
    let messages = [said(Role::User, "taken in", "main"), said(Role::Tool, "too", "main")];
    Dump {
        id,
        facts: vec![fact(Fact::Started(beginning())), fact(opened)],
        messages: messages.into_iter().map(|message| (message, None)).collect(),
    }
}

fn tables(connection: &Connection) -> Vec<String> {
    let sql = "select name from sqlite_schema where type = 'table' and sql not like 'create virtual%' order by name";
    let mut statement = connection.prepare(sql).unwrap();
    let names = statement.query_map([], |row| row.get(0)).unwrap();
    names.collect::<rusqlite::Result<_>>().unwrap()
}

/// Everything in the store, but what the neighbour wrote.
fn everything(connection: &Connection) -> String {
    let mut all = String::new();
    for table in tables(connection) {
        let mut statement = connection.prepare(&format!("select * from {table}")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let line: Vec<_> = (0..columns).map(|n| format!("{:?}", row.get_ref(n))).collect();
            if !line[0].contains(&format!("{:?}", b"neighbour")) {
                writeln!(all, "{table}: {}", line.join(", ")).unwrap();
            }
        }
    }
    all
}

/// Refuses the write that brings the counter to zero, whichever table it goes to.
fn refuse(connection: &Connection, left: &Arc<AtomicI64>) {
    let left = Arc::clone(left);
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    connection
        .create_scalar_function("refused_here", 0, flags, move |_| {
            match left.fetch_sub(1, Ordering::SeqCst) {
                1 => Err(rusqlite::Error::UserFunctionError("refused by the test".into())),
                _ => Ok(0),
            }
        })
        .unwrap();
    for table in tables(connection) {
        // What belongs to the search index, and to SQLite, has no triggers.
        if ["_index_", "sqlite_"].iter().any(|part| table.contains(part)) {
            continue;
        }
        for when in ["insert", "update", "delete"] {
            connection
                .execute_batch(&format!(
                    "create temp trigger refuse_{table}_{when} before {when} on main.{table}
                     begin select refused_here(); end"
                ))
                .unwrap();
        }
    }
}

/// Runs a job and its neighbour in one batch; gives what the job answered.
fn batch(
    connection: &mut Connection,
    file: &mut Opened,
    job: Work,
    left: &Arc<AtomicI64>,
    number: i64,
) -> Result<()> {
    let (answer, answered) = oneshot::channel();
    let first = Task::new(job, answer);
    let (told, heard) = oneshot::channel();
    let left = Arc::clone(left);
    let neighbour = move |it: &Connection| -> Result<()> {
        left.store(0, Ordering::SeqCst);
        let sql = "insert or replace into meta (name, value) values ('neighbour', ?1)";
        it.execute(sql, [number])?;
        Ok(())
    };
    let second = Task::new(neighbour, told);
    commit(connection, file, vec![Box::new(first), Box::new(second)]);
    block_on(heard).unwrap().unwrap();
    let sql = "select value from meta where name = 'neighbour'";
    let value: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(value, number);
    block_on(answered).unwrap()
}

#[test]
fn a_job_that_is_refused_anywhere_has_written_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    connection::create(&path).unwrap();
    schema::migrate(&path, schema::STEPS).unwrap();
    let mut connection = connection::writer(&path).unwrap();
    let mut file = Opened::of(&path).unwrap();
    let left = Arc::new(AtomicI64::new(0));
    refuse(&connection, &left);
    let mut number = 0;
    let count = jobs(&path).len();
    let mut all = jobs(&path).into_iter();
    for _ in 0..count {
        let (name, job) = all.next().unwrap();
        let job = Arc::new(std::sync::Mutex::new(job));
        let mut places = 0;
        loop {
            places += 1;
            number += 1;
            let before = everything(&connection);
            left.store(places, Ordering::SeqCst);
            let again = Arc::clone(&job);
            let job: Work = Box::new(move |it| (again.lock().unwrap())(it));
            let outcome = batch(&mut connection, &mut file, job, &left, number);
            if outcome.is_ok() {
                break;
            }
            let told = outcome.unwrap_err().to_string();
            assert!(told.contains("refused by the test"), "{name}: {told}");
            assert_eq!(everything(&connection), before, "{name}, refused at place {places}");
        }
        assert!(places > 1 || name == "index", "{name} writes nothing");
    }
}

#[test]
fn whatever_comes_of_work_that_waits_for_no_disk_the_next_commit_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    connection::create(&path).unwrap();
    schema::migrate(&path, schema::STEPS).unwrap();
    let mut connection = connection::writer(&path).unwrap();
    let level = |connection: &Connection| -> i64 {
        connection.query_row("pragma synchronous", [], |row| row.get(0)).unwrap()
    };
    let full = level(&connection);
    let seen = without_sync(&mut connection, |connection| Ok(level(connection)));
    assert_eq!((seen.unwrap(), level(&connection)), (1, full));
    let failed: Result<()> = without_sync(&mut connection, |_| Err(Error::Busy));
    assert!(matches!(failed, Err(Error::Busy)) && level(&connection) == full);
    let left: Result<()> =
        without_sync(&mut connection, |connection| Ok(connection.execute_batch("begin")?));
    assert!(left.is_ok() && level(&connection) == full && connection.is_autocommit());
}
