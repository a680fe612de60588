//! The seed of a randomised test.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Another one in each run, unless `RETHREAD_SEED` gives it. It is printed: a run that failed can be repeated.
#[expect(clippy::print_stderr, reason = "a failure is shown with its seed")]
pub fn seed() -> u64 {
    let given = std::env::var_os("RETHREAD_SEED").and_then(|text| text.into_string().ok());
    let seed = match given {
        Some(text) => {
            text.parse().unwrap_or_else(|_| panic!("RETHREAD_SEED is not a number: {text}"))
        }
        None => RandomState::new().build_hasher().finish(),
    };
    eprintln!("RETHREAD_SEED={seed}");
    seed
}
