//! What the rules decide about commands, files and titles.

use serde_json::json;

use super::*;

fn command(line: &str) -> Intent {
    Intent { kind: "execute".into(), command: Some(line.into()), ..Intent::default() }
}

fn file(kind: &str, path: &str) -> Intent {
    Intent { kind: kind.into(), paths: vec![path.into()], ..Intent::default() }
}

fn rules(consent: Consent, allowed: &[&str], disallowed: &[&str]) -> Rules {
    let owned = |list: &[&str]| list.iter().map(|&tool| tool.to_owned()).collect();
    let (allowed, disallowed) = (owned(allowed), owned(disallowed));
    Rules { consent, allowed, disallowed, ..Rules::default() }
}

#[track_caller]
fn check(consent: Consent, allowed: &[&str], disallowed: &[&str], expected: Option<bool>) {
    let rules = rules(consent, allowed, disallowed);
    assert_eq!(rules.decide(&command("cargo test")), expected, "{rules:?}");
}

#[test]
fn a_mode_in_which_rules_are_kept_may_be_chosen_and_no_other() {
    let modes = ["default", "plan"].map(str::to_owned).to_vec();
    let holds = Holds { modes, ..Holds::default() };
    let set = |mode: Option<&str>| holds.settings(mode).mode;
    assert_eq!(set(None).as_deref(), Some("default"));
    assert_eq!(set(Some("Plan")), None);
    assert_eq!(set(Some("acceptEdits")).as_deref(), Some("default"));
    assert!(!holds.fits("acceptEdits") && Holds::default().fits("acceptEdits"));
}

#[test]
fn what_is_disallowed_stays_so_whatever_else_is_said() {
    check(Consent::Ask, &[], &[], None);
    check(Consent::Agent, &[], &[], None);
    check(Consent::Allow, &[], &[], Some(true));
    check(Consent::Deny, &["execute"], &[], Some(false));
    check(Consent::Ask, &["cargo"], &[], Some(true));
    check(Consent::Allow, &["execute"], &["execute"], Some(false));
    check(Consent::Ask, &["edit"], &["read"], None);
}

#[test]
fn where_only_some_are_allowed_no_other_is() {
    for consent in [Consent::Ask, Consent::Allow] {
        let rules = Rules { only_allowed: true, ..rules(consent, &["read"], &[]) };
        assert_eq!(rules.decide(&command("cargo test")), Some(false));
        assert_eq!(rules.decide(&file("read", "a.rs")), Some(true));
        assert_eq!(rules.may_read(&file("read", "a.rs")), Some(true));
    }
    let only = |allowed: &str| Rules { only_allowed: true, ..rules(Consent::Ask, &[allowed], &[]) };
    assert_eq!(only("execute").may_read(&file("read", "a.rs")), Some(false));
    assert_eq!(only("edit").may_read(&file("read", "a.rs")), Some(true));
}

#[test]
fn part_of_a_word_allows_nothing_and_disallows() {
    check(Consent::Ask, &["cargo te"], &[], None);
    check(Consent::Ask, &["car"], &[], None);
    check(Consent::Ask, &["cargo"], &[], Some(true));
    check(Consent::Ask, &["cargo "], &[], Some(true));
    // To a shell and on a disk, another case is another name.
    check(Consent::Ask, &["CARGO TEST", "carg\u{ff4f}"], &[], None);
    check(Consent::Allow, &[], &["CARGO TEST"], Some(false));
    check(Consent::Ask, &["cargo test --all"], &[], None);
    check(Consent::Ask, &["", " "], &[], None);
    check(Consent::Allow, &[], &["car"], Some(false));
    check(Consent::Allow, &[], &["", " "], Some(true));
}

#[test]
fn a_rule_about_commands_names_neither_kinds_nor_files() {
    let rules =
        rules(Consent::Ask, &["command:edit", "command:.git/config", "command:git status"], &[]);
    let guarded = Intent { guarded: vec!["why".into()], ..file("edit", ".git/config") };
    for refused in [file("edit", "src/x"), file("edit", "edit"), guarded, command("git push")] {
        assert_eq!(rules.decide(&refused), None, "{refused:?}");
    }
    assert_eq!(rules.decide(&command("git status -s")), Some(true));
}

#[test]
fn a_rule_about_files_does_not_cover_places_that_it_has_not_seen() {
    let rules = rules(Consent::Ask, &["src/"], &[]);
    for (rest, expected) in [
        (json!({}), Some(true)),
        (json!({"mode": "fast", "content": "a/b", "reason": "a/b"}), Some(true)),
        (json!({"onto": "/etc/x"}), None),
        (json!({"options": {"also": ["../x"]}}), None),
    ] {
        let rest = rest.as_object().unwrap().clone();
        let intent = Intent { rest, ..file("edit", "src/x") };
        assert_eq!(rules.decide(&intent), expected, "{intent:?}");
    }
}

#[test]
fn what_is_fetched_into_a_file_is_not_allowed_by_a_rule_about_the_file() {
    let url = Some("https://example.test/x".to_owned());
    let fetch = Intent { url, ..file("fetch", "src/x") };
    let rules = rules(Consent::Ask, &["src/"], &[]);
    assert_eq!(rules.decide(&file("fetch", "src/x")), Some(true));
    assert_eq!(rules.decide(&fetch), None);
}

#[test]
fn a_title_allows_neither_commands_nor_files() {
    let called = |mut intent: Intent| {
        intent.title = "cargo test".into();
        intent
    };
    let rules = rules(Consent::Ask, &["cargo test"], &[]);
    for (intent, expected) in [
        (command("rm -rf things"), None),
        (file("edit", "a.rs"), None),
        // Nobody knows which command it is.
        (Intent { kind: "execute".into(), ..Intent::default() }, None),
        (Intent { kind: "other".into(), ..Intent::default() }, None),
        (Intent { kind: "delete".into(), ..Intent::default() }, None),
        (command("cargo test --all"), Some(true)),
    ] {
        let intent = called(intent);
        assert_eq!(rules.decide(&intent), expected, "{intent:?}");
    }
    // A rule that is about titles says so, and covers only what has nothing else to be known by.
    let tool = |kind: &str, title: &str| Intent {
        kind: kind.into(),
        title: title.into(),
        ..Intent::default()
    };
    let rules = self::rules(Consent::Ask, &["title:make", "mcp__shop__list"], &[]);
    for (intent, expected) in [
        (tool("other", "make it so"), Some(true)),
        (tool("other", "mcp__shop__list"), Some(true)),
        (tool("other", "mcp__shop__list_all"), None),
        (tool("delete", "make room"), None),
        (tool("switch_mode", "make mode bypass"), None),
        (tool("execute", "make"), None),
        (command("make all"), Some(true)),
        (command("rm -rf make"), None),
    ] {
        assert_eq!(rules.decide(&intent), expected, "{intent:?}");
    }
}

#[test]
fn allowed_words_do_not_bring_another_command_along() {
    let rules = rules(Consent::Ask, &["cargo test", "ls | wc"], &[]);
    for (line, expected) in [
        ("cargo test -p a", Some(true)),
        ("cargo test; rm x", None),
        ("cargo test && rm x", None),
        ("cargo test | sh", None),
        ("cargo test $(rm x)", None),
        ("cargo test `rm x`", None),
        ("cargo test > a", None),
        ("cargo test\nrm x", None),
        ("ls | wc", Some(true)),
        // Programs in a folder that is called as the rule is.
        ("cargo test/evil", None),
        ("cargo test=evil", None),
    ] {
        assert_eq!(rules.decide(&command(line)), expected, "{line}");
    }
    let mut with = command("cargo test");
    with.rest.insert("env".into(), json!({"PATH": "./evil"}));
    assert_eq!(rules.decide(&with), None);
    with.rest.insert("env".into(), json!({}));
    assert_eq!(rules.decide(&with), Some(true));
    with.rest.insert("args".into(), json!("; rm x"));
    assert_eq!(rules.decide(&with), None);
    for (name, value, expected) in [
        ("script", json!("rm -rf /"), None),
        ("shell", json!("/tmp/evil"), None),
        ("run_as", json!("root"), None),
        ("explanation", json!({"script": "rm"}), None),
        ("explanation", json!("It runs the tests."), Some(true)),
        ("run_in_background", json!(true), Some(true)),
        ("script", json!(""), Some(true)),
        ("timeout", json!(1000), Some(true)),
    ] {
        let mut with = command("cargo test");
        with.rest.insert(name.into(), value);
        assert_eq!(rules.decide(&with), expected, "{name}");
    }
    for (folder, expected) in [("crates/a", Some(true)), ("/tmp/evil", None), ("../evil", None)] {
        let elsewhere = Intent { folder: Some(folder.into()), ..command("cargo test") };
        assert_eq!(rules.decide(&elsewhere), expected, "{folder}");
    }
}

#[test]
fn what_is_disallowed_is_so_in_the_middle_of_a_line() {
    let rules = rules(Consent::Allow, &[], &["rm"]);
    for line in [
        "rm x",
        "ls; rm x",
        "ls && rm x",
        "ls | rm",
        "(rm x)",
        "ls\n rm x",
        "echo `rm x`",
        "{ rm x; }",
        "! rm x",
        "if true; then rm x; fi",
        "A=1 B=2 rm x",
        "sudo env A=1 rm x",
        "/bin/rm x",
        r"\rm x",
        "'rm' x",
        "r\"m\" x",
        "if rm x; then ls; fi",
        "while rm x; do ls; done",
        "case a in a) rm x;; esac",
        "2>/dev/null rm x",
        "> out rm x",
        "bash -c 'rm x'",
        "/bin/sh -ec \"rm x\"",
        "env -i rm x",
        "sudo -u anna /bin/rm x",
        "timeout 5 rm x",
        "ls | xargs -n 1 rm",
        "find . -name a -exec rm {} +",
        "nohup nice rm x",
    ] {
        assert_eq!(rules.decide(&command(line)), Some(false), "{line}");
    }
    for line in ["ls", "ls rm", "git commit -m 'rm x'", "a/rmdir x", "make A=rm", "if true"] {
        assert_eq!(rules.decide(&command(line)), Some(line != "a/rmdir x"), "{line}");
    }
}

#[test]
fn files_are_allowed_by_the_beginning_of_their_path() {
    let rules = rules(Consent::Ask, &["src/"], &[]);
    assert_eq!(rules.decide(&file("edit", "src/a.rs")), Some(true));
    assert_eq!(rules.decide(&file("edit", "src/../.git/config")), None);
    assert_eq!(rules.decide(&file("edit", "srcs/a.rs")), None);
    let mut two = file("edit", "src/a.rs");
    two.paths.push("b.rs".into());
    assert_eq!(rules.decide(&two), None);
}

#[test]
fn what_is_guarded_needs_a_rule_for_just_that() {
    let mut intent = file("edit", ".git/config");
    intent.guarded = vec!["it is part of the repository itself".into()];
    for (consent, allowed, expected) in [
        (Consent::Ask, &[][..], None),
        (Consent::Allow, &[], None),
        (Consent::Allow, &["edit"], None),
        (Consent::Ask, &[".git/"], None),
        (Consent::Ask, &[".git/config"], Some(true)),
        (Consent::Deny, &[".git/config"], Some(false)),
    ] {
        let rules = rules(consent, allowed, &[]);
        assert_eq!(rules.decide(&intent), expected, "{rules:?}");
        let read = Intent { kind: "read".into(), ..intent.clone() };
        assert_eq!(rules.may_read(&read), expected, "{rules:?}");
    }
}

#[test]
fn a_file_with_several_names_needs_an_answer_of_its_own_where_a_rule_goes_by_its_path() {
    let linked = |kind: &str| Intent {
        kind: kind.to_owned(),
        paths: vec!["src/key".to_owned()],
        linked: vec!["src/key".to_owned()],
        ..Intent::default()
    };
    let list = |rules: &[&str]| rules.iter().map(|rule| (*rule).to_owned()).collect();
    let rules = |consent, allowed: &[&str], disallowed: &[&str]| Rules {
        consent,
        allowed: list(allowed),
        disallowed: list(disallowed),
        only_allowed: false,
    };
    for (rules, edit, read) in [
        // The folder is allowed, the file may be another one's.
        (rules(Consent::Ask, &["src/"], &[]), None, Some(true)),
        (rules(Consent::Ask, &["src/key"], &[]), Some(true), Some(true)),
        (rules(Consent::Ask, &["edit"], &[]), Some(true), Some(true)),
        // Another folder is forbidden, and the file may be in it.
        (rules(Consent::Allow, &[], &["secrets/"]), None, None),
        (rules(Consent::Ask, &["edit"], &["secrets/"]), None, None),
        (rules(Consent::Allow, &["src/key"], &["secrets/"]), Some(true), Some(true)),
        (rules(Consent::Allow, &[], &["execute"]), Some(true), Some(true)),
        (rules(Consent::Allow, &[], &["src/"]), Some(false), Some(false)),
        (rules(Consent::Allow, &[], &[]), Some(true), Some(true)),
    ] {
        assert_eq!(rules.decide(&linked("edit")), edit, "{rules:?}");
        assert_eq!(rules.may_read(&linked("read")), read, "{rules:?}");
    }
    assert!(linked("edit").subject().is_err());
}

#[test]
fn what_forbids_a_place_sees_it_in_any_argument() {
    let mentioned = vec!["secrets/key".to_owned()];
    let intent = Intent { mentioned, ..file("edit", "src/x") };
    for (allowed, disallowed, expected) in [
        (&[][..], &["secrets"][..], Some(false)),
        (&["edit"], &["secrets"], Some(false)),
        (&["secrets/key"], &[], None),
    ] {
        let rules = rules(Consent::Ask, allowed, disallowed);
        assert_eq!(rules.decide(&intent), expected, "{rules:?}");
    }
}

#[test]
fn what_is_protected_and_has_no_name_is_asked_about() {
    let guarded = vec!["why".to_owned()];
    let intent = Intent { kind: "other".into(), guarded, ..Intent::default() };
    assert_eq!(rules(Consent::Allow, &["other"], &[]).decide(&intent), None);
}
