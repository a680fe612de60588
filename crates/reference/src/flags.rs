//! What the agent can be told on its command line.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::errors::{self, Shape};

/// How the agent is to behave, and to misbehave.
#[derive(Debug, Clone, clap::Args)]
#[allow(clippy::struct_excessive_bools)] // Each one is a switch of its own.
pub struct Flags {
    /// Where sessions are remembered: `process` forgets them when the process ends, DIR keeps one file each
    #[arg(long, value_name = "process|DIR", default_value = "process")]
    pub(crate) memory: Memory,

    /// Write a turn to memory only when it has ended, not the prompt when it arrives
    #[arg(long)]
    pub(crate) persist_nothing_until_end: bool,

    /// Write each part of an answer to memory as it is said
    #[arg(long, conflicts_with = "persist_nothing_until_end")]
    pub(crate) persist_halves: bool,

    /// Offer session/load
    #[arg(long)]
    pub(crate) load: bool,

    /// Offer session/resume
    #[arg(long)]
    pub(crate) resume: bool,

    /// Offer session/list
    #[arg(long)]
    pub(crate) list: bool,

    /// Speak version 2 of the protocol with clients that do
    #[arg(long)]
    pub(crate) second: bool,

    /// Do not offer session/close
    #[arg(long)]
    pub(crate) no_close: bool,

    /// Do not accept embedded resources in prompts
    #[arg(long)]
    pub(crate) no_embedded: bool,

    /// Name native sessions NAME-1, NAME-2 … instead of giving each a name of its own
    #[arg(long, value_name = "NAME")]
    pub(crate) ids: Option<String>,

    /// Tell of a command of its own, NAME (repeatable)
    #[arg(long, value_name = "NAME")]
    pub(crate) command: Vec<String>,

    /// Append every frame received and sent to FILE, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,

    /// Take the answer to each prompt off the beginning of FILE, where answers stand between lines of `---`
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,

    /// Wait this long between the chunks of `stream:`
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(crate) chunk_delay_ms: u64,

    /// Wait this long before reading anything
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(crate) start_delay_ms: u64,

    /// Write TEXT to standard error at the start
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) stderr: Option<String>,

    /// Answer load and resume of every session as if it were unknown
    #[arg(long, help_heading = "Faults")]
    pub(crate) lose: bool,

    /// Answer prompts to a session that was loaded or resumed as if it were unknown
    #[arg(long, help_heading = "Faults")]
    pub(crate) lose_on_prompt: bool,

    /// How an unknown (or lost) session is answered
    ///
    /// `refusal`: load and resume succeed, prompts end with stopReason refusal and no update.
    /// `success-and-empty`: load and resume succeed while nothing is known.
    /// Every other one is an error of that shape.
    #[arg(long, value_name = "NAME", default_value = errors::DEFAULT, value_parser = shapes(),
          allow_hyphen_values = true, help_heading = "Faults")]
    pub(crate) error_shape: &'static Shape,

    /// What session/load replays: what was said, another conversation, or what was said after the response
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Replay::Right, help_heading = "Faults")]
    pub(crate) replay: Replay,

    /// Replay on session/resume too, which no agent should
    #[arg(long, help_heading = "Faults")]
    pub(crate) replay_on_resume: bool,

    /// Wait this long before a late replay
    #[arg(long, value_name = "MS", default_value_t = 0, help_heading = "Faults")]
    pub(crate) replay_delay_ms: u64,

    /// Never answer METHOD (repeatable)
    #[arg(long, value_name = "METHOD", help_heading = "Faults")]
    pub(crate) hang_on: Vec<String>,

    /// Exit with code 3 when METHOD is received (repeatable)
    #[arg(long, value_name = "METHOD", help_heading = "Faults")]
    pub(crate) die_on: Vec<String>,

    /// Exit at once, with CODE
    #[arg(long, value_name = "CODE", num_args = 0..=1, default_missing_value = "1", help_heading = "Faults")]
    pub(crate) exit_at_once: Option<u8>,

    /// Answer initialize with protocol version N
    #[arg(long, value_name = "N", help_heading = "Faults")]
    pub(crate) wrong_version: Option<u16>,

    /// Answer session/new, load and resume with -32000 until authenticate was called
    #[arg(long, help_heading = "Faults")]
    pub(crate) auth_required: bool,

    /// Write plain text, BOM, CRLF, ANSI colours and invalid UTF-8 between the frames
    #[arg(long, help_heading = "Faults")]
    pub(crate) noise: bool,

    /// Write half JSON, duplicate and unknown responses, wrong types and deep nesting round each response
    #[arg(long, help_heading = "Faults")]
    pub(crate) garbage: bool,

    /// After the answer to initialize, write a line of BYTES bytes that does not end
    #[arg(long, value_name = "BYTES", help_heading = "Faults")]
    pub(crate) endless_line: Option<u64>,

    /// In each prompt, send N updates of 100 bytes as fast as possible
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Faults")]
    pub(crate) flood: u64,

    /// Echo the user's prompt as `user_message_chunk`
    #[arg(long, help_heading = "Faults")]
    pub(crate) echo: bool,

    /// Send one more chunk after the response to a prompt
    #[arg(long, help_heading = "Faults")]
    pub(crate) updates_after_end: bool,

    /// Do not obey session/cancel
    #[arg(long, help_heading = "Faults")]
    pub(crate) ignore_cancel: bool,

    /// Keep running when standard input ends, and on SIGTERM
    #[arg(long, help_heading = "Faults")]
    pub(crate) ignore_stdin_close: bool,

    /// Leave a detached `sleep 300` behind, its process id in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "/dev/null", help_heading = "Faults")]
    pub(crate) daemon: Option<PathBuf>,
}

/// Where native sessions are remembered.
#[derive(Debug, Clone)]
pub(crate) enum Memory {
    /// Until the process ends.
    Process,
    /// In a folder, one file per native session.
    Folder(PathBuf),
}

impl FromStr for Memory {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "process" { Self::Process } else { Self::Folder(PathBuf::from(text)) })
    }
}

/// What `session/load` replays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Replay {
    /// What was said, before the response.
    Right,
    /// Another conversation, which the agent then also takes for its memory.
    Wrong,
    /// What was said, but after the response.
    Late,
}

fn shapes() -> impl TypedValueParser<Value = &'static Shape> {
    PossibleValuesParser::new(errors::SHAPES.iter().map(|shape| shape.name))
        .try_map(|name| errors::shape(&name).ok_or_else(|| format!("no shape {name}")))
}
