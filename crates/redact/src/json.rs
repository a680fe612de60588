//! Secrets inside JSON: every string, with the name of its field in mind.

use serde_json::{Map, Value};

use super::{Redacted, assigned, mask};

/// Fields that name what another field of the same object holds.
const NAMES: &[&str] = &["name", "key", "header"];
const VALUE: &str = "value";

/// Redacts every string inside `value`. Gives what was replaced.
///
/// `by_field` says what the value of a field is, if its name gives it away.
pub(super) fn redact(
    value: &mut Value,
    by_field: impl Fn(&str, &str) -> Option<&'static str>,
    by_text: &impl Fn(&str) -> Redacted<'_>,
) -> Vec<String> {
    let mut walk = Walk { by_field, by_text, replaced: Vec::new() };
    walk.value(None, value);
    walk.replaced
}

pub(super) fn by_field(name: &str, value: &str) -> Option<&'static str> {
    assigned::of_field(name, value)
}

struct Walk<'a, F, T> {
    by_field: F,
    by_text: &'a T,
    replaced: Vec<String>,
}

impl<F, T> Walk<'_, F, T>
where
    F: Fn(&str, &str) -> Option<&'static str>,
    T: Fn(&str) -> Redacted<'_>,
{
    fn value(&mut self, field: Option<&str>, value: &mut Value) {
        match value {
            Value::String(text) => self.text(field, text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(field, item)),
            Value::Object(fields) => self.object(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => (),
        }
    }

    fn text(&mut self, field: Option<&str>, text: &mut String) {
        if let Some(what) = field.and_then(|field| (self.by_field)(field, text)) {
            // A known value or a vendor's rule says more than the name of a field.
            let found = (self.by_text)(text).found;
            let whole = found.into_iter().find(|found| found.at == (0..text.len()));
            let what = whole.map_or_else(|| what.to_owned(), |found| found.what);
            *text = mask::of(&what);
            self.replaced.push(what);
            return;
        }
        let redacted = (self.by_text)(text);
        if !redacted.found.is_empty() {
            self.replaced.extend(redacted.found.into_iter().map(|found| found.what));
            *text = redacted.text.into_owned();
        }
    }

    fn object(&mut self, fields: &mut Map<String, Value>) {
        let named = NAMES.iter().find_map(|name| fields.get(*name)?.as_str()).map(str::to_owned);
        for (field, value) in fields.iter_mut() {
            let field = named.as_deref().filter(|_| field == VALUE).unwrap_or(field);
            self.value(Some(field), value);
        }
        if fields.keys().any(|field| !(self.by_text)(field).found.is_empty()) {
            *fields = std::mem::take(fields).into_iter().fold(
                Map::new(),
                |mut out, (mut field, value)| {
                    self.text(None, &mut field);
                    while out.contains_key(&field) {
                        field.push('_');
                    }
                    out.insert(field, value);
                    out
                },
            );
        }
    }
}
