//! Messages as most are, read where they lie: for who goes through many of them.

use super::sql::{Row, ValueRef};
use jiff::Timestamp;
use rethread_domain::Role;

use super::{extras, index, rows, sums};

/// What most messages are: a short text, and nothing but the version of the rules that it was searched by.
pub(super) enum Plain<'r> {
    Whole {
        role: Role,
        at: Timestamp,
        text: &'r str,
        rules: u32,
        /// What it costs as a quotation.
        price: Option<u32>,
    },
    /// It has to be read with all that belongs to it.
    Other,
    Damaged,
}

/// What a row says that comes from [`rows::select_message`].
pub(super) fn plain<'r>(row: &'r Row<'_>) -> Plain<'r> {
    let mut values = [ValueRef::Null; rows::MESSAGE_COLUMNS];
    for (column, value) in values.iter_mut().enumerate() {
        match row.get_ref(column) {
            Ok(found) => *value = found,
            Err(_) => return Plain::Damaged,
        }
    }
    if !sums::fits(row, &values) {
        return Plain::Damaged;
    }
    let [_, role, _, at, _, price, _, text, head, blob, extras, _, purged, _, _, aside] = values;
    // The head of a long text and the rest of it, purged, set aside.
    let is_plain = [head, blob, purged, aside].iter().all(|value| *value == ValueRef::Null);
    let text = text.as_str().ok().filter(|_| is_plain);
    let role = role.as_i64().ok().and_then(role_of);
    let at = at.as_i64().ok().and_then(|at| Timestamp::from_microsecond(at).ok());
    let price = price.as_i64().ok().and_then(|price| u32::try_from(price).ok());
    match (role, at, text, rules(extras)) {
        (Some(role), Some(at), Some(text), Some(rules)) => {
            Plain::Whole { role, at, text, rules, price }
        }
        _ => Plain::Other,
    }
}

fn role_of(number: i64) -> Option<Role> {
    Role::ALL.into_iter().find(|role| rows::role_number(*role) == number)
}

/// The version of the rules, where nothing else comes with a message.
fn rules(extras: ValueRef<'_>) -> Option<u32> {
    match extras {
        ValueRef::Null => Some(0),
        _ => extras::rules_alone(extras.as_str().ok()?),
    }
}

/// The text of a row in which there are no secrets, where that can be told without looking at the rest of it. Whether it is
/// damaged is not known: it is only good for passing over what is not wanted.
pub(super) fn unchecked<'r>(row: &'r Row<'_>) -> Option<&'r str> {
    let is_null = |column: usize| matches!(row.get_ref(column), Ok(ValueRef::Null));
    let rules = rules(row.get_ref(10).ok()?).filter(|_| is_null(8) && is_null(9))?;
    let text = row.get_ref(7).ok()?.as_str().ok()?;
    index::is_clean(text, rules).then_some(text)
}
