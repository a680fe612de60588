//! What other processes cost: their time and memory, as the system counts them.

use std::io::{Read, Write};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// The most memory that a process had: it is held at its last write by a pipe that is full.
pub fn peak_memory(mut command: Command) -> Result<u64> {
    let (mut reader, mut writer) = std::io::pipe()?;
    writer.write_all(&vec![0; 65536])?;
    let mut child = command.stdout(writer.try_clone()?).spawn()?;
    drop(writer);
    let status = format!("/proc/{}/status", child.id());
    let field = |name: &str| -> Result<String> {
        let text = std::fs::read_to_string(&status)?;
        let line =
            text.lines().find_map(|line| line.strip_prefix(name)).context("no such field")?;
        Ok(line.trim_matches(['\t', ' ', ':']).to_owned())
    };
    let mut quiet = 0;
    while quiet < 20 {
        std::thread::sleep(Duration::from_millis(5));
        quiet = if field("State")?.starts_with('S') { quiet + 1 } else { 0 };
    }
    let peak = field("VmHWM")?;
    drop(command);
    reader.read_to_end(&mut Vec::new())?;
    ensure!(child.wait()?.success(), "a process failed");
    Ok(peak.trim_end_matches(" kB").trim().parse()?)
}

/// What the processes that this one has waited for took so far.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    /// In user and system mode.
    pub time: Duration,
    /// Pages that were not there yet.
    pub faults: u64,
}

impl Spent {
    pub fn by_children() -> Result<Self> {
        let text = std::fs::read_to_string("/proc/self/stat")?;
        // The name of the program may have spaces in it.
        let (_, fields) = text.rsplit_once(')').context("an unknown form of /proc/self/stat")?;
        let field = |number: usize| -> Result<u64> {
            // The first after the name is the third.
            let text = fields.split_whitespace().nth(number - 3).context("too few fields")?;
            Ok(text.parse()?)
        };
        // Hundredths of a second, on every Linux.
        let time = Duration::from_millis((field(16)? + field(17)?) * 10);
        Ok(Self { time, faults: field(11)? })
    }

    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let time = self.time.saturating_sub(before.time);
        Self { time, faults: self.faults.saturating_sub(before.faults) }
    }
}
