//! `rethread logs`

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::Duration;

use rethread_domain::SessionId;
use serde_json::{Map, Value};
use tracing::Level;

use crate::diagnostics::{self, Reader};
use crate::output;

/// How often the file is looked at while it is followed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Show the log of what ran unattended: background workflows, hooks, failures
///
/// Every process that has no log of its own writes to one file in the data folder, which is bounded. The environment
/// variable `RETHREAD_LOG` says how much is noted: error, warn, info (the default), debug, trace or off, also for single
/// modules: `RETHREAD_LOG=warn,rethread_engine=debug`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only lines with this id: of a request, a session, a workflow, a task, a process
    id: Option<String>,
    /// Go on with what is added
    #[arg(long, short)]
    follow: bool,
    /// Only lines of this level and above: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "trace", value_parser = level)]
    level: Level,
    /// Only this many lines, the latest
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 200)]
    lines: usize,
}

fn level(name: &str) -> Result<Level, String> {
    match name {
        "error" => Ok(Level::ERROR),
        "warn" => Ok(Level::WARN),
        "info" => Ok(Level::INFO),
        "debug" => Ok(Level::DEBUG),
        "trace" => Ok(Level::TRACE),
        _ => Err("expected error, warn, info, debug or trace".to_owned()),
    }
}

impl Args {
    pub(crate) fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        let mut reader = Reader::new(diagnostics::folder()?);
        let mut last = VecDeque::new();
        let mut is_empty = true;
        let mut keep = |line: &str| {
            is_empty = false;
            if let Some(line) = self.wanted(line) {
                last.push_back(line);
                if last.len() > self.lines {
                    last.pop_front();
                }
            }
        };
        reader.older(&mut keep)?;
        reader.newer(&mut keep)?;
        if last.is_empty() && !self.follow && !json {
            let what = if is_empty { "The log is empty." } else { "No log lines match." };
            output::note(format_args!("{what}"));
        }
        for line in &last {
            show(line, json);
        }
        if !self.follow {
            return Ok(ExitCode::SUCCESS);
        }
        loop {
            std::thread::sleep(LOOK_EVERY);
            reader.newer(&mut |line| {
                if let Some(line) = self.wanted(line) {
                    show(&line, json);
                }
            })?;
        }
    }

    /// The line, if it is to be shown. What is not a line of ours, or only a part of one, is not.
    fn wanted(&self, line: &str) -> Option<Map<String, Value>> {
        let line: Map<String, Value> = serde_json::from_str(line).ok()?;
        let level: Level = line.get("level")?.as_str()?.parse().ok()?;
        // The less severe a level is, the greater it is.
        let is_wanted = level <= self.level && self.id.as_deref().is_none_or(|id| has(&line, id));
        is_wanted.then_some(line)
    }
}

/// Whether one of the fields is this id or begins with it, or has it as its short form.
fn has(line: &Map<String, Value>, id: &str) -> bool {
    line.iter().filter(|(name, _)| !["at", "level", "event"].contains(&name.as_str())).any(
        |(_, value)| match value {
            Value::String(text) => {
                let is_short = |own: SessionId| own.handle().starts_with(id);
                text.starts_with(id) || text.parse().is_ok_and(is_short)
            }
            Value::Number(number) => number.to_string() == id,
            _ => false,
        },
    )
}

fn show(line: &Map<String, Value>, json: bool) {
    if json {
        output::json_line(line);
    } else {
        output::data(&(diagnostics::text(line, output::is_terminal()) + "\n"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_found_by_an_id_or_the_beginning_of_its_short_form() {
        let id = SessionId::generate();
        let line = json!({"event": "opened", "session": id.to_string(), "pid": 17});
        let line = line.as_object().unwrap();
        for found in [&id.to_string(), &id.to_string()[..8], &id.short(), &id.handle(), "17"] {
            assert!(has(line, found), "{found}");
        }
        for other in ["opened", "1", "zzzz"] {
            assert!(!has(line, other), "{other}");
        }
    }
}
