//! For tests: a program on a terminal of its own.
//!
//! The program is this test binary again, told to run one test that is ignored otherwise: the scene. So the
//! tests need no other binary and see the code that they stand beside.

use std::path::Path;
use std::process::Command;

use rexpect::session::{PtySession, spawn_command};

/// Set for a scene: without it, nothing happens there.
pub(super) const VARIABLE: &str = "RETHREAD_SCENE";
const MILLISECONDS: u64 = 20_000;

/// Whether this process was started to play a scene.
pub(super) fn is_scene() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Plays the scene `name` of the module `module` in `folder`, on a terminal of 80 columns and 24 lines. Then the
/// modes of the terminal are printed.
pub(super) fn play(module: &str, name: &str, folder: &Path) -> PtySession {
    let (_, module) = module.split_once("::").unwrap();
    let program = std::env::current_exe().unwrap();
    let script = format!(
        "stty rows 24 cols 80 echo; '{}' '{module}::{name}' --exact --ignored --nocapture; stty -a; echo over",
        program.display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(folder);
    command.env(VARIABLE, "1").env("TERM", "xterm-256color").env_remove("TERM_PROGRAM");
    spawn_command(command, Some(MILLISECONDS)).unwrap()
}

/// Types `keys` once `text` is on the terminal; gives what came before it.
pub(super) fn answer(session: &mut PtySession, text: &str, keys: &str) -> String {
    let before = wait_for(session, text);
    session.send(keys).unwrap();
    session.flush().unwrap();
    before
}

/// Waits until `text` is on the terminal; gives what came before it.
pub(super) fn wait_for(session: &mut PtySession, text: &str) -> String {
    // What is read is given byte by byte, each as a character.
    let bytes: String = text.bytes().map(char::from).collect();
    session.exp_string(&bytes).unwrap()
}

/// Waits until the scene is over; gives what came before the modes, and checks those.
pub(super) fn finish(mut session: PtySession) -> String {
    let before = session.exp_string("speed ").unwrap();
    let modes = session.exp_string("over").unwrap();
    for mode in ["icanon", "isig", "echo", "icrnl", "opost"] {
        assert!(modes.split_whitespace().any(|word| word == mode), "{mode} is off: {modes}");
    }
    before
}
