//! 300 kills with a database and a folder: after the next look the folder equals the log (PROMISES D3 to D6).

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

use rethread_testkit::seed;
use serde_json::Value;

use crate::crash::Chance;
use crate::env::{TestEnv, user};
use crate::reference::{running, until};
use crate::workspace_sessions::{card, folders, git, workspace};

/// More of them, for a long run: `KILLS=5000 cargo test …`.
fn kills() -> u64 {
    option_env!("KILLS").map_or(300, |text| text.parse().expect("KILLS is a number"))
}

const AT_ONCE: u64 = 4;

/// Whom it hits.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Recorder,
    Talk,
    Commit,
}

/// When one of them dies.
#[derive(Debug)]
struct Moment {
    victim: Victim,
    /// After so many lines, or bytes, that it has printed
    heard: u64,
    /// and so many turns of a wheel.
    spin: u64,
}

impl Moment {
    fn any(chance: &mut Chance) -> Self {
        let victim = match chance.below(10) {
            0..=5 => Victim::Recorder,
            6 | 7 => Victim::Talk,
            _ => Victim::Commit,
        };
        let longest = match victim {
            Victim::Commit => 60_000_000,
            _ if chance.below(2) == 0 => 20_000,
            _ => 6_000_000,
        };
        let heard = match victim {
            Victim::Recorder => chance.below(12),
            Victim::Talk => chance.below(600),
            Victim::Commit => 0,
        };
        Self { victim, heard, spin: chance.below(longest) }
    }

    fn wait(&self) {
        let mut turns = 0;
        for turn in 0..self.spin {
            turns = std::hint::black_box(turns + turn);
        }
    }

    /// Runs it and kills it.
    fn strike(&self, env: &TestEnv, title: &str, known: Option<&str>) {
        match self.victim {
            Victim::Recorder => self.recorder(env, title, known),
            Victim::Talk => {
                let mut command = match known {
                    Some(id) => env.command(["resume", id, "stream: 200", "--with", "ref"]),
                    None => env.command(["run", "ref", "stream: 200", "--title", title]),
                };
                let mut child =
                    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
                let mut hear = child.stdout.take().unwrap().take(self.heard);
                hear.read_to_end(&mut Vec::new()).unwrap();
                self.wait();
                child.kill().unwrap();
                child.wait().unwrap();
            }
            Victim::Commit => {
                let id = known.map_or_else(
                    || env.record(["--title", title], &[user("to be committed")]),
                    ToOwned::to_owned,
                );
                let mut command = env.command(["stop", &id, "--commit"]);
                let mut child =
                    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                self.wait();
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
    }

    fn recorder(&self, env: &TestEnv, title: &str, known: Option<&str>) {
        let mut command = match known {
            Some(id) => env.command(["record", "--ack", "--session", id]),
            None => env.command(["record", "--ack", "--title", title]),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut say = child.stdin.take().unwrap();
        let mut hear = BufReader::new(child.stdout.take().unwrap()).lines();
        let teller = thread::spawn(move || {
            for n in 0..400_usize {
                let text = format!("line {n} {}", "x".repeat(n * 37 % 900));
                if writeln!(say, "{}", user(&text)).is_err() {
                    break;
                }
            }
            // The pipe stays open until the recorder is dead.
            say
        });
        for _ in 0..self.heard {
            hear.next().unwrap().unwrap();
        }
        self.wait();
        child.kill().unwrap();
        child.wait().unwrap();
        drop(teller.join().unwrap());
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a failure is told with its seed")]
fn after_three_hundred_kills_every_folder_equals_its_log() {
    let seed = seed();
    let messages: usize = thread::scope(|scope| {
        let part =
            |part| scope.spawn(move || kill_some(seed.wrapping_add(part), kills() / AT_ONCE));
        let parts: Vec<_> = (0..AT_ONCE).map(part).collect();
        parts.into_iter().map(|part| part.join().unwrap()).sum()
    });
    eprintln!("{} kills, {messages} messages in the folders", kills());
    assert!(messages as u64 > kills(), "hardly anything was said");
}

/// Gives how many messages there were.
fn kill_some(seed: u64, count: u64) -> usize {
    let mut chance = Chance(seed);
    let env = workspace();
    env.agent("ref", &["--chunk-delay-ms", "1"]);
    let mark = env.root().to_str().unwrap().to_owned();
    let mut known: Vec<String> = Vec::new();
    for number in 0..count {
        let moment = Moment::any(&mut chance);
        let title = format!("kill-{number}");
        let chosen = chance.below(8);
        let chosen = known.get(usize::try_from(chosen).unwrap()).map(String::as_str);
        moment.strike(&env, &title, chosen);
        // Git goes on when we die; nobody else does.
        until("processes are left", || running(&mark).is_empty().then_some(()));
        let told = format!("seed {seed:#x}, number {number}, {moment:?}");
        let listed = env.json(["list", "-n", "1000"]);
        let rows = listed.as_array().unwrap();
        let hit = rows.iter().find(|row| match chosen {
            Some(id) => row["session_id"] == id,
            None => row["title"] == title.as_str(),
        });
        let Some(row) = hit else { continue };
        if row["message_count"] != 0 {
            assert_follows(&env, row, &told);
        }
        if known.len() < 8 {
            known.push(row["session_id"].as_str().unwrap().to_owned());
        }
    }
    let listed = env.json(["list", "-n", "1000"]);
    let rows = listed.as_array().unwrap().iter().filter(|row| row["message_count"] != 0);
    let messages = rows.map(|row| assert_follows(&env, row, &format!("seed {seed:#x}"))).sum();
    env.assert_sound();
    assert_tidy(&env, &format!("seed {seed:#x}"));
    messages
}

/// The folder of a session, by what its description says.
fn folder_of(env: &TestEnv, id: &str) -> Option<PathBuf> {
    folders(env)
        .into_iter()
        .find(|folder| folder.join(".session/session.json").exists() && card(folder)["id"] == id)
}

/// The same records in the same order, and the same description. Gives how many records.
#[track_caller]
fn assert_follows(env: &TestEnv, row: &Value, told: &str) -> usize {
    let id = row["session_id"].as_str().unwrap();
    let folder = folder_of(env, id).unwrap_or_else(|| panic!("{id} has no folder: {told}"));
    let parts = |one: &Value| {
        ["role", "content", "conversation"].map(|name| {
            one[name]
                .as_str()
                .unwrap_or(if name == "conversation" { "main" } else { "" })
                .to_owned()
        })
    };
    let stored: Vec<_> = env.messages(id).iter().map(parts).collect();
    let text = fs::read_to_string(folder.join(".session/messages.jsonl")).unwrap();
    let written: Vec<_> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("damaged: {line} {told}")))
        .map(|line: Value| parts(&line))
        .collect();
    assert_eq!(written, stored, "{told}");
    let says = card(&folder);
    for (field, column) in
        [("title", "title"), ("status", "status"), ("kind", "kind"), ("agent", "agent")]
    {
        assert_eq!(says[field], row[column], "{field}: {told}");
    }
    assert_eq!(says["summary"], row["session_summary"], "{told}");
    stored.len()
}

/// Nothing is left that a kill interrupted.
fn assert_tidy(env: &TestEnv, told: &str) {
    for (path, _) in env.tree() {
        let Ok(inside) = path.strip_prefix("project/conversations") else { continue };
        assert!(inside.extension().is_none_or(|end| end != "new"), "{}: {told}", path.display());
    }
    for folder in folders(env) {
        assert!(folder.join(".session/session.json").exists(), "{}: {told}", folder.display());
    }
}

/// Says something and waits until it is durable.
struct Recorder(crate::live::Live, u32);

impl Recorder {
    fn start(env: &TestEnv) -> Self {
        let mut recorder = Self(crate::live::Live::start(env, &["--title", "T"]), 0);
        recorder.say(5);
        recorder
    }

    fn say(&mut self, count: u32) {
        for _ in 0..count {
            self.1 += 1;
            self.0.say(&user(&format!("message {}", self.1)));
        }
    }

    /// Ends, and the folder equals the log.
    #[track_caller]
    fn assert_follows(mut self, env: &TestEnv, told: &str) {
        self.say(2);
        let count = self.1 as usize;
        self.0.finish();
        let listed = env.json(["list"]);
        assert_eq!(assert_follows(env, &listed[0], told), count, "{told}");
        env.assert_sound();
    }
}

fn only(env: &TestEnv) -> PathBuf {
    let found = folders(env);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

fn log(folder: &Path) -> PathBuf {
    folder.join(".session/messages.jsonl")
}

#[test]
fn a_folder_that_is_taken_away_while_a_session_runs_is_made_again() {
    let env = workspace();
    let mut recorder = Recorder::start(&env);
    fs::remove_dir_all(only(&env)).unwrap();
    env.run(["list"]).succeeded();
    recorder.say(1);
    assert_eq!(fs::read_to_string(log(&only(&env))).unwrap().lines().count(), 6);
    fs::remove_file(log(&only(&env))).unwrap();
    recorder.say(1);
    fs::remove_dir_all(only(&env).join(".session")).unwrap();
    recorder.say(1);
    fs::remove_dir_all(env.path("project/conversations")).unwrap();
    recorder.assert_follows(&env, "deleted");
}

#[test]
fn a_folder_that_is_renamed_while_a_session_runs_is_followed_under_its_new_name() {
    let env = workspace();
    let mut recorder = Recorder::start(&env);
    let renamed = only(&env).with_file_name("007-chat-renamed");
    fs::rename(only(&env), &renamed).unwrap();
    recorder.say(1);
    assert_eq!(only(&env), renamed);
    let again = renamed.with_file_name("008-chat-again");
    fs::rename(&renamed, &again).unwrap();
    let told = env.run(["list"]).succeeded();
    assert_eq!(told.stderr, "", "{told}");
    recorder.assert_follows(&env, "renamed");
    assert_eq!(only(&env), again);
}

#[test]
#[expect(clippy::print_stderr, reason = "a failure is told with its seed")]
fn a_log_that_is_cut_off_anywhere_is_whole_again() {
    let seed = 0x5eed_0c07_u64 ^ u64::from(std::process::id()) << 32;
    eprintln!("seed {seed:#x}");
    let mut chance = Chance(seed);
    let env = workspace();
    let mut recorder = Recorder::start(&env);
    for _ in 0..25 {
        let path = log(&only(&env));
        let whole = fs::metadata(&path).unwrap().len();
        let cut = chance.below(whole + 1);
        fs::File::options().write(true).open(&path).unwrap().set_len(cut).unwrap();
        if chance.below(2) == 0 {
            env.run(["list"]).succeeded();
        }
        recorder.say(1);
    }
    recorder.assert_follows(&env, &format!("seed {seed:#x}"));
}

#[test]
fn an_older_commit_that_is_checked_out_while_a_session_runs_is_caught_up() {
    let env = workspace();
    let mut recorder = Recorder::start(&env);
    git(&env, &["add", "--all"]);
    git(&env, &["commit", "--quiet", "-m", "old"]);
    recorder.say(3);
    git(&env, &["commit", "--quiet", "--all", "-m", "new"]);
    git(&env, &["checkout", "--quiet", "HEAD~1"]);
    assert_eq!(fs::read_to_string(log(&only(&env))).unwrap().lines().count(), 5);
    recorder.say(1);
    git(&env, &["checkout", "--quiet", "--force", "main"]);
    env.run(["list"]).succeeded();
    git(&env, &["stash", "--quiet"]);
    recorder.assert_follows(&env, "checked out");
}

#[test]
fn whoever_looks_while_a_session_runs_leaves_no_message_out() {
    let env = workspace();
    let mut recorder = Recorder::start(&env);
    let path = log(&only(&env));
    let is_over = AtomicBool::new(false);
    let looks: Vec<Command> = (0..3).map(|_| env.command(["list"])).collect();
    thread::scope(|scope| {
        for mut look in looks {
            look.stdout(Stdio::null()).stderr(Stdio::null());
            let (path, is_over) = (&path, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    // As after a checkout: everybody compares.
                    let file = fs::File::options().append(true).open(path).unwrap();
                    file.set_modified(std::time::SystemTime::now()).unwrap();
                    assert!(look.status().unwrap().success());
                }
            });
        }
        recorder.say(300);
        is_over.store(true, Ordering::Relaxed);
    });
    recorder.assert_follows(&env, "looked at");
}

#[test]
fn what_is_changed_by_hand_is_reported_and_both_sides_are_kept() {
    for takes_sum_away in [false, true] {
        let env = workspace();
        let id = env.record(["--title", "T"], &["one", "two", "three"].map(user));
        let path = log(&only(&env));
        let before = fs::read_to_string(&path).unwrap();
        let mut changed = before.replace("\"content\":\"two\"", "\"content\":\"TWO\"");
        if takes_sum_away {
            let line = changed.lines().nth(1).unwrap();
            let at = line.find("\"id\"").unwrap();
            changed = changed.replace(line, &format!("{{{}", &line[at..]));
        }
        assert_ne!(changed, before);
        fs::write(&path, &changed).unwrap();
        let told = env.run(["list"]).succeeded();
        assert!(told.stderr.contains("was changed by hand"), "{told}");
        let said: Vec<_> = env.messages(&id).iter().map(|one| one["content"].clone()).collect();
        assert_eq!(said, ["one", "two", "three"]);
        assert!(fs::read_to_string(&path).unwrap().contains("TWO"));
        assert_eq!(env.run(["doctor"]).code, Some(1));
        env.run(["doctor", "--repair"]).succeeded();
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        let aside = fs::read_dir(path.with_file_name("damaged")).unwrap();
        let aside: Vec<String> =
            aside.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
        assert!(aside.concat().contains("TWO"), "{aside:?}");
        env.assert_sound();
    }
}

#[test]
fn what_people_add_is_taken_in_once() {
    let env = workspace();
    let id = env.record(["--title", "T"], &["one", "two"].map(user));
    let path = log(&only(&env));
    let first = fs::read_to_string(&path).unwrap();
    let by_hand = "{\"role\":\"user\",\"content\":\"by hand\"}\n";
    fs::write(&path, format!("{first}{by_hand}")).unwrap();
    for _ in 0..3 {
        env.run(["list"]).succeeded();
        let said: Vec<_> = env.messages(&id).iter().map(|one| one["content"].clone()).collect();
        assert_eq!(said, ["one", "two", "by hand"]);
    }
    // Also in a folder that nobody here knows.
    let other = TestEnv::new();
    other.run(["init"]).succeeded();
    let folder = other.path("project/conversations/2023-05-01/001-chat-x/.session");
    fs::create_dir_all(&folder).unwrap();
    // Its description is that of a log which ended otherwise: without how it ended, nothing is missing.
    let mine = fs::read_to_string(only(&env).join(".session/session.json")).unwrap();
    let mut card: serde_json::Value = serde_json::from_str(&mine).unwrap();
    card.as_object_mut().unwrap().remove("last").unwrap();
    fs::write(folder.join("session.json"), format!("{card:#}\n")).unwrap();
    fs::write(folder.join("messages.jsonl"), by_hand.repeat(2)).unwrap();
    other.run(["list"]).succeeded();
    other.run(["list"]).succeeded();
    assert_eq!(other.messages(&id).len(), 2);
    let written = fs::read_to_string(folder.join("messages.jsonl")).unwrap();
    assert_eq!(written.lines().filter(|line| !line.is_empty()).count(), 2, "{written}");
    other.assert_sound();
}
