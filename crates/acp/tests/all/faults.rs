//! Agents that cannot be started, do not answer, end, or say that something is not there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rethread_engine::agents::{AgentError, OpenRequest};
use tokio_util::sync::CancellationToken;

use crate::world::{World, answer, say, say_until};

const SHORT: Duration = Duration::from_millis(300);

async fn start_fails(world: &World) -> AgentError {
    match world.try_start().await {
        Ok(_) => panic!("it started"),
        Err(trouble) => trouble,
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_told_apart_from_one_that_cannot_be_run() {
    let mut world = World::with(vec!["no-such-agent".to_owned()]);
    let missing = AgentError::NotInstalled { program: "no-such-agent".to_owned() };
    assert_eq!(start_fails(&world).await, missing);
    world.launcher.entry.command = vec!["/no/such/agent".to_owned()];
    assert_eq!(start_fails(&world).await.name(), "not_installed");
    world.launcher.entry.command = vec!["./agent".to_owned()];
    assert_eq!(start_fails(&world).await.name(), "cannot_start");

    let plain = world.path("plain");
    fs::write(&plain, "x").unwrap();
    world.launcher.entry.command = vec![plain.display().to_string()];
    assert_eq!(start_fails(&world).await.name(), "cannot_start");
    // On the PATH, without the right to be run.
    let path = world.folder.path().as_os_str().to_owned();
    world.launcher.environment.push(("PATH".into(), path));
    world.launcher.entry.command = vec!["plain".to_owned()];
    assert_eq!(start_fails(&world).await.name(), "cannot_start");
    // Only the kernel knows that this one cannot be run.
    fs::write(&plain, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o755)).unwrap();
    let trouble = start_fails(&world).await;
    assert!(
        matches!(&trouble, AgentError::CannotStart { why, .. } if why.contains("No such file")),
        "{trouble:?}"
    );
    world.launcher.guard = None;
    assert_eq!(start_fails(&world).await.name(), "cannot_start");
}

#[tokio::test]
async fn a_folder_that_is_gone_is_told() {
    let world = World::new(&[]);
    fs::remove_dir(world.folder.path()).unwrap();
    assert_eq!(start_fails(&world).await, AgentError::FolderGone(world.folder.path().to_owned()));
}

#[tokio::test]
async fn an_agent_that_ends_at_once_is_told_with_its_last_words() {
    let world = World::new(&["--exit-at-once", "9", "--stderr", "no \u{1b}[31mluck"]);
    let expected = AgentError::Ended {
        status: "exit code 9".to_owned(),
        stderr: "no \u{241b}1b;[31mluck".to_owned(),
    };
    assert_eq!(start_fails(&world).await, expected);
    let world = World::scripted(&[("initialize", b"This agent is no longer maintained.\n$EXIT")]);
    let trouble = start_fails(&world).await;
    assert!(
        matches!(&trouble, AgentError::Ended { stderr, .. } if stderr.contains("no longer maintained")),
        "{trouble:?}"
    );
}

#[tokio::test]
async fn an_agent_that_does_not_answer_is_given_up() {
    let mut world = World::new(&["--hang-on", "initialize"]);
    world.launcher.limits.initialize = SHORT;
    let late = |what: &str| AgentError::TimedOut { what: what.to_owned(), after: SHORT };
    assert_eq!(start_fails(&world).await, late("initialize"));

    let mut world = World::new(&["--hang-on", "session/new"]);
    world.launcher.limits.open = SHORT;
    let mut agent = world.start().await;
    assert_eq!(agent.open(OpenRequest::New).await, Err(late("session/new")));
    assert!(agent.is_gone());
}

#[tokio::test]
async fn an_agent_that_ignores_a_cancel_is_ended() {
    let mut world = World::new(&["--ignore-cancel"]);
    world.launcher.limits.cancel = SHORT;
    let mut agent = world.open().await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let (ended, _) = say_until(&mut *agent, "hang", &cancel).await;
    assert_eq!(ended.unwrap_err().name(), "timed_out");
    assert!(agent.is_gone());
}

#[tokio::test]
async fn death_in_a_turn_is_told_after_all_that_was_said() {
    for (guarded, prompt) in [(true, "die"), (false, "die"), (true, "exit"), (false, "exit")] {
        let mut world = World::new(&[]);
        if !guarded {
            world.launcher.guard = None;
        }
        let mut agent = world.open().await;
        let (ended, updates) = say(&mut *agent, prompt).await;
        let trouble = ended.unwrap_err();
        assert!(matches!(&trouble, AgentError::Ended { .. }), "{trouble:?}");
        assert_eq!(updates.is_empty(), prompt == "exit", "{updates:?}");
        assert!(agent.is_gone());
        let (again, _) = say(&mut *agent, "say: x").await;
        assert_eq!(again.unwrap_err().name(), "agent_ended");
    }
}

#[tokio::test]
async fn death_at_any_call_is_told() {
    for method in ["initialize", "session/new", "session/prompt"] {
        let world = World::new(&["--die-on", method]);
        let trouble = match world.try_start().await {
            Err(trouble) => trouble,
            Ok(mut agent) => match agent.open(OpenRequest::New).await {
                Err(trouble) => trouble,
                Ok(_) => say(&mut *agent, "say: x").await.0.unwrap_err(),
            },
        };
        let status = "exit code 3".to_owned();
        assert_eq!(trouble, AgentError::Ended { status, stderr: String::new() }, "{method}");
    }
}

#[tokio::test]
async fn only_version_one_is_spoken() {
    let world = World::new(&["--wrong-version", "3"]);
    assert_eq!(start_fails(&world).await, AgentError::WrongVersion("3".to_owned()));
    // An echo of the number alone.
    let world = World::new(&["--wrong-version", "2"]);
    assert!(world.try_start().await.is_ok());
    let real =
        br#"{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":2,"info":{},"capabilities":{}}}"#;
    let world = World::scripted(&[("initialize", &[real.as_slice(), b"\n"].concat())]);
    assert_eq!(start_fails(&world).await, AgentError::WrongVersion("2".to_owned()));
    for (answer, expected) in
        [("{}", "nonsense"), ("null", "nonsense"), ("{\"protocolVersion\":\"1\"}", "wrong_version")]
    {
        let answer = format!("{{\"id\":$ID,\"result\":{answer}}}\n");
        let world = World::scripted(&[("initialize", answer.as_bytes())]);
        assert_eq!(start_fails(&world).await.name(), expected, "{answer}");
    }
}

#[tokio::test]
async fn a_missing_login_is_told() {
    let world = World::new(&["--auth-required"]);
    let mut agent = world.start().await;
    assert_eq!(agent.open(OpenRequest::New).await.unwrap_err().name(), "needs_login");
    assert!(!agent.is_gone());
}

#[tokio::test]
async fn every_way_to_say_that_a_session_is_gone_is_understood() {
    for (shape, expected) in [
        ("resource-not-found", "session_gone"),
        ("-32002-session-id", "session_gone"),
        ("-32002-uri", "session_gone"),
        ("-32002-string", "session_gone"),
        ("-32001", "session_gone"),
        ("-32603-session-not-found", "session_gone"),
        ("-32603-details", "session_gone"),
        ("-32603-error", "session_gone"),
        ("-32603-no-rollout", "session_gone"),
        ("-32603-no-previous", "session_gone"),
        ("-32603-invalid-identifier", "session_gone"),
        ("-32603-no-conversation", "session_gone"),
        ("-32603-query-closed", "session_gone"),
        ("-32603-opencode", "session_gone"),
        ("-32602-unknown", "session_gone"),
        ("-32602-session_id", "session_gone"),
        ("-32602-details", "session_gone"),
        ("-32601", "unsupported"),
        ("-32000", "needs_login"),
        ("-32800", "cancelled"),
    ] {
        let mut world = World::new(&["--load", "--resume", "--lose", "--error-shape", shape]);
        world.launcher.entry.quirks.opaque_not_found = shape.contains("opencode");
        let mut agent = world.start().await;
        for door in [OpenRequest::Load("x"), OpenRequest::Resume("x")] {
            let trouble = agent.open(door).await.unwrap_err();
            assert_eq!(trouble.name(), expected, "{shape}: {trouble:?}");
        }
        // It is still good for something.
        agent.open(OpenRequest::New).await.unwrap();
        assert_eq!(answer(&mut *agent, "say: x").await, "x");
    }
}

#[tokio::test]
async fn a_refusal_without_a_word_means_that_the_session_is_gone() {
    let world = World::new(&["--load", "--lose", "--error-shape", "refusal"]);
    let mut agent = world.start().await;
    agent.open(OpenRequest::Load("x")).await.unwrap();
    let (ended, _) = say(&mut *agent, "say: x").await;
    assert_eq!(ended.unwrap_err().name(), "session_gone");
}

#[tokio::test]
async fn a_load_that_destroys_is_never_called() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut world = World::new(&["--load", "--log", log.path().to_str().unwrap()]);
    world.launcher.entry.quirks.load = rethread_acp::Load::Unsafe;
    let mut agent = world.start().await;
    assert!(!agent.abilities().load);
    assert_eq!(agent.open(OpenRequest::Load("x")).await.unwrap_err().name(), "unsupported");
    agent.end().await;
    assert!(!fs::read_to_string(log.path()).unwrap().contains("session/load"));
}

#[tokio::test]
async fn an_agent_that_stops_speaking_but_runs_on_is_ended() {
    // The answer to the prompt never comes; the output is closed by a script that goes on.
    let script = "exec 0<&0; read l; echo '{\"id\":1,\"result\":{\"protocolVersion\":1}}'; \
                  read l; echo '{\"id\":2,\"result\":{\"sessionId\":\"s\"}}'; read l; exec 1>&-; exec sleep 300";
    let mut world = World::with(vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()]);
    world.launcher.limits.close = SHORT;
    let mut agent = world.open().await;
    let (ended, _) = say(&mut *agent, "x").await;
    assert_eq!(ended.unwrap_err().name(), "agent_ended");
}

#[tokio::test]
async fn noise_and_garbage_change_nothing() {
    for flags in [&["--noise"][..], &["--garbage"], &["--noise", "--garbage"]] {
        let world = World::new(flags);
        let mut agent = world.open().await;
        for n in 0..20 {
            let text = format!("{n} is a number");
            let answer = answer(&mut *agent, &format!("say: {text}")).await;
            // What comes after the end of a turn may fall into the next one; nothing tells them apart.
            assert_eq!(answer.replace("after the end", ""), text);
        }
    }
}
