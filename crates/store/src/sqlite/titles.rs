//! The search index of titles and summaries: a table of FTS5, whose tokenizer only splits terms at spaces.

use rethread_domain::search::Clause;
use rusqlite::{Connection, Row};

use super::search::meter::Meter;
use crate::error::Result;

const SEARCH: &str = "select rowid from title_index where title_index match ?1
    and rowid between ?2 and ?3 and rowid / 2 not in (select no from session where title_indexed = 0)
    order by rowid desc";

/// The terms of a text, in place of those that were there.
pub(super) fn put(connection: &Connection, key: i64, terms: Option<&str>) -> Result<()> {
    connection.prepare_cached("delete from title_index where rowid = ?1")?.execute([key])?;
    if let Some(terms) = terms {
        connection
            .prepare_cached("insert into title_index (rowid, terms) values (?1, ?2)")?
            .execute((key, terms))?;
    }
    Ok(())
}

pub(super) fn clear(connection: &Connection) -> Result<()> {
    connection.execute("insert into title_index (title_index) values ('delete-all')", [])?;
    Ok(())
}

/// Keeps nothing of what was taken out.
pub(super) fn optimize(connection: &Connection) -> Result<()> {
    connection.execute("insert into title_index (title_index) values ('optimize')", [])?;
    Ok(())
}

/// Visits every term with its places.
pub(super) fn each(connection: &Connection, mut visit: impl FnMut(&[u8], i64)) -> Result<()> {
    connection.execute_batch(
        "create virtual table if not exists temp.title_words using fts5vocab(main, 'title_index', 'instance')",
    )?;
    let mut statement = connection.prepare("select term, doc from temp.title_words")?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        visit(term(row)?, row.get(1)?);
    }
    Ok(())
}

fn term<'r>(row: &'r Row<'_>) -> Result<&'r [u8]> {
    Ok(row.get_ref(0)?.as_bytes().map_err(rusqlite::Error::from)?)
}

/// Where all of these stand between two places, but for texts that are to be brought in anew; `None` where that is too much
/// work.
pub(super) fn search(
    connection: &Connection,
    meter: &Meter,
    clauses: &[Clause],
    (lo, hi): (i64, i64),
) -> Result<Option<Vec<i64>>> {
    let mut statement = connection.prepare_cached(SEARCH)?;
    let expression = all_of(clauses);
    let found = meter.opening(|| {
        let mut rows = statement.query((&expression, lo, hi))?;
        let first: Option<i64> = rows.next()?.map(|row| row.get(0)).transpose()?;
        Ok((first, rows))
    })?;
    let Some((first, mut rows)) = found else { return Ok(None) };
    let mut keys: Vec<i64> = first.into_iter().collect();
    while let Some(row) = rows.next()? {
        keys.push(row.get(0)?);
    }
    Ok(Some(keys))
}

/// All of these, as the index of titles is asked for them.
fn all_of(clauses: &[Clause]) -> String {
    let terms = clauses.iter().flat_map(|clause| {
        let last = clause.asked.len() - 1;
        clause.asked.iter().enumerate().map(move |(at, term)| {
            if clause.prefix && at == last {
                let short = clause.short_stems();
                let mut either = vec![format!("{} *", quoted(term))];
                either.extend(short.iter().map(|stem| quoted(stem)));
                format!("({})", either.join(" OR "))
            } else {
                quoted(term)
            }
        })
    });
    format!("({})", terms.collect::<Vec<_>>().join(" AND "))
}

/// A term as the index takes it: nothing in it means anything else.
fn quoted(term: &str) -> String {
    format!("\"{}\"", term.replace('"', "\"\""))
}
