//! The lines that a person types, read on a thread of their own.

use std::sync::mpsc::{Sender, channel};

use tokio::sync::mpsc;

use crate::config;
use crate::terminal::editor::{Editor, Handle, Input};

/// Reads lines, one each time it is asked to.
pub(super) struct Lines {
    wanted: Sender<()>,
    typed: mpsc::UnboundedReceiver<std::io::Result<Input>>,
    /// Typed while something else was done.
    early: Option<std::io::Result<Input>>,
    pub(super) handle: Handle,
}

impl Lines {
    /// `commands` are what Tab completes. Programs that want JSON get no prompt between it.
    pub(super) fn open(commands: &[&str], json: bool) -> anyhow::Result<Self> {
        let history = config::data_folder()?.join("history");
        let mut editor = if json { Editor::plain() } else { Editor::open(&history, commands)? };
        let handle = editor.handle();
        let (wanted, asked) = channel::<()>();
        let (send, typed) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            while asked.recv().is_ok() {
                if send.send(editor.read("> ")).is_err() {
                    return;
                }
            }
        });
        Ok(Self { wanted, typed, early: None, handle })
    }

    pub(super) async fn next(&mut self) -> Option<std::io::Result<Input>> {
        match self.early.take() {
            Some(line) => Some(line),
            None => self.typed.recv().await,
        }
    }

    /// Waits for a Ctrl-C that the editor takes. A line that is typed meanwhile is kept.
    pub(super) async fn interrupted(&mut self) {
        while self.early.is_none() {
            match self.typed.recv().await {
                Some(Ok(Input::Interrupted)) => {
                    self.want();
                    return;
                }
                Some(line) => self.early = Some(line),
                None => break,
            }
        }
        std::future::pending::<()>().await;
    }

    pub(super) fn want(&self) {
        // The thread is there as long as this is.
        drop(self.wanted.send(()));
    }
}
