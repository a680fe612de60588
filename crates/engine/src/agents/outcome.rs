//! The outcome of a turn: an answer, nothing at all, or an error of the model. Many agents pass a model's error on as if it were
//! an answer, others fail the request.

use jiff::Timestamp;
use rethread_domain::message::NewMessage;
use rethread_domain::quote::one_line;
use rethread_domain::turn::Turn;

use super::port::{AgentError, Lifted};
use super::send::Answer;
use crate::Error;
use crate::workflows::{is_sensible, lifted_in, limit_in};

/// The turn has an answer.
pub const ANSWERED: &str = "answered";
/// The agent ended its turn without a word and without using a tool.
pub const NO_ANSWER: &str = "no_answer";
/// The agent's answer is an error of the model.
pub const MODEL_ERROR: &str = "model_error";
/// A usage limit of the model is reached.
pub const USAGE_LIMIT: &str = "usage_limit";

/// Errors are short; a longer text merely mentions one.
const LONGEST_ERROR: usize = 2_000;
/// How a text begins that is an error of the model and not an answer.
const BEGINNINGS: [&str; 20] = [
    "api error",
    "llm error",
    "model error",
    "provider error",
    "stream error",
    "error from provider",
    "error calling",
    "ran into this error",
    "request failed with status",
    "claude ai usage limit reached",
    "usage limit reached",
    "rate limit",
    "you've hit your",
    "you've reached your",
    "the model returned an empty response",
    "exceeded retry limit",
    "we're currently experiencing high demand",
    "retrying (attempt",
    "{\"type\": \"error\"",
    "{\"type\":\"error\"",
];
/// What marks a text that begins with `Error:` as an error of the model.
const SIGNS: [&str; 9] = [
    "status code",
    "api key",
    "api_key",
    "overloaded",
    "internal server error",
    "bad gateway",
    "service unavailable",
    "too many requests",
    "connection error",
];

/// The outcome of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) error: Option<String>,
    pub(super) resets_at: Option<Timestamp>,
}

impl Outcome {
    /// Judged by what was said, the agent's stop reason, and the error that it ended with.
    pub(super) fn of(
        turn: &Turn,
        stop: &str,
        trouble: Option<&AgentError>,
        now: Timestamp,
    ) -> Self {
        let named = |name: &str| Self { name: name.to_owned(), error: None, resets_at: None };
        if let Some(AgentError::LimitReached { message, lifted }) = trouble {
            let error = Some(format!("a usage limit is reached: {}", one_line(message, 500)));
            let resets_at = lifted_at(*lifted, now).or_else(|| lifted_in(message, now));
            return Self { error, resets_at, ..named(USAGE_LIMIT) };
        }
        if let Some(trouble @ AgentError::ModelFailed(_)) = trouble {
            let error = Some(one_line(&trouble.to_string(), 500));
            return Self { error, ..named(MODEL_ERROR) };
        }
        if stop == "cancelled" {
            return named(stop);
        }
        let error = turn.last_text().filter(|text| is_model_error(text));
        if let Some(text) = error {
            let limit = limit_in(text, now);
            let name = if limit.is_some() { USAGE_LIMIT } else { MODEL_ERROR };
            let error = Some(format!("the model failed: {}", one_line(text, 500)));
            return Self { error, resets_at: limit.flatten(), ..named(name) };
        }
        if stop != "end_turn" {
            return named(stop);
        }
        if turn.last_text().is_none() && !turn.uses_tools() {
            let error = Some("the agent ended its turn without an answer".to_owned());
            return Self { error, ..named(NO_ANSWER) };
        }
        named(ANSWERED)
    }
}

fn lifted_at(lifted: Option<Lifted>, now: Timestamp) -> Option<Timestamp> {
    let at = match lifted? {
        Lifted::At(at) => Some(at),
        Lifted::After(time) => now.checked_add(time).ok(),
    };
    at.filter(|at| is_sensible(*at, now))
}

/// Whether a text is an error of the model and not an answer.
pub fn is_model_error(text: &str) -> bool {
    let text = text.trim();
    if text.len() > LONGEST_ERROR {
        return false;
    }
    let text = text.to_lowercase().replace('’', "'");
    let begins =
        |beginning: &&str| text.trim_start_matches(['⚠', '❌', '*', ' ']).starts_with(*beginning);
    BEGINNINGS.iter().any(begins)
        || begins(&"error:") && (is_status(&text) || SIGNS.iter().any(|sign| text.contains(sign)))
}

/// `error: 400 …`: an HTTP status of an error.
fn is_status(text: &str) -> bool {
    let rest = text.split_once("error:").map_or("", |(_, rest)| rest.trim_start());
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.len() == 3 && digits.starts_with(['4', '5'])
}

impl Answer {
    /// Records with the last message of a turn why there is no answer.
    pub(super) fn note(&self, last: Option<&mut NewMessage>) {
        let Some(last) = last.filter(|_| self.error.is_some()) else { return };
        last.extras.other.insert("outcome".to_owned(), self.outcome.as_str().into());
        if let Some(at) = self.resets_at {
            last.extras.other.insert("resets_at".to_owned(), at.to_string().into());
        }
    }

    /// Why there is no answer: nothing came back, or an error of the model did.
    pub fn failure(&self) -> Option<Error> {
        let message = self.error.clone()?;
        Some(Error::Unanswered {
            agent: self.agent.clone(),
            outcome: match self.outcome.as_str() {
                USAGE_LIMIT => USAGE_LIMIT,
                NO_ANSWER => NO_ANSWER,
                _ => MODEL_ERROR,
            },
            message,
            resets_at: self.resets_at,
        })
    }
}

#[cfg(test)]
mod tests {
    use rethread_domain::turn::{Tool, Update};

    use super::*;

    fn check(updates: &[Update], stop: &str, expected: &str) -> Outcome {
        let now: Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
        let mut turn = Turn::default();
        for update in updates {
            turn.take(update.clone(), now);
        }
        let outcome = Outcome::of(&turn, stop, None, now);
        assert_eq!(outcome.name, expected, "{updates:?}");
        outcome
    }

    fn said(text: &str) -> Update {
        Update::Text { text: text.to_owned() }
    }

    #[test]
    fn nothing_is_told_from_an_answer() {
        let nothing = check(&[], "end_turn", NO_ANSWER);
        assert!(nothing.error.is_some());
        check(&[Update::Thought { text: "hm".to_owned() }], "end_turn", NO_ANSWER);
        check(&[said(" \n")], "end_turn", NO_ANSWER);
        check(&[Update::Tool(Tool::default())], "end_turn", ANSWERED);
        check(&[said("done")], "end_turn", ANSWERED);
        check(&[], "cancelled", "cancelled");
        check(&[said("half")], "max_tokens", "max_tokens");
    }

    #[test]
    fn an_error_of_the_model_is_told_from_an_answer_about_errors() {
        for error in [
            "API Error: 500 {\"type\":\"error\",\"error\":{\"type\":\"api_error\"}}",
            "Ran into this error: Server error: 500.\n\nPlease retry.",
            "stream error: unexpected status 400 Bad Request",
            "Error: 503 Service Unavailable",
            "Error: 400 the request is not valid",
            "exceeded retry limit, last status: 500 Internal Server Error",
            "{\"type\": \"error\", \"error\": {\"type\": \"api_error\", \"code\": 400}}",
            "The model returned an empty response. Please resend your message.",
        ] {
            check(
                &[said("Let me look."), Update::Tool(Tool::default()), said(error)],
                "end_turn",
                MODEL_ERROR,
            );
        }
        for answer in [
            "Error: the third test fails, because the basket is empty.",
            "The API error comes from the proxy.",
            "Rates are limited by the gateway.",
        ] {
            check(&[said(answer)], "end_turn", ANSWERED);
        }
        let long = format!("API errors are these: {}", "x ".repeat(2_000));
        check(&[said(&long)], "end_turn", ANSWERED);
    }

    #[test]
    fn a_usage_limit_says_when_it_is_lifted() {
        let limit = check(&[said("You’ve hit your limit · resets in 2h")], "end_turn", USAGE_LIMIT);
        assert_eq!(limit.resets_at, Some("2026-11-16T12:00:00Z".parse().unwrap()));
        assert!(limit.error.unwrap().contains("hit your limit"));
    }

    #[test]
    fn an_error_of_the_agent_says_when_a_limit_is_lifted() {
        let now: Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
        let after = |seconds: i64| Some(now + jiff::SignedDuration::from_secs(seconds));
        for (message, lifted, expected) in [
            ("quota", Some(Lifted::After(std::time::Duration::from_secs(90))), after(90)),
            ("quota", Some(Lifted::At(now + jiff::SignedDuration::from_secs(30))), after(30)),
            ("quota", Some(Lifted::At(now)), None),
            ("quota, try again in 10 minutes", None, after(600)),
            ("quota", None, None),
        ] {
            let trouble = AgentError::LimitReached { message: message.to_owned(), lifted };
            let outcome = Outcome::of(&Turn::default(), "failed", Some(&trouble), now);
            assert_eq!((outcome.name.as_str(), outcome.resets_at), (USAGE_LIMIT, expected));
        }
    }
}
