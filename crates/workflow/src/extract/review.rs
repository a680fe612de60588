//! Parses a reviewer's answer: finds the JSON object in it, wherever it is.

use serde_json::{Map, Value};

use super::super::record::Severity;
use rethread_domain::quote;

/// How much of an answer is examined, from its end.
const MOST_BYTES: usize = 256 * 1024;
/// How many candidates for an object are tried, from the last.
const TRIES: usize = 2_000;
const COMMENTS: usize = 50;
const COMMENT_CHARS: usize = 2_000;

/// Whether it was approved, the severity, and the comments; or why that cannot be parsed.
pub fn review_from(answer: &str) -> Result<(bool, Severity, Vec<String>), String> {
    let answer = rethread_domain::price::tail(answer, MOST_BYTES);
    let Some(review) = object(answer) else {
        return Err("there is no JSON object with `approved` in the review".to_owned());
    };
    let approved = match review.get("approved") {
        Some(Value::Bool(approved)) => *approved,
        other => {
            let shown = other.map(ToString::to_string).unwrap_or_default();
            let shown = quote::one_line(&shown, 80);
            return Err(format!("`approved` of the review is neither true nor false: {shown}"));
        }
    };
    let said = review.get("severity").and_then(Value::as_str).unwrap_or_default();
    let said = said.trim().to_ascii_lowercase();
    let known = Severity::ALL.into_iter().find(|severity| severity.as_str() == said);
    let severity = known.unwrap_or(if approved { Severity::None } else { Severity::Major });
    Ok((approved, severity, comments(review.get("comments"))?))
}

fn comments(said: Option<&Value>) -> Result<Vec<String>, String> {
    let texts = match said {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(all)) => all
            .iter()
            .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
            .collect(),
        Some(_) => return Err("`comments` of the review is no list".to_owned()),
    };
    let short = |text: String| text.trim().chars().take(COMMENT_CHARS).collect::<String>();
    Ok(texts.into_iter().map(short).filter(|text| !text.is_empty()).take(COMMENTS).collect())
}

/// The last object in a text that says whether something is approved.
fn object(text: &str) -> Option<Map<String, Value>> {
    let mut found = None;
    let starts: Vec<usize> = text.match_indices('{').map(|(start, _)| start).collect();
    let mut at = starts.get(starts.len().saturating_sub(TRIES)).copied().unwrap_or(0);
    while let Some(start) = text[at..].find('{').map(|start| at + start) {
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(Value::Object(object))) => {
                at = start + values.byte_offset().max(1);
                if object.contains_key("approved") {
                    found = Some(object);
                }
            }
            _ => at = start + 1,
        }
    }
    found
}
