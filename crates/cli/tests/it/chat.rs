//! A conversation that runs while a test does something else: through pipes, or on a terminal.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};

use rexpect::process::WaitStatus;
use rexpect::session::{PtySession, spawn_command};

use crate::env::TestEnv;

/// Through pipes: lines in, answers out.
#[derive(Debug)]
pub(crate) struct Chat {
    child: Child,
    say: Option<ChildStdin>,
    hear: BufReader<ChildStdout>,
}

impl Chat {
    pub(crate) fn start(env: &TestEnv, args: &[&str]) -> Self {
        let mut command = env.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let say = child.stdin.take();
        let hear = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, say, hear }
    }

    pub(crate) fn type_line(&mut self, line: &str) {
        writeln!(self.say.as_mut().expect("a pipe"), "{line}").expect("the program listens");
    }

    /// The next line of an answer; empty at the end.
    pub(crate) fn hear(&mut self) -> String {
        let mut line = String::new();
        self.hear.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    /// Waits until this is the next that it says.
    pub(crate) fn hear_word(&mut self, word: &str) {
        let mut heard = vec![0; word.len()];
        self.hear.read_exact(&mut heard).expect("a word");
        assert_eq!(String::from_utf8_lossy(&heard), word);
    }

    /// Says something that is answered in one line.
    pub(crate) fn say(&mut self, line: &str) -> String {
        self.type_line(line);
        self.hear()
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_some()
    }

    /// Waits for its end without ending its input. Gives the rest of its output, and what it told.
    pub(crate) fn wait(mut self) -> (ExitStatus, String, String) {
        let (mut rest, mut told) = (String::new(), String::new());
        self.hear.read_to_string(&mut rest).expect("text");
        let errors = self.child.stderr.as_mut().expect("a pipe");
        errors.read_to_string(&mut told).expect("text");
        (self.child.wait().expect("it ends"), rest, told)
    }

    /// Ends its input, and waits for its end.
    pub(crate) fn end(mut self) -> (ExitStatus, String, String) {
        self.say = None;
        self.wait()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }
}

/// On a terminal of its own, of 100 columns and 40 lines.
pub(crate) struct Terminal(PtySession);

impl Terminal {
    const MILLISECONDS: u64 = 30_000;
    pub(crate) const CTRL_C: &str = "\u{3}";
    pub(crate) const CTRL_D: &str = "\u{4}";
    pub(crate) const ENTER: &str = "\r";

    pub(crate) fn start(env: &TestEnv, args: &[&str]) -> Self {
        Self::start_by(env, args, "stty rows 40 cols 100; exec \"$@\"")
    }

    /// Prints the modes of the terminal after the program has ended.
    pub(crate) fn start_and_tell_modes(env: &TestEnv, args: &[&str]) -> Self {
        let script = "stty rows 40 cols 100 echo; \"$@\"; code=$?; stty -a; exit $code";
        Self::start_by(env, args, script)
    }

    fn start_by(env: &TestEnv, args: &[&str], script: &str) -> Self {
        let starter = ["sh", "-c", script, "sh"];
        let mut command = env.command_by(&starter, args);
        command.env("TERM", "xterm-256color").stdin(Stdio::inherit());
        Self(spawn_command(command, Some(Self::MILLISECONDS)).expect("a terminal"))
    }

    /// Waits until the text is on the terminal; gives what came before it.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        // What is read is given byte by byte, each as a character.
        let bytes: String = text.bytes().map(char::from).collect();
        self.0.exp_string(&bytes).unwrap_or_else(|error| panic!("{text:?}: {error}"))
    }

    #[track_caller]
    pub(crate) fn press(&mut self, keys: &str) {
        self.0.send(keys).expect("the terminal takes it");
        self.0.flush().expect("the terminal takes it");
    }

    /// Types a line once it is asked for.
    #[track_caller]
    pub(crate) fn type_line(&mut self, line: &str) {
        self.wait_for("> ");
        self.press(&format!("{line}{}", Self::ENTER));
    }

    /// Waits for the end; gives what came before it, and the exit code.
    #[track_caller]
    pub(crate) fn end(mut self) -> (String, i32) {
        let rest = self.0.exp_eof().expect("it ends");
        match self.0.process().wait().expect("it ends") {
            WaitStatus::Exited(_, code) => (rest, code),
            status => panic!("{status:?}: {rest}"),
        }
    }
}
