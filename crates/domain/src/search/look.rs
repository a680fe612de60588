//! Looking at texts one after the other: whether each is what is asked for, and how well it answers. Each is cut into its
//! terms once, and nothing is put aside for it.

use super::query::{Need, Query};
use super::{Occurrences, score};
use crate::terms::{self, Firsts};

/// How much of a long text counts for its rank.
const RANKED_BYTES: usize = 8 * 1024;

/// The query itself among those that a term can be needed by; those before it follow.
const OWN: u32 = 1;

/// What is looked for in many texts.
#[derive(Debug)]
pub struct Look<'a> {
    query: &'a Query,
    ranking: &'a Query,
    before: &'a [Query],
    terms: Vec<Wanted<'a>>,
    /// Bytes that words with a wanted term begin with: most are passed over by the first one.
    firsts: Firsts,
}

/// A term that somebody needs.
#[derive(Debug)]
struct Wanted<'a> {
    need: Need<'a>,
    /// Who needs it, as bits.
    by: u32,
    is_ranked: bool,
    is_met: bool,
}

impl<'a> Look<'a> {
    /// Looks for what matches `query`, and none of those `before`, of which there are a few. It is ranked by `ranking`.
    pub fn new(query: &'a Query, ranking: &'a Query, before: &'a [Query]) -> Self {
        let mut look = Self { query, ranking, before, terms: Vec::new(), firsts: [false; 256] };
        query.needs().for_each(|need| look.want(need, OWN, false));
        ranking.needs().for_each(|need| look.want(need, 0, true));
        for (other, by) in before.iter().zip((1..).map(|bit| OWN << bit)) {
            other.needs().for_each(|need| look.want(need, by, false));
        }
        look
    }

    fn want(&mut self, need: Need<'a>, by: u32, is_ranked: bool) {
        need.add_firsts(&mut self.firsts);
        match self.terms.iter_mut().find(|wanted| wanted.need == need) {
            Some(wanted) => {
                wanted.by |= by;
                wanted.is_ranked |= is_ranked;
            }
            None => self.terms.push(Wanted { need, by, is_ranked, is_met: false }),
        }
    }

    /// How well a text answers; `None` where it is not what is looked for. Where the index has told that it matches, only
    /// what was before is `checked`.
    pub fn judge(&mut self, text: &str, is_checked: bool) -> Option<f64> {
        if text.len() > RANKED_BYTES {
            return self.judge_long(text, is_checked);
        }
        // Phrases are looked for first: that is quick, and most texts with their words do not have them.
        let has_phrases = self.query.has_phrases(text);
        if is_checked && !has_phrases {
            return None;
        }
        let seen = self.see(text);
        let is_met = |by: u32| self.terms.iter().all(|wanted| wanted.by & by == 0 || wanted.is_met);
        let mut before = self.before.iter().zip((1..).map(|bit| OWN << bit));
        if is_checked && !is_met(OWN)
            || before.any(|(query, by)| is_met(by) && query.has_phrases(text))
        {
            return None;
        }
        if std::ptr::eq(self.query, self.ranking) {
            return Some(
                seen.score_with(self.query, has_phrases && !self.query.phrases.is_empty()),
            );
        }
        Some(seen.score(self.ranking, text))
    }

    /// Whether a text is surely not what is looked for; quicker than [`Look::judge`].
    pub fn lacks_phrases(&self, text: &str) -> bool {
        !self.query.has_phrases(text)
    }

    /// Whether there are phrases to look for.
    pub const fn wants_phrases(&self) -> bool {
        !self.query.phrases.is_empty()
    }

    fn judge_long(&self, text: &str, is_checked: bool) -> Option<f64> {
        if is_checked && !self.query.matches(text)
            || self.before.iter().any(|query| query.matches(text))
        {
            return None;
        }
        Some(score(self.ranking, &text[..text.floor_char_boundary(RANKED_BYTES)]))
    }

    /// Notes which terms a text has.
    fn see(&mut self, text: &str) -> Occurrences {
        self.terms.iter_mut().for_each(|wanted| wanted.is_met = false);
        let (firsts, wanted) = (&self.firsts, &mut self.terms);
        let mut seen = Occurrences::default();
        let passed = terms::each_among(text, firsts, |term, place| {
            seen.length += 1;
            if !term.bytes().next().is_some_and(|first| firsts[usize::from(first)]) {
                return;
            }
            let mut is_ranked = false;
            for wanted in wanted.iter_mut() {
                if wanted.need.is_met_by(term, &text[place.clone()]) {
                    wanted.is_met = true;
                    is_ranked |= wanted.is_ranked;
                }
            }
            if is_ranked {
                seen.note(place);
            }
        });
        seen.length += passed;
        seen
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: &str = "(run|running|ran|went|go|ate|eat|Staging|stag|getUserName|handler_12|handler|12|C\\+\\+|src/main\\.rs|数据库|库|the|x)";

    proptest! {
        #[test]
        fn one_look_tells_what_matching_and_scoring_tell(
            typed in prop::collection::vec(prop_oneof![WORDS, "\"the run\"", "han\\*", "st\\*"], 1..4),
            said in prop::collection::vec(prop_oneof![WORDS, "[a-z]{1,5}", "[ .,\n]{1,2}"], 0..30),
            repeated in prop_oneof![Just(1usize), Just(400)],
            is_checked in any::<bool>(),
        ) {
            let whole = Query::parse(&typed.join(" "));
            let text = said.join(" ").repeat(repeated);
            let one = Query::only(&whole.clauses[0]);
            let unfinished = whole.unfinished();
            let both = [whole.clone(), unfinished.clone().unwrap_or_default()];
            let before = if unfinished.is_some() { &both[..] } else { &both[..1] };
            for (query, before) in
                [(&whole, &[][..]), (unfinished.as_ref().unwrap_or(&whole), &both[..1]), (&one, before)]
            {
                let ranked = &text[..text.floor_char_boundary(RANKED_BYTES)];
                let is_wanted = (!is_checked || query.matches(&text))
                    && !before.iter().any(|query| query.matches(&text));
                let expected = is_wanted.then(|| score(&whole, ranked));
                let mut look = Look::new(query, &whole, before);
                for _ in 0..2 {
                    prop_assert_eq!(look.judge(&text, is_checked), expected, "{:?} in {:?}", typed, text);
                }
            }
        }
    }
}
