//! Trouble that passes by itself: a provider that is overloaded, a network that is down.

use crate::Error;
use crate::agents::{AgentError, MODEL_ERROR};

/// Phrases that say that it passes, whoever says it.
const SIGNS: [&str; 24] = [
    "overloaded",
    "high demand",
    "service unavailable",
    "temporarily unavailable",
    "internal server error",
    "bad gateway",
    "gateway timeout",
    "request timed out",
    "connection error",
    "connection refused",
    "connection reset",
    "connection timed out",
    "connection closed",
    "econnreset",
    "econnrefused",
    "etimedout",
    "enotfound",
    "eai_again",
    "socket hang up",
    "fetch failed",
    "network is unreachable",
    "network error",
    "dns error",
    "stream disconnected",
];
/// HTTP statuses of servers that will answer later.
const STATUSES: [&str; 6] = ["408", "500", "502", "503", "504", "529"];
/// How much of a text is looked at.
const MOST: usize = 4_000;

/// Whether this is trouble of the model's service or of the way there, which passes by itself. What an agent or a task does wrong
/// does not.
pub(super) fn passes(error: &Error) -> bool {
    match error {
        Error::Unanswered { outcome: MODEL_ERROR, message, .. }
        | Error::Agent { trouble: AgentError::ModelFailed(message), .. } => {
            says_so(message) || has_status(message)
        }
        Error::Agent { trouble: AgentError::Refused { message, .. }, .. } => says_so(message),
        _ => false,
    }
}

fn says_so(text: &str) -> bool {
    let text = text.chars().take(MOST).collect::<String>().to_lowercase();
    SIGNS.iter().any(|sign| text.contains(sign))
}

fn has_status(text: &str) -> bool {
    let text: String = text.chars().take(MOST).collect();
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| STATUSES.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_that_passes_is_told_from_trouble_that_stays() {
        let failed = |message: &str| Error::Unanswered {
            agent: "a".to_owned(),
            outcome: MODEL_ERROR,
            message: message.to_owned(),
            resets_at: None,
        };
        let refused = |message: &str| Error::Agent {
            agent: "a".to_owned(),
            trouble: AgentError::Refused {
                what: "session/prompt".to_owned(),
                code: -32603,
                message: message.to_owned(),
            },
        };
        for told in [
            "API Error: 529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}",
            "stream error: unexpected status 503 Service Unavailable",
            "the model failed: Ran into this error: Server error: 500.",
            "TypeError: fetch failed (ECONNRESET)",
            "We're currently experiencing high demand",
        ] {
            assert!(passes(&failed(told)), "{told}");
        }
        assert!(passes(&refused("the model is overloaded")));
        for told in
            ["API Error: 401 invalid api key", "Error: 400 the prompt is too long: 215000 tokens"]
        {
            assert!(!passes(&failed(told)), "{told}");
        }
        // What an agent refuses may have any number in it.
        assert!(!passes(&refused("line 500 of the settings is not valid")));
        let gone = Error::Agent {
            agent: "a".to_owned(),
            trouble: AgentError::NeedsLogin("connection refused".to_owned()),
        };
        assert!(!passes(&gone));
    }
}
