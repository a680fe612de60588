//! Summaries by a model, where there is one. The rules have always spoken before, so there is always one.

use async_trait::async_trait;
use rethread_domain::summary::Summary;
use rethread_domain::{Message, quote};

use crate::Engine;

/// The most that a model is given to read.
const MOST_CHARS: usize = 24_000;
/// The most that it is given of one message.
const MESSAGE_CHARS: usize = 1_000;

/// Somebody who sums up.
#[async_trait]
pub trait Summariser: Send + Sync {
    /// Sums up a story; `None` where that is not possible now.
    async fn sum_up(&self, story: &str) -> Option<String>;
}

impl Engine {
    /// The same summary in a model's words, where there is a model and it answers.
    pub(crate) async fn in_words(
        &self,
        summary: Summary,
        before: Option<&str>,
        messages: &[Message],
    ) -> Summary {
        let Some(summariser) = &self.summariser else { return summary };
        match summariser.sum_up(&story(&summary, before, messages)).await {
            Some(text) => summary.told_by_model(&text),
            None => summary,
        }
    }
}

/// What there is to sum up: quoted, so that nothing in it speaks for itself.
fn story(summary: &Summary, before: Option<&str>, messages: &[Message]) -> String {
    let mut story = String::new();
    for (heading, text) in
        [("The summary so far", before), ("What stood out", Some(summary.text.as_str()))]
    {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            story.push_str(&format!("{heading}:\n"));
            quote::push_quoted(&mut story, text);
        }
    }
    let mut chosen: Vec<String> = Vec::new();
    let mut left = MOST_CHARS;
    for message in
        messages.iter().rev().filter(|message| message.purged_at.is_none() && !message.is_damaged())
    {
        let text: String = message.body.head().chars().take(MESSAGE_CHARS).collect();
        let mut told = format!("{}:\n", message.role.label());
        quote::push_quoted(&mut told, &text);
        let Some(rest) = left.checked_sub(told.len()) else { break };
        left = rest;
        chosen.push(told);
    }
    chosen.reverse();
    story + &chosen.concat()
}
