//! Importing, and hooks, under fire: killed, with a full disk, with a store that another program holds; and archives.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::bad_store::LongWriter;
use crate::crash::Chance;
use crate::env::TestEnv;
use crate::hook_run::Claude;

const CLAUDE: &str = include_str!("../../../import/tests/fixtures/claude.jsonl");
const FIXTURE: &str = "11111111-1111-4111-8111-111111111111";
const MESSAGES: usize = 17;
/// Set where a test runs inside a mount of its own.
const INSIDE: &str = "RETHREAD_TEST_SMALL_DISK";

/// Sessions of Claude Code, each with the same words.
fn write_sessions(env: &TestEnv, count: usize) -> PathBuf {
    let folder = env.path("home/.claude/projects/-home-ann-shop");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..count {
        let id = format!("{number:08x}-1111-4111-8111-111111111111");
        fs::write(folder.join(format!("{id}.jsonl")), CLAUDE.replace(FIXTURE, &id)).unwrap();
    }
    folder
}

/// Starts it, and kills it a little later.
fn kill(mut command: Command, input: &[u8], chance: &mut Chance) {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // It may be dead before it has read all of it.
    drop(std::io::Write::write_all(&mut child.stdin.take().unwrap(), input));
    let mut turns = 0;
    for turn in 0..chance.below(10_000_000) {
        turns = std::hint::black_box(turns + turn);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_import_that_is_killed_goes_on_and_takes_nothing_in_twice() {
    let env = TestEnv::new();
    let mut chance = Chance(rethread_testkit::seed().max(1));
    write_sessions(&env, 40);
    for _ in 0..8 {
        kill(env.command(["import"]), b"", &mut chance);
    }
    env.json(["import"]);
    let all = env.json(["list", "--all", "--limit", "100"]);
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 40);
    for session in all {
        assert_eq!(session["message_count"], MESSAGES, "{session}");
    }
    let again = env.json(["import"])["agents"]["claude"].clone();
    assert_eq!((&again["unchanged"], &again["messages"]), (&40.into(), &0.into()), "{again}");
    env.assert_sound();
}

#[test]
fn hooks_that_are_killed_lose_nothing_and_double_nothing() {
    let mut claude = Claude::new();
    let mut chance = Chance(rethread_testkit::seed().max(1));
    let mut expected = Vec::new();
    for turn in 0..25 {
        let (asked, answered) = (format!("question {turn}"), format!("answer {turn}"));
        let prompt = json!({"prompt": asked, "prompt_id": format!("p{turn}")});
        kill(
            claude.command("UserPromptSubmit"),
            &claude.passes("UserPromptSubmit", prompt),
            &mut chance,
        );
        claude.writes("user", asked.as_str());
        claude.writes("assistant", json!([{"type": "text", "text": answered}]));
        kill(claude.command("Stop"), &claude.passes("Stop", json!({})), &mut chance);
        expected.extend([asked, answered]);
    }
    claude.calls("Stop", json!({}));
    assert_eq!(claude.texts(), expected);
    claude.env.assert_sound();
}

#[test]
fn a_store_that_another_program_holds_fails_no_agent_and_loses_nothing() {
    let mut claude = Claude::new();
    claude.calls("UserPromptSubmit", json!({"prompt": "first", "prompt_id": "p1"}));
    let writer = LongWriter::of(claude.env.store());
    claude.writes("user", "first");
    claude.writes("assistant", json!([{"type": "text", "text": "an answer"}]));
    claude.calls("Stop", json!({}));
    write_sessions(&claude.env, 1);
    claude.env.run(["import", "--json"]).assert_error(1, "store_locked");
    writer.let_go();
    claude.calls("UserPromptSubmit", json!({"prompt": "second", "prompt_id": "p2"}));
    assert_eq!(claude.env.json(["import"])["agents"]["claude"]["new"], 1);
    let all = claude.env.json(["list"]);
    let own = all.as_array().unwrap().iter().find(|one| one["message_count"] == 3).unwrap();
    let said = claude.env.messages(own["session_id"].as_str().unwrap());
    let said: Vec<&Value> = said.iter().map(|one| &one["content"]).collect();
    assert_eq!(said, ["first", "an answer", "second"]);
    claude.env.assert_sound();
}

#[test]
fn a_hook_on_a_full_disk_fails_no_agent_and_the_next_takes_in_the_rest() {
    if let Some(disk) = std::env::var_os(INSIDE) {
        return on_a_full_disk(Path::new(&disk));
    }
    let name = "import_bad::a_hook_on_a_full_disk_fails_no_agent_and_the_next_takes_in_the_rest";
    crate::env::on_small_disk(name, INSIDE, 4);
}

fn on_a_full_disk(disk: &Path) {
    let mut claude = Claude::within(TestEnv::with_store(&disk.join("sessions.db")));
    claude.calls("UserPromptSubmit", json!({"prompt": "first", "prompt_id": "p1"}));
    // To the last byte.
    let mut filler = fs::File::create(disk.join("filler")).unwrap();
    for size in [64 << 10, 4096, 1] {
        while std::io::Write::write_all(&mut filler, &vec![1; size]).is_ok() {}
    }
    let long = "a long answer ".repeat(500);
    claude.writes("user", "first");
    claude.writes("assistant", json!([{"type": "text", "text": long}]));
    claude.calls("Stop", json!({}));
    claude.calls("UserPromptSubmit", json!({"prompt": "second", "prompt_id": "p2"}));
    let logged = claude.env.data(["logs", "--level", "warn"]);
    assert!(logged.contains("a hook could not record what happened"), "{logged}");
    drop(filler);
    fs::remove_file(disk.join("filler")).unwrap();
    claude.writes("user", "second");
    claude.calls("Stop", json!({}));
    let logged = claude.env.data(["logs", "--lines", "20"]);
    let lengths: Vec<usize> = claude.texts().iter().map(String::len).collect();
    assert_eq!(lengths, [5, long.len(), 6], "{logged}");
    claude.env.assert_sound();
}

#[test]
fn sessions_come_out_of_an_archive_once() {
    let env = TestEnv::new();
    let folder = write_sessions(&env, 3);
    let archive = env.path("from-the-laptop.tar.gz");
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(&archive).arg("-C").arg(env.path("home")).arg(".claude");
    assert!(tar.status().unwrap().success());
    fs::remove_dir_all(folder).unwrap();
    let named = archive.to_str().unwrap();
    let tally = |args: &[&str]| env.json([&["import"], args].concat())["agents"]["claude"].clone();
    let would = tally(&[named, "--dry-run"]);
    assert_eq!((&would["new"], &would["messages"]), (&3.into(), &(3 * MESSAGES).into()), "{would}");
    let first = tally(&[named]);
    assert_eq!((&first["new"], &first["messages"]), (&3.into(), &(3 * MESSAGES).into()), "{first}");
    let again = tally(&[named]);
    assert_eq!((&again["unchanged"], &again["messages"]), (&3.into(), &0.into()), "{again}");
    // The same sessions where they lie by themselves are the same.
    write_sessions(&env, 3);
    let plain = tally(&[]);
    assert_eq!(
        (&plain["new"], &plain["messages"], &plain["gone"]),
        (&0.into(), &0.into(), &0.into()),
        "{plain}"
    );
    let broken = env.path("broken.zip");
    fs::write(&broken, b"PK\x03\x04 and nothing more").unwrap();
    let told = env.run(["import", broken.to_str().unwrap()]);
    assert!(told.stderr.contains("broken.zip: "), "{told}");
    assert!(told.stderr.contains("No sessions were found"), "{told}");
    env.assert_sound();
}
