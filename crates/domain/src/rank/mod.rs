//! What is relevant to the next prompt: which older passages are worth their tokens.
//!
//! Each word of the prompt counts by how rare it is in the session, for the passages that have it, and less for what was said
//! around them: an answer stands beside its question. Days that the prompt names count as well. What people and agents said
//! counts more than what tools printed. Only the places of words and the outlines of a bounded number of messages are needed,
//! not the texts, so the cost is bounded however long the session is.

mod days;
mod excerpt;
mod scores;
mod sought;
#[cfg(test)]
mod tests;
mod together;

use std::collections::HashSet;

pub use self::excerpt::{Excerpt, Related, State, Why, part_of};
use self::scores::Scores;
pub use self::sought::{Kind, Sought};
use self::together::Together;
use crate::id::Seq;
use crate::language::Language;
use crate::meaning::Meaning;
use crate::message::Role;
use crate::passage::{self, Fingerprint, Outline, Passage};
use crate::terms;

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
/// What a tool printed says less than what somebody said of it.
const TOOL: f64 = 0.55;
/// What an agent is about to do says less than what came of it.
const ANNOUNCEMENT: f64 = 0.7;
/// A plan is printed again with every change.
const PLAN: f64 = 0.5;
/// A passage is worth its score by a root of its length: among equals, shorter ones first.
const LENGTH: f64 = 0.25;
/// How much a word counts less in a passage that is longer than a usual one, which has so many bytes.
const LONGER: f64 = 0.4;
const USUAL: f64 = 300.0;
const SATURATION: f64 = 1.2;
/// What a passage is about counts by how far it is closer to the prompt than most are: for each standard deviation this much of
/// the rarest word.
const MEANING: f64 = 0.175;
/// Two passages that have so many of their words in common are one.
const ALIKE: f64 = 0.7;
/// Two that have so many in common, and no more, are about the same thing: the later one is what holds now.
const SAME_THING: f64 = 0.5;
const FEWEST_WORDS: usize = 6;

/// The most words of a prompt that are looked up: a pasted file is not a question.
const MOST_TERMS: usize = 32;
/// The most messages looked up for one word, newest first.
pub const MOST_PLACES: usize = 400;
/// The most messages looked up for one day, newest first.
pub const MOST_OF_A_DAY: usize = 1000;
/// Of how many messages the outlines are read to be chosen from, at most.
pub const SHORTLIST: usize = 400;
/// In a session of more messages than this, of fewer: they lie further apart, and each takes longer to read.
const LONG_SESSION: Seq = 4_000;
const SHORTLIST_OF_LONG: usize = 160;

/// What a prompt asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    pub terms: Vec<String>,
    /// Each by its stem in the language of the prompt, where that is another term.
    pub stems: Vec<Option<String>>,
    /// Days, from and to, by their number.
    pub days: Vec<(i64, i64)>,
    /// What it is about.
    pub meaning: Option<Meaning>,
    /// What it asks for beside what it names.
    pub sought: Sought,
}

/// Where a term stands in a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Newest first.
    pub seqs: Vec<Seq>,
    /// There are more than were looked up.
    pub cut: bool,
}

impl Places {
    /// Adds the places of the same word in another form.
    pub fn add(&mut self, other: Self) {
        let known_from = |places: &Self| places.seqs.last().copied().filter(|_| places.cut);
        let from = known_from(self).max(known_from(&other));
        self.seqs.extend(other.seqs);
        self.seqs.sort_unstable_by_key(|seq| std::cmp::Reverse(*seq));
        self.seqs.dedup();
        self.seqs.retain(|seq| from.is_none_or(|from| *seq >= from));
        self.cut |= other.cut;
    }

    /// Whether the term stands in a message; `None` where that was not looked up.
    fn have(&self, seq: Seq) -> Option<bool> {
        match self.seqs.last() {
            Some(oldest) if self.cut && seq < *oldest => None,
            _ => Some(self.seqs.binary_search_by(|known| seq.cmp(known)).is_ok()),
        }
    }
}

impl Wanted {
    /// Each word with the terms that it may stand as.
    pub fn forms(&self) -> impl Iterator<Item = impl Iterator<Item = &str>> {
        let stems = self.stems.iter().map(Option::as_deref);
        self.terms
            .iter()
            .zip(stems)
            .map(|(term, stem)| [Some(term.as_str()), stem].into_iter().flatten())
    }

    /// Understands a prompt. `years` are those that the session covers, for dates without one; `said` is what tells its language,
    /// where the prompt does not.
    pub fn of(prompt: &str, years: std::ops::RangeInclusive<i16>, said: &[&str]) -> Self {
        let head = &prompt[..prompt.floor_char_boundary(8 * 1024)];
        let (days, of_dates) = days::named(head, years);
        let language = Language::of_prompt(head, said);
        let mut seen = HashSet::new();
        let (mut wanted, mut stems) = (Vec::new(), Vec::new());
        let (mut sought, mut names_something) = (Sought::default(), false);
        terms::each(head, |term, place| {
            let is_date =
                of_dates.iter().any(|used| used.start <= place.start && place.end <= used.end);
            let word = terms::folded(&head[place.clone()]);
            let is_small =
                terms::is_stop(term) || language.is_some_and(|language| language.is_small(&word));
            if !is_date && !is_small && seen.insert(term.to_owned()) {
                names_something |= !sought.hear(&word);
                wanted.push(term.to_owned());
                let stem = language.and_then(|language| language.stem(&head[place]));
                stems.push(stem.filter(|stem| stem != term && !stem.is_empty()));
            }
        });
        if !names_something && days.is_empty() && head.chars().any(char::is_alphanumeric) {
            wanted.clear();
            stems.clear();
            sought.is_all = true;
        }
        wanted.truncate(MOST_TERMS);
        stems.truncate(MOST_TERMS);
        Self { terms: wanted, stems, days, meaning: Meaning::of(head), sought }
    }

    pub fn is_empty(&self) -> bool {
        self.terms.is_empty() && self.days.is_empty() && !self.sought.is_all
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

/// The messages up to `newest` that score highest, best first, and the newest ones where those are few: what they are about may
/// matter without a word in common. `places` belong to `wanted.terms`, `on_days` are messages of the days that the prompt names.
pub fn shortlist(places: &[Places], on_days: &[Seq], newest: Seq) -> Vec<(Seq, f64)> {
    let total = f64::from(newest);
    let most = if newest > LONG_SESSION { SHORTLIST_OF_LONG } else { SHORTLIST };
    let mut scores = Scores::default();
    for places in places {
        scores.add_word(places, rarity(spread(places, newest), total), newest);
    }
    if !on_days.is_empty() {
        scores.add(on_days, DAY * rarity(1.0, total));
    }
    let mut list = scores.into_list();
    let order = |a: &(Seq, f64), b: &(Seq, f64)| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0));
    if list.len() > most {
        list.select_nth_unstable_by(most, order);
        list.truncate(most);
    }
    list.sort_unstable_by(order);
    if list.len() < most {
        let known: HashSet<Seq> = list.iter().map(|(seq, _)| *seq).collect();
        let others = (1..=newest).rev().filter(|seq| !known.contains(seq)).map(|seq| (seq, 0.0));
        list.extend(others.take(most - known.len()));
    }
    list
}

/// A passage that is worth something, by its message.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub seq: Seq,
    pub excerpt: Excerpt,
}

/// The passages of the messages of a shortlist that are worth most, best first: as many as `tokens` can pay for, none of
/// them nearly the same as another. `outlines` are in the order of the session.
pub fn choose(
    wanted: &Wanted,
    places: &[Places],
    outlines: &[(Seq, Outline)],
    newest: Seq,
    tokens: u32,
) -> Vec<Found> {
    let mut found = if wanted.sought.is_all {
        sought::weigh(wanted.sought, outlines, newest)
    } else {
        weigh(wanted, places, outlines, newest)
    };
    found.sort_unstable_by(|a, b| {
        let (a, b) = (&a.found, &b.found);
        let later = (b.seq, b.excerpt.index).cmp(&(a.seq, a.excerpt.index));
        b.excerpt.worth.total_cmp(&a.excerpt.worth).then(later)
    });
    let mut chosen: Vec<Weighed<'_>> = Vec::new();
    let mut total = 0;
    for mut one in found {
        if total >= tokens {
            break;
        }
        let is_repeated = chosen.iter_mut().any(|other| {
            let likeness = one.likeness(other);
            let is_later = one.found.seq > other.found.seq;
            if (SAME_THING..ALIKE).contains(&likeness) && one.is_comparable(other) {
                let (latest, before) =
                    if is_later { (&mut one, &mut *other) } else { (&mut *other, &mut one) };
                latest.found.excerpt.state.get_or_insert(State::Now);
                before.found.excerpt.state = Some(State::Earlier);
            }
            if likeness >= ALIKE && is_later {
                // Of what is nearly the same the latest is shown, in the place of the best.
                std::mem::swap(&mut one, other);
                other.found.excerpt.worth = one.found.excerpt.worth;
            }
            likeness >= ALIKE
        });
        if !is_repeated {
            total += one.found.excerpt.price;
            chosen.push(one);
        }
    }
    chosen.into_iter().map(|one| one.found).collect()
}

/// A word of the prompt.
struct Word {
    /// The terms that it may stand as; the same twice where there is one.
    forms: [Fingerprint; 2],
    rarity: f64,
}

impl Word {
    fn of<'a>(forms: impl Iterator<Item = &'a str>, rarity: f64) -> Self {
        let mut forms = forms.map(passage::fingerprint);
        let first = forms.next().unwrap_or_default();
        Self { forms: [first, forms.next().unwrap_or(first)], rarity }
    }

    fn is(&self, word: Fingerprint) -> bool {
        self.forms.contains(&word)
    }

    /// Whether it is among the sorted words of a passage.
    fn is_in(&self, passage: &[Fingerprint]) -> bool {
        let [one, other] = self.forms;
        passage.binary_search(&one).is_ok() || other != one && passage.binary_search(&other).is_ok()
    }
}

/// A passage with its words.
struct Weighed<'a> {
    found: Found,
    words: &'a [Fingerprint],
    outline: &'a Outline,
    /// A bit for each word; some have the same.
    marks: u128,
}

impl Weighed<'_> {
    /// Which part of the words of two passages are in both; 0 where that is too little to matter. Of most pairs the marks
    /// already show it.
    fn likeness(&self, other: &Self) -> f64 {
        // Each mark that the other one lacks is a word that it lacks, at least.
        let lacking = (self.marks & !other.marks).count_ones();
        let [own, others] = [self.words.len(), other.words.len()]
            .map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let common = f64::from(own.saturating_sub(lacking));
        if common < SAME_THING * f64::from(others.saturating_add(lacking)) {
            return 0.0;
        }
        likeness(self.words, other.words)
    }

    /// Whether two passages can be statements about the same thing at different times: by the same speaker, in different messages.
    /// What tools printed, plans and questions state nothing: two outputs that look alike do not replace each other.
    fn is_comparable(&self, other: &Weighed<'_>) -> bool {
        self.found.seq != other.found.seq
            && self.outline.role == other.outline.role
            && self.is_statement()
            && other.is_statement()
    }

    fn is_statement(&self) -> bool {
        let Outline { role, is_plan, asks, .. } = self.outline;
        *role != Role::Tool && !is_plan && !asks && self.words.len() >= FEWEST_WORDS
    }
}

/// What every passage is worth by itself.
fn weigh<'a>(
    wanted: &Wanted,
    places: &[Places],
    outlines: &'a [(Seq, Outline)],
    newest: Seq,
) -> Vec<Weighed<'a>> {
    let total = f64::from(newest);
    let rarest = rarity(1.0, total);
    let words: Vec<Word> = wanted
        .forms()
        .zip(places)
        .map(|(forms, places)| Word::of(forms, rarity(spread(places, newest), total)))
        .collect();
    let held: Vec<u64> =
        outlines.iter().map(|(seq, outline)| held(&words, places, *seq, outline)).collect();
    let together = Together::learn(&words, &held, outlines);
    let mut close = closeness(wanted, outlines).into_iter();
    let mut all = Vec::new();
    for (at, (seq, outline)) in outlines.iter().enumerate() {
        let around = around(outlines, &held, at);
        let day = nearness(wanted, outline.day);
        let is_named = outline.speaker.is_some_and(|name| words.iter().any(|word| word.is(name)));
        let of_message = rarest * (DAY * day + if is_named { SPEAKER } else { 0.0 });
        for (index, passage) in outline.passages.iter().enumerate() {
            let own = outline.words(passage);
            let closeness = close.next().unwrap_or(0.0);
            let mut why = Why { day: day > 0.0, speaker: is_named, ..Why::default() };
            let mut score = of_message + MEANING * rarest * closeness;
            let mut beside = [0.0_f64; MOST_TERMS];
            together.each(own, |bit, worth| beside[bit] = beside[bit].max(worth));
            let weight = weight(passage.to - passage.from);
            for (bit, word) in words.iter().enumerate() {
                let is_held = held[at] >> bit & 1 == 1 && word.is_in(own);
                let said = if is_held { word.rarity } else { beside[bit] };
                score += (said * weight).max(word.rarity * around[bit]);
                why.note(bit, is_held, around[bit] > 0.0, beside[bit] > 0.0);
            }
            score *= standing(outline);
            if score > 0.0 && !outline.is_bare {
                #[expect(clippy::cast_possible_truncation, reason = "a few standard deviations")]
                let closeness = closeness as f32;
                let excerpt = Excerpt {
                    worth: score / f64::from(passage.price + 8).powf(LENGTH),
                    why: Why { closeness, ..why },
                    ..Excerpt::of(index, passage)
                };
                let found = Found { seq: *seq, excerpt };
                all.push(Weighed { found, words: own, outline, marks: marks(own) });
            }
        }
    }
    all
}

/// How much closer to the prompt each passage is than most are, in standard deviations; 0 for those that are not.
fn closeness(wanted: &Wanted, outlines: &[(Seq, Outline)]) -> Vec<f64> {
    let Some(asked) = wanted.meaning.as_ref().map(Meaning::steps) else { return Vec::new() };
    let passages = outlines.iter().flat_map(|(_, outline)| &outline.passages);
    let close = |one: &Passage| one.meaning.map_or(0.0, |own| own.closeness_to(&asked));
    let mut all: Vec<f64> = passages.map(close).collect();
    let count = f64::from(u32::try_from(all.len()).unwrap_or(u32::MAX)).max(1.0);
    let mean = all.iter().sum::<f64>() / count;
    let spread = (all.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / count).sqrt();
    for one in &mut all {
        *one = ((*one - mean) / spread.max(1e-6)).max(0.0);
    }
    all
}

/// Which of the words a message has, one bit for each.
fn held(words: &[Word], places: &[Places], seq: Seq, outline: &Outline) -> u64 {
    let mut held = 0;
    for (bit, (word, places)) in words.iter().zip(places).enumerate() {
        let has = || word.forms.iter().any(|form| outline.has(*form));
        if places.have(seq).unwrap_or_else(has) {
            held |= 1 << bit;
        }
    }
    held
}

/// How much of each word was said around a message, by people and agents: tools print much that is about something else.
fn around(outlines: &[(Seq, Outline)], held: &[u64], at: usize) -> [f64; MOST_TERMS] {
    let mut around = [0.0_f64; MOST_TERMS];
    let seq = outlines[at].0;
    let first = at.saturating_sub(NEAR.len());
    let last = (at + NEAR.len()).min(outlines.len() - 1);
    for other in first..=last {
        let distance = outlines[other].0.abs_diff(seq) as usize;
        if !(1..=NEAR.len()).contains(&distance) || outlines[other].1.role == Role::Tool {
            continue;
        }
        let mut left = held[other];
        while left != 0 {
            let share = &mut around[left.trailing_zeros() as usize];
            *share = share.max(NEAR[distance - 1]);
            left &= left - 1;
        }
    }
    around
}

/// How much a word counts in a passage of so many bytes.
fn weight(bytes: u32) -> f64 {
    (SATURATION + 1.0) / (1.0 + SATURATION * (1.0 - LONGER + LONGER * f64::from(bytes) / USUAL))
}

/// How much is to be made of what a message says.
fn standing(outline: &Outline) -> f64 {
    let mut standing = 1.0;
    if outline.role == Role::Tool {
        standing *= TOOL;
    }
    if outline.is_plan {
        standing *= PLAN;
    }
    if outline.asks {
        standing *= QUESTION;
    }
    if outline.announces {
        standing *= ANNOUNCEMENT;
    }
    standing
}

/// 1 on a day that the prompt names, less around it.
fn nearness(wanted: &Wanted, day: i64) -> f64 {
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

fn marks(words: &[Fingerprint]) -> u128 {
    words.iter().fold(0, |marks, word| marks | 1 << (word % 128))
}

/// How many of the words of two passages are in both; 0 where the smallest few tell that it cannot be many.
fn likeness(a: &[Fingerprint], b: &[Fingerprint]) -> f64 {
    let few = 4.min(a.len()).min(b.len());
    if few == 0 || !a[..few].iter().any(|word| b[..few].contains(word)) {
        return 0.0;
    }
    common_share(a, b)
}

/// Which part of the words of either passage are in both.
fn common_share(a: &[Fingerprint], b: &[Fingerprint]) -> f64 {
    let (mut common, mut i, mut j) = (0_u32, 0, 0);
    while let (Some(left), Some(right)) = (a.get(i), b.get(j)) {
        common += u32::from(left == right);
        i += usize::from(left <= right);
        j += usize::from(right <= left);
    }
    let all = u32::try_from(a.len() + b.len()).unwrap_or(u32::MAX) - common;
    f64::from(common) / f64::from(all.max(1))
}
