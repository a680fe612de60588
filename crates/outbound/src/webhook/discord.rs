//! The form that Discord reads. Nothing in it is markup, and nothing of it calls anybody.

use serde_json::{Value, json};

use crate::webhook::text::escaped;
use crate::webhook::{Event, Notice};

// Discord takes 256, 4,096 and 1,024, and no more than 6,000 in all: these make 5,800 at most.
const LONGEST_TITLE: usize = 256;
const LONGEST_REASON: usize = 2000;
const LONGEST_FIELD: usize = 500;

pub(crate) fn body(notice: &Notice) -> Value {
    let inline = |name: &str| matches!(name, "Status" | "Done" | "Session");
    let fields = notice.details().into_iter().map(|(name, text)| {
        json!({ "name": name, "value": escaped(&text, LONGEST_FIELD, escape), "inline": inline(name) })
    });
    let title = escaped(&notice.title, LONGEST_TITLE, escape);
    let reason = escaped(notice.reason.as_deref().unwrap_or_default(), LONGEST_REASON, escape);
    json!({
        // Words of ours only: what stands here is looked through for invitations and links.
        "content": format!("{} ({})", notice.event.describe(), notice.progress()),
        "allowed_mentions": { "parse": [] },
        "embeds": [{
            "title": title,
            "description": reason,
            "color": colour(notice.event),
            "timestamp": notice.at.to_string(),
            "fields": fields.collect::<Vec<_>>(),
        }],
    })
}

fn colour(event: Event) -> u32 {
    match event {
        Event::Completed => 0x002e_a043,
        Event::Failed | Event::Crashed => 0x00d1_242f,
        Event::Blocked | Event::Paused | Event::CapacityWarning => 0x00d2_9922,
        Event::Started | Event::Resumed | Event::Cancelled => 0x0057_606a,
    }
}

/// Whatever could begin markup, a mention, a link or an emoji loses its meaning.
fn escape(c: char) -> impl Iterator<Item = char> {
    let means_something = c.is_ascii_punctuation() && !matches!(c, ',' | '"' | '\'' | '%' | '?');
    means_something.then_some('\\').into_iter().chain([c])
}
