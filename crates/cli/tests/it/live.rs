//! A recorder that runs while a test does something else.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::env::TestEnv;

#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) id: String,
    child: Child,
    say: Option<ChildStdin>,
    hear: Lines<BufReader<ChildStdout>>,
}

impl Live {
    pub(crate) fn start(env: &TestEnv, args: &[&str]) -> Self {
        let mut command = env.command(["record", "--ack"]);
        command.args(args);
        Self::spawn(command)
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the recorder starts");
        let say = child.stdin.take();
        let mut hear = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let id = hear.next().expect("the recorder tells the session").expect("text");
        Self { id, child, say, hear }
    }

    /// Says something and waits until it is durable.
    pub(crate) fn say(&mut self, line: &Value) -> u64 {
        writeln!(self.say.as_mut().expect("a pipe"), "{line}").expect("the recorder listens");
        let ack = self.hear.next().expect("the recorder acknowledges").expect("text");
        serde_json::from_str::<Value>(&ack).expect("JSON")["seq"].as_u64().expect("a number")
    }

    /// Ends it as the end of its input does.
    pub(crate) fn finish(mut self) {
        self.say = None;
        assert!(self.child.wait().expect("it ends").success());
    }

    /// Ends its input, however it takes that.
    pub(crate) fn end(mut self) -> ExitStatus {
        self.say = None;
        self.child.wait().expect("it ends")
    }

    /// Says the rest while nobody reads its answers any more, and waits for its end.
    pub(crate) fn go_on_unheard(self, lines: &[Value]) {
        let Self { mut child, say, hear, .. } = self;
        drop(hear);
        let mut say = say.expect("a pipe");
        for line in lines {
            writeln!(say, "{line}").expect("the recorder listens");
        }
        drop(say);
        assert!(child.wait().expect("it ends").success());
    }

    /// Says something and ends the input; gives how often that was acknowledged, and what it told beside. To be spawned
    /// with its errors piped.
    pub(crate) fn say_until_it_ends(mut self, line: &Value) -> (usize, String) {
        let mut say = self.say.take().expect("a pipe");
        // It may have ended already, and then does not listen.
        drop(writeln!(say, "{line}"));
        drop(say);
        let output = self.child.wait_with_output().expect("it ends");
        let heard = self.hear.map_while(Result::ok).filter(|line| line.contains("\"seq\"")).count();
        (heard, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }
}
