//! What goes wrong outside the protocol: at the start of the process, and as rubbish on its standard output.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::flags::Flags;

/// The code with which the agent dies.
pub(crate) const DEATH: i32 = 3;

/// Set for the process that has learned to ignore SIGTERM.
const DEAF: &str = "REFERENCE_AGENT_IGNORES_SIGTERM";

/// Lines that are no frames. Each ends, so that none spoils the frame after it.
pub(crate) const NOISE: &[&[u8]] = &[
    b"Debugger attached.\n",
    b"\xef\xbb\xbf\n",
    b"a line from Windows\r\n\r\n",
    b"\x1b[2K\x1b[33mwarning:\x1b[0m in colour\n",
    b"broken \xff\xfe\xc3\x28 bytes\n",
    b"\n",
    b"\xef\xbb\xbfBOM and text\r\n",
    b"true\n",
];

/// Does what the flags ask for before anything is read. Some of it ends the process.
pub(crate) fn at_start(flags: &Flags) -> Option<ExitCode> {
    if flags.ignore_stdin_close {
        ignore_sigterm();
    }
    if let Some(text) = &flags.stderr {
        complain(text);
    }
    if let Some(pid_file) = &flags.daemon
        && let Err(error) = leave_daemon(pid_file)
    {
        complain(&format!("reference-agent: no daemon: {error}"));
        return Some(ExitCode::from(2));
    }
    thread::sleep(Duration::from_millis(flags.start_delay_ms));
    flags.exit_at_once.map(ExitCode::from)
}

/// Writes a line to standard error.
pub(crate) fn complain(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Ends the process in the middle of whatever it does.
pub(crate) fn die() -> ! {
    std::process::exit(DEATH)
}

/// Lines that look like frames and are wrong.
pub(crate) fn garbage() -> Vec<String> {
    const DEEP: usize = 10_000;
    let updates = [
        json!({ "jsonrpc": "2.0", "method": 42, "params": "text" }),
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": 7 }),
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": 1, "update": [] } }),
        json!({ "jsonrpc": "2.0", "id": "nobody-asked", "result": {} }),
        json!({ "jsonrpc": "2.0", "id": null, "error": "not even an object" }),
        json!({ "jsonrpc": "1.0", "id": { "an": "object" }, "result": 1, "error": 2 }),
        json!([]),
    ];
    let mut lines = vec![r#"{"jsonrpc":"2.0","id":1,"resu"#.to_owned()];
    lines.extend(updates.iter().map(ToString::to_string));
    lines.push(format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{}{}}}"#,
        "[".repeat(DEEP),
        "]".repeat(DEEP)
    ));
    lines
}

/// An update with something in it that is nested so deep.
pub(crate) fn deep(place: &str, levels: usize, tool: &str) -> Value {
    // What a parser of JSON uses to pass on what it has not parsed, and takes from strangers, too.
    const UNPARSED: &str = "$serde_json::private::RawValue";
    let nested = |levels: usize, inside: Value| (0..levels).fold(inside, |all, _| json!([all]));
    match place {
        "tool" => json!({
            "sessionUpdate": "tool_call",
            "toolCallId": tool,
            "title": "dig",
            "rawInput": nested(levels, json!(1)),
        }),
        "hidden" => {
            let hidden = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            json!({ "sessionUpdate": "deep_update", "x": nested(90, json!({ UNPARSED: hidden })) })
        }
        _ => json!({ "sessionUpdate": "deep_update", "x": nested(levels, json!(1)) }),
    }
}

/// Starts `sleep 300` in a session of its own, as a child of nobody. When this returns, it is there.
fn leave_daemon(pid_file: &Path) -> io::Result<()> {
    let started = Command::new("setsid")
        .args(["--fork", "sh", "-c", "echo $$; exec sleep 300 >/dev/null"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    if !started.status.success() {
        return Err(io::Error::other(format!("setsid: {}", started.status)));
    }
    fs::write(pid_file, started.stdout)
}

/// Becomes a process that ignores SIGTERM. A shell sets that, and it outlives the exec that follows.
#[cfg(unix)]
fn ignore_sigterm() {
    use std::os::unix::process::CommandExt;

    if std::env::var_os(DEAF).is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    // This returns only when it fails; then SIGTERM still ends the agent.
    drop(
        Command::new("sh")
            .args(["-c", "trap '' TERM; exec \"$0\" \"$@\""])
            .arg(program)
            .args(std::env::args_os().skip(1))
            .env(DEAF, "1")
            .exec(),
    );
}

#[cfg(not(unix))]
fn ignore_sigterm() {}
