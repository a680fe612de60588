//! Results of tools: JSON within a size limit.
//!
//! Clients pass either the text of a result or its structured content to their model, never both. So the text has everything.
//! A short result is given as structured content too, for programs; a long one is not sent twice. For the same reason tools
//! have no output schema: it would oblige us to always send structured content.

use std::collections::BTreeMap;

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;

use crate::error::Failure;

/// The longest result, in bytes of JSON.
pub(crate) const LONGEST: usize = 256 * 1024;
/// The longest result that is also given as structured content.
const LONGEST_TWICE: usize = 8 * 1024;
/// Texts and lists are shortened step by step until the result fits.
const TEXT_BYTES: [usize; 4] = [32 * 1024, 8 * 1024, 2 * 1024, 256];
const ITEMS: [usize; 3] = [100, 30, 5];
/// The field that says what was left out.
const LEFT_OUT: &str = "left_out";

/// Makes a result that fits the limit, and says what was left out.
pub(crate) fn result(mut value: Value) -> Result<CallToolResult, Failure> {
    drop_nulls(&mut value);
    let mut text = value.to_string();
    if text.len() > LONGEST {
        shorten(&mut value);
        text = value.to_string();
    }
    if text.len() > LONGEST {
        return Err(Failure::new(
            format!("The result has {} bytes; at most {LONGEST} are given", text.len()),
            "ask for less at once: a smaller limit, or one task, message or snapshot",
        ));
    }
    if text.len() <= LONGEST_TWICE {
        return Ok(CallToolResult::structured(value));
    }
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
}

/// Removes fields without a value: they only cost tokens.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, one| !one.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => (),
    }
}

fn shorten(value: &mut Value) {
    let mut left_out = BTreeMap::new();
    let texts = TEXT_BYTES.map(|most| (most, usize::MAX));
    let lists = ITEMS.map(|most| (TEXT_BYTES[TEXT_BYTES.len() - 1], most));
    for (bytes, items) in texts.into_iter().chain(lists) {
        cut(value, "", bytes, items, &mut left_out);
        let told = as_json(&left_out);
        if let Value::Object(fields) = value {
            fields.insert(LEFT_OUT.to_owned(), told);
        }
        if value.to_string().len() <= LONGEST {
            return;
        }
    }
}

/// How much was left out in one place: bytes of text, or items of a list.
#[derive(Debug, Default)]
struct Missing {
    bytes: usize,
    items: usize,
}

fn cut(
    value: &mut Value,
    path: &str,
    bytes: usize,
    items: usize,
    left_out: &mut BTreeMap<String, Missing>,
) {
    match value {
        Value::String(text) if text.len() > bytes => {
            let end = text.floor_char_boundary(bytes);
            left_out.entry(path.to_owned()).or_default().bytes += text.len() - end;
            text.truncate(end);
        }
        Value::Array(list) => {
            if list.len() > items {
                left_out.entry(path.to_owned()).or_default().items += list.len() - items;
                list.truncate(items);
            }
            for one in list {
                cut(one, path, bytes, items, left_out);
            }
        }
        Value::Object(fields) => {
            for (name, one) in fields.iter_mut().filter(|(name, _)| *name != LEFT_OUT) {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                cut(one, &path, bytes, items, left_out);
            }
        }
        _ => (),
    }
}

fn as_json(left_out: &BTreeMap<String, Missing>) -> Value {
    let lines = left_out.iter().map(|(path, missing)| {
        let parts = [(missing.items, "items"), (missing.bytes, "bytes of text")];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        Value::from(format!("{path}: {}", parts.join(", ")))
    });
    let hint = "ask for less at once to see it: a smaller limit, or one task, message or snapshot";
    lines.chain([Value::from(hint)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn size(result: &CallToolResult) -> usize {
        serde_json::to_string(result).unwrap().len()
    }

    fn text(result: &CallToolResult) -> Value {
        let result = serde_json::to_value(result).unwrap();
        serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
    }

    #[test]
    fn what_is_long_is_given_once() {
        let short = result(json!({"answer": "x"})).unwrap();
        assert_eq!(short.structured_content, Some(json!({"answer": "x"})));
        assert_eq!(text(&short), json!({"answer": "x"}));
        let long = result(json!({"answer": "x".repeat(100_000)})).unwrap();
        assert_eq!(long.structured_content, None);
        assert_eq!(text(&long)["answer"].as_str().map(str::len), Some(100_000));
        assert!(size(&long) < 110_000);
    }

    #[test]
    fn whatever_there_is_the_result_is_bounded_and_says_what_is_missing() {
        let long = "ü\u{1}\"".repeat(1_000_000);
        let many: Vec<Value> = (0..50_000).map(|n| json!({"n": n, "text": "some words"})).collect();
        for (value, missing) in [
            (json!({"answer": long.clone()}), "answer: "),
            (json!({"snapshot": {"git": {"files": many.clone()}}}), "snapshot.git.files: 49"),
            (json!({"a": [{"b": long}], "tasks": many}), "a.b: "),
        ] {
            let bounded = result(value).unwrap();
            assert!(size(&bounded) < 3 * LONGEST, "{}", size(&bounded));
            let text = text(&bounded);
            let first = text[LEFT_OUT][0].as_str().unwrap();
            assert!(first.starts_with(missing), "{first}");
        }
        let named: serde_json::Map<String, Value> =
            (0..100_000).map(|n| (format!("name{n}"), Value::from(1))).collect();
        let why = result(Value::Object(named)).unwrap_err().to_string();
        assert!(why.contains("at most 262144 are given"), "{why}");
    }
}
