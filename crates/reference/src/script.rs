//! A prompt may tell the agent what to do in lines of its own: `do: STEP`, one after the other.
//!
//! So a long text, such as the task of a plan, can have it do anything. A step is whatever can be said to the agent
//! (see `answers`), or one of those that make sense only here. With `--script FILE` the steps stand in a file instead,
//! for prompts whose text is not the test's own: what is no list of steps there is said as it stands.
//!
//! | step | what it does |
//! |---|---|
//! | `exec: COMMAND` | runs it by itself, with `sh`, in the folder of the session; says its output |
//! | `part: TEXT` | says it, and nothing after it: what follows goes on in the same line |
//! | `wait for: PATH` | goes on when there is such a file; relative to the folder of the session |
//! | `context: USED SIZE [USD]` | says at the end that its context is this full, and what it cost |
//! | `spent: USED SIZE [USD]` | says the same at once |
//! | `no usage` | says at the end nothing of what it took |
//! | `refuse: TEXT` | answers the prompt with an error |
//! | `stop: REASON` | ends the turn for this reason |

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::answers::{self, Ask};
use crate::lock;
use crate::memory::Tool;
use crate::replay::tool_call;
use crate::session::told;
use crate::turn::{Step, Turn};

const MARK: &str = "do:";
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How a turn is to end, where a script says so.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    pub(crate) context: Option<(u64, u64, Option<f64>)>,
    pub(crate) no_usage: bool,
    pub(crate) refusal: Option<String>,
    pub(crate) reason: Option<String>,
}

/// The steps in the last text block of a prompt.
pub(crate) fn steps(blocks: &[Value]) -> Vec<String> {
    let mut texts = blocks.iter().filter_map(told).filter(|told| told.kind == "text");
    steps_in(texts.next_back().map(|told| told.text).unwrap_or_default())
}

/// The steps of an answer in a script; none where it begins as a text does.
pub(crate) fn steps_of(answer: &str) -> Vec<String> {
    if answer.trim_start().starts_with(MARK) { steps_in(answer) } else { Vec::new() }
}

fn steps_in(text: &str) -> Vec<String> {
    let step = |line: &str| line.trim().strip_prefix(MARK).map(|step| step.trim().to_owned());
    text.lines().filter_map(step).collect()
}

/// Takes the first answer off a file; `None` where no more is there.
pub(crate) fn take(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok().filter(|text| !text.trim().is_empty())?;
    let (first, rest) = text.split_once("\n---\n").unwrap_or((&text, ""));
    // Should it stay, the test sees the same answer twice.
    drop(std::fs::write(file, rest));
    Some(first.to_owned())
}

impl Turn {
    pub(crate) fn play(&mut self, steps: &[String]) -> Step {
        for step in steps {
            let (name, rest) = step.split_once(':').unwrap_or((step, ""));
            let rest = rest.trim();
            match name.trim() {
                "exec" => self.exec(rest)?,
                "part" => self.say(rest),
                "wait for" => self.wait_for(rest)?,
                "context" => self.ending.context = context(rest),
                "spent" => {
                    if let Some(context) = context(rest) {
                        self.tell_context(context);
                    }
                }
                "no usage" => self.ending.no_usage = true,
                "refuse" => {
                    self.ending.refusal = Some(rest.to_owned());
                    return Ok(());
                }
                "stop" => {
                    self.ending.reason = Some(rest.to_owned());
                    return Ok(());
                }
                _ => {
                    let block = serde_json::json!({ "type": "text", "text": step });
                    match answers::ask(&[block]) {
                        Ask::Other => self.say("ACK"),
                        asked => self.answer(asked)?,
                    }
                    self.say("\n");
                }
            }
        }
        Ok(())
    }

    fn folder(&self) -> String {
        lock(&self.session).cwd.clone()
    }

    fn exec(&mut self, command: &str) -> Step {
        let id = format!("{}-{}", self.tool_id(), self.parts.len());
        self.update(tool_call(&id, command));
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(self.folder()).stdin(Stdio::null());
        let (output, completed) = match shell.output() {
            Ok(done) => {
                let text = [done.stdout, done.stderr].concat();
                (String::from_utf8_lossy(&text).into_owned(), done.status.success())
            }
            Err(error) => (error.to_string(), false),
        };
        self.end_tool(Tool { id, title: command.to_owned(), output, completed });
        self.pause(Duration::ZERO)
    }

    fn wait_for(&mut self, path: &str) -> Step {
        let path = Path::new(&self.folder()).join(path);
        while !path.exists() {
            self.pause(LOOK_EVERY)?;
        }
        Ok(())
    }
}

fn context(text: &str) -> Option<(u64, u64, Option<f64>)> {
    let mut words = text.split_whitespace();
    let (used, size) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((used, size, words.next().and_then(|cost| cost.parse().ok())))
}
