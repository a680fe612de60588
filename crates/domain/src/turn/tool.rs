//! One use of a tool, as its agent tells of it bit by bit.

use serde_json::{Map, Value};

use super::{MOST_OUTPUT_BYTES, MOST_RAW_BYTES, Tool, bytes, cut};

impl Tool {
    /// Takes up what is told later of the same call.
    pub fn take(&mut self, later: Self) {
        self.title = later.title.or(self.title.take());
        self.kind = later.kind.or(self.kind.take());
        self.status = later.status.or(self.status.take());
        self.output = later.output.or(self.output.take());
        self.raw.extend(later.raw);
    }

    pub(super) fn bytes(&self) -> usize {
        let texts = [&self.title, &self.kind, &self.status, &self.output];
        let texts = texts.into_iter().flatten().map(String::len).sum::<usize>();
        let raw = self.raw.iter().map(|(name, value)| name.len() + bytes(value));
        self.id.len() + texts + raw.sum::<usize>()
    }

    /// Name and title, then what came out; never the arguments.
    pub(super) fn describe(&self) -> String {
        let kind = self.kind.as_deref().filter(|kind| *kind != "other");
        let title = self.title.as_deref().unwrap_or(&self.id);
        let mut text = kind.map_or_else(|| title.to_owned(), |kind| format!("{kind}: {title}"));
        if self.status.as_deref() == Some("failed") {
            text.push_str(" (failed)");
        }
        if let Some(output) = self.output.as_deref().filter(|output| !output.is_empty()) {
            text.push('\n');
            text.push_str(cut(output, MOST_OUTPUT_BYTES));
        }
        text
    }

    /// All that is known of the call beside its output.
    pub(super) fn record(&self) -> Value {
        let mut record = Map::new();
        let mut put = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                record.insert(name.to_owned(), value.into());
            }
        };
        put("id", Some(&self.id));
        put("kind", self.kind.as_deref());
        put("title", self.title.as_deref());
        put("status", self.status.as_deref());
        let mut room = MOST_RAW_BYTES;
        for (name, value) in &self.raw {
            let bytes = value.to_string().len();
            if bytes <= room {
                room -= bytes;
                record.insert(name.clone(), value.clone());
            } else {
                record.insert(name.clone(), format!("[{bytes} bytes, not kept]").into());
            }
        }
        Value::Array(vec![Value::Object(record)])
    }
}
