//! What SQLite alone takes for what a search and a context read, on a connection of its own.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rusqlite::Connection;

use crate::Times;

/// As many rows as a search ranks, by their keys.
#[derive(Debug)]
pub struct Newest(Connection);

/// As many as a search ranks together.
const RANKED: u32 = 100;

impl Newest {
    pub fn open(folder: &Path) -> Result<Self> {
        Ok(Self(Connection::open(folder.join("bench.db"))?))
    }

    /// Reads the newest rows, as owned texts; gives how many.
    pub fn read(&self) -> Result<usize> {
        let mut statement = self
            .0
            .prepare_cached("select id, role, at, body from message order by id desc limit ?1")?;
        let rows: Vec<(i64, i64, i64, String)> = statement
            .query_map([RANKED], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
            .collect::<rusqlite::Result<_>>()?;
        Ok(std::hint::black_box(rows).len())
    }
}

/// How often a row is checked to see how long that takes.
const CHECKS: u32 = 200;

/// What checking adds to reading the columns of all rows of a context, each of which is asked of SQLite once: its session, its
/// conversation and 20 messages.
pub fn sums_of_a_context(folder: &Path, no: i64) -> Result<Duration> {
    let connection = Connection::open(folder.join("bench.db"))?;
    let of = |table: &str, rest: &str| -> Result<Duration> {
        let (columns, sql) = rethread_store::checked_columns(table).context("no such table")?;
        let mut statement = connection.prepare(&format!("{sql} {rest}"))?;
        let mut rows = statement.query((no,))?;
        let (mut checked, mut read) = (Duration::ZERO, Duration::ZERO);
        while let Some(row) = rows.next()? {
            let begun = Instant::now();
            for _ in 0..CHECKS {
                let is_intact = rethread_store::is_intact(std::hint::black_box(row), columns);
                anyhow::ensure!(std::hint::black_box(is_intact), "a damaged row in {table}");
            }
            checked += begun.elapsed() / CHECKS;
            let begun = Instant::now();
            for _ in 0..CHECKS {
                for column in 0..=columns {
                    std::hint::black_box(std::hint::black_box(row).get_ref(column)?);
                }
            }
            read += begun.elapsed() / CHECKS;
        }
        Ok(checked.saturating_sub(read))
    };
    let all = || -> Result<Duration> {
        let messages = of(
            "message",
            "where id between ?1 << 32 and (?1 + 1) << 32 order by id desc limit 20",
        )?;
        Ok(of("session", "where no = ?1")? + of("conversation", "where session = ?1")? + messages)
    };
    let times: Result<Vec<Duration>> = (0..20).map(|_| all()).collect();
    Ok(Times::new(times?).median())
}

/// The processor time of this process so far, user and system.
pub fn cpu_time() -> Result<Duration> {
    /// What `/proc` counts in.
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("/proc/self/stat")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
    Ok(TICK * ticks.sum::<std::result::Result<u32, _>>()?)
}
