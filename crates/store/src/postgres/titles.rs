//! The search index of titles and summaries: a row for each term of each of them.

use std::collections::BTreeSet;

use rethread_domain::search::Clause;

use super::search::meter::Meter;
use super::sql::{Connection, SqlResult, Value, params_from_iter};
use crate::error::Result;

/// The terms of a text, in place of those that were there.
pub(super) fn put(connection: &Connection, key: i64, terms: Option<&str>) -> Result<()> {
    connection.prepare_cached("delete from title_index where key = ?1")?.execute([key])?;
    let terms: BTreeSet<&str> = terms.unwrap_or_default().split_ascii_whitespace().collect();
    let mut insert =
        connection.prepare_cached("insert into title_index (term, key) values (?1, ?2)")?;
    for term in terms {
        insert.execute((term, key))?;
    }
    Ok(())
}

pub(super) fn clear(connection: &Connection) -> Result<()> {
    connection.execute("delete from title_index", [])?;
    Ok(())
}

/// Nothing is kept of what was taken out.
#[expect(clippy::unnecessary_wraps, reason = "the index of SQLite can fail")]
pub(super) const fn optimize(_: &Connection) -> Result<()> {
    Ok(())
}

/// Visits every term with its places.
pub(super) fn each(connection: &Connection, mut visit: impl FnMut(&[u8], i64)) -> Result<()> {
    let mut statement = connection.prepare("select term, key from title_index")?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        visit(row.get_ref(0)?.as_bytes()?, row.get(1)?);
    }
    Ok(())
}

/// Where all of these stand between two places, but for texts that are to be brought in anew; `None` where that is too much
/// work.
pub(super) fn search(
    connection: &Connection,
    meter: &Meter,
    clauses: &[Clause],
    (lo, hi): (i64, i64),
) -> Result<Option<Vec<i64>>> {
    let mut values = vec![Value::Integer(lo), Value::Integer(hi)];
    let mut parts = Vec::new();
    for clause in clauses {
        let last = clause.asked.len() - 1;
        for (at, term) in clause.asked.iter().enumerate() {
            let mut either = vec!["term = ?"];
            values.push(term.clone().into());
            if clause.prefix && at == last {
                either[0] = "term >= ? and term < ?";
                // No text has such a byte, so it ends the range of what begins so.
                values.push(Value::Bytes([term.as_bytes(), &[0xff]].concat()));
                for stem in clause.short_stems() {
                    either.push("term = ?");
                    values.push(stem.clone().into());
                }
            }
            parts.push(format!("select key from title_index where {}", either.join(" or ")));
        }
    }
    let all = parts.join(" intersect ");
    let sql = format!(
        "select distinct key from (select cast(? as bigint) as lo, cast(? as bigint) as hi) as bounds, ({all}) as found
         where key between lo and hi and key / 2 not in (select no from session where title_indexed = 0)
         order by key desc"
    );
    meter.opening(|| {
        let mut statement = connection.prepare_cached(&sql)?;
        let keys = statement.query_map(params_from_iter(values), |row| row.get(0))?;
        Ok(keys.collect::<SqlResult<Vec<i64>>>()?)
    })
}
