//! Fits pieces of text, which have shorter forms, into a token budget.
//!
//! The least useful pieces are shortened and dropped first. Every piece ends with a line break and begins with neither white space
//! nor `/`, so that prices add up.

use rethread_domain::{price, tokens};

// The lowest rank is dropped first.
pub(super) const LEARNT: u8 = 0;
pub(super) const GIT: u8 = 1;
pub(super) const RESOLVED: u8 = 2;
pub(super) const DONE: u8 = 3;
pub(super) const MORE: u8 = 4;
pub(super) const BACKGROUND: u8 = 5;
pub(super) const DECISIONS: u8 = 6;
pub(super) const PENDING: u8 = 7;
pub(super) const TESTS: u8 = 8;
pub(super) const FEEDBACK: u8 = 9;
pub(super) const UNRESOLVED: u8 = 10;
pub(super) const STATUS: u8 = 11;
pub(super) const NEXT: u8 = 12;
pub(super) const ANSWER: u8 = 13;
pub(super) const OPENING: u8 = 14;
pub(super) const ISSUE: u8 = 15;
pub(super) const TASK: u8 = 16;

/// A piece, from its longest form to its shortest.
#[derive(Debug)]
pub(super) struct Piece {
    rank: u8,
    forms: Vec<String>,
}

impl Piece {
    pub(super) fn new(rank: u8, forms: Vec<String>) -> Self {
        Self { rank, forms }
    }

    pub(super) fn fixed(rank: u8, text: impl Into<String>) -> Self {
        Self::new(rank, vec![text.into()]).droppable()
    }

    /// It may be left out.
    pub(super) fn droppable(mut self) -> Self {
        self.forms.push(String::new());
        self
    }
}

#[derive(Debug)]
pub(super) struct Page {
    pieces: Vec<Piece>,
}

impl Page {
    pub(super) fn new(mut pieces: Vec<Piece>) -> Self {
        pieces.retain(|piece| !piece.forms.is_empty());
        Self { pieces }
    }

    /// The text, of at most so many tokens.
    pub(super) fn fit(self, most: u32) -> String {
        let mut chosen = vec![0; self.pieces.len()];
        let mut prices: Vec<u32> =
            self.pieces.iter().map(|piece| at_least(&piece.forms[0], most)).collect();
        let sum =
            |prices: &[u32]| prices.iter().fold(0u32, |sum, price| sum.saturating_add(*price));
        let mut order: Vec<usize> = (0..self.pieces.len()).collect();
        order.sort_by_key(|at| self.pieces[*at].rank);
        for at in order {
            let forms = &self.pieces[at].forms;
            while sum(&prices) > most && chosen[at] + 1 < forms.len() {
                chosen[at] += 1;
                prices[at] = at_least(&forms[chosen[at]], most);
            }
        }
        let forms =
            self.pieces.iter().zip(&chosen).map(|(piece, form)| piece.forms[*form].as_str());
        let text: String = forms.collect();
        if sum(&prices) <= most && tokens::count(&text) <= most {
            return text;
        }
        // The last piece is the subject: as many bytes as there are tokens are always affordable.
        let last = self.pieces.iter().max_by_key(|piece| piece.rank);
        let shortest = last.and_then(|piece| piece.forms.last()).map_or("", String::as_str);
        if tokens::count(shortest) <= most {
            return shortest.to_owned();
        }
        price::head(shortest, usize::try_from(most).unwrap_or(usize::MAX)).trim_end().to_owned()
    }
}

/// The price of a text; for one that is far beyond the budget, a lower bound.
fn at_least(text: &str, most: u32) -> u32 {
    /// No token of a meaningful text is longer.
    const LONGEST_TOKEN: usize = 128;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if text.len() > most.saturating_mul(LONGEST_TOKEN) {
        return u32::MAX;
    }
    tokens::count(text)
}
