//! How conversations were opened: a sum of the facts that tell of it, kept with every one of them, so that reading it
//! costs by what is told, however often something was opened.

use std::collections::BTreeMap;

use rethread_domain::Fact;
use rethread_domain::opening::{How, Opening};
use serde_json::Value;

use super::rows::SessionRow;
use super::sql::{Connection, Row, SqlResult};
use super::summed::summed;
use super::sums;
use crate::error::{Error, Result};
use crate::types::OpeningCount;

/// How often, by user, agent, way, reason and time.
type Sums = BTreeMap<(String, String, String, String, i64), i64>;

/// Three digits are kept: there are only so many different times then.
fn rounded(ms: u64) -> i64 {
    let unit = 10_u64.pow(ms.checked_ilog10().unwrap_or(0).saturating_sub(2));
    i64::try_from(ms / unit * unit).unwrap_or(i64::MAX)
}

/// Counts a fact that is added.
pub(super) fn count(connection: &Connection, user: &str, fact: &Fact) -> Result<()> {
    match fact {
        Fact::Attached(opening) => add(connection, user, opening, 1),
        _ => Ok(()),
    }
}

fn add(connection: &Connection, user: &str, opening: &Opening, times: i64) -> Result<()> {
    let why = opening.why.as_deref().unwrap_or_default();
    let values = (user, &opening.agent, opening.how.as_str(), why, rounded(opening.ms), times);
    let counted = connection
        .prepare_cached(summed!(
            "update opening_sum set times = times + ?6
             where user = ?1 and agent = ?2 and how = ?3 and why = ?4 and ms = ?5"
        ))?
        .execute(values)?;
    if counted == 0 {
        connection
            .prepare_cached(summed!(
                "insert into opening_sum (user, agent, how, why, ms, times) values (?1, ?2, ?3, ?4, ?5, ?6)"
            ))?
            .execute(values)?;
    }
    Ok(())
}

/// Takes back what was counted for a session that is about to be removed.
pub(super) fn discount(connection: &Connection, row: &SessionRow) -> Result<()> {
    let mut statement = connection.prepare_cached(
        r#"select what from fact where session = ?1 and substr(what, 1, 18) = '{"what":"attached"'"#,
    )?;
    let mut found = statement.query([row.no])?;
    while let Some(told) = found.next()? {
        if let Some(opening) = read(told, 0)? {
            add(connection, &row.session.user, &opening, -1)?;
        }
    }
    connection.prepare_cached("delete from opening_sum where times <= 0")?.execute([])?;
    Ok(())
}

/// One of a newer version is of a kind that cannot be counted yet.
fn read(row: &Row<'_>, index: usize) -> Result<Option<Opening>> {
    let text = row.get_ref(index)?.as_str().map_err(|error| Error::Damaged(error.to_string()))?;
    Ok(serde_json::from_str(text).ok())
}

/// What the log says.
fn of_log(connection: &Connection) -> Result<Sums> {
    let mut statement = connection.prepare(
        r#"select user, what from fact join session on session.no = fact.session
            where substr(what, 1, 18) = '{"what":"attached"'"#,
    )?;
    let mut found = statement.query([])?;
    let mut sums = Sums::new();
    while let Some(row) = found.next()? {
        let Some(opening) = read(row, 1)? else { continue };
        let how = opening.how.as_str().to_owned();
        let why = opening.why.unwrap_or_default();
        *sums.entry((row.get(0)?, opening.agent, how, why, rounded(opening.ms))).or_default() += 1;
    }
    Ok(sums)
}

/// What the rows say.
fn kept(connection: &Connection) -> Result<Sums> {
    let mut statement =
        connection.prepare("select user, agent, how, why, ms, times from opening_sum")?;
    let read = |row: &Row<'_>| {
        let of = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
        Ok((of, row.get(5)?))
    };
    Ok(statement.query_map([], read)?.collect::<SqlResult<_>>()?)
}

/// What differs between the rows and the log, in words.
pub(super) fn drift(connection: &Connection) -> Result<Option<String>> {
    let is_same = kept(connection)? == of_log(connection)?;
    Ok((!is_same).then(|| "how conversations were opened differs from the log".to_owned()))
}

/// Writes the rows anew from the log.
pub(super) fn rebuild(connection: &Connection) -> Result<()> {
    connection.execute("delete from opening_sum", [])?;
    let mut statement = connection.prepare(summed!(
        "insert into opening_sum (user, agent, how, why, ms, times) values (?1, ?2, ?3, ?4, ?5, ?6)"
    ))?;
    for ((user, agent, how, why, ms), times) in of_log(connection)? {
        statement.execute((user, agent, how, why, ms, times))?;
    }
    Ok(())
}

/// Those of one user, or of all.
pub(super) fn counts(connection: &Connection, user: Option<&str>) -> Result<Vec<OpeningCount>> {
    let whose = "(?1 is null or user = ?1)";
    let mut statement = connection.prepare_cached(&format!(
        "select agent, how, why, ms, sum(times) from opening_sum where {whose} and {} group by agent, how, why, ms",
        sums::insist("opening_sum", "how often conversations were opened")
    ))?;
    let mut found = statement.query([user])?;
    let mut times: BTreeMap<(String, How, Option<String>), BTreeMap<u64, u64>> = BTreeMap::new();
    while let Some(row) = found.next()? {
        let how = serde_json::from_value(Value::String(row.get(1)?));
        let how = how.map_err(|error| Error::Damaged(error.to_string()))?;
        let why = Some(row.get::<_, String>(2)?).filter(|why| !why.is_empty());
        let number = |index| row.get::<_, i64>(index).map(i64::unsigned_abs);
        times.entry((row.get(0)?, how, why)).or_default().insert(number(3)?, number(4)?);
    }
    let counted = times.into_iter().map(|((agent, how, why), times)| {
        let count = times.values().sum();
        let most_ms = times.last_key_value().map_or(0, |(ms, _)| *ms);
        OpeningCount { agent, how, why, count, median_ms: middle(&times, count), most_ms }
    });
    Ok(counted.collect())
}

/// The middle of times; of two in the middle, the longer.
fn middle(times: &BTreeMap<u64, u64>, count: u64) -> u64 {
    let mut before = 0;
    let found = times.iter().find(|(_, times)| {
        before += **times;
        before > count / 2
    });
    found.map_or(0, |(ms, _)| *ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_three_digits() {
        for (ms, kept) in [(0, 0), (7, 7), (999, 999), (1_234, 1_230), (98_765, 98_700)] {
            assert_eq!(rounded(ms), kept);
        }
        assert_eq!(rounded(u64::MAX), i64::MAX);
    }

    #[test]
    fn the_middle_is_found_in_sums() {
        let times = BTreeMap::from([(5, 1), (7, 3), (900, 4)]);
        assert_eq!(middle(&times, 8), 900);
        assert_eq!(middle(&BTreeMap::from([(5, 2), (7, 1)]), 3), 5);
        assert_eq!(middle(&BTreeMap::new(), 0), 0);
    }
}
