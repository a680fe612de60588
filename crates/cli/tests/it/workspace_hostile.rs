//! Workspaces that came from anybody: whatever stands in them, nothing hangs, nothing panics, nothing outside is
//! touched and nothing of theirs is executed (PROMISES S4, S5, S6).

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::env::{Output, TestEnv, jsonl, user};
use crate::hostile_ids::hostile;
use crate::workspace_sessions::{folders, only_folder, workspace};

/// Runs under a watchdog: what hangs is killed, and that is a failure.
const WATCHED: &[&str] = &["timeout", "--signal=KILL", "30"];

#[track_caller]
pub(crate) fn run(env: &TestEnv, args: &[&str]) -> Output {
    feed(env, args, "")
}

#[track_caller]
pub(crate) fn feed(env: &TestEnv, args: &[&str], input: &str) -> Output {
    let output = env.finish(env.command_by(WATCHED, args), input.as_bytes());
    assert!(matches!(output.code, Some(0..=2)), "{args:?}: {output}");
    assert!(!output.stderr.contains("panicked"), "{args:?}: {output}");
    let printed = [&output.stdout[..], output.stderr.as_bytes()].concat();
    let is_raw = |c: char| c != '\n' && c != '\t' && rethread_domain::quote::is_unsafe(c);
    let shown = String::from_utf8_lossy(&printed);
    assert!(!shown.contains(is_raw), "{args:?}: {:?}", output.stderr);
    output
}

/// A workspace with one session of three messages.
pub(crate) fn small() -> (TestEnv, String) {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    env.run(["init"]).succeeded();
    let id = env.record(["--title", "T"], &["one", "two", "three"].map(user));
    (env, id)
}

/// Everything that somebody may do in it, none of which may fail in a bad way.
fn use_it(env: &TestEnv, id: &str) {
    run(env, &["list"]);
    feed(env, &["record", "--session", id], &jsonl(&[user("more")]));
    run(env, &["run", "ref", "say: hello", "--kind", "chat"]);
    run(env, &["doctor", "--repair"]);
    run(env, &["scan"]);
    run(env, &["stop", id]);
    run(env, &["init"]);
}

/// What lies outside of the workspace and is to stay as it is.
fn outside(env: &TestEnv) -> PathBuf {
    let outside = env.path("outside");
    fs::create_dir_all(outside.join(".session")).unwrap();
    for name in ["file", ".session/messages.jsonl", ".session/session.json"] {
        fs::write(outside.join(name), "outside\n").unwrap();
    }
    outside
}

fn state(path: &Path) -> Vec<(PathBuf, u64, i64, u32, u64)> {
    let mut found = Vec::new();
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.push((path, about.size(), about.ctime_nsec(), about.mode(), about.nlink()));
    }
    found.sort();
    found
}

/// What stands in the place of something else: a link to a thing of the same kind, or another kind of thing.
const ODD: &[&str] = &["link", "dead link", "pipe", "device", "other"];

/// Puts it there; whether that could be done.
fn put(what: &str, place: &Path, outside: &Path) -> bool {
    let is_folder = place.is_dir();
    if is_folder {
        fs::remove_dir_all(place).unwrap();
    } else {
        drop(fs::remove_file(place));
    }
    let make = |program: &str, args: &[&str]| {
        Command::new(program).args(args).status().is_ok_and(|status| status.success())
    };
    let path = place.to_str().unwrap();
    match what {
        "link" if is_folder => symlink(outside, place).is_ok(),
        "link" => symlink(outside.join("file"), place).is_ok(),
        "dead link" => symlink(outside.join("none"), place).is_ok(),
        "pipe" => make("mkfifo", &[path]),
        "device" => make("mknod", &[path, "c", "1", "5"]),
        _ if is_folder => fs::write(place, "\0\u{1}").is_ok(),
        _ => fs::create_dir(place).is_ok(),
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "what could not be tried is told")]
fn whatever_stands_in_the_place_of_a_file_or_folder_nothing_outside_is_touched() {
    let session = ["session.json", "messages.jsonl", "", "damaged"];
    let places: Vec<String> = session
        .iter()
        .map(|name| format!("FOLDER/.session/{name}").trim_end_matches('/').to_owned())
        .chain(["FOLDER", "FOLDER/chat.md", "DAY", "conversations"].map(ToOwned::to_owned))
        .chain([".rethread", ".rethread/kinds", ".rethread/kinds/chat.md"].map(ToOwned::to_owned))
        .chain([".rethread/workspace.toml", ".gitattributes"].map(ToOwned::to_owned))
        .collect();
    std::thread::scope(|scope| {
        for part in places.chunks(5) {
            scope.spawn(move || {
                for (place, what) in
                    part.iter().flat_map(|place| ODD.iter().map(move |what| (place, what)))
                {
                    let (env, id) = small();
                    let folder = only_folder(&env);
                    let named = place
                        .replace("FOLDER", folder.to_str().unwrap())
                        .replace("DAY", folder.parent().unwrap().to_str().unwrap());
                    let outside = outside(&env);
                    if !put(what, &env.path("project").join(named), &outside) {
                        eprintln!("not tried, for lack of rights: {what} as {place}");
                        continue;
                    }
                    let before = state(&outside);
                    use_it(&env, &id);
                    assert_eq!(state(&outside), before, "{what} as {place}");
                    let said = env.messages(&id);
                    assert_eq!(said.len(), 4, "{what} as {place}: {said:#?}");
                }
            });
        }
    });
}

/// Writes a folder that nobody here knows.
#[test]
fn doctor_tells_of_a_workspace_that_cannot_be_used_and_names_whatever_it_tells_of() {
    let (env, _) = small();
    let linked = env.path("project/.rethread/kinds/odd.md");
    symlink("/dev/zero", &linked).unwrap();
    let told = run(&env, &["doctor"]);
    assert_eq!(told.code, Some(1), "{told}");
    assert!(told.text().contains("odd.md: "), "{told}");
    fs::remove_file(linked).unwrap();
    run(&env, &["doctor"]).succeeded();

    let settings = env.path("project/.rethread/workspace.toml");
    fs::remove_file(&settings).unwrap();
    fs::create_dir(&settings).unwrap();
    let told = run(&env, &["doctor", "--json"]);
    let view: Value = serde_json::from_str(told.text()).unwrap();
    assert_eq!((told.code, &view["ok"]), (Some(1), &json!(false)), "{told}");
    assert!(
        view["folders"][0]["troubles"][0].as_str().unwrap().contains("cannot be used"),
        "{view:#}"
    );
}

fn arrive(env: &TestEnv, name: &str, card: &Value, log: &str) -> PathBuf {
    let folder = env.path("project/conversations/2023-05-01").join(name);
    fs::create_dir_all(folder.join(".session")).unwrap();
    if !card.is_null() {
        fs::write(folder.join(".session/session.json"), card.to_string()).unwrap();
    }
    fs::write(folder.join(".session/messages.jsonl"), log).unwrap();
    folder
}

fn described(id: &str) -> Value {
    json!({
        "id": id, "kind": "chat", "title": "T", "status": "paused", "summary": null, "command": null,
        "prompt_hash": null, "model": null, "tools": [], "agent": null,
        "created": "2023-05-01T10:00:00Z", "last_active": "2023-05-01T10:00:00Z", "version": 1,
    })
}

/// The log of a session that came from a program like ours.
fn genuine() -> (String, String) {
    let (env, id) = small();
    let log = fs::read_to_string(only_folder(&env).join(".session/messages.jsonl")).unwrap();
    (id, log)
}

#[test]
fn a_description_that_is_missing_damaged_newer_or_of_another_session_is_told() {
    let (id, log) = genuine();
    let other = "01a1e2be-f7ac-7579-993d-b291fb4d3806";
    let mut newer = described(&id);
    newer["version"] = json!(9);
    newer["shape"] = json!("unknown");
    let mut older = described(&id);
    older.as_object_mut().unwrap().remove("prompt_hash");
    older["version"] = json!(0);
    for (card, is_taken, told) in [
        (Value::Null, true, ""),
        (older, true, ""),
        (newer, true, "version 9"),
        (json!("nonsense"), true, "session.json"),
        (json!({"id": id}), true, ""),
        (described(other), false, "left alone"),
        (described("../../etc"), true, "session.json"),
    ] {
        let env = TestEnv::new();
        env.run(["init"]).succeeded();
        let folder = arrive(&env, "001-chat-x", &card, &log);
        let listed = run(&env, &["list"]);
        assert!(listed.stderr.contains(told), "{card}: {listed}");
        let sessions = env.json(["list"]);
        assert_eq!(sessions.as_array().unwrap().len(), usize::from(is_taken), "{card}: {listed}");
        if is_taken {
            assert_eq!(env.messages(&id).len(), 3, "{card}");
            feed(&env, &["record", "--session", &id], &jsonl(&[user("more")]));
            let text = fs::read_to_string(folder.join(".session/messages.jsonl")).unwrap();
            assert_eq!(text.lines().count(), 4, "{card}");
        }
    }
}

#[test]
fn a_description_that_names_another_session_later_is_told_and_left() {
    let (env, id) = small();
    let path = only_folder(&env).join(".session/session.json");
    let text = fs::read_to_string(&path).unwrap();
    let other = text.replace(&id, "01a1e2be-f7ac-7579-993d-b291fb4d3806");
    fs::write(&path, &other).unwrap();
    let told = run(&env, &["list"]);
    assert!(told.stderr.contains("names the session 01a1e2be"), "{told}");
    feed(&env, &["record", "--session", &id], &jsonl(&[user("more")]));
    assert_eq!(fs::read_to_string(&path).unwrap(), other);
    assert_eq!(run(&env, &["doctor"]).code, Some(1));
    fs::write(&path, &text).unwrap();
    run(&env, &["list"]);
    env.assert_sound();
}

#[test]
fn of_two_folders_with_one_id_the_second_is_left_alone_and_told() {
    let (id, log) = genuine();
    let env = TestEnv::new();
    env.run(["init"]).succeeded();
    for name in ["001-chat-x", "002-chat-y"] {
        arrive(&env, name, &described(&id), &log);
    }
    let told = run(&env, &["list"]);
    assert!(told.stderr.contains("both say that they are session"), "{told}");
    feed(&env, &["record", "--session", &id], &jsonl(&[user("more")]));
    let counts: Vec<usize> = folders(&env)
        .iter()
        .map(|one| fs::read_to_string(one.join(".session/messages.jsonl")).unwrap().lines().count())
        .collect();
    assert_eq!(counts, [4, 3]);
}

/// Who knows the id of a session is not given what was said in it, and cannot change it.
#[test]
fn a_folder_that_only_names_a_session_of_another_project_gets_and_changes_nothing() {
    let (elsewhere, id) = small();
    let exported = elsewhere.data(["export", &id]);
    let genuine = fs::read_to_string(only_folder(&elsewhere).join(".session/messages.jsonl"));
    let genuine = genuine.unwrap();
    elsewhere.run(["purge", &id, "1"]).succeeded();
    let purged = fs::read_to_string(only_folder(&elsewhere).join(".session/messages.jsonl"));
    let purged = purged.unwrap();
    for log in ["", &purged, &genuine] {
        let env = TestEnv::new();
        env.feed(["import", "-"], &exported).succeeded();
        env.run(["init"]).succeeded();
        let folder = arrive(&env, "001-chat-x", &described(&id), log);
        let told = run(&env, &["list"]);
        assert!(told.stderr.contains("left alone"), "{told}");
        feed(&env, &["record", "--session", &id], &jsonl(&[user("more")]));
        let said: Vec<Value> =
            env.messages(&id).iter().map(|message| message["content"].clone()).collect();
        assert_eq!(said, ["one", "two", "three", "more"]);
        let kept = fs::read_to_string(folder.join(".session/messages.jsonl")).unwrap();
        assert_eq!(kept, log);
    }
    // Once that project is gone, the folder that has what was said is where the session lives now.
    drop(elsewhere);
    for (log, lives_here) in [("", false), (purged.as_str(), true), (&genuine, true)] {
        let env = TestEnv::new();
        env.feed(["import", "-"], &exported).succeeded();
        env.run(["init"]).succeeded();
        let folder = arrive(&env, "001-chat-x", &described(&id), log);
        run(&env, &["list"]);
        feed(&env, &["record", "--session", &id], &jsonl(&[user("more")]));
        let kept = fs::read_to_string(folder.join(".session/messages.jsonl")).unwrap();
        assert_eq!(kept.contains("more"), lives_here, "{kept}");
    }
}

#[test]
fn any_text_can_be_a_topic() {
    let emoji = "🦀".repeat(124);
    let long = "x".repeat(500);
    let env = TestEnv::new();
    env.agent("ref", &[]);
    env.run(["init"]).succeeded();
    let before: Vec<_> = fs::read_dir(env.root()).unwrap().map(|one| one.unwrap().path()).collect();
    let topics = [
        "../../etc",
        "..",
        ".",
        "/",
        "/etc/passwd",
        "-rf",
        "--help",
        ".git",
        "con",
        "a\u{202e}b",
        "\u{1b}[2J",
        "$(touch x)",
        "  ",
        &emoji,
        &long,
        "🦀🦀",
        "ünïcödé wörds",
        "a/b\\c",
    ];
    for topic in topics {
        let prompt = format!("say: {}", topic.len());
        run(&env, &["run", "ref", &prompt, "--kind", "brainstorm", &format!("--topic={topic}")]);
    }
    let found = folders(&env);
    // White space alone is no title, and refused.
    assert_eq!(found.len(), topics.len() - 1, "{found:#?}");
    for folder in found {
        assert!(folder.join("brainstorm.md").exists(), "{}", folder.display());
        let name = folder.file_name().unwrap().to_str().unwrap();
        assert!(name.len() < 120, "{name}");
    }
    let after: Vec<_> = fs::read_dir(env.root()).unwrap().map(|one| one.unwrap().path()).collect();
    let made: Vec<_> = after.iter().filter(|path| !before.contains(path)).collect();
    assert!(made.iter().all(|path| path.to_string_lossy().contains("ref.")), "{made:?}");
    env.assert_sound();
}

#[test]
fn ids_from_folders_never_become_paths() {
    let env = TestEnv::new();
    env.run(["init"]).succeeded();
    let (id, _) = genuine();
    let all = hostile();
    for (n, given) in all.iter().enumerate() {
        // As what session.json says,
        arrive(&env, &format!("{:03}-chat-a", n + 1), &described(given), "");
        // in a line,
        let line = |content: &str| {
            json!({"role": "user", "content": content, "id": given, "after": given, "kind": given,
                "conversation": given, "agent": given, "timestamp": given})
        };
        let real = format!("{}{n:04x}", &id[..32]);
        let whole = line("all of it");
        let few = json!({"role": "user", "content": "an id", "id": given});
        let log = jsonl(&[whole, few, json!({"role": given, "content": "a role"}), user("good")]);
        arrive(&env, &format!("{:03}-chat-b", n + 201), &described(&real), &log);
        // and as the name of a folder.
        let named =
            env.path("project/conversations/2023-05-02").join(given.replace(['/', '\0'], "_"));
        drop(fs::create_dir_all(named.join(".session")));
    }
    let before = outer(&env);
    run(&env, &["list", "-n", "1000"]);
    run(&env, &["doctor", "--repair"]);
    run(&env, &["list", "-n", "1000"]);
    run(&env, &["search", "good"]);
    assert_eq!(outer(&env), before);
    let listed = env.json(["list", "-n", "1000"]);
    let rows = listed.as_array().unwrap();
    assert_eq!(rows.len(), all.len(), "each has a good line");
    for row in rows {
        let said = env.messages(row["session_id"].as_str().unwrap());
        let good = said.iter().filter(|one| one["content"] == "good").count();
        assert_eq!(good, 1, "{said:#?}");
        assert!(said.iter().all(|one| one["content"] != "a role" || one["role"] != "boss"));
    }
    assert_eq!(env.run(["doctor"]).code, Some(1));
}

/// Everything there is but the store's own files and what is inside of the conversations.
fn outer(env: &TestEnv) -> Vec<PathBuf> {
    let tree = env.tree().into_iter().map(|(path, _)| path);
    tree.filter(|path| !path.starts_with("store") && !path.starts_with("project/conversations"))
        .collect()
}

#[test]
fn terminal_escapes_from_a_folder_are_never_shown_raw() {
    let (id, log) = genuine();
    let evil = "x\u{1b}[2J\u{1b}]0;y\u{7}\u{202e}z\u{9b}";
    let env = TestEnv::new();
    env.agent("ref", &[]);
    env.run(["init"]).succeeded();
    let mut card = described(&id);
    for (field, value) in [
        ("title", json!(evil)),
        ("summary", json!(evil)),
        ("command", json!(format!("/workspace.{evil}"))),
        ("model", json!(evil)),
        ("tools", json!([evil, "plain"])),
        ("prompt_hash", json!(evil)),
        ("status", json!(evil)),
    ] {
        card[field] = value;
    }
    let hand = json!({"role": "user", "content": evil, "agent": evil, "conversation": evil});
    let role = json!({"role": evil, "content": evil});
    arrive(&env, "001-chat-x", &card, &format!("{log}{hand}\n{role}\n<<<<<<< {evil}\n{evil}\n"));
    // Every one of these looks at what is printed.
    run(&env, &["list"]);
    let id = env.only();
    for args in [
        &["show", &id, "--all"][..],
        &["resume", "--list"],
        &["resume", &id, "say: hello", "--with", "ref"],
        &["stop", &id],
        &["search", "x"],
        &["doctor"],
        &["scan"],
        &["context", &id],
        &["resume", "001-chat-x", "say: again"],
    ] {
        run(&env, args);
    }
    assert!(env.messages(&id).len() >= 3);
}

#[test]
fn a_log_of_huge_numbers_deep_nesting_and_endless_branches_is_no_burden() {
    let env = TestEnv::new();
    env.run(["init"]).succeeded();
    let id = "01a1e2be-f7ac-7579-993d-b291fb4d3806";
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let mut log = String::new();
    log.push_str(&format!("{{\"role\":\"user\",\"content\":\"deep\",\"x\":{deep}}}\n"));
    log.push_str(
        "{\"role\":\"user\",\"content\":\"huge\",\"x\":1e400,\"v\":99999999999999999999}\n",
    );
    log.push_str("{\"role\":\"user\",\"content\":\"big\",\"x\":99999999999999999999,\"usage\":{\"input_tokens\":1e30}}\n");
    log.push_str(
        "{\"role\":\"user\",\"content\":\"far\",\"timestamp\":\"+999999-12-31T23:59:59Z\"}\n",
    );
    for n in 0..3000 {
        log.push_str(&format!(
            "{{\"role\":\"user\",\"content\":\"c\",\"conversation\":\"c{n}\"}}\n"
        ));
    }
    arrive(&env, "001-chat-x", &described(id), &log);
    run(&env, &["list"]);
    run(&env, &["list"]);
    run(&env, &["doctor", "--repair"]);
    assert!(env.messages(id).len() >= 3001);
    assert_eq!(env.json(["list"]).as_array().unwrap().len(), 1);
}

#[test]
fn what_does_not_fit_into_a_line_keeps_no_folder_from_following() {
    let env = workspace();
    let mut deep = json!("x");
    for _ in 0..110 {
        deep = json!([deep]);
    }
    let long = json!({"role": "user", "content": "long", "id": "a".repeat(256)});
    let told = env.feed(["record"], jsonl(&[long, user("last")])).succeeded();
    assert_eq!(told.stderr, "", "{told}");
    let text = fs::read_to_string(only_folder(&env).join(".session/messages.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    for field in ["extra", "tool_calls"] {
        let told =
            env.feed(["record"], jsonl(&[json!({"role": "user", "content": "x", field: deep})]));
        assert_eq!(told.code, Some(2), "{told}");
        assert!(told.stderr.contains("at most 90 levels"), "{told}");
    }
    env.assert_sound();
}
