//! Stored text plays no tricks on a terminal (PROMISES S12).

use serde_json::json;

use crate::env::{TestEnv, jsonl, user};

/// What a terminal, or its reader, could be fooled with.
const TRICKS: &[&str] = &[
    "\u{1b}[2J",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]8;;http://evil\u{1b}\\link",
    "\u{1b}P+q\u{1b}\\",
    "\u{1b}[31;1m",
    "\u{1b}c",
    "\u{9b}2J",
    "\u{9d}0;x\u{9c}",
    "\u{90}x",
    "\u{7}",
    "\u{8}\u{8}\u{8}",
    "\u{0}",
    "\u{b}\u{c}",
    "\u{e}\u{f}",
    "\u{7f}",
    "over\rwritten",
    "\u{85}",
    "\u{202e}drow",
    "\u{202a}\u{202b}\u{202c}\u{202d}",
    "\u{2066}\u{2067}\u{2068}\u{2069}",
    "\u{200e}\u{200f}\u{61c}",
    "\u{2028}\u{2029}",
    "\u{e0041}\u{e007f}",
];

/// Characters that must not be in any text for people. An end of line may be of two characters.
fn tricks_in(text: &str) -> Vec<char> {
    let text = text.replace("\r\n", "\n");
    let is_trick = |c: char| {
        c.is_control() && c != '\n' && c != '\t'
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(c, '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{e0000}'..='\u{e007f}')
    };
    text.chars().filter(|c| is_trick(*c)).collect()
}

fn hostile(env: &TestEnv) -> String {
    let all = TRICKS.concat();
    let project = env.path("project/\u{1b}]0;evil\u{7}\u{202e}");
    std::fs::create_dir(&project).unwrap();
    let mut lines: Vec<_> =
        TRICKS.iter().map(|trick| user(&format!("needle {trick} end"))).collect();
    lines.insert(0, user(&format!("{all} needle first {all}")));
    lines.push(json!({"role": "assistant", "content": format!("We decided: needle {all}.\n{all}"), "agent": "claude"}));
    let id = env.record(["--project", project.to_str().unwrap()], &lines);
    // A text on a command line cannot hold a zero.
    env.data(["rename", &id, &format!("needle {}", all.replace('\0', ""))]);
    id
}

#[test]
fn no_command_prints_control_characters_of_stored_text() {
    let env = TestEnv::new();
    let id = hostile(&env);
    let fork = env.data(["fork", &id]).trim().to_owned();
    for args in [
        &["list"][..],
        &["show", &id, "--all"],
        &["search", "needle", "-n", "100"],
        &["context", &id],
        &["context", &id, "--prompt", "needle first"],
        &["context", &id, "--tokens", "300"],
        &["prune", &id, "--keep", "2"],
        &["pause", &id],
        &["show", &id],
        &["list"],
        &["search", "decided needle"],
        &["context", &id],
        &["pause", &id],
        &["complete", &id],
        &["activate", "--yes", &id],
        &["archive", &id],
        &["unarchive", &id],
        &["fork", &id],
        &["doctor"],
        &["delete", &fork],
        &["undelete", &fork],
        &["delete", "--permanently", &fork],
    ] {
        let output = env.run(args);
        assert_eq!(tricks_in(output.text()), [], "{args:?}");
        assert_eq!(tricks_in(&output.stderr), [], "{args:?}");
    }
}

#[test]
fn no_error_repeats_control_characters() {
    let env = TestEnv::new();
    let id = hostile(&env);
    for trick in TRICKS.iter().filter(|trick| !trick.contains('\0')) {
        for args in [
            &["show", trick][..],
            &[trick],
            &["list", "--status", trick],
            &["purge", &id, trick],
            &["record", "--kind", trick],
            &["record", "--project", trick],
            &["record", "--session", &id, "--project", "."],
            &["search", "x", "--since", trick],
            &["config", "set", trick, trick],
            &["import", trick],
            &["list", "--store", trick],
            &["list", "--store", &format!("sqlite:/proc/{trick}/x")],
            &["restore", trick],
        ] {
            let output = env.feed(args, jsonl(&[user("x")]));
            assert_ne!(output.code, Some(0), "{args:?} {output}");
            assert_ne!(output.code, Some(70), "{args:?} {output}");
            assert_eq!(tricks_in(&output.stderr), [], "{args:?} {output}");
            assert_eq!(tricks_in(output.text()), [], "{args:?} {output}");
        }
    }
    for trick in TRICKS {
        for line in [
            json!({"role": trick, "content": "x"}),
            json!({"role": "user", "content": "x", "timestamp": trick}),
            json!({"role": "user", "content": "x", "id": trick}),
            json!({"role": "user", "content": "x", "conversation": trick}),
            json!({"role": "user", "content": "x", "agent": trick}),
        ] {
            let output = env.feed(["record"], jsonl(&[line]));
            assert_eq!(output.code, Some(2), "{output}");
            assert_eq!(tricks_in(&output.stderr), [], "{output}");
        }
    }
}

#[test]
fn an_import_brings_no_control_characters_in_by_the_back_door() {
    let env = TestEnv::new();
    let id = env.record(["--agent", "claude", "--kind", "debug"], &[user("needle")]);
    let good = env.data(["export", &id]);
    for (field, value) in [
        ("\"kind\":\"debug\"", "kind"),
        ("\"user\":\"anna\"", "user"),
        ("\"agent\":\"claude\"", "agent"),
    ] {
        let bad = good.replace(field, &format!("\"{value}\":\"\\u001b]0;x\\u0007\""));
        assert_ne!(bad, good);
        let other = TestEnv::new();
        let told = other.feed(["import", "-"], bad);
        assert_eq!(told.code, Some(2), "{value}: {told}");
        assert_eq!(tricks_in(&told.stderr), [], "{told}");
        assert_eq!(other.json(["list"]), json!([]), "{value}");
    }
}

#[test]
fn raw_gives_the_text_as_it_is() {
    let env = TestEnv::new();
    let id = hostile(&env);
    let raw = env.data(["show", &id, "--all", "--raw"]);
    for trick in TRICKS {
        assert!(raw.contains(&format!("needle {trick} end")), "{trick:?}");
    }
}

#[test]
fn a_terminal_gets_no_control_characters_but_ours() {
    let env = TestEnv::new();
    let id = hostile(&env);
    for args in [
        &["list"][..],
        &["show", &id, "--all"],
        &["search", "needle", "-n", "100"],
        &["context", &id],
        &["pause", &id],
    ] {
        let words: Vec<String> =
            std::iter::once(crate::env::PROGRAM).chain(args.iter().copied()).map(quoted).collect();
        let mut command = env.command_by(&["script"], [""; 0]);
        let surroundings: Vec<_> =
            command.get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
        command = std::process::Command::new("script");
        command
            .env_clear()
            .args(["-qec", &words.join(" "), "/dev/null"])
            .current_dir(env.path("project"));
        command.env("TERM", "xterm");
        for (name, value) in surroundings {
            command.env(name, value.unwrap_or_default());
        }
        let output = env.finish(command, b"").succeeded();
        let bold = output.text().contains("\u{1b}[1m");
        assert_eq!(bold, matches!(args[0], "show" | "search"), "{args:?} {output}");
        let text = output.text().replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        assert_eq!(tricks_in(&text.replace("\r\r\n", "\n")), [], "{args:?}");
    }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
