//! Which sessions fit the words that were typed, by title and by summary.

use std::cmp::Reverse;

use nucleo_matcher::pattern::{Atom, AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use super::Row;

/// What made a session fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Title,
    Summary,
    Text,
}

/// A session that fits: its place among the rows, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) row: usize,
    pub(super) by: By,
}

/// Holds what matching needs, so that it is made once.
#[derive(Debug)]
pub(super) struct Filter {
    matcher: Matcher,
    chars: Vec<char>,
    indices: Vec<u32>,
}

impl Filter {
    pub(super) fn new() -> Self {
        let matcher = Matcher::new(Config::DEFAULT);
        Self { matcher, chars: Vec::new(), indices: Vec::new() }
    }

    /// The rows that fit all words: those whose title does, then those whose summary helps; best first. Among
    /// equals, and when there are no words, the order of the rows stays.
    pub(super) fn rank(&mut self, rows: &[Row], words: &str) -> Vec<Hit> {
        let (case, accents) = (CaseMatching::Smart, Normalization::Smart);
        let pattern = Pattern::new(words, case, accents, AtomKind::Fuzzy);
        let (mut titles, mut summaries) = (Vec::new(), Vec::new());
        for (row, Row { title, summary, .. }) in rows.iter().enumerate() {
            let title_chars = Utf32Str::new(title, &mut self.chars);
            if let Some(score) = pattern.score(title_chars, &mut self.matcher) {
                titles.push((Reverse(score), Hit { row, by: By::Title }));
            } else if let Some(score) = self.summary_score(&pattern, title, summary) {
                summaries.push((Reverse(score), Hit { row, by: By::Summary }));
            }
        }
        titles.sort_by_key(|(score, _)| *score);
        summaries.sort_by_key(|(score, _)| *score);
        titles.into_iter().chain(summaries).map(|(_, hit)| hit).collect()
    }

    /// How well each word fits the title or the summary.
    fn summary_score(&mut self, pattern: &Pattern, title: &str, summary: &str) -> Option<u32> {
        pattern.atoms.iter().try_fold(0, |sum, word| {
            let score = self.close(word, summary).or_else(|| self.close(word, title))?;
            Some(sum + u32::from(score))
        })
    }

    /// How well a word fits a long text. Its letters must stand close together: scattered over a whole
    /// sentence, the letters of any word can be found.
    fn close(&mut self, word: &Atom, text: &str) -> Option<u16> {
        let text = Utf32Str::new(text, &mut self.chars);
        self.indices.clear();
        let score = word.indices(text, &mut self.matcher, &mut self.indices)?;
        let (first, last) = (self.indices.iter().min()?, self.indices.iter().max()?);
        let span = usize::try_from(last - first).ok()? + 1;
        let letters = word.needle_text().len();
        (span <= letters + letters / 2).then_some(score)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str, expected: &[(usize, By)]) {
        let row = |title: &str, summary: &str| Row {
            title: title.to_owned(),
            summary: summary.to_owned(),
            ..Row::default()
        };
        let rows = [
            row("Fix the login page", "the cookie had no path"),
            row("Write release notes", "version two, with the login fix"),
            row("Login", "a new page"),
            row("Größe der Tabelle", "columns, rows and the paging of long tables"),
        ];
        let hits = Filter::new().rank(&rows, words);
        let found: Vec<_> = hits.iter().map(|hit| (hit.row, hit.by)).collect();
        assert_eq!(found, expected, "{words}");
    }

    #[test]
    fn without_words_everything_fits() {
        let all = [(0, By::Title), (1, By::Title), (2, By::Title), (3, By::Title)];
        check("", &all);
        check("  ", &all);
    }

    #[test]
    fn titles_come_before_summaries() {
        check("login", &[(0, By::Title), (2, By::Title), (1, By::Summary)]);
    }

    #[test]
    fn letters_may_be_left_out() {
        check("rlsnts", &[(1, By::Title)]);
        check("coki", &[(0, By::Summary)]);
    }

    #[test]
    fn letters_scattered_over_a_summary_are_no_match() {
        check("cpt", &[]);
    }

    #[test]
    fn every_word_must_fit_in_any_order() {
        check("page fix", &[(0, By::Title)]);
        check("page new", &[(2, By::Summary)]);
        check("login cookie", &[(0, By::Summary)]);
        check("login zebra", &[]);
    }

    #[test]
    fn accents_and_case_matter_only_when_typed() {
        check("grosse", &[]);
        check("grö", &[(3, By::Title)]);
        check("gro", &[(3, By::Title)]);
        check("LOGIN", &[]);
    }

    #[test]
    fn what_is_typed_has_no_syntax() {
        check("!login", &[]);
        check("^fix", &[]);
        check("fix$", &[]);
        check("'fix", &[]);
    }
}
