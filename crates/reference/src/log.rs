//! The log of frames: for a test, the proof of what reached the agent and what it said.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;

use serde::de::IgnoredAny;
use serde_json::json;

use crate::lock;
use crate::time::now_ms;

/// A file of frames, one JSON object a line.
#[derive(Debug)]
pub(crate) struct Log(Mutex<File>);

/// Which way a frame went.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Direction {
    In,
    Out,
}

impl Log {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(Mutex::new(OpenOptions::new().create(true).append(true).open(path)?)))
    }

    /// Appends one line, in one write. A frame is kept as it was on the wire; what is no JSON becomes a string.
    pub(crate) fn note(&self, direction: Direction, frame: &str) {
        let at = now_ms();
        let direction = match direction {
            Direction::In => "in",
            Direction::Out => "out",
        };
        let frame = frame.trim();
        let frame = match serde_json::from_str::<IgnoredAny>(frame) {
            Ok(_) => frame.to_owned(),
            Err(_) => json!(frame).to_string(),
        };
        let line = format!("{{\"at\":{at},\"dir\":\"{direction}\",\"frame\":{frame}}}\n");
        // The agent must not fail because its log does.
        drop(lock(&self.0).write_all(line.as_bytes()));
    }
}
