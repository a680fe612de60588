//! What an agent replays of its own session, compared with the conversation that it should hold.

use std::collections::VecDeque;

use crate::id::Seq;

/// How much of each replayed message is kept, from its beginning and from its end. Some agents keep our context in the same
/// text as the request, so more is kept of its end.
const KEPT_BYTES: usize = 400;
const KEPT_END_BYTES: usize = 16 * 1024;
/// How much of the whole replay is kept: the first few messages, and the newest.
const KEPT_IN_ALL: usize = 1024 * 1024;
const KEPT_FIRST: usize = 4;
/// Stands where the middle of a message was left out.
const LEFT_OUT: &str = "\n[…]\n";

/// One message of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub is_user: bool,
    pub text: String,
}

/// What is kept of a replay, however long it is.
#[derive(Debug, Default)]
pub struct Excerpt {
    said: VecDeque<Said>,
    bytes: usize,
}

impl Excerpt {
    pub fn push(&mut self, said: Said) {
        self.said.push_back(said);
        self.shorten();
    }

    /// Adds to the last message; returns whether that has the same speaker.
    pub fn go_on(&mut self, is_user: bool, text: &str) -> bool {
        let Some(last) = self.said.back_mut().filter(|last| last.is_user == is_user) else {
            return false;
        };
        self.bytes -= last.text.len();
        if is_user {
            // Each part of a prompt is a chunk of its own.
            last.text.push('\n');
        }
        last.text.push_str(text);
        self.shorten();
        true
    }

    pub fn finish(self) -> Vec<Said> {
        self.said.into()
    }

    fn shorten(&mut self) {
        if let Some(last) = self.said.back_mut() {
            let begins = last.text.floor_char_boundary(KEPT_BYTES);
            let ends = last.text.len().saturating_sub(KEPT_END_BYTES);
            let ends = last.text.ceil_char_boundary(ends);
            if begins + LEFT_OUT.len() < ends {
                last.text.replace_range(begins..ends, LEFT_OUT);
            }
            self.bytes += last.text.len();
        }
        while self.said.len() > KEPT_FIRST + 1 && self.bytes > KEPT_IN_ALL {
            let dropped = self.said.remove(KEPT_FIRST);
            self.bytes -= dropped.map_or(0, |dropped| dropped.text.len());
        }
    }
}

/// A request of the conversation that the agent's own session should hold, with the beginning of its answer. The text
/// is empty where it was masked or purged, and cannot be compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    pub seq: Seq,
    pub text: String,
    pub answer: Option<String>,
}

/// What is known of an agent's own session before it is looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expected {
    /// The request of a turn that was interrupted: it may be there or not.
    pub in_doubt: Option<Seq>,
    /// Whether the agent gives the id of a session that was deleted to another.
    pub reuses_ids: bool,
}

/// What an agent's own session holds of the conversation, by its replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Match {
    /// The newest request of ours that it has.
    pub newest: Seq,
    /// What the agent said after that request.
    pub answer: String,
    /// Whether it has the request of the turn that was interrupted.
    pub has_doubtful: bool,
    /// What was said there in its own program, and is not in the conversation: requests and answers by turns.
    pub more: Vec<Said>,
}

/// Texts that are shorter are only recognised at the end of a replayed message: they may stand anywhere by chance.
const SHORT: usize = 24;
/// So much of a text is compared.
const COMPARED: usize = 200;

/// Compares a replay with the requests that should be in it, in order; `None` where it is another conversation.
///
/// Agents put messages of their own between those of the user, and leave out what was too long, so neither has to be
/// complete. But a session that both lacks requests of ours and has others is not ours, and a single request that
/// fits proves little: many conversations begin with the same words.
pub fn compare(replayed: &[Said], ours: &[Request], expected: Expected) -> Option<Match> {
    let said: Vec<(bool, String)> =
        replayed.iter().map(|one| (one.is_user, plain(own_words(&one.text)))).collect();
    let known: Vec<String> =
        ours.iter().map(|request| plain(&request.text).chars().take(COMPARED).collect()).collect();
    let find = |text: &str, before: usize| {
        let mut users = (0..before).rev().filter(|at| said[*at].0);
        users.find(|at| !text.is_empty() && has(&said[*at].1, text))
    };
    // The newest of ours that is there.
    let (newest, at) =
        (0..ours.len()).rev().find_map(|n| Some((n, find(&known[n], said.len())?)))?;
    let is_doubtful = |n: usize| Some(ours[n].seq) == expected.in_doubt;
    let (mut found, mut before, mut has_doubtful) = (1, at, is_doubtful(newest));
    for (n, text) in known[..newest].iter().enumerate().rev() {
        if let Some(at) = find(text, before) {
            (found, before) = (found + 1, at);
            has_doubtful |= is_doubtful(n);
        }
    }
    let after: Vec<&Said> = replayed[at + 1..].iter().collect();
    let own: Vec<&str> =
        after.iter().take_while(|one| !one.is_user).map(|one| one.text.as_str()).collect();
    let mut more = more_in(&after[own.len()..]);
    let later = &ours[newest + 1..];
    // A text that was masked may be any of those that follow.
    for _ in later.iter().filter(|request| request.text.is_empty()) {
        let next = more.iter().skip(1).position(|one| one.is_user).map_or(more.len(), |n| n + 1);
        more.drain(..next);
    }
    let is_missing = later
        .iter()
        .any(|request| Some(request.seq) != expected.in_doubt && !request.text.is_empty());
    let answer = own.join("\n\n");
    if found == 1 {
        let differs = ours[newest].answer.as_deref().is_some_and(|ours| !is_like(ours, &answer));
        let is_any =
            expected.reuses_ids && !more.is_empty() && !is_unlike_others(&ours[newest], &answer);
        let is_weak = is_missing || is_any;
        if is_weak || differs && Some(ours[newest].seq) != expected.in_doubt {
            return None;
        }
    }
    let is_other = is_missing && !more.is_empty();
    (!is_other).then(|| Match { newest: ours[newest].seq, answer, has_doubtful, more })
}

/// Requests with their answers; what agents tell themselves in the user's name has none.
fn more_in(after: &[&Said]) -> Vec<Said> {
    let mut more: Vec<Said> = Vec::new();
    for (at, one) in after.iter().enumerate() {
        let is_own = one.text.trim_start().starts_with('<');
        let is_answered = after.get(at + 1).is_some_and(|next| !next.is_user);
        if one.is_user && is_answered && !is_own && !one.text.trim().is_empty() {
            more.push((*one).clone());
        } else if !one.is_user && more.last().is_some() {
            match more.last_mut() {
                Some(last) if !last.is_user => {
                    last.text.push_str("\n\n");
                    last.text.push_str(&one.text);
                }
                _ => more.push((*one).clone()),
            }
        }
    }
    more
}

/// Without what some agents add to the words of the user.
fn own_words(text: &str) -> &str {
    match text.find("<system-reminder>") {
        Some(at) if at > 0 => &text[..at],
        _ => text,
    }
}

fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn has(replayed: &str, text: &str) -> bool {
    if text.len() >= SHORT {
        return replayed.contains(text);
    }
    replayed.strip_suffix(text).is_some_and(|rest| rest.is_empty() || rest.ends_with(' '))
}

/// Whether a request and its answer are there word by word, and long enough that no other conversation has the same.
fn is_unlike_others(ours: &Request, replayed: &str) -> bool {
    let answer = plain(ours.answer.as_deref().unwrap_or_default());
    let compared: String = answer.chars().take(COMPARED).collect();
    plain(&ours.text).len() >= SHORT && answer.len() >= SHORT && plain(replayed).contains(&compared)
}

/// Whether an answer can be the one that was replayed, as far as both are known.
fn is_like(ours: &str, replayed: &str) -> bool {
    let ours: String = plain(ours).chars().take(COMPARED / 4).collect();
    let replayed = plain(replayed);
    ours.is_empty() || replayed.is_empty() || replayed.contains(&ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> Said {
        Said { is_user: true, text: text.to_owned() }
    }

    fn agent(text: &str) -> Said {
        Said { is_user: false, text: text.to_owned() }
    }

    fn ours(texts: &[(&str, &str)]) -> Vec<Request> {
        let request = |(seq, (text, answer)): (Seq, &(&str, &str))| Request {
            seq,
            text: (*text).to_owned(),
            answer: Some((*answer).to_owned()).filter(|answer| !answer.is_empty()),
        };
        (1..).step_by(2).zip(texts).map(request).collect()
    }

    const BASKET: (&str, &str) = ("fix the basket", "It is fixed.");

    #[test]
    fn the_same_conversation_is_recognised_whatever_stands_around_it() {
        let replay = [
            user("<environment>/tmp</environment>"),
            user("Be short.\n\nThis is the earlier history … hello\n hello"),
            agent("Hi."),
            user("fix  the\nbasket\n<system-reminder>Be good.</system-reminder>"),
            agent("It is fixed."),
        ];
        let found =
            compare(&replay, &ours(&[("hello", "Hi."), BASKET]), Expected::default()).unwrap();
        assert_eq!((found.newest, found.more), (3, vec![]));
    }

    #[test]
    fn two_that_begin_alike_are_told_apart() {
        let hello = [user("hello"), agent("Hi."), user("paint the fence"), agent("Painted.")];
        let both = ours(&[("hello", "Hi."), BASKET]);
        assert_eq!(compare(&hello, &both, Expected::default()), None);
        assert_eq!(compare(&hello[..2], &both, Expected::default()), None, "it lacks a turn");
        let other = [user("hello"), agent("Good morning, what is it?")];
        assert_eq!(compare(&other, &both[..1], Expected::default()), None, "another answer");
        let reused = Expected { reuses_ids: true, ..Expected::default() };
        assert_eq!(compare(&hello, &both[..1], reused), None, "one request proves little there");
        let long = [("tell me what the shop sells", "It sells baskets, fences and paint.")];
        let more = [user("paint the fence"), agent("Painted.")];
        let same = [&[user(long[0].0), agent(long[0].1)], &more[..]].concat();
        assert_eq!(
            compare(&same, &ours(&long), reused).unwrap().more,
            more,
            "and sometimes enough"
        );
        let other = [&[user(long[0].0), agent("It sells baskets, and bread.")], &more[..]].concat();
        assert_eq!(compare(&other, &ours(&long), reused), None);
        assert_eq!(compare(&[user("Where is the station?")], &both, Expected::default()), None);
        assert_eq!(compare(&[user("okay, look")], &ours(&[("ok", "")]), Expected::default()), None);
    }

    #[test]
    fn what_became_of_an_interrupted_turn_is_seen() {
        let both = ours(&[("hello", "Hi."), ("fix the basket", "It is")]);
        let doubt = Expected { in_doubt: Some(3), ..Expected::default() };
        let newest = |replay: &[Said]| compare(replay, &both, doubt).map(|found| found.newest);
        let lost = [user("hello"), agent("Hi.")];
        assert_eq!(newest(&lost), Some(1));
        let kept = [&lost[..], &[user("fix the basket")]].concat();
        assert_eq!(newest(&kept), Some(3));
        let half = [&kept[..], &[agent("It is f")]].concat();
        assert_eq!(compare(&half, &both, doubt).unwrap().answer, "It is f");
    }

    #[test]
    fn what_was_said_in_the_agent_s_own_program_is_seen() {
        let replay = [
            user("hello"),
            agent("Hi."),
            user("<reminder>be good</reminder>"),
            user("what is 2 + 2?"),
            agent("Let me think."),
            agent("4"),
        ];
        let known = ours(&[("hello", "Hi.")]);
        let found = compare(&replay, &known, Expected::default()).unwrap();
        assert_eq!(found.more, [user("what is 2 + 2?"), agent("Let me think.\n\n4")]);
    }

    #[test]
    fn a_session_that_lost_its_end_holds_less() {
        let three = ours(&[("hello", "Hi."), BASKET, ("and the shop", "Done.")]);
        let replay = [user("hello"), agent("Hi."), user("fix the basket"), agent("It is fixed.")];
        assert_eq!(compare(&replay, &three, Expected::default()).unwrap().newest, 3);
    }
}
