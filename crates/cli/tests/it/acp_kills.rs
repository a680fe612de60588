//! The proxy, the agent and the editor are killed at any moment of a turn: nothing that an editor was shown is lost, nothing stays
//! behind, and the next load shows it.

use std::process::Command;

use crate::crash::Chance;
use crate::editor::Editor;
use crate::env::TestEnv;
use crate::reference::running;

/// More of them, for a long run: `KILLS=300 cargo test …`.
fn kills() -> u64 {
    let given = std::env::var_os("KILLS").and_then(|text| text.into_string().ok());
    given.map_or(6, |text| text.parse().expect("KILLS is a number"))
}

/// Who dies.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Proxy,
    Agent,
    Editor,
}

/// The process of the agent itself, not its guard.
fn agent_of(env: &TestEnv) -> Option<u32> {
    let mark = env.path("ref.memory").display().to_string();
    running(&mark).into_iter().find(|id| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        !line.split(|byte| *byte == 0).any(|word| word == b"guard")
    })
}

fn turn_a_wheel(times: u64) {
    let mut turns = 0;
    for turn in 0..times {
        turns = std::hint::black_box(turns + turn);
    }
}

/// What an update shows.
fn text(frame: &serde_json::Value) -> &str {
    frame["params"]["update"]["content"]["text"].as_str().unwrap_or_default()
}

/// The editor hears that the agent has died, and what it was shown until then counts; then the agent lives again.
fn hear_of_it(editor: &mut Editor, id: &str, shown: &mut String) {
    loop {
        let frame = editor.frame().expect("the proxy lives");
        if frame.get("method").is_none() {
            break;
        }
        shown.push_str(text(&frame));
    }
    // Killed between two turns, it may be the next prompt that finds it dead; the one after that finds it alive.
    let asked = editor.prompt(id, "say: alive");
    let answer = editor.answer(&asked);
    let reason = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(answer.get("error").is_none() || reason.contains("the agent ended"), "{answer:#}");
    assert_eq!(editor.say(id, "say: alive"), "alive");
}

fn die(victim: Victim, is_sudden: bool, bytes: usize, spin: u64) {
    let env = TestEnv::new();
    env.agent("ref", &["--load"]);
    env.set("editors", "show_opening = false");
    let mut editor = Editor::start(&env, "ref");
    let id = editor.begin();
    editor.say(&id, "Remember PASSKEY-heron-42");
    editor.prompt(&id, "stream: 400");
    let mut shown = String::new();
    while shown.len() < bytes {
        let Some(frame) = editor.frame() else { break };
        if frame.get("result").is_some() {
            break;
        }
        shown.push_str(text(&frame));
    }
    turn_a_wheel(spin);
    match victim {
        Victim::Proxy => editor.kill(),
        Victim::Agent => {
            if let Some(agent) = agent_of(&env) {
                let killed = Command::new("kill").args(["-9", &agent.to_string()]).status();
                assert!(killed.is_ok());
            }
        }
        Victim::Editor if is_sudden => editor.vanish(),
        Victim::Editor => editor.leave(),
    }
    if matches!(victim, Victim::Agent) {
        hear_of_it(&mut editor, &id, &mut shown);
        editor.leave();
    }
    while let Some(frame) = editor.frame() {
        shown.push_str(text(&frame));
    }
    if is_sudden && matches!(victim, Victim::Editor) {
        // Not killed by us: it has to end by itself.
        assert!(editor.process.wait().unwrap().success());
    }
    drop(editor);
    env.assert_nothing_runs();
    let mut editor = Editor::start(&env, "ref");
    let params = editor.opened(&id);
    editor.ok("session/load", params);
    let loaded = editor.text("agent_message_chunk");
    assert!(loaded.contains(&shown), "{victim:?}: {loaded:?} lacks {shown:?}");
    assert_eq!(editor.say(&id, "what was the passkey"), "The passkey is PASSKEY-heron-42");
    editor.end();
    env.assert_nothing_runs();
    env.assert_sound();
}

#[test]
fn whoever_is_killed_nothing_that_was_shown_is_lost() {
    let mut chance = Chance(rethread_testkit::seed().max(1));
    for n in 0..kills() {
        let victim =
            [Victim::Proxy, Victim::Agent, Victim::Editor][usize::try_from(n % 3).unwrap()];
        let bytes = usize::try_from(chance.below(3_000)).unwrap();
        let longest = if chance.below(2) == 0 { 50_000 } else { 20_000_000 };
        let spin = chance.below(longest);
        die(victim, n % 2 == 0, bytes, spin);
    }
}
