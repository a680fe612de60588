//! What is read from the requests of real agents.

use serde_json::{Value, json};

use super::*;

const ROOTS: &[&str] = &["/home/anna/project", "/private/project"];

fn intent(kind: &str, title: &str, input: &Value, places: &[&str]) -> Intent {
    let places: Vec<String> = places.iter().map(|&place| place.to_owned()).collect();
    read(&Request { kind, title, input, places: &places, changes: &[], roots: ROOTS })
}

/// What is shown, and what a lasting answer would be about.
fn check(intent: &Intent, headline: &str, subject: Result<Value, &str>) {
    assert_eq!(intent.headline(), headline, "{intent:?}");
    let expected = subject.map_err(str::to_owned);
    let found = intent
        .subject()
        .map_err(str::to_owned)
        .map(|text| serde_json::from_str::<Value>(text.strip_prefix(EXACTLY).unwrap()).unwrap());
    assert_eq!(found, expected, "{intent:?}");
}

#[test]
fn the_command_counts_and_not_what_the_agent_calls_it() {
    let command = |text: &str| Ok(json!({"kind": "execute", "command": text}));
    let unsaid = Err("the agent does not say which command it will run");
    for (agent, title, input, headline, subject) in [
        (
            "copilot: the title is the model's own words",
            "stub",
            json!({"command": "rm -rf things", "description": "stub"}),
            "rm -rf things",
            command("rm -rf things"),
        ),
        (
            "claude",
            "`cargo test`",
            json!({"command": "cargo test", "description": "Run the tests", "timeout": 1000}),
            "cargo test",
            command("cargo test"),
        ),
        (
            "codex: words for a shell",
            "cargo test",
            json!({"call_id": "c-1", "command": ["/bin/bash", "-lc", "cargo test"], "cwd": "/home/anna/project"}),
            "cargo test",
            command("cargo test"),
        ),
        (
            "codex: words for no shell",
            "rm",
            json!({"command": ["rm", "a b", "$(x)"], "cwd": "/private/project/sub"}),
            "rm 'a b' '$(x)'",
            Ok(json!({"kind": "execute", "command": "rm 'a b' '$(x)'", "in": "sub"})),
        ),
        (
            "codex: without its sandbox it is something else",
            "ls",
            json!({"command": "ls", "sandbox_permissions": "require_escalated", "justification": "j"}),
            "ls",
            Ok(
                json!({"kind": "execute", "command": "ls", "with": {"sandbox_permissions": "require_escalated"}}),
            ),
        ),
        (
            "qwen",
            "ls -l (list)",
            json!({"command": "ls -l", "is_background": false, "description": "list"}),
            "ls -l",
            Ok(json!({"kind": "execute", "command": "ls -l", "with": {"is_background": false}})),
        ),
        (
            "gemini: no arguments at all",
            "ls -l [in here]",
            json!(null),
            "ls -l [in here]",
            unsaid.clone(),
        ),
        ("nothing of use", "ls", json!({"argument": "ls", "command": " "}), "ls", unsaid),
    ] {
        let found = intent("execute", title, &input, &["/home/anna/project/a"]);
        assert!(found.own_words().is_none_or(|words| words != headline), "{agent}");
        check(&found, headline, subject);
    }
}

#[test]
fn a_command_is_one_whatever_the_tool_is_called() {
    let bare = intent("execute", "t", &json!("ls -l"), &[]);
    check(&bare, "ls -l", Ok(json!({"kind": "execute", "command": "ls -l"})));
    // goose says `other`, kimi names no kind.
    for kind in ["other", "", "shell"] {
        let found = intent(kind, "developer: shell", &json!({"command": "ls -l"}), &[]);
        check(&found, "ls -l", Ok(json!({"kind": "execute", "command": "ls -l"})));
    }
}

#[test]
fn a_file_is_known_by_its_path_wherever_that_stands() {
    let edit = |path: &str| Ok(json!({"kind": "edit", "paths": [path]}));
    for (agent, input, places, subject) in [
        (
            "claude",
            json!({"file_path": "/home/anna/project/src/a.rs", "old_string": "1", "new_string": "2"}),
            &["/home/anna/project/src/a.rs"][..],
            edit("src/a.rs"),
        ),
        ("opencode", json!({"filepath": "src/./a.rs", "diff": "-1\n+2"}), &[], edit("src/a.rs")),
        ("gemini", json!(null), &["/private/project//src/a.rs"], edit("src/a.rs")),
        ("goose", json!({"command": "write", "path": "src/a.rs", "file_text": "x"}), &[], {
            Ok(json!({"kind": "edit", "paths": ["src/a.rs"], "with": {"command": "write"}}))
        }),
        (
            "codex",
            json!({"changes": {"/private/project/src/a.rs": {"type": "add"}}}),
            &[],
            edit("src/a.rs"),
        ),
        (
            "a patch",
            json!({"input": "*** Begin Patch\n*** Update File: a\n*** Add File: b\n"}),
            &[],
            {
                let patch = "*** Begin Patch\n*** Update File: a\n*** Add File: b\n";
                Ok(json!({"kind": "edit", "paths": ["a", "b"], "with": {"input": patch}}))
            },
        ),
        ("fast-agent", json!({"path": "src/a.rs", "content_length": 3}), &[], edit("src/a.rs")),
        ("copilot", json!({"fileName": "src/a.rs", "diff": "+x"}), &[], edit("src/a.rs")),
        ("elsewhere", json!({"path": "/etc/passwd"}), &[], edit("/etc/passwd")),
        ("beside", json!({"path": "/home/anna/projects/a"}), &[], edit("/home/anna/projects/a")),
        (
            "more than it says first",
            json!({"path": "a"}),
            &["/home/anna/project/b"],
            Ok(json!({"kind": "edit", "paths": ["a", "b"]})),
        ),
        (
            "up and down",
            json!({"path": "src/../../a"}),
            &[],
            Err("a path in it leads through \"..\""),
        ),
        (
            "nothing",
            json!({"content": "x"}),
            &[],
            Err("the agent does not say which file it is about"),
        ),
    ] {
        let found = intent("edit", "Edit", &input, places);
        let subject = subject.map_err(|why: &str| why);
        let headline = found.headline();
        check(&found, &headline, subject);
        assert!(found.command.is_none(), "{agent}");
    }
}

/// A lasting answer about a file covers any content: so what leads to other files is named, wherever it stands.
#[test]
fn no_other_file_hides_in_the_content_of_an_edit() {
    for (more, paths) in [
        (json!({"edits": [{"old_text": "a", "new_text": "b"}]}), vec!["src/f.txt"]),
        (json!({"edits": [{"path": "/etc/passwd"}]}), vec!["src/f.txt", "/etc/passwd"]),
        (json!({"replacement": {"x": {"file": "g"}}}), vec!["src/f.txt", "g"]),
        (json!({"fileDiff": "--- a/other\n+++ b/other\n"}), vec!["src/f.txt", "other"]),
        (json!({"fileDiff": "--- f.txt\tCurrent\n+++ f.txt\tProposed\n"}), vec!["src/f.txt"]),
        (json!({"diff": "--- /dev/null\n+++ b/new\n"}), vec!["src/f.txt", "new"]),
        (json!({"changes": {"h": {"x": 1}}}), vec!["src/f.txt", "h"]),
        (json!({"content": "--- a/other\n+++ b/other\n"}), vec!["src/f.txt"]),
    ] {
        let mut input = json!({"path": "src/f.txt"});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(intent("edit", "t", &input, &[]).paths, paths, "{input}");
    }
}

#[test]
fn whoever_sends_new_content_for_a_file_edits_it() {
    // goose calls everything `other`.
    let input = json!({"path": "/home/anna/project/a.rs", "content": "x"});
    let found = intent("other", "write · a.rs", &input, &[]);
    check(&found, "a.rs", Ok(json!({"kind": "edit", "paths": ["a.rs"]})));
}

#[test]
fn what_cannot_be_pinned_down_is_not_for_good() {
    for (kind, input) in [
        ("other", json!({"amount": 5})),
        ("mcp", json!({"path": "a"})),
        ("think", json!({})),
        ("switch_mode", json!({"plan": "all"})),
        ("fetch", json!({"query": "x"})),
        ("search", json!({"pattern": "x"})),
    ] {
        let found = intent(kind, "mcp__shop__buy", &input, &[]);
        assert!(found.subject().is_err(), "{kind}");
    }
    let page = json!({"url": "https://example.org/a", "prompt": "p"});
    let with = json!({"prompt": "p"});
    let expected = json!({"kind": "fetch", "url": "https://example.org/a", "with": with});
    check(&intent("fetch", "Fetch", &page, &[]), "https://example.org/a", Ok(expected));
}

#[test]
fn all_that_matters_is_shown() {
    let input = json!({"command": "ls\nrm x", "cwd": "sub", "sandbox": false, "description": "d"});
    let found = intent("execute", "Lists files", &input, &[]);
    let shown: Vec<(&str, String)> =
        found.details().into_iter().map(|detail| (detail.label, detail.text)).collect();
    let expected = [
        ("in", "sub".to_owned()),
        ("with", r#"{"sandbox":false}"#.to_owned()),
        ("the agent calls it", "Lists files".to_owned()),
    ];
    assert_eq!(shown, expected);
    assert_eq!(found.headline(), "ls\nrm x");
    // What is written to a file may be long; the path is what is decided on.
    let input = json!({"path": "a", "content": "x".repeat(100_000)});
    let found = intent("edit", "a", &input, &[]);
    assert!(found.bytes() < 8_000 && found.details()[0].text.ends_with("bytes more"));
}

#[test]
fn what_was_decided_counts_for_just_that() {
    let run = |input: Value| intent("execute", "x", &input, &[]).keys();
    assert_eq!(run(json!({"command": "ls"})), run(json!({"command": ["sh", "-c", "ls"]})));
    assert_ne!(run(json!({"command": "ls"})), run(json!({"command": "ls", "cwd": "sub"})));
    // kimi asks about a command, and runs it behind a change to the folder that it is in anyway.
    let there = json!({"command": ["/bin/bash", "-c", "cd '/private/project' && ls"]});
    assert_eq!(run(json!({"command": "ls"})), run(there));
    assert_ne!(run(json!({"command": "ls"})), run(json!({"command": "cd '/private' && ls"})));
    let with = |env: Value| run(json!({"command": "ls", "env": env}));
    assert_ne!(run(json!({"command": "ls"})), with(json!({"LD_PRELOAD": "x"})));
    assert_eq!(run(json!({"argument": "ls"})), Vec::<String>::new());
    let edit = |kind: &str, path: &str| intent(kind, "x", &json!({"path": path}), &[]).keys();
    assert_eq!(edit("edit", "/private/project/a"), edit("edit", "a"));
    assert_ne!(edit("edit", "a"), edit("read", "a"));
    assert_ne!(edit("edit", "a"), edit("edit", "b"));
}

#[test]
fn words_become_a_line_that_means_the_same() {
    let line = |program: &str, args: &[&str]| {
        let args: Vec<String> = args.iter().map(|&word| word.to_owned()).collect();
        super::line(program, &args)
    };
    assert_eq!(line("echo hello && ls", &[]), "echo hello && ls");
    assert_eq!(line("echo", &["it's", "", "a"]), r"echo 'it'\''s' '' a");
    assert_eq!(line("/bin/sh", &["-c", " ls -l "]), "ls -l");
    assert_eq!(line("sh", &["-c", "ls", "x"]), "sh -c ls x");
    assert_eq!(line("my sh", &["-c", "ls"]), "'my sh' -c ls");
    assert_eq!(line("/usr/bin/bash", &["-lc", "ls"]), "ls");
    // A program of the project may be called as a shell is.
    assert_eq!(line("./tools/sh", &["-c", "ls"]), "./tools/sh -c ls");
    assert_eq!(line("/tmp/bash", &["-lc", "ls"]), "/tmp/bash -lc ls");
    // No blank to a shell, and so a part of the name.
    assert_eq!(line("\u{a0}/usr/bin/ls", &[]), "\u{a0}/usr/bin/ls");
    assert!(super::is_line("\u{a0}/usr/bin/ls") && !super::is_line(" /usr/bin/ls\n"));
}

#[test]
fn words_that_stand_apart_from_their_program_belong_to_the_line() {
    for (input, headline) in [
        (json!({"command": "git", "args": ["push", "-f"]}), "git push -f"),
        (json!({"command": "touch", "arguments": ["a b"]}), "touch 'a b'"),
        (json!({"command": "bash", "args": ["-c", "ls | wc"]}), "ls | wc"),
        (json!({"command": "npm test", "args": ["--all", "$(x)"]}), "npm test --all '$(x)'"),
        (json!({"cmd": "ls", "args": ["-l"]}), "ls -l"),
    ] {
        let found = intent("execute", "t", &input, &[]);
        check(&found, headline, Ok(json!({"kind": "execute", "command": headline})));
        assert!(!found.has_other_arguments());
    }
    // What is no list of words is shown beside the line.
    let odd = intent("execute", "t", &json!({"command": "ls", "args": "-l; rm x"}), &[]);
    assert_eq!((odd.headline().as_str(), odd.has_other_arguments()), ("ls", true));
    // To an editor they are something else.
    let edit = intent("edit", "t", &json!({"command": "view", "path": "a", "args": ["x"]}), &[]);
    assert_eq!(edit.headline(), "a");
}

#[test]
fn a_program_whose_name_a_shell_would_read_as_a_variable_is_quoted() {
    let words = ["ls".to_owned(), "-l".to_owned()];
    // A shell would run `ls` there, and the program is `evil` in the folder `X=.`.
    assert_eq!(line("X=./evil", &words), "'X=./evil' ls -l");
    assert_eq!(line("make", &["CC=gcc".to_owned()]), "make CC=gcc");
    // Alone it is for the shell, which runs nothing then.
    assert!(is_line("X=./evil") && !is_line("./evil"));
    let said = intent("execute", "t", &json!({"command": "X=./evil ls -l"}), &[]);
    let run = intent("execute", "t", &json!({"command": line("X=./evil", &words)}), &[]);
    assert_ne!(said.subject(), run.subject());
    assert_ne!(said.keys(), run.keys());
}

#[test]
fn a_command_beside_a_path_is_a_command() {
    let input = json!({"command": "rm -rf things", "path": "src/x"});
    let shell = intent("other", "x", &input, &[]);
    check(
        &shell,
        "rm -rf things",
        Ok(json!({"kind": "execute", "command": "rm -rf things", "with": {"path": "src/x"}})),
    );
    assert!(shell.has_other_arguments());
    // To an editor it is what to do with the file.
    let editor = intent("other", "x", &json!({"command": "view", "path": "src/x"}), &[]);
    assert_eq!((editor.command, editor.paths), (None, vec!["src/x".to_owned()]));
}

#[test]
fn every_path_in_the_arguments_is_seen() {
    let hidden = ".git/config";
    for input in [
        json!({"paths": ["a", hidden, 3]}),
        json!({"path": {"uri": hidden}}),
        json!({"path": "a", "output_path": hidden}),
        json!({"path": "a", "targetFile": hidden}),
        json!({"path": "a", "edits": [{"files": [hidden]}]}),
        json!({"source": "a", "destination": hidden}),
    ] {
        let intent = intent("edit", "x", &input, &[]);
        assert!(intent.paths.iter().any(|path| path == hidden), "{input}: {intent:?}");
    }
    for input in [json!({"source": "a", "target": hidden}), json!({"from": "a", "to": hidden})] {
        let intent = intent("move", "x", &input, &[]);
        assert!(intent.paths.iter().any(|path| path == hidden), "{input}: {intent:?}");
    }
    // What is no text stays to be shown.
    let odd = intent("edit", "x", &json!({"paths": ["a", 3]}), &[]);
    assert!(odd.rest.contains_key("paths"));
}

#[test]
fn what_is_given_a_command_runs_it_whatever_kind_it_is_said_to_be() {
    for kind in ["read", "search", "edit", "fetch", "think", "other", "execute", ""] {
        for input in [
            json!({"command": "cat a; rm b", "path": "src/a"}),
            json!({"cmd": ["bash", "-lc", "cat a; rm b"], "parsed_cmd": [{"type": "read"}]}),
        ] {
            let found = intent(kind, "read a", &input, &["src/a"]);
            assert_eq!(found.kind, "execute", "{kind} {input}");
            assert_eq!(found.command.as_deref(), Some("cat a; rm b"), "{kind} {input}");
        }
    }
    // To an editor it is what to do with a file.
    let found = intent("read", "x", &json!({"command": "view", "path": "src/a"}), &[]);
    assert_eq!((found.kind.as_str(), found.command), ("read", None));
}

#[test]
fn an_address_of_a_file_is_a_file() {
    for address in [
        "file:///home/anna/project/.git/config",
        "FILE:///home/anna/project/%2egit/config",
        "file://localhost/home/anna/project/.git/config#top",
        "file:/home/anna/project/./.git/config?x",
    ] {
        for (kind, name) in [("edit", "uri"), ("read", "path"), ("fetch", "uri")] {
            let found = intent(kind, "x", &json!({ name: address }), &[]);
            assert_eq!(found.paths, [".git/config"], "{kind} {address}");
            assert_eq!(found.url, None);
        }
        let found = intent("fetch", "x", &json!({ "url": address }), &[]);
        assert_eq!((found.url.as_deref(), found.mentioned), (None, vec![".git/config".to_owned()]));
    }
    let found = intent("fetch", "x", &json!({"url": "https://example.test/a%20b"}), &[]);
    assert_eq!(found.url.as_deref(), Some("https://example.test/a%20b"));
}

#[test]
fn whatever_an_argument_is_called_the_place_that_it_names_is_seen() {
    let input = json!({
        "location": "/home/anna/project/secrets/key",
        "options": {"onto": ["~/x", "/home/anna/project/~/y"]},
        "reason": "a/b",
        "new_string": "/etc/passwd",
    });
    let found = intent("edit", "x", &input, &[]);
    assert_eq!(found.mentioned, ["./~/y", "secrets/key", "~/x"]);
    assert!(found.paths.is_empty());
    let found = intent("other", "x", &json!("/home/anna/project/a"), &[]);
    assert_eq!(found.mentioned, ["a"]);
}

#[test]
fn where_nothing_else_says_what_is_done_all_arguments_are_shown() {
    let code = "x".repeat(MOST_SHOWN * 2) + "the end";
    let shown = |kind: &str, input: &Value| {
        intent(kind, "tool", input, &[]).details().iter().any(|one| one.text.contains("the end"))
    };
    assert!(shown("other", &json!({ "code": code })));
    assert!(shown("execute", &json!({ "code": code })));
    assert!(!shown("fetch", &json!({ "url": "https://example.test", "code": code })));
}

#[test]
fn to_remove_or_move_a_file_is_not_to_write_it() {
    let keys = |kind: &str| intent(kind, "x", &json!({"path": "src/a"}), &[]).keys();
    assert_eq!(keys("edit"), ["edit\0src/a"]);
    assert_eq!(keys("read"), ["read\0src/a"]);
    for kind in ["delete", "move", "fetch", "other"] {
        assert_eq!(keys(kind), [] as [String; 0], "{kind}");
    }
}
