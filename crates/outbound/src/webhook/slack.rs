//! The form that Slack reads. Nothing in it is markup, and nothing of it calls anybody.

use serde_json::{Value, json};

use crate::webhook::Notice;
use crate::webhook::text::escaped;

const LONGEST_TEXT: usize = 1000;
/// Slack takes 150.
const LONGEST_HEADER: usize = 150;
/// Slack takes 3,000.
const LONGEST_SECTION: usize = 2000;
/// Slack takes 2,000.
const LONGEST_FIELD: usize = 500;

pub(crate) fn body(notice: &Notice) -> Value {
    let told = notice.event.describe();
    let text = format!("{told}: {} ({})", notice.title, notice.progress());
    let mut blocks = vec![
        json!({ "type": "header", "text": plain(told, LONGEST_HEADER) }),
        json!({ "type": "section", "text": plain(&format!("“{}”", notice.title), LONGEST_SECTION) }),
    ];
    if let Some(reason) = notice.reason.as_ref().filter(|reason| !reason.trim().is_empty()) {
        blocks.push(json!({ "type": "section", "text": plain(reason, LONGEST_SECTION) }));
    }
    // Slack takes ten; there are seven at most.
    let details = notice.details();
    let fields =
        details.iter().map(|(name, text)| plain(&format!("{name}: {text}"), LONGEST_FIELD));
    blocks.push(json!({ "type": "section", "fields": fields.collect::<Vec<_>>() }));
    json!({
        "text": escaped(&text, LONGEST_TEXT, escape),
        "mrkdwn": false,
        "parse": "none",
        "link_names": false,
        "unfurl_links": false,
        "unfurl_media": false,
        "blocks": blocks,
    })
}

fn plain(text: &str, most: usize) -> Value {
    json!({ "type": "plain_text", "text": escaped(text, most, escape), "emoji": false })
}

/// The three characters that Slack gives a meaning to.
fn escape(c: char) -> impl Iterator<Item = char> {
    let (entity, other) = match c {
        '&' => ("&amp;", None),
        '<' => ("&lt;", None),
        '>' => ("&gt;", None),
        other => ("", Some(other)),
    };
    entity.chars().chain(other)
}
