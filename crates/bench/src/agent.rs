//! The reference agent, as the benchmarks open it.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use rethread_acp::{AcpLauncher, Entry};
use rethread_domain::SessionId;
use rethread_domain::context::Limits;
use rethread_domain::opening::{Policy, Settings};
use rethread_engine::Pruning;
use rethread_engine::agents::{Consent, Holds, Nobody, OpenOptions, Rules};

/// Everything that it takes to open a session in the reference agent of `program`.
pub fn options(program: &Path, session: SessionId, flags: &[&str]) -> OpenOptions {
    let mut command = vec![program.to_string_lossy().into_owned(), "reference-agent".to_owned()];
    command.extend(flags.iter().map(|&flag| flag.to_owned()));
    let launcher = AcpLauncher {
        entry: Entry { name: "reference".into(), command, ..Entry::default() },
        guard: Some(vec![program.as_os_str().to_owned(), OsString::from("guard")]),
        environment: std::env::vars_os().collect(),
        ..AcpLauncher::default()
    };
    OpenOptions {
        session,
        conversation: "main".into(),
        agent: "reference".into(),
        launcher: Arc::new(launcher),
        system_prompt: None,
        changed_prompt: None,
        defaults: Settings::default(),
        settings: Settings::default(),
        policy: Policy::Auto,
        limits: Limits::default(),
        max_turn_bytes: 64 << 20,
        margin: 0.0,
        holds: Holds::default(),
        rules: Rules { consent: Consent::Deny, ..Rules::default() },
        asker: Arc::new(Nobody),
        pruning: Pruning::default(),
        own_sessions: None,
        request_id: None,
    }
}
