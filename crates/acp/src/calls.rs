//! The tool calls of a turn as the agent reported them: some agents give details there, and not when they ask for permission.

use std::collections::HashMap;

use crate::frame::Fields;
use crate::translate;

/// How many tool calls of a turn are remembered.
const KNOWN: usize = 1024;
/// The longest part of a call that is kept, and the limit of all of them, in bytes.
const LONGEST: usize = 256 * 1024;
const MOST: usize = 8 * 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Calls {
    known: HashMap<String, Call>,
    bytes: usize,
}

/// What is known of a call. Parts are kept as raw JSON.
#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    pub(crate) title: String,
    pub(crate) kind: String,
    pub(crate) input: Option<String>,
    pub(crate) locations: Option<String>,
    /// Only if it reports changes.
    pub(crate) content: Option<String>,
    /// Whether its arguments were too long to be kept.
    pub(crate) is_cut: bool,
}

impl Calls {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn get(&self, id: &str) -> Option<Call> {
        self.known.get(id).cloned()
    }

    /// Takes over what an update says of a call.
    pub(crate) fn note(&mut self, update: &str) {
        let Some(fields) = Fields::parse(update) else { return };
        let Some(id) = translate::name(&fields, "toolCallId") else { return };
        if self.known.len() >= KNOWN && !self.known.contains_key(&id) {
            return;
        }
        let call = self.known.entry(id).or_default();
        if let Some(title) = translate::name(&fields, "title") {
            call.title = title;
        }
        if let Some(kind) = translate::name(&fields, "kind") {
            call.kind = kind;
        }
        let mut keep = |name: &str, place: &mut Option<String>| -> bool {
            let Some(raw) = fields.get(name).filter(|raw| !is_empty(raw)) else { return true };
            let fits = raw.len() <= LONGEST && self.bytes + raw.len() <= MOST;
            if fits {
                self.bytes += raw.len();
            }
            *place = fits.then(|| raw.to_owned());
            fits
        };
        call.is_cut |= !keep("rawInput", &mut call.input);
        keep("locations", &mut call.locations);
        let tells_change =
            fields.get("content").is_some_and(|content| content.contains("\"diff\""));
        if tells_change {
            keep("content", &mut call.content);
        }
    }
}

fn is_empty(raw: &str) -> bool {
    matches!(raw, "null" | "{}" | "[]" | "\"\"")
}
