//! `rethread config`

use crate::env::TestEnv;

#[test]
#[expect(clippy::too_many_lines, reason = "every setting is one")]
fn the_settings_in_force_are_shown() {
    let env = TestEnv::new();
    assert_output!(env.run(["config", "show"]), @r#"
    exit: 0
    --- stdout
    [store]
    url = ""

    [user]
    name = ""

    [record]
    max_message_bytes = 67108864
    exclude = []

    [context]
    tokens = 10000
    messages = 20
    conversations = 3
    margin = 0.0

    [context.margins]

    [prune]
    keep = 50
    threshold = 200

    [list]
    limit = 20

    [talk]
    permissions = "ask"
    policy = "auto"
    idle_seconds = 300
    initialize_seconds = 90
    open_seconds = 120
    answer_seconds = 3600
    cancel_seconds = 10
    max_line_bytes = 16777216
    max_turn_bytes = 67108864

    [redact]
    at_rest = false
    variables = []

    [hooks]
    inject = true
    tokens = 2000

    [editors]
    show_opening = true

    [workflow]
    agent = ""
    jobs = 1
    rounds = 1
    context_limit = 0.85
    context_warning = 0.7
    on_full = "pause"
    boundary_seconds = 300
    task_seconds = 14400
    retries = 3
    retry_seconds = 10
    on_failure = "stop"
    brief_tokens = 8000
    lesson_tokens = 600
    after_crash = "ask"
    mcp = true

    [workflow.commands]

    [notify]

    [tools]

    [mcp]
    wait_seconds = 45
    max_prompt_bytes = 1048576
    max_depth = 4
    output_streams = ""

    [serve]
    addr = "127.0.0.1:8617"
    log = "auto"
    login_hours = 12
    requests_per_second = 1000
    max_body_bytes = 8388608
    max_connections = 1024
    max_streams = 512
    max_turns = 16
    patience_seconds = 15
    watch = false

    [model]
    dialect = "openai"
    url = ""
    name = ""
    key_variable = ""
    timeout_seconds = 60
    attempts = 3

    [agents]
    --- stderr
    "#);
    assert_output!(env.run(["config", "path"]), @"
    exit: 0
    --- stdout
    [ROOT]/home/.config/rethread/config.toml
    --- stderr
    ");
    assert_eq!(env.json(["config", "show"])["context"]["tokens"], 10000);
    assert!(env.data(["config", "show", "--defaults"]).contains("# Every setting there is"));
}

#[test]
fn setting_one_keeps_the_rest_of_the_file() {
    let env = TestEnv::new();
    let file = env.path("home/.config/rethread/config.toml");
    assert_output!(env.run(["config", "set", "context.tokens", "500"]), @"
    exit: 0
    --- stdout
    --- stderr
    Set context.tokens in [ROOT]/home/.config/rethread/config.toml.
    ");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("# mine\n{text}")).unwrap();
    env.data(["config", "set", "user.name", "berta"]);
    insta::assert_snapshot!(std::fs::read_to_string(&file).unwrap(), @r#"
    # mine
    [context]
    tokens = 500

    [user]
    name = "berta"
    "#);
    assert_eq!(env.json(["config", "show"])["context"]["tokens"], 500);
}

#[test]
fn what_is_no_setting_is_refused_and_changes_nothing() {
    let env = TestEnv::new();
    env.data(["config", "set", "context.tokens", "500"]);
    let file = env.path("home/.config/rethread/config.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    assert_output!(env.run(["config", "set", "context.token", "5"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: there is no setting context.token
    hint: did you mean context.tokens? `rethread config show --defaults` lists every setting
    "#);
    assert_output!(env.run(["config", "set", "context.tokens", "0"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: context.tokens cannot be "0": the limit of tokens must be at least 1
    hint: `rethread config show --defaults` lists every setting
    "#);
    assert_output!(env.run(["config", "set", "context.tokens", "many"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: context.tokens cannot be "many": it must be a whole number
    hint: `rethread config show --defaults` lists every setting
    "#);
    assert_output!(env.run(["config", "set", "context.tokens.x", "5"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: there is no setting context.tokens.x
    hint: did you mean context.tokens? `rethread config show --defaults` lists every setting
    "#);
    assert_output!(env.run(["config", "set", "context", "5"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: context is a section with settings of its own
    hint: `rethread config show --defaults` lists every setting
    "#);
    for (key, hint) in
        [("contxt.tokens", "did you mean context.tokens?"), ("foo.bar", "lists every")]
    {
        let refused = env.run(["config", "set", key, "7"]);
        let said = refused.stderr.contains(&format!("there is no setting {key}\n"));
        assert!(said && refused.stderr.contains(hint), "{refused}");
    }
    assert_output!(env.run(["config", "set", "", "5"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: no setting given
    hint: `rethread config show --defaults` lists every setting
    "#);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn a_setting_is_unset() {
    let env = TestEnv::new();
    let file = env.path("home/.config/rethread/config.toml");
    assert!(env.run(["config", "unset", "context.tokens"]).stderr.contains("is not set in"));
    env.data(["config", "set", "context.tokens", "500"]);
    env.data(["config", "set", "context.margins.claude", "0.2"]);
    env.data(["config", "set", "user.name", "berta"]);
    env.data(["config", "unset", "context.margins.claude"]);
    env.data(["config", "unset", "user.name"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "[context]\ntokens = 500\n");
    env.data(["config", "unset", "context.tokens"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "");
    assert_eq!(env.json(["config", "show"])["context"]["tokens"], 10_000);
    let before = env.run(["config", "unset", "agents.mine.command"]);
    assert!(before.stderr.contains("is not set in"), "{before}");
    assert_output!(env.run(["config", "unset", "context.token"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: there is no setting context.token
    hint: did you mean context.tokens? `rethread config show --defaults` lists every setting
    "#);
}

#[test]
fn a_misspelt_setting_in_the_file_is_told() {
    let env = TestEnv::new();
    let folder = env.path("home/.config/rethread");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), "[context]\ntoken = 5\n").unwrap();
    assert_output!(env.run(["list"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: the settings in [ROOT]/home/.config/rethread/config.toml cannot be used: unknown field `token`, expected one of `tokens`, `messages`, `conversations`, `margin`, `margins`
    in `context`
    hint: `rethread config show --defaults` lists every setting
    ");
}

#[test]
fn the_store_comes_from_the_command_line_then_the_environment_then_the_settings() {
    let env = TestEnv::new();
    let own = env.path("own.db");
    env.data(["config", "set", "store.url", &format!("sqlite:{}", own.display())]);
    let without = |args: &[&str]| {
        let mut command = env.command(args);
        command.env_remove("RETHREAD_STORE");
        env.finish(command, b"").succeeded();
    };
    without(&["list"]);
    assert!(own.exists());
    env.data(["list"]);
    assert!(env.store().exists());
    let asked = env.path("asked.db");
    env.data(["list", "--store", &format!("sqlite:{}", asked.display())]);
    assert!(asked.exists());
    env.data(["config", "set", "store.url", ""]);
    without(&["list"]);
    assert!(env.path("home/.local/share/rethread/rethread.db").exists());
}

#[test]
fn one_setting_is_shown() {
    let env = TestEnv::new();
    env.data(["config", "set", "context.tokens", "1234"]);
    assert_eq!(env.data(["config", "show", "context.tokens"]), "1234\n");
    assert_eq!(env.json(["config", "show", "context.tokens"]), 1234);
    assert!(env.data(["config", "show", "context"]).contains("tokens = 1234"));
    env.run(["config", "show", "context.nothing", "--json"]).assert_error(2, "bad_input");
}
