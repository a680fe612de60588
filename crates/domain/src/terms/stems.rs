//! Stems that were met lately: stemming is most of the work of cutting a text into terms, and few words make most of a text.

use rust_stemmers::{Algorithm, Stemmer};

use crate::word_cache::{self, WordCache};
use crate::words;

/// Words with their stems.
#[derive(Default)]
pub(super) struct Stems {
    short: WordCache<Box<str>, { 1 << 9 }, { 1 << 13 }>,
    /// The stem of a word that is too long for the cache.
    long: String,
}

impl Stems {
    /// The stem of a word of small letters.
    pub(super) fn of(&mut self, word: &str) -> &str {
        match word_cache::number(word.as_bytes()) {
            Some(number) => self.of_short(number, word),
            None => {
                self.long = stem(word);
                &self.long
            }
        }
    }

    /// The stem of a word that is also given as a number.
    #[inline]
    pub(super) fn of_short(&mut self, number: u128, word: &str) -> &str {
        self.short.get_or_insert_with(number, || stem(word).into_boxed_str())
    }
}

pub(super) fn stem(word: &str) -> String {
    let language = if word.is_ascii() { Algorithm::English } else { Algorithm::Russian };
    Stemmer::create(language).stem(words::base(word)).into_owned()
}
