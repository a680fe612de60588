//! Opening a conversation in an agent: which way to try first, and what is known afterwards.

use std::collections::BTreeMap;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use crate::id::Seq;

/// What the user set in an agent, to be set again in every native session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

impl Settings {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These, with what `over` says otherwise.
    #[must_use]
    pub fn with(&self, over: &Self) -> Self {
        let mut options = self.options.clone();
        options.extend(over.options.clone());
        Self {
            model: over.model.clone().or_else(|| self.model.clone()),
            mode: over.mode.clone().or_else(|| self.mode.clone()),
            options,
        }
    }
}

/// An agent's own session holds a conversation up to a message: the watermark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Watermark {
    pub conversation: String,
    pub agent: String,
    /// The id that the agent knows the conversation by. Empty where there is none: then only what the user set is
    /// kept here.
    pub native: String,
    pub upto: Seq,
    /// What it holds beyond that, each from one message to another: its own answers, where others said something in between
    /// that it was not told yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub beyond: Vec<(Seq, Seq)>,
    /// How many messages of the conversation that is, in all.
    pub messages: u32,
    /// The request of a turn that was interrupted: the agent may have kept it or not. A replay shows that; without one,
    /// `upto` says what is assumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_doubt: Option<Seq>,
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub settings: Settings,
    /// What the native session has cost, by the agent's own count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_usd: Option<f64>,
    /// When the last turn in it ended: what changed later, somebody else did in the agent's own program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_at: Option<Timestamp>,
}

impl Watermark {
    /// What an agent holds of a conversation before it has a session of its own.
    pub fn nothing(conversation: &str, agent: &str) -> Self {
        Self {
            conversation: conversation.to_owned(),
            agent: agent.to_owned(),
            native: String::new(),
            upto: 0,
            beyond: Vec::new(),
            messages: 0,
            in_doubt: None,
            settings: Settings::default(),
            spent_usd: None,
            left_at: None,
        }
    }

    /// Whether nothing was said in the agent's own session since we left it. `changed_at` is when it last changed, by
    /// the agent's own word.
    pub fn is_as_we_left_it(&self, changed_at: Option<Timestamp>) -> bool {
        let (Some(left_at), Some(changed_at)) = (self.left_at, changed_at) else { return false };
        changed_at <= left_at
    }

    /// Whether the agent's own session has a message of a conversation: what others say in other conversations is never
    /// told to it.
    pub fn holds(&self, conversation: &str, seq: Seq) -> bool {
        self.is_held() && self.conversation == conversation && self.has(seq)
    }

    /// Whether a message of the conversation is among those that the agent's own session has.
    pub fn has(&self, seq: Seq) -> bool {
        seq <= self.upto || in_any(&self.beyond, seq)
    }

    /// Whether there is a session of the agent's own.
    pub fn is_held(&self) -> bool {
        !self.native.is_empty()
    }
}

/// Whether one of these ranges has a message.
pub fn in_any(ranges: &[(Seq, Seq)], seq: Seq) -> bool {
    ranges.iter().any(|(from, to)| (*from..=*to).contains(&seq))
}

/// Reads ranges; earlier there was at most one, written without a list around it.
fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(Seq, Seq)>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Ranges {
        One((Seq, Seq)),
        Many(Vec<(Seq, Seq)>),
    }
    Ok(match Ranges::deserialize(from)? {
        Ranges::One(range) => vec![range],
        Ranges::Many(ranges) => ranges,
    })
}

/// A turn that has begun: what has to be known if nobody ends it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Underway {
    pub conversation: String,
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The message that is being answered.
    pub request: Seq,
    /// What the agent's own session holds once it has begun to answer, if it keeps requests.
    #[serde(default, rename = "holding", skip_serializing_if = "Option::is_none")]
    pub watermark: Option<Watermark>,
    /// Whether the agent keeps a request that it has begun to answer, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeps_request: Option<bool>,
}

/// How far to go for an agent that forgot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// Its own session if it can be had, the story retold otherwise.
    #[default]
    Auto,
    /// Its own session, or none.
    Required,
    /// Always a new session that is told nothing.
    Off,
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "required" => Ok(Self::Required),
            "off" => Ok(Self::Off),
            _ => Err(format!("not a policy: {text:?} (expected auto, required or off)")),
        }
    }
}

/// One way into a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    Resume,
    Load,
    New,
}

/// How a conversation was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// Nothing had been said yet.
    Fresh,
    /// The agent took up its own session.
    Resumed,
    /// The agent read its own session back.
    Loaded,
    /// A new session of the agent was told the story so far.
    Retold,
    /// A new session of the agent that was told nothing, as asked.
    Untold,
    /// Not at all.
    Failed,
}

crate::named!(How {
    Fresh = "fresh",
    Resumed = "resumed",
    Loaded = "loaded",
    Retold = "retold",
    Untold = "untold",
    Failed = "failed",
});

/// The outcome of one open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    pub conversation: String,
    pub agent: String,
    pub how: How,
    /// Why not better, by a short name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How long it took, the agent's own time included.
    pub ms: u64,
    /// The native session that it was opened in. Nothing where it could not be opened, nor in logs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<String>,
}

impl Opening {
    /// Whether the native session was made for it: nobody else has said anything in it before.
    pub const fn is_own(&self) -> bool {
        matches!(self.how, How::Fresh | How::Retold | How::Untold)
    }

    /// What a person is told: one line.
    pub fn describe(&self) -> String {
        let agent = &self.agent;
        let how = match self.how {
            How::Fresh => format!("{agent}: a new conversation"),
            How::Resumed => format!("{agent}: resumed in its own session"),
            How::Loaded => format!("{agent}: loaded from its own session"),
            How::Retold => format!("{agent}: told the story so far in a new session"),
            How::Untold => format!("{agent}: a new session that was told nothing"),
            How::Failed => format!("{agent}: could not be opened"),
        };
        match self.why.as_deref() {
            Some(why) if self.how != How::Fresh => format!("{how}, because {}", reason(why)),
            _ => how,
        }
    }
}

/// A reason in words.
pub fn reason(name: &str) -> &str {
    match name {
        OTHER_AGENT => "it never held this conversation",
        FIRST_TURN => "no session of its own holds this conversation yet",
        UNABLE => "it can neither resume nor load",
        HOLLOW => "its load brought nothing back",
        MIXED_UP => "it loaded another conversation",
        POLICY => "the policy says so",
        "session_gone" => "it does not know its session any more",
        "timed_out" => "it did not answer in time",
        "agent_ended" => "it ended while it was opening",
        "unsupported" => "it does not do what it offered",
        "nonsense" => "its answer could not be understood",
        "refused" => "it refused",
        "not_installed" => "it is not installed",
        "cannot_start" => "it cannot be started",
        "folder_gone" => "the project folder is gone",
        "wrong_version" => "it speaks another version of the protocol",
        "line_too_long" => "it sent a line that is too long",
        "needs_login" => "it wants a login first",
        "cancelled" => "it was cancelled",
        other => other,
    }
}

pub const OTHER_AGENT: &str = "other_agent";
pub const FIRST_TURN: &str = "first_turn";
pub const UNABLE: &str = "unable";
pub const HOLLOW: &str = "hollow";
pub const MIXED_UP: &str = "mixed_up";
pub const POLICY: &str = "policy";

/// What counts for the way into a conversation.
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that is so or not")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ways {
    pub is_held: bool,
    pub can_resume: bool,
    pub can_load: bool,
    /// What the agent's own session holds is in doubt: a load shows it.
    pub is_doubtful: bool,
    /// The agent gives ids of deleted sessions to others: without a replay, nobody knows whose a session is.
    pub reuses_ids: bool,
}

/// The ways to try, in order, with the reason why the first is not a better one.
pub fn tiers(policy: Policy, ways: Ways) -> (Vec<Tier>, Option<&'static str>) {
    if policy == Policy::Off {
        return (vec![Tier::New], Some(POLICY));
    }
    if !ways.is_held {
        return (vec![Tier::New], Some(OTHER_AGENT));
    }
    let mut tiers = Vec::new();
    if ways.can_resume && !ways.reuses_ids {
        tiers.push(Tier::Resume);
    }
    if ways.can_load {
        let at = if ways.is_doubtful { 0 } else { tiers.len() };
        tiers.insert(at, Tier::Load);
    }
    let why = tiers.is_empty().then_some(UNABLE);
    tiers.push(Tier::New);
    (tiers, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        policy: Policy,
        is_held: bool,
        (can_resume, can_load): (bool, bool),
        expected: &[Tier],
        why: Option<&str>,
    ) {
        let ways = Ways { is_held, can_resume, can_load, ..Ways::default() };
        assert_eq!(tiers(policy, ways), (expected.to_vec(), why));
    }

    #[test]
    fn the_best_way_comes_first_and_a_new_session_last() {
        use Tier::{Load, New, Resume};
        check(Policy::Auto, true, (true, true), &[Resume, Load, New], None);
        check(Policy::Auto, true, (false, true), &[Load, New], None);
        check(Policy::Auto, true, (false, false), &[New], Some(UNABLE));
        check(Policy::Auto, false, (true, true), &[New], Some(OTHER_AGENT));
        check(Policy::Required, true, (true, false), &[Resume, New], None);
        check(Policy::Off, true, (true, true), &[New], Some(POLICY));
    }

    #[test]
    fn what_is_in_doubt_is_looked_at() {
        use Tier::{Load, New, Resume};
        let all = Ways { is_held: true, can_resume: true, can_load: true, ..Ways::default() };
        let doubtful = Ways { is_doubtful: true, ..all };
        assert_eq!(tiers(Policy::Auto, doubtful).0, [Load, Resume, New]);
        let reused = Ways { reuses_ids: true, ..all };
        assert_eq!(tiers(Policy::Auto, reused).0, [Load, New]);
        assert_eq!(tiers(Policy::Auto, Ways { can_load: false, ..reused }).0, [New]);
    }

    #[test]
    fn what_was_set_last_wins() {
        let before = Settings {
            model: Some("small".into()),
            mode: Some("plan".into()),
            ..Settings::default()
        };
        let over = Settings { model: Some("large".into()), ..Settings::default() };
        let both = before.with(&over);
        assert_eq!((both.model.as_deref(), both.mode.as_deref()), (Some("large"), Some("plan")));
    }

    #[test]
    fn a_range_that_was_written_without_a_list_is_read() {
        let held = |beyond: &str| -> Watermark {
            let text = format!(
                r#"{{"conversation":"main","agent":"a","native":"n","upto":2,"messages":4{beyond}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(held("").beyond, []);
        assert_eq!(held(r#","beyond":[4,5]"#).beyond, [(4, 5)]);
        let several = held(r#","beyond":[[4,5],[7,7]]"#);
        assert_eq!(several.beyond, [(4, 5), (7, 7)]);
        let has: Vec<Seq> = (1..9).filter(|seq| several.has(*seq)).collect();
        assert_eq!(has, [1, 2, 4, 5, 7]);
        let again: Watermark =
            serde_json::from_str(&serde_json::to_string(&several).unwrap()).unwrap();
        assert_eq!(again, several);
    }
}
