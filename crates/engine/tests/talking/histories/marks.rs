//! What an own session of an agent knows, by the marks in the texts.

use crate::scripted::{Outcome, Prompted};
use rethread_domain::Seq;
use rethread_domain::message::Message;
use rethread_domain::turn::Update;
use rethread_engine::agents::Block;
use std::collections::BTreeSet;

/// The marks in a text, in order.
pub(super) fn marks(text: &str) -> Vec<String> {
    let is_mark = |word: &&str| {
        let digits = word.strip_prefix('m').unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_mark).map(str::to_owned).collect()
}

/// The marks of what a document quotes: what stands beside the messages may repeat them.
pub(super) fn quoted_marks(document: &str) -> Vec<String> {
    let quoted: Vec<&str> = document.lines().filter(|line| line.starts_with("> ")).collect();
    marks(&quoted.join("\n"))
}

pub(super) fn message_marks(message: &Message) -> Vec<String> {
    marks(message.body.whole().unwrap())
}

pub(super) fn update_marks(updates: &[Update]) -> BTreeSet<String> {
    let text = |update: &Update| match update {
        Update::Text { text } | Update::Thought { text } => text.clone(),
        Update::Tool(tool) => tool.title.clone().unwrap_or_default(),
        _ => String::new(),
    };
    updates.iter().flat_map(|update| marks(&text(update))).collect()
}

/// What a way in ends with, if it does not lead in.
pub(super) fn trouble(outcome: &Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::AgentError(trouble) => Some(trouble.name()),
        Outcome::Dies => Some("agent_ended"),
        Outcome::Fine | Outcome::Hollow | Outcome::Mixed => None,
    }
}

/// What others said while a turn ran, `late`, may come to be known after its answer.
pub(super) fn check_prompt(
    log: &[Message],
    prompted: &Prompted,
    request: &str,
    late: &BTreeSet<String>,
) {
    let Some(Block::Text(last)) = prompted.blocks.last() else { panic!("no request") };
    assert_eq!(marks(last), [request]);
    let is_beside = |block: &&Block| match block {
        Block::Document { .. } => true,
        // What may be known already is told again, with a note.
        Block::Text(text) => text.contains("may be a repetition"),
    };
    assert_eq!(prompted.blocks.iter().filter(is_beside).count() + 1, prompted.blocks.len());
    let told = quoted_marks(prompted.document().unwrap_or_default());
    let seq_of = |mark: &str| {
        let found = log.iter().find(|message| message_marks(message).iter().any(|own| own == mark));
        found.map(|message| message.seq)
    };
    let upto: Seq = seq_of(request).expect("the request is written down first");
    let part = log.iter().filter(|one| prompted.before.from < one.seq && one.seq <= upto);
    let expected: Vec<String> = part.clone().flat_map(message_marks).collect();
    let mut known = known_marks(prompted, &told, |mark| seq_of(mark).is_some());
    if prompted.texts().iter().any(|text| text.contains("may be a repetition")) {
        known.retain(|mark| !told.contains(mark));
    }
    let is_clean = known.len() + 1 == expected.len();
    let known = [known, told, vec![request.to_owned()]].concat();
    let in_order = |marks: &[String]| -> (Vec<String>, Vec<String>) {
        let (mut late, timely): (Vec<_>, Vec<_>) =
            marks.iter().cloned().partition(|mark| late.contains(mark));
        late.sort();
        (timely, late)
    };
    let found = (in_order(&known), in_order(&expected));
    assert_eq!(found.0, found.1, "{}: {:#?}", prompted.native, prompted.before);
    if is_clean && part.clone().all(|message| !message_marks(message).is_empty()) {
        assert_eq!(prompted.document(), None, "there is nothing to tell");
    }
}

/// What an own session of the agent knows. What nobody else could know that it knows is told again later, or was
/// never written down: that does not count.
pub(super) fn known_marks(
    prompted: &Prompted,
    told: &[String],
    is_ours: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for one in prompted.before.known.iter().rev() {
        let mut own = if one.is_document { quoted_marks(&one.text) } else { marks(&one.text) };
        own.retain(|mark| {
            !one.is_doubtful || is_ours(mark) && !told.contains(mark) && !known.contains(mark)
        });
        known.splice(0..0, own);
    }
    known
}
