//! Which sessions a filter asks for, and what the index is asked.

use rethread_domain::search::{Clause, Filter};

use super::super::damage;
use super::super::index;
use super::super::postings::{Node, Reader};
use super::super::read::{self, Chosen};
use super::super::rows;
use super::super::sql::{Connection, params_from_iter};
use crate::error::Result;

/// Up to so many sessions are looked through one by one when a filter names them.
const FEW_SESSIONS: usize = 64;
/// Months in a filter that are looked up by their terms.
const MOST_MONTHS: i64 = 240;

/// Whether a session is among those that a filter asks for.
pub(super) fn fits(connection: &Connection, filter: &Filter, no: i64) -> Result<bool> {
    let mut chosen = chosen(filter);
    chosen.add("no = ?", Some(no.into()));
    let sql = format!("select 1 from session {}", chosen.condition());
    Ok(connection.prepare_cached(&sql)?.exists(params_from_iter(&chosen.values))?)
}

fn chosen(filter: &Filter) -> Chosen {
    let mut chosen = Chosen::default();
    chosen.names(
        filter.user.as_ref(),
        filter.project.as_ref(),
        filter.kind.as_ref(),
        filter.agent.as_ref(),
    );
    if let Some(status) = filter.status {
        chosen.add("status = ?", Some(rows::status_number(status).into()));
    }
    chosen.add("deleted_at is null", None);
    chosen
}

/// The sessions that a filter leaves, if they are few.
pub(super) fn few_sessions(
    connection: &Connection,
    filter: &Filter,
) -> Result<Option<Vec<rows::SessionRow>>> {
    let chosen = chosen(filter);
    if chosen.values.is_empty() {
        return Ok(None);
    }
    let sql = format!("{} limit {}", chosen.condition(), FEW_SESSIONS + 1);
    let mut statement = connection.prepare_cached(&rows::select_session(&sql))?;
    let few = damage::sessions(connection, &mut statement, params_from_iter(&chosen.values))?;
    Ok((few.len() <= FEW_SESSIONS).then_some(few))
}

/// The messages between two keys that the index is asked for.
pub(super) fn messages(
    connection: &Connection,
    reader: &Reader<'_>,
    clauses: &[Clause],
    filter: &Filter,
    (lo, hi): (i64, i64),
) -> Result<Node> {
    let (mut all, mut begun) = (Vec::new(), Vec::new());
    if let Some(role) = filter.role {
        all.push(reader.term(&index::role_term(role), lo, hi));
    }
    all.extend(months(connection, filter)?.map(|months| {
        Node::Any(months.map(|month| reader.term(&index::month_term(month), lo, hi)).collect())
    }));
    let mut known: Vec<&str> = Vec::new();
    for clause in clauses {
        let last = clause.asked.len() - 1;
        for (at, term) in clause.asked.iter().enumerate() {
            if clause.prefix && at == last {
                let mut either = vec![Reader::beginning(term, lo, hi)];
                either.extend(clause.short_stems().iter().map(|stem| reader.term(stem, lo, hi)));
                begun.push(Node::Any(either));
            } else if !known.contains(&term.as_str()) {
                known.push(term);
                all.push(reader.term(term, lo, hi));
            }
        }
    }
    // What a beginning stands for is brought together only where something has all the rest.
    all.append(&mut begun);
    Ok(Node::All(all))
}

/// The months of a filter in time, where they are not too many to name.
fn months(
    connection: &Connection,
    filter: &Filter,
) -> Result<Option<std::ops::RangeInclusive<i64>>> {
    let Some(since) = filter.since else { return Ok(None) };
    let until = match filter.until {
        Some(until) => until,
        None => read::last_active(connection)?.unwrap_or(since),
    };
    let (from, to) = (index::month_of(since), index::month_of(until));
    Ok((from <= to && to - from <= MOST_MONTHS).then_some(from..=to))
}
