//! The reference agent: a deterministic agent that speaks ACP version 1, and on request version 2, over its standard input and
//! output.
//!
//! It is the other side in tests, benchmarks and the tour, and written by hand on raw JSON so that it shares no
//! mistake with the code it tests. What it answers depends only on what it was really told in that native session;
//! what it does wrong is chosen by flags. The module `answers` lists what can be said to it, [`Flags`] what it can be.
//!
//! One thread reads, one acts on what was read in its order, and each prompt runs on a thread of its own.

mod agent;
mod answers;
mod attach;
mod client;
mod errors;
mod faults;
mod flags;
mod log;
mod memory;
mod replay;
mod script;
mod second;
mod session;
mod time;
mod turn;
mod wire;

use std::process::ExitCode;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

pub use flags::Flags;

use agent::Agent;
use wire::Wire;

/// Runs the agent until its standard input ends.
pub fn run(flags: Flags) -> ExitCode {
    if let Some(code) = faults::at_start(&flags) {
        return code;
    }
    let flags = Arc::new(flags);
    let started = Wire::open(&flags).and_then(|wire| {
        let wire = Arc::new(wire);
        Ok((Agent::new(Arc::clone(&flags), Arc::clone(&wire))?, wire))
    });
    let (mut agent, wire) = match started {
        Ok(started) => started,
        Err(error) => {
            faults::complain(&format!("reference-agent: {error}"));
            return ExitCode::from(2);
        }
    };
    wire.greet();
    let (received, inbox) = mpsc::channel();
    thread::spawn(move || wire.read(&received));
    for frame in inbox {
        agent.receive(frame);
    }
    if flags.ignore_stdin_close {
        loop {
            thread::park();
        }
    }
    ExitCode::SUCCESS
}

/// Takes a lock. Nothing here leaves a value half changed, so a panic elsewhere is no reason to stop.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
