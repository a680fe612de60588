//! What sessions took, day by day: a sum of their own messages, kept with every append.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::SignedDuration;
use jiff::civil::{Date, date};
use rethread_domain::Usage;
use rethread_domain::message::NewMessage;
use serde::Deserialize;
use serde_json::Value;

use super::rows::key;
use super::sql::{Connection, Row, SqlResult, ValueRef};
use super::summed::summed;
use super::{ThisStore, extras, rows, sums};
use crate::Accounts;
use crate::access::{UsageDay, UsageFilter};
use crate::error::Result;

const EPOCH: Date = date(1970, 1, 1);
const DAY_MICROS: i64 = 86_400_000_000;
const HOURS: i64 = 24;
/// No sum goes beyond: whatever agents report, it stays a number that can be added up exactly.
const MOST: i64 = 1 << 52;

/// By day and agent.
pub(super) type Days = BTreeMap<(i64, String), Sum>;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sum {
    messages: i64,
    tokens: i64,
    input_tokens: i64,
    output_tokens: i64,
    cost_nano: i64,
    context: Option<f64>,
}

impl Sum {
    /// What one message says.
    fn of(tokens: Option<u32>, usage: Option<&Usage>, context: Option<&Value>) -> Self {
        let reported = |number: u64| i64::try_from(number).unwrap_or(MOST).min(MOST);
        Self {
            messages: 1,
            tokens: i64::from(tokens.unwrap_or(0)),
            input_tokens: usage.map_or(0, |usage| reported(usage.input_tokens)),
            output_tokens: usage.map_or(0, |usage| reported(usage.output_tokens)),
            cost_nano: usage.map_or(0, |usage| usage.cost_nano().clamp(0, MOST)),
            context: context.and_then(fullness),
        }
    }

    fn add(&mut self, other: &Self) {
        let sum = |one: i64, other: i64| (one + other).min(MOST);
        *self = Self {
            messages: sum(self.messages, other.messages),
            tokens: sum(self.tokens, other.tokens),
            input_tokens: sum(self.input_tokens, other.input_tokens),
            output_tokens: sum(self.output_tokens, other.output_tokens),
            cost_nano: sum(self.cost_nano, other.cost_nano),
            context: match (self.context, other.context) {
                (Some(one), Some(other)) => Some(one.max(other)),
                (one, other) => one.or(other),
            },
        };
    }
}

/// How full a context is, from what the end of a turn says of it.
#[expect(clippy::cast_precision_loss, reason = "a part of a whole does not need every digit")]
fn fullness(context: &Value) -> Option<f64> {
    let number = |name| context.get(name).and_then(Value::as_u64);
    let (used, size) = (number("used")?, number("size")?);
    (size > 0).then(|| (used as f64 / size as f64).min(1.0))
}

/// What is counted of all that comes with a message.
#[derive(Debug, Default, Deserialize)]
struct Reported {
    agent: Option<String>,
    usage: Option<Usage>,
    context: Option<Value>,
}

/// Whom a message is counted for.
fn agent_of<'a>(message: Option<&'a str>, session: Option<&'a str>) -> &'a str {
    message.filter(|agent| !agent.is_empty()).or(session).unwrap_or_default()
}

/// What messages say that are added together: a row is written once for all of them.
#[derive(Debug, Default)]
pub(super) struct Tally(Vec<(i64, String, Sum)>);

impl Tally {
    /// Counts a message that is added.
    pub(super) fn count(&mut self, agent: Option<&str>, message: &NewMessage) {
        let said = &message.extras;
        let sum = Sum::of(message.price.tokens, said.usage.as_ref(), said.other.get("context"));
        let day = rows::micros(message.at).div_euclid(DAY_MICROS);
        let agent = agent_of(said.agent.as_deref(), agent);
        let is_same = |one: &&mut (i64, String, Sum)| one.0 == day && one.1 == agent;
        match self.0.iter_mut().rev().find(is_same) {
            Some((.., sums)) => sums.add(&sum),
            None => self.0.push((day, agent.to_owned(), sum)),
        }
    }

    /// Writes what was counted since the last time.
    pub(super) fn write(&mut self, connection: &Connection, session: i64) -> Result<()> {
        for (day, agent, sum) in self.0.drain(..) {
            write(connection, session, day, &agent, &sum)?;
        }
        Ok(())
    }
}

/// What was said before the session had an agent is counted for the one it has now.
pub(super) fn name(connection: &Connection, session: i64, agent: &str) -> Result<()> {
    if agent.is_empty() {
        return Ok(());
    }
    let unnamed = kept(connection, session)?;
    for ((day, _), sum) in unnamed.iter().filter(|((_, agent), _)| agent.is_empty()) {
        write(connection, session, *day, agent, sum)?;
    }
    connection
        .prepare_cached("delete from usage_day where session = ?1 and agent = ''")?
        .execute([session])?;
    Ok(())
}

fn write(connection: &Connection, session: i64, day: i64, agent: &str, sum: &Sum) -> Result<()> {
    connection
        .prepare_cached(
            summed!("insert into usage_day (day, session, agent, messages, tokens, input_tokens, output_tokens, cost_nano,
                context)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             on conflict (day, session, agent) do update set messages = usage_day.messages + excluded.messages,
                tokens = min(usage_day.tokens + excluded.tokens, ?10),
                input_tokens = min(usage_day.input_tokens + excluded.input_tokens, ?10),
                output_tokens = min(usage_day.output_tokens + excluded.output_tokens, ?10),
                cost_nano = min(usage_day.cost_nano + excluded.cost_nano, ?10),
                context = coalesce(max(usage_day.context, excluded.context), usage_day.context, excluded.context)"),
        )?
        .execute((
            day,
            session,
            agent,
            sum.messages,
            sum.tokens,
            sum.input_tokens,
            sum.output_tokens,
            sum.cost_nano,
            sum.context,
            MOST,
        ))?;
    Ok(())
}

/// What the rows of a session say.
pub(super) fn kept(connection: &Connection, session: i64) -> Result<Days> {
    let mut statement = connection.prepare_cached(
        "select day, agent, messages, tokens, input_tokens, output_tokens, cost_nano, context from usage_day
         where session = ?1",
    )?;
    let read = |row: &Row<'_>| {
        let sum = Sum {
            messages: row.get(2)?,
            tokens: row.get(3)?,
            input_tokens: row.get(4)?,
            output_tokens: row.get(5)?,
            cost_nano: row.get(6)?,
            context: row.get(7)?,
        };
        Ok(((row.get(0)?, row.get(1)?), sum))
    };
    Ok(statement.query_map([session], read)?.collect::<SqlResult<_>>()?)
}

/// What its own messages say.
pub(super) fn of_log(connection: &Connection, session: i64, agent: Option<&str>) -> Result<Days> {
    let mut statement = connection.prepare_cached(
        "select at, tokens, extras, case when instr(extras, ?3) > 0 then body end from message
         where id between ?1 and ?2",
    )?;
    let mut found =
        statement.query((key(session, 0), key(session, u32::MAX), extras::MARK.to_string()))?;
    let mut days = Days::new();
    while let Some(row) = found.next()? {
        let day = row.get::<_, i64>(0)?.div_euclid(DAY_MICROS);
        let told = reported(text(row, 2)?, text(row, 3)?);
        let sum = Sum::of(row.get(1)?, told.usage.as_ref(), told.context.as_ref());
        let agent = agent_of(told.agent.as_deref(), agent).to_owned();
        days.entry((day, agent)).or_default().add(&sum);
    }
    Ok(days)
}

fn text<'a>(row: &'a Row<'_>, index: usize) -> SqlResult<Option<&'a str>> {
    match row.get_ref(index)? {
        ValueRef::Null => Ok(None),
        value => Ok(Some(value.as_str()?)),
    }
}

/// Reads what is kept with a message. What cannot be read counts for nothing: reading the message tells of it.
fn reported(kept: Option<&str>, body: Option<&str>) -> Reported {
    let json = kept.and_then(|kept| extras::decode(kept, body.unwrap_or_default()));
    json.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default()
}

/// Writes the rows of a session anew from its log.
pub(super) fn rewrite(connection: &Connection, session: i64, agent: Option<&str>) -> Result<()> {
    connection.prepare_cached("delete from usage_day where session = ?1")?.execute([session])?;
    for ((day, agent), sum) in of_log(connection, session, agent)? {
        write(connection, session, day, &agent, &sum)?;
    }
    Ok(())
}

fn number_of(day: Date) -> i64 {
    day.duration_since(EPOCH).as_hours() / HOURS
}

#[async_trait]
impl Accounts for ThisStore {
    async fn usage_by_day(&self, filter: &UsageFilter) -> Result<Vec<UsageDay>> {
        self.read(|connection| by_day(connection, filter))
    }
}

fn by_day(connection: &Connection, filter: &UsageFilter) -> Result<Vec<UsageDay>> {
    let mut statement = connection.prepare_cached(&format!(
        "select day, project, usage_day.agent, total(messages), total(usage_day.tokens),
            total(usage_day.input_tokens), total(usage_day.output_tokens), total(usage_day.cost_nano), max(context),
            count(distinct session)
         from usage_day join session on no = session
         where day between ?1 and ?2 and deleted_at is null and (?3 is null or user = ?3)
            and (?4 is null or project = ?4) and (?5 is null or usage_day.agent = ?5)
            and {} and {}
         group by day, project, usage_day.agent order by day, project, usage_day.agent",
        sums::insist("usage_day", "what a session took on a day"),
        sums::insist("session", "the row of a session"),
    ))?;
    let (from, to) = (number_of(filter.from), number_of(filter.to));
    let found = statement
        .query_map((from, to, &filter.user, &filter.project, &filter.agent), read_day)?
        .collect::<SqlResult<_>>()?;
    Ok(found)
}

fn read_day(row: &Row<'_>) -> SqlResult<UsageDay> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sums of whole numbers that are not negative"
    )]
    let whole = |index| row.get::<_, f64>(index).map(|number| number as u64);
    let day = SignedDuration::from_hours(row.get::<_, i64>(0)?.saturating_mul(HOURS));
    Ok(UsageDay {
        day: EPOCH.saturating_add(day),
        project: row.get(1)?,
        agent: row.get(2)?,
        messages: whole(3)?,
        tokens: whole(4)?,
        input_tokens: whole(5)?,
        output_tokens: whole(6)?,
        cost_usd: row.get::<_, f64>(7)? / 1e9,
        context_use: row.get(8)?,
        sessions: row.get::<_, i64>(9)?.unsigned_abs(),
    })
}
