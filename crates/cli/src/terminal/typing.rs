//! The keyboard, for as long as it is ours: the terminal gives each key as it is pressed, to a thread that reads nothing else.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{self, InputModes, LocalModes, OptionalActions, Termios};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::keys::{Key, Parser};
use super::restore::Restore;

/// What belongs to a key comes at once, also over a slow line.
const TOGETHER: Timespec = Timespec { tv_sec: 0, tv_nsec: 60_000_000 };

/// Pasted text comes in brackets.
const BEGIN: &[u8] = b"\x1b[?2004h";
const END: &[u8] = b"\x1b[?2004l";

/// Keys, until this is dropped: then the terminal is as it was.
pub(crate) struct Typing {
    pub(crate) keys: UnboundedReceiver<Key>,
    modes: Termios,
    _restore: Restore,
    /// Its end tells the thread to stop.
    stop: Option<OwnedFd>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Typing {
    pub(crate) fn begin() -> io::Result<Self> {
        let modes = termios::tcgetattr(io::stdin())?;
        let restore = restored(modes.clone());
        set_raw(&modes)?;
        let (stopped, stop) = rustix::pipe::pipe()?;
        let (send, keys) = unbounded_channel();
        let reader = std::thread::spawn(move || read(&stopped, &send));
        Ok(Self { keys, modes, _restore: restore, stop: Some(stop), reader: Some(reader) })
    }

    /// Stops the program, as Ctrl-Z does, until it is continued.
    pub(crate) fn suspend(&self) -> io::Result<()> {
        termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.modes)?;
        write(END);
        rustix::process::kill_process_group(
            rustix::process::getpgrp(),
            rustix::process::Signal::TSTP,
        )?;
        set_raw(&self.modes)
    }
}

impl Drop for Typing {
    fn drop(&mut self) {
        drop(self.stop.take()); // Nothing was ever written to it.
        if let Some(reader) = self.reader.take() {
            // It ends as soon as it sees that; what it panicked of was told.
            drop(reader.join());
        }
    }
}

fn set_raw(modes: &Termios) -> io::Result<()> {
    let mut raw = modes.clone();
    raw.local_modes &=
        !(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
    raw.input_modes &= !(InputModes::ICRNL | InputModes::IXON);
    termios::tcsetattr(io::stdin(), OptionalActions::Drain, &raw)?;
    write(BEGIN);
    Ok(())
}

fn restored(modes: Termios) -> Restore {
    Restore::on_drop(move |is_early| {
        // The terminal may be gone.
        let _gone = termios::tcsetattr(io::stdin(), OptionalActions::Now, &modes);
        write(END);
        if is_early {
            // A line of its own for what is said next.
            write(b"\n");
        }
    })
}

fn write(bytes: &[u8]) {
    let mut out = io::stdout();
    // Nobody may be there to see it.
    drop(out.write_all(bytes).and_then(|()| out.flush()));
}

fn read(stopped: &OwnedFd, send: &UnboundedSender<Key>) {
    let mut parser = Parser::default();
    let mut bytes = [0; 4096];
    loop {
        let stdin = io::stdin();
        let mut waiting = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        let limit = parser.is_undecided().then_some(&TOGETHER);
        let ready = match poll(&mut waiting, limit) {
            Ok(ready) => ready,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => 0,
        };
        if !waiting[1].revents().is_empty() {
            return;
        }
        let keys = if ready == 0 {
            parser.decide().into_iter().collect()
        } else {
            // Not by way of a buffer: what it held could not be waited for.
            match rustix::io::read(&stdin, &mut bytes) {
                Ok(0) | Err(rustix::io::Errno::IO) => vec![Key::Gone],
                Ok(count) => parser.feed(&bytes[..count]),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Vec::new(),
                Err(_) => vec![Key::Gone],
            }
        };
        for key in keys {
            let is_gone = key == Key::Gone;
            if send.send(key).is_err() || is_gone {
                return;
            }
        }
    }
}
