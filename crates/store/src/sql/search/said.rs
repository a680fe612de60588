//! A message as far as a search looks at it: read where it lies, and only as far as it is wanted.

use std::borrow::Cow;
use std::sync::LazyLock;

use jiff::Timestamp;
use rethread_domain::Role;
use rethread_domain::search::Filter;
use rethread_redact::Redactor;

use super::super::damage::Damage;
use super::super::plain::{Plain, plain};
use super::super::scope::open_body;
use super::super::sql::{Connection, Row};
use super::super::{index, rows};
use crate::error::Result;
use crate::search::Search;

pub(super) static ONE: LazyLock<String> = LazyLock::new(|| rows::select_message("where id = ?1"));
pub(super) static NEWEST_FIRST: LazyLock<String> =
    LazyLock::new(|| rows::select_message("where id between ?1 and ?2 order by id desc"));

/// What was said, without secrets.
pub(super) struct Said<'r> {
    pub(super) role: Role,
    pub(super) at: Timestamp,
    pub(super) text: Cow<'r, str>,
    /// How much of it was read.
    pub(super) bytes: usize,
}

/// What became of a message that was looked at.
pub(super) enum Reading<'r> {
    Said(Said<'r>),
    /// A filter does not ask for it, or it was purged or set aside.
    Nothing,
    Damaged,
}

/// What a row says that comes from [`rows::select_message`].
pub(super) fn said<'r>(
    connection: &Connection,
    row: &'r Row<'_>,
    search: &Search,
) -> Result<Reading<'r>> {
    let (filter, redactor) = (&search.filter, &search.redactor);
    match plain(row) {
        Plain::Damaged => Ok(Reading::Damaged),
        Plain::Whole { role, at, .. } if !is_wanted(filter, role, at) => Ok(Reading::Nothing),
        Plain::Whole { role, at, text, rules, .. } => {
            let bytes = text.len();
            let text = without_known(index::unmarked(text, rules), redactor);
            Ok(Reading::Said(Said { role, at, text, bytes }))
        }
        Plain::Other => {
            let mut row = rows::message(row)?;
            let (role, at) = (row.message.role, row.message.at);
            if matches!(row.damage, Some(Damage::Unreadable | Damage::Missing)) {
                return Ok(Reading::Damaged);
            }
            let is_there = row.message.purged_at.is_none() && row.damage.is_none();
            if !is_there || !is_wanted(filter, role, at) {
                return Ok(Reading::Nothing);
            }
            open_body(connection, &mut row)?;
            if row.damage.is_some() {
                return Ok(Reading::Damaged);
            }
            let bytes = row.message.body.head().len();
            let text = without_known(index::searchable(&row.message), redactor);
            let text = Cow::Owned(text.into_owned());
            Ok(Reading::Said(Said { role: row.message.role, at: row.message.at, text, bytes }))
        }
    }
}

fn is_wanted(filter: &Filter, role: Role, at: Timestamp) -> bool {
    filter.has_time(at) && filter.role.is_none_or(|wanted| wanted == role)
}

/// Without values that are known either.
fn without_known<'r>(text: Cow<'r, str>, redactor: &Redactor) -> Cow<'r, str> {
    match text {
        Cow::Borrowed(text) if redactor.has_known() => redactor.redact(text).text,
        Cow::Owned(text) if redactor.has_known() => {
            Cow::Owned(redactor.redact(&text).text.into_owned())
        }
        text => text,
    }
}
