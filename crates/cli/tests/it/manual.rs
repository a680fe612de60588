//! `rethread --help`, `completions`, `man`

use crate::env::TestEnv;

#[test]
#[expect(clippy::too_many_lines, reason = "every command is one")]
fn the_help_tells_every_command() {
    let env = TestEnv::new();
    assert_output!(env.run(["--help"]), @"
    exit: 0
    --- stdout
    Session continuity for AI agents

    Records what people and agents say and do, finds it again, and gives back the context that matters,
    within a token budget. Everything is kept in one file; `rethread tour` shows it at work.

    Usage: rethread [OPTIONS] <COMMAND>

    Commands:
      run          Talk to an agent in a new session
      resume       Take a session up again, in its agent or another
      continue     Go on with the most recent session of this folder
      send         Send a message to a session, running or not
      stop         Save a session and pause it
      agents       Show the agents: which are installed, and what they can do
      acp          Be an agent for an editor: an agent with a memory
      workflow     Long work by agents that survives its sessions: plans, tasks, pause and resume
      mcp          Let agents remember, and invoke each other, over the Model Context Protocol
      serve        Serve an API and a dashboard: sessions and workflows in a browser, and for programs
      login        Log a browser in: print a link into the dashboard that works once, for five minutes
      token        Let programs in over HTTP: make tokens, show, list and revoke them
      init         Make a folder a workspace, whose sessions live in it
      record       Record a conversation from standard input
      list         List sessions, the most recent first
      show         Show a session and its last messages
      search       Find what was said
      context      Print the context that an agent needs to go on
      pause        Pause a session
      complete     Mark a session as completed
      activate     Take a session up again
      archive      Put a session away
      unarchive    Bring an archived session back
      rename       Give a session a title of your own
      fork         Start a new session that goes on from another one
      prune        Fold old messages into summaries
      export       Write sessions out, without loss
      import       Import sessions: those that agents keep on this machine, or exported ones
      watch        Import what other agents write, while they write it
      hook         Record sessions while they go on in an agent's own program
      delete       Delete a session
      undelete     Bring a deleted session back
      purge        Remove the text of one message everywhere
      scan         Look for secrets in a folder, or in what was recorded
      rehome       Point sessions to the new place of a project
      backup       Copy the store to a file, while it is in use
      restore      Put a backup in place of the store
      config       Show and change settings
      doctor       Check the store, and mend what can be mended
      logs         Show the log of what ran unattended: background workflows, hooks, failures
      tour         See it at work: talk, crash, find, resume
      completions  Print completions for a shell
      man          Print the manual page, or write one for each command
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Options of all commands:
          --store <URL>
              Where sessions are kept (`sqlite:PATH` or `postgres://USER@HOST/DATABASE`)
              
              [env: RETHREAD_STORE]

          --json
              Answer in JSON, errors too
    --- stderr
    ");
}

#[test]
fn every_command_has_help() {
    let env = TestEnv::new();
    let help = env.data(["--help"]);
    let commands = help.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    for line in commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
        let command = line.split_whitespace().next().unwrap();
        if command == "help" {
            continue;
        }
        let help = env.data([command, "--help"]);
        assert!(help.contains("Usage: rethread"), "{command}");
    }
}

#[test]
fn the_version_is_told() {
    let env = TestEnv::new();
    assert_eq!(env.data(["--version"]), format!("rethread {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_are_made_for_every_shell() {
    let env = TestEnv::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(env.data(["completions", shell]).contains("undelete"), "{shell}");
    }
    assert_eq!(env.run(["completions", "csh"]).code, Some(2));
}

#[test]
fn manual_pages_are_made() {
    let env = TestEnv::new();
    assert!(env.data(["man"]).contains(".TH rethread 1"));
    let folder = env.path("man");
    env.data(["man", "--out", folder.to_str().unwrap()]);
    for page in ["rethread.1", "rethread-record.1", "rethread-context.1"] {
        assert!(folder.join(page).exists(), "{page}");
    }
}

#[test]
fn nobody_reading_the_output_is_no_error() {
    let env = TestEnv::new();
    let mut command = env.command_by(&["sh", "-c", r#""$@" | head -c 1"#, "sh"], ["man"]);
    command.stdin(std::process::Stdio::null());
    let output = env.finish(command, b"");
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output}");
}
