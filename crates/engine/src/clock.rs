//! The one place that reads the time.

use jiff::Timestamp;

#[derive(Debug, Clone, Copy)]
pub enum Clock {
    Wall,
    /// A fixed time, for tests.
    Fixed(Timestamp),
}

impl Clock {
    pub fn now(self) -> Timestamp {
        match self {
            #[expect(clippy::disallowed_methods, reason = "this is the place")]
            Self::Wall => Timestamp::now(),
            Self::Fixed(at) => at,
        }
    }
}
