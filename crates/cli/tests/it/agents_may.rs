//! What agents may do: tools by rule, by what was decided before or by asking; files of the project and no others
//! (PROMISES S5, S7).

use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::chat::Terminal;
use crate::env::TestEnv;

const ASK: &str = "ask: rm things";

fn world() -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", &["--resume"]);
    env
}

/// The answer of a new session to a prompt.
#[track_caller]
fn answer(env: &TestEnv, prompt: &str, more: &[&str]) -> String {
    env.ask(&[&["run", "ref", prompt], more].concat()).0
}

#[test]
fn without_a_terminal_the_rule_decides() {
    let env = world();
    assert_eq!(answer(&env, ASK, &[]), "rejected");
    for (rule, expected) in [("ask", "rejected"), ("deny", "rejected"), ("allow", "allowed")] {
        assert_eq!(answer(&env, ASK, &["--permissions", rule]), expected);
    }
    env.set("talk", "permissions = \"allow\"");
    assert_eq!(answer(&env, ASK, &[]), "allowed");
    env.agent_with("ref", &[], "permissions = \"deny\"");
    assert_eq!(answer(&env, ASK, &[]), "rejected", "the agent's own rule is the closer one");
    assert_eq!(answer(&env, ASK, &["--permissions", "allow"]), "allowed");
    let output = env.run(["run", "ref", ASK, "--permissions", "perhaps", "--json"]);
    output.assert_error(2, "bad_input");
}

#[test]
fn tools_are_allowed_and_disallowed_by_kind_and_by_title() {
    let env = world();
    for (entry, expected) in [
        ("allowed_tools = [\"execute\"]", "allowed"),
        ("allowed_tools = [\"rm \"]", "allowed"),
        ("allowed_tools = [\"ls\"]", "rejected"),
        // A part of a word is another word.
        ("allowed_tools = [\"r\"]", "rejected"),
        ("allowed_tools = [\"rm thing\"]", "rejected"),
        ("allowed_tools = [\"rm things\"]", "allowed"),
        ("allowed_tools = [\"\", \" \"]", "rejected"),
        ("allowed_tools = [\"execute\"]\ndisallowed_tools = [\"rm\"]", "rejected"),
        ("permissions = \"allow\"\ndisallowed_tools = [\"execute\"]", "rejected"),
        ("permissions = \"allow\"\ndisallowed_tools = [\"ls\"]", "allowed"),
        ("permissions = \"deny\"\nallowed_tools = [\"execute\"]", "rejected"),
    ] {
        env.agent_with("ref", &[], entry);
        assert_eq!(answer(&env, ASK, &[]), expected, "{entry}");
    }
}

#[test]
fn what_was_asked_and_answered_is_recorded() {
    let env = world();
    answer(&env, ASK, &[]);
    let id = env.only();
    let messages = env.messages(&id);
    let tool = messages.iter().find(|message| message["role"] == "tool").expect("a tool call");
    let asked = find(tool, "permissions").expect("what was asked");
    assert_eq!(asked[0]["answer"], "reject_once", "{tool:#}");
    assert_eq!(asked[0]["by"], "nobody", "{tool:#}");
    let shown = env.run(["resume", &id, ASK]).succeeded();
    assert!(shown.stderr.contains("[rm things: refused: nobody could be asked"), "{shown}");
}

/// A field, however deep it is.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => {
            fields.get(name).or_else(|| fields.values().find_map(|inner| find(inner, name)))
        }
        Value::Array(all) => all.iter().find_map(|inner| find(inner, name)),
        _ => None,
    }
}

#[test]
fn what_is_decided_for_good_is_not_asked_again_in_this_project() {
    let env = world();
    for (title, number, expected, kind) in [
        ("ask: rm things", "2", "allowed", "allowed"),
        ("ask: rm everything", "4", "rejected", "refused"),
    ] {
        let mut terminal = Terminal::start(&env, &["run", "ref", title]);
        terminal.wait_for("Allow ref to run: rm ");
        terminal.wait_for("2. Always allow");
        // What is no number is asked for again.
        terminal.wait_for("Number");
        terminal.press("perhaps\r");
        terminal.wait_for("Type a number from 1 to 4.");
        terminal.wait_for("Number");
        terminal.press(&format!("{number}\r"));
        terminal.wait_for(expected);
        assert_eq!(terminal.end().1, 0);
        let mut terminal = Terminal::start(&env, &["run", "ref", title]);
        let before = terminal.wait_for(&format!("{kind}, as you answered before"));
        assert!(!before.contains("Allow ref"), "{before}");
        terminal.wait_for(expected);
        assert_eq!(terminal.end().1, 0);
        assert_eq!(answer(&env, title, &[]), expected, "without a terminal");
    }
    // Another title, another agent and another project are asked about.
    let elsewhere = env.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let folder = elsewhere.to_str().unwrap();
    env.agent("other", &[]);
    assert_eq!(answer(&env, "ask: rm other things", &[]), "rejected");
    assert_eq!(env.ask(&["run", "other", ASK]).0, "rejected");
    assert_eq!(answer(&env, ASK, &["--project", folder]), "rejected");
    let mut terminal = Terminal::start(&env, &["run", "ref", ASK, "--project", folder]);
    terminal.wait_for("Allow ref to run: rm things?");
    terminal.wait_for("Number");
    terminal.press("1\r");
    terminal.wait_for("allowed");
    assert_eq!(terminal.end().1, 0);
    // Once is once.
    assert_eq!(answer(&env, ASK, &["--project", folder]), "rejected");
    // A rule is stronger than what was decided before.
    assert_eq!(answer(&env, ASK, &["--permissions", "deny"]), "rejected");
}

#[test]
fn what_cannot_be_pinned_down_is_asked_about_each_time() {
    let env = world();
    for _ in 0..2 {
        let mut terminal = Terminal::start(&env, &["run", "ref", "ask:"]);
        terminal.wait_for("No lasting answer is possible: the agent does not say which command");
        terminal.wait_for("Allow ref to run: something that it does not name?");
        terminal.wait_for("2. Reject");
        terminal.wait_for("Number");
        terminal.press("1\r");
        terminal.wait_for("allowed");
        assert_eq!(terminal.end().1, 0);
    }
    assert_eq!(answer(&env, "ask:", &[]), "rejected");
}

/// As Copilot asks: the title is the model's own words.
fn titled(title: &str, command: &str) -> String {
    let input = serde_json::json!({"command": command, "description": title});
    let call = serde_json::json!({"title": title, "kind": "execute", "rawInput": input});
    format!("ask as: {call}")
}

#[test]
fn always_is_about_what_will_be_run_and_not_about_how_it_is_called() {
    let env = world();
    let mut terminal = Terminal::start(&env, &["run", "ref", &titled("stub", "rm a")]);
    terminal.wait_for("the agent calls it: stub");
    terminal.wait_for("Allow ref to run: rm a?");
    terminal.wait_for("2. Always allow exactly this in this project");
    terminal.wait_for("Number");
    terminal.press("2\r");
    terminal.wait_for("allowed");
    assert_eq!(terminal.end().1, 0);
    assert_eq!(answer(&env, &titled("something else", "rm a"), &[]), "allowed");
    assert_eq!(answer(&env, &titled("stub", "rm b"), &[]), "rejected");
    // What was told before the question counts, too.
    let after = titled("stub", "rm a").replace("ask as", "ask after");
    assert_eq!(answer(&env, &after, &[]), "allowed");
    assert_eq!(answer(&env, &after.replace("rm a", "rm c"), &[]), "rejected");
    // Nor does a rule look at the title.
    env.agent_with("ref", &[], "allowed_tools = [\"stub\"]");
    assert_eq!(answer(&env, &titled("stub", "rm b"), &[]), "rejected");
}

#[test]
fn a_question_shows_the_change_and_nothing_hides_in_it() {
    let env = world();
    let call = serde_json::json!({
        "title": "Tidy up", "kind": "edit",
        "locations": [{"path": env.path("project/a.rs")}],
        "content": [{"type": "diff", "path": env.path("project/a.rs"), "oldText": "one\n", "newText": "two\u{202e}\n"}],
    });
    let mut terminal = Terminal::start(&env, &["run", "ref", &format!("ask as: {call}")]);
    let shown = terminal.wait_for("the agent calls it: Tidy up");
    terminal.wait_for("Allow ref to edit: a.rs?");
    assert!(shown.contains("-one") && shown.contains("+two") && shown.contains("202e;"), "{shown}");
    terminal.wait_for("Number");
    terminal.press("1\r");
    terminal.wait_for("allowed");
    assert_eq!(terminal.end().1, 0);
}

#[test]
fn a_whole_line_is_run_by_the_shell_after_it_was_shown() {
    let env = world();
    let file = env.path("project/made");
    let line = format!("echo one two > {} && echo done | tr d D", file.display());
    let mut terminal = Terminal::start(&env, &["run", "ref", &format!("shell: {line}")]);
    terminal.wait_for(&format!("Allow ref to run: {line}?"));
    terminal.wait_for("Number");
    assert!(!file.exists());
    terminal.press("1\r");
    terminal.wait_for("Done");
    assert_eq!(terminal.end().1, 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one two\n");
    // One permission is enough for the agent that asked for the same line.
    let asked = answer(&env, "ask shell: echo a  b | cat", &["--permissions", "allow"]);
    assert_eq!(asked.trim(), "allowed: a b");
    assert!(answer(&env, &format!("shell: {line}"), &[]).starts_with("error "));
}

#[test]
fn two_questions_are_asked_one_after_the_other() {
    let env = world();
    let mut terminal = Terminal::start(&env, &["run", "ref", "ask both: fetch, drop"]);
    terminal.wait_for("Allow ref to run: ");
    let first = terminal.wait_for("Number");
    assert!(!first.contains("Allow ref"), "{first}");
    let (yes, no) = if first.starts_with("fetch") { ("1\r", "3\r") } else { ("3\r", "1\r") };
    terminal.press(yes);
    let between = terminal.wait_for("Allow ref to run: ");
    assert!(!between.contains("Number"), "{between}");
    terminal.wait_for("Number");
    terminal.press(no);
    terminal.wait_for("fetch allowed, drop rejected");
    assert_eq!(terminal.end().1, 0);
}

/// What Rethread is asked to do for an agent: what comes of it, and whether anything was done.
#[track_caller]
fn acts(env: &TestEnv, more: &[&str]) -> [bool; 2] {
    let (written, touched) = (env.path("project/written"), env.path("project/touched"));
    answer(env, &format!("write: {}=x", written.display()), more);
    answer(env, &format!("run: touch {}", touched.display()), more);
    let done = [written.exists(), touched.exists()];
    for file in [written, touched] {
        drop(std::fs::remove_file(file));
    }
    done
}

#[test]
fn what_we_do_for_an_agent_follows_the_same_rules() {
    let env = world();
    for (entry, done) in [
        // Nobody is there who could be asked.
        ("", [false, false]),
        ("permissions = \"deny\"", [false, false]),
        ("permissions = \"allow\"", [true, true]),
        ("permissions = \"allow\"\ndisallowed_tools = [\"execute\", \"edit\"]", [false, false]),
        ("permissions = \"allow\"\ndisallowed_tools = [\"touch\"]", [true, false]),
        ("allowed_tools = [\"edit\"]", [true, false]),
        ("allowed_tools = [\"touch\"]", [false, true]),
        ("allowed_tools = [\"execute\"]\ndisallowed_tools = [\"touch\"]", [false, false]),
    ] {
        env.agent_with("ref", &[], entry);
        assert_eq!(acts(&env, &[]), done, "{entry}");
    }
    // Files of the project may be read, unless that is disallowed.
    let file = env.path("project/file");
    std::fs::write(&file, "text").unwrap();
    let read = format!("read: {}", file.display());
    for (entry, expected) in [
        ("", "text"),
        ("permissions = \"deny\"", "text"),
        ("permissions = \"allow\"\ndisallowed_tools = [\"read\"]", "error"),
    ] {
        env.agent_with("ref", &[], entry);
        assert!(answer(&env, &read, &[]).starts_with(expected), "{entry}");
    }
    // What was not allowed is recorded, and shown.
    env.agent("ref", &[]);
    let shown = env.run(["run", "ref", "run: touch x"]).succeeded();
    assert!(shown.stderr.contains("[touch x: refused"), "{shown}");
}

#[test]
fn at_a_terminal_what_we_do_is_asked_once_for_each_command_and_turn() {
    let env = world();
    let touched = |name: &str| env.path(&format!("project/{name}"));
    let touch = |name: &str| format!("run: touch {}", touched(name).display());
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.type_line(&format!("twice {}", touch("a")));
    terminal.wait_for("Allow ref to run: touch ");
    terminal.wait_for("Number");
    terminal.press("1\r");
    terminal.wait_for("done twice");
    assert!(touched("a").exists());
    // The next turn asks again; no is no.
    terminal.type_line(&touch("b"));
    terminal.wait_for("Allow ref to run: touch ");
    terminal.wait_for("Number");
    terminal.press("3\r");
    terminal.wait_for("the user does not allow it");
    assert!(!touched("b").exists());
    // What the agent has asked for itself is not asked again.
    terminal.type_line(&format!("asked {}", touch("c")));
    terminal.wait_for("Allow ref to run: touch ");
    terminal.wait_for("Number");
    terminal.press("1\r");
    let between = terminal.wait_for("done once");
    assert!(!between.contains("Allow ref") && touched("c").exists(), "{between}");
    // Always is for this command, this agent and this project.
    terminal.type_line(&touch("d"));
    terminal.wait_for("Allow ref to run: touch ");
    terminal.wait_for("Number");
    terminal.press("2\r");
    terminal.wait_for("> ");
    assert!(touched("d").exists());
    terminal.press(Terminal::CTRL_D);
    assert_eq!(terminal.end().1, 0);
    std::fs::remove_file(touched("d")).unwrap();
    for name in ["d", "e"] {
        answer(&env, &touch(name), &[]);
    }
    assert!(touched("d").exists() && !touched("e").exists());
}

#[test]
fn files_of_the_project_and_no_others() {
    let env = world();
    env.agent_with("ref", &["--resume"], "permissions = \"allow\"");
    let [inside, outside, link, away] =
        ["project/inside.txt", "outside.txt", "project/link.txt", "project/away"]
            .map(|name| env.path(name));
    std::fs::write(&inside, "inside").unwrap();
    std::fs::write(&outside, "outside").unwrap();
    symlink(&outside, &link).unwrap();
    symlink(env.root(), &away).unwrap();
    let read = |path: &str| answer(&env, &format!("read: {path}"), &[]);
    let write = |path: &str| answer(&env, &format!("write: {path}=changed"), &[]);
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    assert_eq!(read(&path(&inside)), "inside");
    let project = path(&env.path("project"));
    let foreign = [
        path(&outside),
        path(&link),
        format!("{project}/../outside.txt"),
        format!("{}/outside.txt", path(&away)),
        "/etc/passwd".to_owned(),
        "inside.txt".to_owned(),
    ];
    for path in &foreign {
        assert!(read(path).starts_with("error -32"), "{path}");
        assert!(write(path).starts_with("error -32"), "{path}");
    }
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "outside");
    assert_eq!(write(&path(&inside)), "written");
    assert_eq!(std::fs::read_to_string(&inside).unwrap(), "changed");
    assert_eq!(write(&format!("{project}/new/folder/file.txt")), "written");
    assert_eq!(
        std::fs::read_to_string(env.path("project/new/folder/file.txt")).unwrap(),
        "changed"
    );
    let deny = ["--permissions", "deny"];
    let denied = answer(&env, &format!("write: {}=denied", path(&inside)), &deny);
    assert!(denied.starts_with("error "), "{denied}");
    assert_eq!(std::fs::read_to_string(&inside).unwrap(), "changed");
}

/// A rule about files is about the files, whatever way leads to them.
#[test]
fn rules_about_files_hold_through_links_and_other_ways() {
    let env = world();
    let at = |name: &str| env.path(&format!("project/{name}"));
    std::fs::create_dir_all(at("src")).unwrap();
    std::fs::create_dir(at("secrets")).unwrap();
    std::fs::write(at("secrets/key"), "key").unwrap();
    symlink("../secrets", at("src/link")).unwrap();
    let ways = ["secrets", "src/../secrets", "src/link", "src/new/../../secrets"];
    let read = |way: &str| answer(&env, &format!("read: {}/key", at(way).display()), &[]);
    let write = |way: &str| answer(&env, &format!("write: {}/new=x", at(way).display()), &[]);
    env.agent_with("ref", &[], "permissions = \"allow\"\ndisallowed_tools = [\"secrets/\"]");
    for way in ways {
        let (read, written) = (read(way), write(way));
        assert!(read.starts_with("error ") && written.starts_with("error "), "{way}: {read}");
    }
    assert_eq!(write("src"), "written");
    // To allow what is below a folder is not to allow what its links lead to.
    env.agent_with("ref", &[], "allowed_tools = [\"src/\"]");
    for way in ways {
        assert!(write(way).starts_with("error "), "{way}");
    }
    assert_eq!(write("src"), "written");
    assert!(!at("secrets/new").exists() && !at("src/new/key").exists());
}

#[test]
fn to_allow_edits_is_not_to_allow_the_repository_itself_nor_our_store() {
    let env = world();
    let hook = env.path("project/.git/hooks/pre-commit");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let write = format!("write: {}=x", hook.display());
    for (entry, is_written) in [
        ("permissions = \"allow\"", false),
        ("allowed_tools = [\"edit\"]", false),
        ("allowed_tools = [\".git/hooks/pre-commit\"]", true),
    ] {
        env.agent_with("ref", &[], entry);
        answer(&env, &write, &[]);
        assert_eq!(hook.exists(), is_written, "{entry}");
    }
    env.agent_with("ref", &[], "permissions = \"allow\"");
    let token = format!("{}.token", env.store().display());
    std::fs::write(&token, "s3cret").unwrap();
    let root = env.root().display().to_string();
    for prompt in [format!("read: {token}"), format!("write: {token}=x")] {
        let told = answer(&env, &prompt, &["--project", &root]);
        assert!(told.starts_with("error "), "{told}");
    }
    assert_eq!(std::fs::read_to_string(&token).unwrap(), "s3cret");
}

#[test]
fn programs_run_in_the_project_and_not_where_that_is_denied() {
    let env = world();
    env.agent_with("ref", &["--resume"], "permissions = \"allow\"");
    let project = env.path("project").canonicalize().unwrap();
    assert_eq!(answer(&env, "run: pwd", &[]).trim(), project.to_str().unwrap());
    let canary = env.path("project/canary");
    let touch = format!("run: touch {}", canary.display());
    let denied = answer(&env, &touch, &["--permissions", "deny"]);
    assert!(denied.starts_with("error ") && !canary.exists(), "{denied}");
    let missing = answer(&env, "run: no-such-program-4711", &[]);
    assert!(missing.contains("no-such-program-4711"), "{missing}");
    env.assert_nothing_runs();
}

#[test]
fn agents_get_the_environment_without_our_secrets() {
    let env = TestEnv::new();
    env.set("model", "key_variable = \"MODEL_KEY\"");
    env.agent_with("ref", &[], "env = { EXTRA = \"given\" }\npermissions = \"allow\"");
    let ask = |prompt: &str| {
        let mut command = env.command(["run", "ref", prompt]);
        command.env("MODEL_KEY", "s3cret").env("OWN", "mine").env("RETHREAD_ANYTHING", "s3cret");
        env.finish(command, b"").succeeded().text().to_owned()
    };
    for name in ["RETHREAD_STORE", "RETHREAD_ANYTHING", "MODEL_KEY"] {
        assert_eq!(ask(&format!("env: {name}")).trim(), "unset", "{name}");
    }
    assert_eq!(ask("env: OWN").trim(), "mine");
    assert_eq!(ask("env: EXTRA").trim(), "given");
    let all = ask("run: env");
    assert!(all.contains("OWN=mine") && !all.contains("s3cret"), "{all}");
    // Only what says where it stands, should it use this program itself.
    let mut own: Vec<&str> = all
        .lines()
        .filter(|line| line.starts_with("RETHREAD_"))
        .filter_map(|line| line.split('=').next())
        .collect();
    own.sort_unstable();
    assert_eq!(own, ["RETHREAD_DEPTH", "RETHREAD_PARENT_SESSION", "RETHREAD_USER"], "{all}");
}
