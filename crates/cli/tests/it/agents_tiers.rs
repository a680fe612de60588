//! Three ways back into a conversation, and how one falls to the next (SPEC AGT-2, AGT-6). In every test a passkey
//! is told to one process of the agent and asked of another.

use crate::chat::Chat;
use crate::env::TestEnv;
use crate::reference::history;

const TELL: &str = "Remember PASSKEY-heron-42";
const ASK: &str = "what was the passkey";
const RECALLED: &str = "The passkey is PASSKEY-heron-42";

/// A session in which the passkey was told, and the agent is then changed to one with these flags.
fn told(before: &[&str], after: &[&str]) -> (TestEnv, String) {
    let env = TestEnv::new();
    env.agent("ref", before);
    env.ask(&["run", "ref", TELL]);
    env.agent("ref", after);
    let id = env.only();
    (env, id)
}

/// Asks for the passkey; it must be known, in the way that is expected, and the agent must hold every record once.
#[track_caller]
fn recalls(env: &TestEnv, id: &str, how: &str, why: &str) {
    let recalled = env.ask(&["resume", id, ASK]);
    assert_eq!(recalled, (RECALLED.to_owned(), how.to_owned(), why.to_owned()));
    env.assert_held("ref", id, "main");
    env.assert_nothing_runs();
    env.assert_sound();
}

#[track_caller]
fn check(before: &[&str], after: &[&str], how: &str, why: &str) {
    let (env, id) = told(before, after);
    recalls(&env, &id, how, why);
}

/// The same agent before and after.
#[track_caller]
fn check_same(flags: &[&str], how: &str, why: &str) {
    check(flags, flags, how, why);
}

#[test]
fn an_agent_that_resumes_is_told_nothing() {
    let (env, id) = told(&["--resume", "--load"], &["--resume", "--load", "--list"]);
    recalls(&env, &id, "resumed", "");
    let expected = [[("text".to_owned(), TELL.to_owned())], [("text".into(), ASK.into())]];
    assert_eq!(env.prompts("ref"), expected);
    assert!(!env.methods("ref").contains(&"session/load".to_owned()));
}

#[test]
fn what_is_replayed_late_after_a_resume_is_no_answer() {
    let late = ["--replay-on-resume", "--replay", "late", "--replay-delay-ms", "300"];
    let (env, id) = told(&["--resume"], &[]);
    env.agent_with("ref", &[&["--resume"], &late[..]].concat(), "quirks = { quiet_ms = 2000 }");
    recalls(&env, &id, "resumed", "");
    assert_eq!(env.records(&id, "main").len(), 4);
}

#[test]
fn an_agent_that_only_loads_is_told_nothing_and_its_replay_is_not_recorded_again() {
    let (env, id) = told(&["--load"], &["--load"]);
    recalls(&env, &id, "loaded", "");
    assert_eq!(env.prompts("ref").last().unwrap().len(), 1);
    assert_eq!(env.records(&id, "main").len(), 4);
}

#[test]
fn an_agent_that_can_do_neither_is_told_the_story() {
    let (env, id) = told(&[], &[]);
    recalls(&env, &id, "retold", "unable");
    let prompt = env.prompts("ref").pop().unwrap();
    let kinds: Vec<&str> = prompt.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["text", "text"]);
    assert_eq!(history(&prompt[0].1).len(), 2);
    // Again, the whole of it: nothing is told of twice over.
    recalls(&env, &id, "retold", "unable");
}

#[test]
fn an_agent_without_documents_is_told_in_a_text_before_the_message() {
    let (env, id) = told(&["--no-embedded"], &["--no-embedded"]);
    recalls(&env, &id, "retold", "unable");
    let prompt = env.prompts("ref").pop().unwrap();
    let kinds: Vec<&str> = prompt.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!((kinds, prompt[1].1.as_str()), (vec!["text", "text"], ASK));
}

#[test]
fn the_program_itself_may_be_killed_in_between() {
    for flags in [&["--resume"][..], &["--load"], &[]] {
        let env = TestEnv::new();
        env.agent("ref", flags);
        let mut chat = Chat::start(&env, &["run", "ref"]);
        assert_eq!(chat.say(TELL), "ACK: I was told 1 message");
        let id = env.only();
        chat.kill();
        env.assert_nothing_runs();
        assert_eq!(env.ask(&["resume", &id, ASK]).0, RECALLED, "{flags:?}");
        env.assert_held("ref", &id, "main");
    }
}

/// What follows from each way in which agents say that they do not know a session.
const SHAPES: &[(&str, &str)] = &[
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
    ("-32603-opencode", "refused"),
    ("-32602-unknown", "session_gone"),
    ("-32602-session_id", "session_gone"),
    ("-32602-details", "session_gone"),
    ("-32601", "unsupported"),
];

#[test]
fn a_session_that_is_lost_is_told_again_however_the_agent_says_so() {
    let (env, id) = told(&["--resume", "--load"], &[]);
    for (n, (shape, why)) in SHAPES.iter().enumerate() {
        // One, the other, and both.
        let offered = [&["--resume"][..], &["--load"], &["--resume", "--load"]][n % 3];
        let flags = [offered, &["--lose", "--error-shape", shape]].concat();
        env.agent("ref", &flags);
        let expected = (RECALLED.to_owned(), "retold".to_owned(), (*why).to_owned());
        assert_eq!(env.ask(&["resume", &id, ASK]), expected, "{flags:?}");
        env.assert_held("ref", &id, "main");
    }
    // What it was told anew is its own session from then on.
    env.agent("ref", &["--resume"]);
    recalls(&env, &id, "resumed", "");
}

#[test]
fn what_is_no_loss_keeps_the_session() {
    let (env, id) = told(&["--resume"], &[]);
    for (shape, code) in [("-32000", "needs_login"), ("-32800", "cancelled")] {
        for offered in ["--resume", "--load"] {
            env.agent("ref", &[offered, "--lose", "--error-shape", shape]);
            env.fails(&["resume", &id, ASK], code);
            assert_eq!(env.records(&id, "main").len(), 2, "nothing was said");
            env.assert_nothing_runs();
        }
    }
    env.agent("ref", &["--resume", "--auth-required"]);
    env.fails(&["resume", &id, ASK], "needs_login");
    env.agent("ref", &["--resume"]);
    recalls(&env, &id, "resumed", "");
}

#[test]
fn a_load_that_brings_nothing_back_is_no_load() {
    let flags = ["--load", "--lose", "--error-shape", "success-and-empty"];
    check(&["--load"], &flags, "retold", "hollow");
}

#[test]
fn a_load_of_another_conversation_is_no_load() {
    check(&["--load"], &["--load", "--replay", "wrong"], "retold", "mixed_up");
}

#[test]
fn a_replay_that_comes_late_is_no_answer() {
    let (env, id) = told(&["--load"], &["--load", "--replay", "late"]);
    let (answer, how, why) = env.ask(&["resume", &id, ASK]);
    assert_eq!(answer, RECALLED);
    // On a machine that is busy it may come too late to be seen.
    let seen = (how.as_str(), why.as_str());
    assert!([("loaded", ""), ("retold", "hollow")].contains(&seen), "{seen:?}");
    assert_eq!(env.records(&id, "main").len(), 4);
    env.assert_held("ref", &id, "main");
}

#[test]
fn a_replay_on_resume_is_not_recorded() {
    check_same(&["--resume", "--replay-on-resume"], "resumed", "");
}

#[test]
fn an_agent_that_never_answers_is_started_again() {
    for (offered, method) in [("--resume", "session/resume"), ("--load", "session/load")] {
        let (env, id) = told(&[offered], &[offered, "--hang-on", method]);
        env.set("talk", "open_seconds = 1");
        recalls(&env, &id, "retold", "timed_out");
    }
}

#[test]
fn an_agent_that_dies_while_it_opens_is_started_again() {
    check(&["--load"], &["--load", "--die-on", "session/load"], "retold", "agent_ended");
    // Load is the next way that is tried.
    let flags = ["--resume", "--load", "--list", "--die-on", "session/resume"];
    check(&["--load"], &flags, "loaded", "agent_ended");
}

#[test]
fn a_session_that_is_lost_when_it_is_spoken_to_is_told_again_once() {
    let (env, id) = told(&["--resume"], &["--resume", "--lose-on-prompt"]);
    recalls(&env, &id, "retold", "session_gone");
    let asked: Vec<_> = env.prompts("ref").into_iter().skip(1).collect();
    assert_eq!(asked.len(), 2, "rejected once, answered once: {asked:?}");
    let stored = env.records(&id, "main");
    assert_eq!(stored.iter().filter(|(_, text)| text == ASK).count(), 1);
}

#[test]
fn a_refusal_without_a_word_is_a_session_that_is_lost() {
    for offered in ["--resume", "--load"] {
        let (env, id) = told(&[offered], &[offered, "--lose", "--error-shape", "refusal"]);
        let why = if offered == "--load" { "hollow" } else { "session_gone" };
        recalls(&env, &id, "retold", why);
    }
}

#[test]
fn noise_garbage_echoes_and_late_words_change_nothing() {
    for fault in ["--noise", "--garbage", "--echo", "--updates-after-end"] {
        for (offered, how, why) in [
            (&["--resume"][..], "resumed", ""),
            (&["--load"], "loaded", ""),
            (&[], "retold", "unable"),
        ] {
            let flags = [offered, &[fault]].concat();
            check_same(&flags, how, why);
        }
    }
}

#[test]
fn a_rejected_session_is_forgotten_even_if_the_agent_finds_it_again() {
    let (env, id) = told(&["--resume"], &["--resume", "--lose"]);
    recalls(&env, &id, "retold", "session_gone");
    env.agent("ref", &["--resume"]);
    recalls(&env, &id, "resumed", "");
    let resumed: Vec<String> = env
        .received("ref")
        .iter()
        .filter(|frame| frame["method"] == "session/resume")
        .map(|frame| frame["params"]["sessionId"].as_str().unwrap().to_owned())
        .collect();
    assert_ne!(resumed[0], resumed[1]);
}
