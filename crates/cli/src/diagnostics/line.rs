//! One line of the log: JSON for programs and for the file, words for people.

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rethread_domain::quote;
use rethread_redact::Redactor;
use serde_json::{Map, Value};
use tracing::Level;

/// What is shown of one value, in characters.
const LONGEST: usize = 4_096;

/// An event, as it was noted: nothing of it is clean yet.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) at: Timestamp,
    pub(super) level: Level,
    pub(super) target: &'static str,
    pub(super) fields: Vec<(&'static str, Value)>,
}

impl Line {
    /// The event with its fields. This is the one way into a log: no text gets past it with a secret, or with a
    /// character that could end the line or play tricks on a terminal.
    pub(super) fn clean(self, redactor: &Redactor) -> Map<String, Value> {
        let mut all = Map::new();
        all.insert("at".to_owned(), self.at.to_string().into());
        all.insert("level".to_owned(), self.level.as_str().to_lowercase().into());
        let message = self.fields.iter().position(|(name, _)| *name == "message");
        let mut fields = self.fields;
        let event = message.map_or(Value::Null, |at| fields.remove(at).1);
        for (name, value) in [("event", event)].into_iter().chain(fields) {
            let value = match value {
                Value::String(text) => shown(&redactor.redact(&text).text).into(),
                other => other,
            };
            // What is there already was said closer to the event.
            all.entry(name).or_insert(value);
        }
        all.entry("target").or_insert_with(|| self.target.into());
        all.entry("pid").or_insert_with(|| std::process::id().into());
        all
    }
}

fn shown(text: &str) -> String {
    let safe = quote::safe(text);
    match safe.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &safe[..at]),
        None => safe,
    }
}

/// A line for people: when, how bad, what, and its fields.
pub(crate) fn text(line: &Map<String, Value>, has_colours: bool) -> String {
    let word = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default();
    let at = word("at").parse::<Timestamp>().map_or_else(
        |_| value(&word("at").into()),
        |at| at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S%.3f").to_string(),
    );
    let level = quote::one_line(word("level"), 5).to_uppercase();
    let style = match level.as_str() {
        "ERROR" => AnsiColor::Red.on_default().bold(),
        "WARN" => AnsiColor::Yellow.on_default(),
        "DEBUG" | "TRACE" => Style::new().dimmed(),
        _ => Style::new(),
    };
    let style = if has_colours { style } else { Style::new() };
    let mut out = format!("{at} {style}{level:<5}{style:#} {}", value(&word("event").into()));
    for (name, of) in line {
        if !["at", "level", "event", "target", "pid"].contains(&name.as_str()) {
            out.push_str(&format!("  {}={}", quote::one_line(name, 40), value(of)));
        }
    }
    out
}

/// A value in a line for people: in quotes where it would otherwise look like more than one.
fn value(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let safe = quote::safe(text);
            let is_plain = !safe.contains(['\n', '\r', '\t', '"', '=']) && !safe.contains("  ");
            if is_plain { safe } else { Value::from(safe).to_string() }
        }
        other => quote::safe(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(fields: Vec<(&'static str, Value)>) -> Line {
        let at = "2026-11-15T12:00:00Z".parse().unwrap();
        Line { at, level: Level::INFO, target: "rethread", fields }
    }

    /// Texts of others cannot begin a line of their own, in either form.
    #[test]
    fn a_hostile_text_cannot_forge_a_line() {
        let hostile =
            "x\n{\"level\":\"error\",\"event\":\"forged\"}\r\n\u{1b}[2J\u{2028}\u{202e}  event=y";
        let fields = vec![("message", hostile.into()), ("path", hostile.into())];
        let clean = line(fields).clean(&Redactor::new([]));
        let json = Value::Object(clean.clone()).to_string();
        for text in [&json, &text(&clean, false)] {
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(!text.contains(|c| quote::is_unsafe(c) || c == '\n'), "{text:?}");
        }
        let read: Map<String, Value> = serde_json::from_str(&json).unwrap();
        assert_eq!(read["level"], "info");
        // A file that somebody else wrote to is shown as safely.
        let foreign = serde_json::json!({"at": hostile, "level": hostile, "event": hostile, hostile: hostile});
        let shown = text(foreign.as_object().unwrap(), false);
        assert!(!shown.contains(|c| quote::is_unsafe(c) || c == '\n'), "{shown:?}");
    }

    #[test]
    fn no_secret_gets_into_a_line() {
        let known = rethread_redact::Known {
            name: "BOAT_KEY".to_owned(),
            value: "correct-horse-battery".to_owned(),
        };
        let texts = ["it said correct-horse-battery to me".to_owned(), "y".repeat(5_000)];
        let fields = texts.map(|text| ("error", Value::from(text)));
        let [first, second] = fields;
        let clean = line(vec![("message", first.1.clone()), first, ("long", second.1)])
            .clean(&Redactor::new([known]));
        let text = Value::Object(clean).to_string();
        assert!(!text.contains("horse"), "{text}");
        assert!(text.len() < LONGEST + 1_000, "{}", text.len());
    }
}
