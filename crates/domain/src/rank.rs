//! What is relevant to the next prompt: which older messages are worth their tokens.
//!
//! Each word of the prompt counts by how rare it is in the session, once for each message that has it, and
//! less for the messages around it: an answer stands beside its question. Days that the prompt names count
//! as well. Only the places of words are needed, not the texts, so the cost is bounded however long the
//! session is.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use jiff::civil::{Date, date};

use crate::id::Seq;
use crate::message::Message;
use crate::{number, terms};

/// A message beside one that has the word counts this much of it; the ones further off less.
const NEAR: [f64; 4] = [0.5, 0.375, 0.281, 0.211];
/// A day that the prompt names counts this much of the rarest word.
const DAY: f64 = 0.8;
/// For so many days after and before it, fading.
const DAYS_AFTER: i64 = 14;
const DAYS_BEFORE: i64 = 3;
/// Somebody whom the prompt names speaks: this much of the rarest word.
const SPEAKER: f64 = 0.3;
/// A question says less than its answer.
const QUESTION: f64 = 0.85;
/// A message is worth its score by a root of its length: among equals, shorter ones first.
const LENGTH: f64 = 0.2;

/// The most words of a prompt that are looked up: a pasted file is not a question.
const MOST_TERMS: usize = 32;
/// The most messages looked up for one word, newest first.
pub const MOST_PLACES: usize = 1000;
/// How many messages are read to be chosen from.
pub const SHORTLIST: usize = 300;

/// An older message and what it is worth for the next prompt.
#[derive(Debug, Clone)]
pub struct Related {
    pub message: Message,
    pub worth: f64,
}

/// What a prompt asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    pub terms: Vec<String>,
    /// Days, from and to, by their number.
    pub days: Vec<(i64, i64)>,
}

/// Where a term stands in a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Newest first.
    pub seqs: Vec<Seq>,
    /// There are more than were looked up.
    pub cut: bool,
}

impl Wanted {
    /// Understands a prompt. `years` are those that the session covers, for dates without one.
    pub fn of(prompt: &str, years: std::ops::RangeInclusive<i16>) -> Self {
        let head = &prompt[..prompt.floor_char_boundary(8 * 1024)];
        let (days, of_dates) = days_named(head, years);
        let mut seen = HashSet::new();
        let mut wanted = Vec::new();
        terms::each(head, |term, place| {
            let is_date =
                of_dates.iter().any(|used| used.start <= place.start && place.end <= used.end);
            if !is_date && !terms::is_stop(term) && seen.insert(term.to_owned()) {
                wanted.push(term.to_owned());
            }
        });
        wanted.truncate(MOST_TERMS);
        Self { terms: wanted, days }
    }

    pub fn is_empty(&self) -> bool {
        self.terms.is_empty() && self.days.is_empty()
    }
}

/// Scores of messages. Their numbers come from us, so a quick way to spread them is enough.
type Scores = HashMap<Seq, f64, BuildHasherDefault<Spread>>;

#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

/// How rare a word is that stands in `places` of `total` messages.
fn rarity(places: f64, total: f64) -> f64 {
    (1.0 + (total - places + 0.5).max(0.0) / (places + 0.5)).ln()
}

/// In how many messages a term stands. Where it was cut off, as densely before as in the part that was seen.
fn spread(places: &Places, newest: Seq) -> f64 {
    let count = f64::from(u32::try_from(places.seqs.len()).unwrap_or(u32::MAX));
    match places.seqs.last() {
        Some(oldest) if places.cut => {
            count * f64::from(newest) / f64::from((newest - oldest).max(1))
        }
        _ => count,
    }
}

/// The messages up to `newest` that score highest, best first. `places` belong to `wanted.terms`, `on_days`
/// are messages of the days that the prompt names.
pub fn shortlist(places: &[Places], on_days: &[Seq], newest: Seq) -> Vec<(Seq, f64)> {
    let total = f64::from(newest);
    let mut scores = Scores::default();
    let mut best = Scores::default();
    for places in places {
        let rarity = rarity(spread(places, newest), total);
        best.clear();
        for seq in &places.seqs {
            raise(&mut best, *seq, rarity);
            for (distance, part) in (1..).zip(NEAR) {
                if let Some(before) = seq.checked_sub(distance).filter(|before| *before > 0) {
                    raise(&mut best, before, rarity * part);
                }
                if seq.saturating_add(distance) <= newest {
                    raise(&mut best, seq + distance, rarity * part);
                }
            }
        }
        for (seq, score) in &best {
            *scores.entry(*seq).or_insert(0.0) += score;
        }
    }
    for seq in on_days {
        *scores.entry(*seq).or_insert(0.0) += DAY * rarity(1.0, total);
    }
    let mut list: Vec<(Seq, f64)> = scores.into_iter().collect();
    list.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    list.truncate(SHORTLIST);
    list
}

fn raise(best: &mut Scores, seq: Seq, to: f64) {
    let score = best.entry(seq).or_insert(0.0);
    if to > *score {
        *score = to;
    }
}

/// What the messages of the shortlist are worth, now that they have been read.
pub fn weigh(
    wanted: &Wanted,
    shortlist: &[(Seq, f64)],
    messages: Vec<Message>,
    newest: Seq,
) -> Vec<Related> {
    let rarest = rarity(1.0, f64::from(newest));
    let scores: Scores = shortlist.iter().copied().collect();
    messages
        .into_iter()
        .filter_map(|message| {
            let mut score = scores.get(&message.seq).copied()?;
            if asks(&message) {
                score *= QUESTION;
            }
            score +=
                DAY * rarest * (nearness(wanted, &message) - f64::from(is_on(wanted, &message)));
            if wanted.terms.iter().any(|term| speaks(&message, term)) {
                score += SPEAKER * rarest;
            }
            let length = f64::from(message.price.quoted.unwrap_or(50) + 8);
            Some(Related { worth: score / length.powf(LENGTH), message })
        })
        .collect()
}

fn is_on(wanted: &Wanted, message: &Message) -> bool {
    let day = number::days(message.at);
    wanted.days.iter().any(|(from, to)| (*from..=*to).contains(&day))
}

/// 1 on a day that the prompt names, less around it.
fn nearness(wanted: &Wanted, message: &Message) -> f64 {
    let day = number::days(message.at);
    let fading = |days: i64, over: i64| {
        #[expect(clippy::cast_precision_loss, reason = "a few days")]
        let part = 1.0 - days as f64 / over as f64;
        part.max(0.0)
    };
    wanted
        .days
        .iter()
        .map(|(from, to)| {
            if day < *from {
                fading(from - day, DAYS_BEFORE)
            } else {
                fading((day - to).max(0), DAYS_AFTER)
            }
        })
        .fold(0.0, f64::max)
}

fn asks(message: &Message) -> bool {
    let text = message.body.tail().trim_end();
    let told = match text.strip_suffix(']').and_then(|inner| inner.rfind('[')) {
        Some(at) => text[..at].trim_end(),
        None => text,
    };
    told.ends_with(['?', '？'])
}

/// Whether the message opens with a name and a colon, and the name is what the term says.
fn speaks(message: &Message, term: &str) -> bool {
    let Some((name, _)) = message.body.head().split_once(':') else { return false };
    // What is hidden from whoever asks must not move anything for them.
    if message.extras.secrets.iter().any(|secret| secret.from < name.len()) {
        return false;
    }
    let name = name.trim();
    if name.is_empty() || name.len() > 40 || !name.chars().all(char::is_alphanumeric) {
        return false;
    }
    terms::all(name).iter().any(|own| own == term)
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The days that a text names, and where: `5 May 2023`, `in January`, `2023-05-05`.
fn days_named(
    text: &str,
    years: std::ops::RangeInclusive<i16>,
) -> (Vec<(i64, i64)>, Vec<std::ops::Range<usize>>) {
    let words = words(text);
    let mut days = Vec::new();
    let mut used = Vec::new();
    for (at, (word, place)) in words.iter().enumerate() {
        if let Ok(day) = text[place.clone()].trim_end_matches(['.', ',']).parse::<Date>() {
            days.push((day_number(day), day_number(day)));
            used.push(place.clone());
            continue;
        }
        let Some(month) = month(word) else { continue };
        let number_at = |at: Option<usize>| {
            at.and_then(|at| words.get(at)).and_then(|(word, _)| day_of_month(word))
        };
        let day_at = [at.checked_sub(1), Some(at + 1)]
            .into_iter()
            .flatten()
            .find(|at| number_at(Some(*at)).is_some());
        let day = number_at(day_at);
        let year_at = [at + 1, at + 2]
            .into_iter()
            .find(|at| words.get(*at).is_some_and(|(word, _)| year(word).is_some()));
        let named_year = year_at.and_then(|at| year(&words[at].0));
        let introduced =
            at.checked_sub(1).is_some_and(|before| INTRODUCE.contains(&words[before].0.as_str()));
        let is_other_word = matches!(word.as_str(), "may" | "march" | "mar");
        if is_other_word && day.is_none() && named_year.is_none() && !introduced {
            continue;
        }
        used.push(place.clone());
        used.extend(day_at.into_iter().chain(year_at).map(|at| words[at].1.clone()));
        let in_years = named_year.map_or(years.clone(), |year| year..=year);
        days.extend(in_years.take(30).filter_map(|year| span(year, month, day)));
    }
    (days, used)
}

const INTRODUCE: [&str; 12] =
    ["in", "on", "of", "during", "since", "by", "until", "before", "after", "early", "late", "mid"];

fn words(text: &str) -> Vec<(String, std::ops::Range<usize>)> {
    let mut out = Vec::new();
    let mut at = 0;
    for part in text.split(|c: char| !c.is_alphanumeric() && c != '-') {
        if !part.is_empty() {
            out.push((part.to_lowercase(), at..at + part.len()));
        }
        at += part.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
    }
    out
}

fn month(word: &str) -> Option<i8> {
    let at = MONTHS.iter().position(|name| {
        *name == word || word == &name[..3] || word == "sept" && *name == "september"
    });
    at.and_then(|at| i8::try_from(at + 1).ok())
}

fn day_of_month(word: &str) -> Option<i8> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let ending = &word[digits.len()..];
    let day = digits.parse().ok().filter(|day| (1..=31).contains(day))?;
    matches!(ending, "" | "st" | "nd" | "rd" | "th").then_some(day)
}

fn year(word: &str) -> Option<i16> {
    word.parse().ok().filter(|year| word.len() == 4 && (1900..=2099).contains(year))
}

fn span(year: i16, month: i8, day: Option<i8>) -> Option<(i64, i64)> {
    let first = Date::new(year, month, day.unwrap_or(1)).ok()?;
    let last = if day.is_some() { first } else { first.last_of_month() };
    Some((day_number(first), day_number(last)))
}

fn day_number(day: Date) -> i64 {
    i64::from(date(1970, 1, 1).until(day).map_or(0, |span| span.get_days()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(prompt: &str) -> (String, Vec<(String, String)>) {
        let wanted = Wanted::of(prompt, 2022..=2023);
        let shown = |day: i64| number::day(jiff::Timestamp::from_second(day * 86_400).unwrap());
        (wanted.terms.join(" "), wanted.days.iter().map(|(a, b)| (shown(*a), shown(*b))).collect())
    }

    fn check(prompt: &str, terms: &str, days: &[(&str, &str)]) {
        let days = days.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        assert_eq!(wanted(prompt), (terms.to_owned(), days), "{prompt}");
    }

    #[test]
    fn a_prompt_is_its_words_without_those_that_say_little() {
        check("What did the login test say, and who fixed the login?", "login test say fix", &[]);
        check("", "", &[]);
    }

    #[test]
    fn days_are_understood() {
        check("what broke on 5 May 2023?", "break", &[("2023-05-05", "2023-05-05")]);
        check("May 5th, 2023", "", &[("2023-05-05", "2023-05-05")]);
        check("in February", "", &[("2022-02-01", "2022-02-28"), ("2023-02-01", "2023-02-28")]);
        check("since 2023-01-31.", "", &[("2023-01-31", "2023-01-31")]);
        check("may it march on", "march", &[]);
        check("31 June 2023", "", &[]);
    }

    #[test]
    fn rare_words_and_neighbours_of_finds_come_first() {
        let common = Places { seqs: (1..=100).rev().collect(), cut: false };
        let rare = Places { seqs: vec![40], cut: false };
        let list = shortlist(&[common, rare], &[], 100);
        let order: Vec<Seq> = list.iter().take(5).map(|(seq, _)| *seq).collect();
        assert_eq!(order, [40, 41, 39, 42, 38]);
    }

    #[test]
    fn a_word_that_was_cut_off_is_known_to_be_common() {
        let dense = Places { seqs: (991..=1000).rev().collect(), cut: true };
        let thin = Places { seqs: (91..=1000).rev().step_by(91).collect(), cut: true };
        assert!(spread(&dense, 1000) > 900.0);
        assert!(spread(&thin, 1000) < 20.0);
    }
}
