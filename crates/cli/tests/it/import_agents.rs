//! `rethread import`: sessions that other agents keep

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::workspace_secrets::TOKEN;

const CLAUDE: &str = include_str!("../../../import/tests/fixtures/claude.jsonl");
const CODEX: &str = include_str!("../../../import/tests/fixtures/codex.jsonl");
const NATIVE: &str = "11111111-1111-4111-8111-111111111111";

/// Where Claude Code keeps the session.
fn transcript(env: &TestEnv) -> PathBuf {
    let folder = env.path("home/.claude/projects/-home-ann-shop");
    fs::create_dir_all(&folder).unwrap();
    folder.join(format!("{NATIVE}.jsonl"))
}

fn first(count: usize) -> String {
    CLAUDE.split_inclusive('\n').take(count).collect()
}

fn tally(env: &TestEnv, args: &[&str]) -> Value {
    env.json([&["import"], args].concat())["agents"]["claude"].clone()
}

fn main_texts(env: &TestEnv, id: &str) -> Vec<String> {
    let messages = env.messages(id).into_iter().filter(|message| message["conversation"] == "main");
    messages.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

fn sessions(env: &TestEnv) -> Vec<Value> {
    env.json(["list"]).as_array().unwrap().clone()
}

#[test]
fn sessions_of_folders_that_are_not_recorded_are_not_imported() {
    let env = TestEnv::new();
    fs::write(transcript(&env), CLAUDE).unwrap();
    env.data(["config", "set", "record.exclude", r#"["/home/ann"]"#]);
    let left_out = tally(&env, &[]);
    assert_eq!(
        (&left_out["excluded"], &left_out["messages"]),
        (&1.into(), &0.into()),
        "{left_out}"
    );
    assert_eq!(sessions(&env).len(), 0);

    env.data(["config", "set", "record.exclude", r#"["/home/an"]"#]);
    assert_eq!(tally(&env, &[])["new"], 1, "another folder with the same beginning");
}

#[test]
fn a_file_of_a_deleted_session_says_why_it_does_not_come_in() {
    let env = TestEnv::new();
    fs::write(transcript(&env), CLAUDE).unwrap();
    tally(&env, &[]);
    let id = sessions(&env)[0]["session_id"].as_str().unwrap().to_owned();
    env.data(["delete", &id]);
    let path = transcript(&env);
    let named = tally(&env, &[path.to_str().unwrap()]);
    assert_eq!((&named["put_away"], &named["unchanged"]), (&1.into(), &0.into()), "{named}");
}

#[test]
fn what_agents_keep_is_imported_once_and_found() {
    let env = TestEnv::new();
    fs::write(transcript(&env), CLAUDE).unwrap();
    let before = fs::read(transcript(&env)).unwrap();
    let first = tally(&env, &[]);
    assert_eq!((&first["new"], &first["messages"]), (&1.into(), &17.into()), "{first}");
    let again = tally(&env, &[]);
    assert_eq!((&again["unchanged"], &again["messages"]), (&1.into(), &0.into()), "{again}");
    assert_eq!(fs::read(transcript(&env)).unwrap(), before);

    let all = sessions(&env);
    assert_eq!(all.len(), 1);
    let session = &all[0];
    assert_eq!(session["title"], "The slow till");
    assert_eq!(session["project_id"], "/home/ann/shop");
    assert_eq!(session["imported_from"], "claude");
    assert_eq!(session["status"], "paused");
    let id = session["session_id"].as_str().unwrap();
    assert!(env.data(["show", id]).contains(&format!("Imported from claude, session {NATIVE}")));
    assert!(env.data(["list"]).contains("IMPORTED FROM"));
    let found = env.data(["search", "picture"]);
    assert!(found.contains("picture") && found.contains("  imported from claude\n"), "{found}");
    assert!(env.data(["resume", "--list"]).contains("chat, from claude"));
    env.assert_sound();
}

#[test]
fn a_run_that_only_looks_writes_nothing() {
    let env = TestEnv::new();
    fs::write(transcript(&env), CLAUDE).unwrap();
    let would = tally(&env, &["--dry-run"]);
    assert_eq!((&would["new"], &would["messages"]), (&1.into(), &17.into()), "{would}");
    assert!(sessions(&env).is_empty());
    let older = tally(&env, &["--since", "2999-01-01"]);
    assert_eq!((&older["older"], &older["new"]), (&1.into(), &0.into()), "{older}");
    env.run(["import", "--agent", "nobody", "--json"]).assert_error(2, "bad_input");
}

#[test]
fn what_comes_later_is_added() {
    let env = TestEnv::new();
    fs::write(transcript(&env), first(10)).unwrap();
    tally(&env, &[]);
    let id = sessions(&env)[0]["session_id"].as_str().unwrap().to_owned();
    let more: String = CLAUDE.split_inclusive('\n').skip(12).take(2).collect();
    fs::write(transcript(&env), first(10) + &more).unwrap();
    let grown = tally(&env, &[]);
    assert_eq!((&grown["grown"], &grown["messages"]), (&1.into(), &2.into()), "{grown}");
    assert_eq!(main_texts(&env, &id).last().unwrap(), "I see it.");
    // The whole file anew, with other bytes at its beginning: what is known is not added.
    fs::write(transcript(&env), format!("\n{}{more}", first(10))).unwrap();
    assert_eq!(tally(&env, &[])["messages"], 0);
    env.assert_sound();
}

#[test]
fn another_way_becomes_a_fork() {
    let env = TestEnv::new();
    fs::write(transcript(&env), first(12)).unwrap();
    tally(&env, &[]);
    let old = sessions(&env)[0]["session_id"].as_str().unwrap().to_owned();
    assert_eq!(main_texts(&env, &old).last().unwrap(), "An answer that was taken back.");
    fs::write(transcript(&env), first(14)).unwrap();
    let forked = tally(&env, &[]);
    assert_eq!((&forked["forked"], &forked["messages"]), (&1.into(), &2.into()), "{forked}");
    let all = sessions(&env);
    assert_eq!(all.len(), 2);
    let new = all.iter().find(|one| one["session_id"] != old.as_str()).unwrap();
    let texts = main_texts(&env, new["session_id"].as_str().unwrap());
    assert_eq!(texts.last().unwrap(), "I see it.");
    assert!(!texts.iter().any(|text| text.contains("taken back")));
    assert_eq!(main_texts(&env, &old).last().unwrap(), "An answer that was taken back.");
    assert_eq!(tally(&env, &[])["unchanged"], 1);
    env.assert_sound();
}

#[test]
fn what_was_deleted_here_does_not_come_back_and_what_the_agent_deletes_stays() {
    let env = TestEnv::new();
    fs::write(transcript(&env), first(10)).unwrap();
    tally(&env, &[]);
    let id = sessions(&env)[0]["session_id"].as_str().unwrap().to_owned();
    fs::remove_file(transcript(&env)).unwrap();
    assert!(!env.data(["show", &id]).contains("deleted there"));
    assert_eq!(tally(&env, &[])["gone"], 1);
    assert_eq!(sessions(&env).len(), 1);
    let shown = env.data(["show", &id]);
    assert!(shown.contains(&format!("claude, session {NATIVE}, deleted there by 2")), "{shown}");
    env.run(["delete", &id, "--permanently", "--yes"]).succeeded();
    fs::write(transcript(&env), CLAUDE).unwrap();
    assert_eq!(tally(&env, &[])["put_away"], 1);
    assert!(sessions(&env).is_empty());
}

#[test]
fn files_from_elsewhere_are_imported_by_their_path() {
    let env = TestEnv::new();
    let folder = env.path("elsewhere");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{NATIVE}.jsonl")), CLAUDE).unwrap();
    let name = "rollout-2026-03-01T10-00-00-01a00000-0000-7000-8000-000000000001.jsonl";
    fs::write(folder.join(name), CODEX).unwrap();
    fs::write(folder.join("notes.txt"), "nothing").unwrap();
    let report = env.json(["import", folder.to_str().unwrap()]);
    assert_eq!(report["agents"]["claude"]["new"], 1, "{report}");
    assert_eq!(report["agents"]["codex"]["new"], 1, "{report}");
    // The same session in the agent's own folder is the same session.
    fs::write(transcript(&env), CLAUDE).unwrap();
    assert_eq!(tally(&env, &[])["messages"], 0);
    assert_eq!(sessions(&env).len(), 2);
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_comes_in() {
    let env = TestEnv::new();
    fs::write(transcript(&env), format!("{}not json\n{}", first(10), "{\"half\n")).unwrap();
    let output = env.run(["import"]).succeeded();
    assert!(output.stderr.contains("not valid JSON"), "{output}");
    assert!(output.text().contains("claude"), "{output}");
    assert_eq!(sessions(&env).len(), 1);
}

#[test]
fn secrets_are_masked_as_everywhere() {
    let env = TestEnv::new();
    fs::write(transcript(&env), first(10).replace("It prints.", &format!("It prints {TOKEN}.")))
        .unwrap();
    tally(&env, &[]);
    let id = sessions(&env)[0]["session_id"].as_str().unwrap().to_owned();
    assert!(!env.data(["context", &id]).contains(TOKEN));
    assert!(!env.data(["export", &id]).contains(TOKEN));
}

/// As Codex does it from 0.166 on: each way back begins a file, whose base is the file of the way before.
#[test]
fn codex_that_goes_back_again_and_again_forks_each_time() {
    let env = TestEnv::new();
    let day = env.path("home/.codex/sessions/2026/03/01");
    fs::create_dir_all(&day).unwrap();
    let thread = "01a00000-0000-7000-8000-000000000001";
    let record = |kind: &str, payload: Value| {
        format!(
            "{}\n",
            json!({"timestamp": "2026-03-01T10:00:00Z", "type": kind, "payload": payload})
        )
    };
    let meta = |base: Option<(&str, usize)>| {
        let base = base.map(|(id, end)| json!({"thread_id": id, "end_byte_offset": end}));
        record("session_meta", json!({"id": thread, "cwd": "/work", "history_base": base}))
    };
    let says = |text: &str| {
        let content = json!([{"type": "input_text", "text": text}]);
        record(
            "response_item",
            json!({"type": "message", "id": text, "role": "user", "content": content}),
        )
    };
    let second = "01a00000-0000-7000-8000-00000000000b";
    let third = "01a00000-0000-7000-8000-00000000000c";
    let (kept, way) = (meta(None) + &says("kept"), says("one way"));
    let first_way = meta(Some((thread, kept.len()))) + &way;
    let base = first_way.len();
    let write = |name: &str, text: String| {
        fs::write(day.join(format!("rollout-2026-03-01T1{name}.jsonl")), text).unwrap();
    };
    write(&format!("0-00-00-{thread}"), kept.clone() + &says("left behind"));
    write(&format!("1-00-00-{thread}_{second}"), first_way + &says("left too"));
    write(&format!("2-00-00-{thread}_{third}"), meta(Some((second, base))) + &says("another way"));
    let first = env.json(["import"])["agents"]["codex"].clone();
    assert_eq!((&first["found"], &first["messages"]), (&3.into(), &5.into()), "{first}");
    let mut held: Vec<Vec<String>> = sessions(&env)
        .iter()
        .map(|one| main_texts(&env, one["session_id"].as_str().unwrap()))
        .collect();
    held.sort();
    assert_eq!(
        held,
        [
            &["kept", "left behind"][..],
            &["kept", "one way", "another way"],
            &["kept", "one way", "left too"]
        ]
    );
    let again = env.json(["import"])["agents"]["codex"].clone();
    assert_eq!((&again["unchanged"], &again["messages"]), (&3.into(), &0.into()), "{again}");
    // It goes on in the last one.
    let way = meta(Some((second, base))) + &says("another way") + &says("and on");
    write(&format!("2-00-00-{thread}_{third}"), way);
    let grown = env.json(["import"])["agents"]["codex"].clone();
    assert_eq!(
        (&grown["grown"], &grown["messages"], &grown["forked"]),
        (&1.into(), &1.into(), &0.into()),
        "{grown}"
    );
    env.assert_sound();
}
