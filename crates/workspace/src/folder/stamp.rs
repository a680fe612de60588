//! By what a file is known to be unchanged, without reading it.

use std::fmt;
use std::str::FromStr;

use rustix::fs::Stat;

use crate::error::Error;

/// A file as it was: another stamp means that it may have changed. As text it can be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    pub size: u64,
    pub modified_ns: i64,
    /// Unlike the time before, this one cannot be set by programs.
    pub changed_ns: i64,
    pub inode: u64,
}

impl Stamp {
    pub(crate) fn of(stat: &Stat) -> Self {
        // Times before 1678 and after 2262 wrap around: they are still told apart.
        let nanoseconds = |seconds: i64, rest: u64| {
            seconds.wrapping_mul(1_000_000_000).wrapping_add_unsigned(rest)
        };
        Self {
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            changed_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
            inode: stat.st_ino,
        }
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, modified_ns, changed_ns, inode } = self;
        write!(formatter, "{size} {modified_ns} {changed_ns} {inode}")
    }
}

impl FromStr for Stamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parse = || {
            let mut parts = text.split(' ');
            let stamp = Self {
                size: parts.next()?.parse().ok()?,
                modified_ns: parts.next()?.parse().ok()?,
                changed_ns: parts.next()?.parse().ok()?,
                inode: parts.next()?.parse().ok()?,
            };
            parts.next().is_none().then_some(stamp)
        };
        parse().ok_or_else(|| Error::BadStamp(text.chars().take(100).collect()))
    }
}
