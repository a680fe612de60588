//! What the picker shows and what a key does to it. No terminal, no time, no input or output.

use std::collections::{HashMap, HashSet};

use super::super::text;
use super::filter::{By, Filter, Hit};
use super::keys::Key;
use super::{Preview, Row};

/// The most that is kept of what is typed, of a row's title, summary and other fields, and of a preview.
const QUERY_CHARS: usize = 200;
const TITLE_CHARS: usize = 300;
const SUMMARY_CHARS: usize = 1000;
const FIELD_CHARS: usize = 120;
const PREVIEW_LINES: usize = 500;
const PREVIEW_CHARS: usize = 4000;

/// How it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Picked(String),
    Left,
}

#[derive(Debug)]
pub(super) struct State {
    /// Their text is safe; the ids are as they were given.
    rows: Vec<Row>,
    by_id: HashMap<String, usize>,
    filter: Filter,
    query: String,
    hits: Vec<Hit>,
    selected: usize,
    /// The first hit on the screen, and how many have room there.
    top: usize,
    page: usize,
    /// The words that the text was last searched for.
    sought: String,
    previews: HashMap<String, Vec<String>>,
}

impl State {
    pub(super) fn new(rows: Vec<Row>) -> Self {
        let rows: Vec<Row> = rows.into_iter().map(safe_row).collect();
        let mut by_id = HashMap::new();
        for (at, row) in rows.iter().enumerate() {
            by_id.entry(row.id.clone()).or_insert(at);
        }
        let mut state = Self {
            rows,
            by_id,
            filter: Filter::new(),
            query: String::new(),
            hits: Vec::new(),
            selected: 0,
            top: 0,
            page: 1,
            sought: String::new(),
            previews: HashMap::new(),
        };
        state.hits = state.filter.rank(&state.rows, "");
        state
    }

    pub(super) fn press(&mut self, key: Key) -> Option<Outcome> {
        let last = self.hits.len().saturating_sub(1);
        match key {
            Key::Type(text) => self.edit(|query| query.push_str(&text)),
            Key::EraseChar => self.edit(|query| {
                query.pop();
            }),
            Key::EraseWord => self.edit(|query| {
                let kept = query.trim_end().rfind(' ').map_or(0, |space| space + 1);
                query.truncate(kept);
            }),
            Key::EraseAll => self.edit(String::clear),
            Key::Up => self.selected = self.selected.saturating_sub(1),
            Key::Down => self.selected = (self.selected + 1).min(last),
            Key::PageUp => self.selected = self.selected.saturating_sub(self.page),
            Key::PageDown => self.selected = (self.selected + self.page).min(last),
            Key::First => self.selected = 0,
            Key::Last => self.selected = last,
            Key::Pick => return self.selected_row().map(|row| Outcome::Picked(row.id.clone())),
            Key::Leave => return Some(Outcome::Left),
        }
        None
    }

    fn edit(&mut self, change: impl FnOnce(&mut String)) {
        let before = self.words();
        change(&mut self.query);
        if let Some((end, _)) = self.query.char_indices().nth(QUERY_CHARS) {
            self.query.truncate(end);
        }
        let words = self.words();
        if words != before {
            self.hits = self.filter.rank(&self.rows, &words);
            self.selected = 0;
            self.sought.clear();
        }
    }

    fn words(&self) -> String {
        self.query.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Whether something slow is still to be done.
    pub(super) fn is_waiting(&self) -> bool {
        self.unsought().is_some() || self.unseen().is_some()
    }

    /// The words that the text of the sessions has not been searched for yet.
    pub(super) fn unsought(&self) -> Option<String> {
        let words = self.words();
        (!words.is_empty() && words != self.sought && !self.rows.is_empty()).then_some(words)
    }

    /// Takes in what a search for `words` has found. It comes after what is there already.
    pub(super) fn found(&mut self, words: String, ids: &[String]) {
        if words == self.words() {
            let mut listed: HashSet<usize> = self.hits.iter().map(|hit| hit.row).collect();
            let found = ids.iter().filter_map(|id| self.by_id.get(id).copied());
            let new = found.filter(|row| listed.insert(*row));
            self.hits.extend(new.map(|row| Hit { row, by: By::Text }));
            self.sought = words;
        }
    }

    /// The selected session, if its preview is not known yet.
    pub(super) fn unseen(&self) -> Option<String> {
        let row = self.selected_row()?;
        (!self.previews.contains_key(&row.id)).then(|| row.id.clone())
    }

    pub(super) fn seen(&mut self, id: String, preview: &Preview) {
        let mut lines: Vec<String> = preview
            .lines
            .iter()
            .flat_map(|line| text::safe_lines(line, PREVIEW_CHARS).chain(empty(line)))
            .collect();
        lines.drain(..lines.len().saturating_sub(PREVIEW_LINES));
        self.previews.insert(id, lines);
    }

    /// Makes the list `page` lines high: the selected one stays in sight.
    pub(super) fn fit(&mut self, page: usize) {
        self.page = page.max(1);
        let last_top = self.hits.len().saturating_sub(self.page);
        let lowest = (self.selected + 1).saturating_sub(self.page);
        self.top = self.top.clamp(lowest, self.selected.max(lowest)).min(last_top);
    }

    /// The sessions on the screen, and whether each is the selected one.
    pub(super) fn visible(&self) -> impl Iterator<Item = (&Row, bool)> {
        let hits = self.hits.iter().enumerate().skip(self.top).take(self.page);
        hits.map(|(at, hit)| (&self.rows[hit.row], at == self.selected))
    }

    pub(super) fn selected_row(&self) -> Option<&Row> {
        self.hits.get(self.selected).map(|hit| &self.rows[hit.row])
    }

    /// The last messages of the selected session; `None` while they are not known.
    pub(super) fn preview(&self) -> Option<&[String]> {
        self.previews.get(&self.selected_row()?.id).map(Vec::as_slice)
    }

    /// What is typed, safe to be shown.
    pub(super) fn query(&self) -> String {
        text::safe(&self.query)
    }

    /// How many sessions there are, how many fit, and how many of those only by their text.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let by_text = self.hits.iter().filter(|hit| hit.by == By::Text).count();
        (self.rows.len(), self.hits.len(), by_text)
    }
}

/// An empty line where a preview has one: it has no lines of its own.
fn empty(line: &str) -> Option<String> {
    line.is_empty().then(String::new)
}

fn safe_row(row: Row) -> Row {
    let field = |text: &str| text::safe_line(text, FIELD_CHARS);
    Row {
        title: text::safe_line(&row.title, TITLE_CHARS),
        summary: text::safe_line(&row.summary, SUMMARY_CHARS),
        status: field(&row.status),
        kind: field(&row.kind),
        when: field(&row.when),
        cost: field(&row.cost),
        agents: field(&row.agents),
        project: field(&row.project),
        ..row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, title: &str, summary: &str) -> Row {
        let (id, title, summary) = (id.to_owned(), title.to_owned(), summary.to_owned());
        Row { id, title, summary, ..Row::default() }
    }

    fn state() -> State {
        State::new(vec![
            row("a", "Login page", "cookies"),
            row("b", "Release notes", "login fixed"),
            row("c", "Database", "slow query"),
        ])
    }

    fn typed(state: &mut State, text: &str) {
        for c in text.chars() {
            assert_eq!(state.press(Key::Type(c.to_string())), None);
        }
    }

    /// The ids listed, and the one that is selected.
    fn listed(state: &mut State) -> (String, Option<&str>) {
        state.fit(100);
        let ids = state.visible().map(|(row, _)| row.id.as_str()).collect();
        (ids, state.selected_row().map(|row| row.id.as_str()))
    }

    fn ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|&id| id.to_owned()).collect()
    }

    #[test]
    fn the_first_session_is_picked_unless_one_moves() {
        let mut state = state();
        assert_eq!(listed(&mut state), ("abc".to_owned(), Some("a")));
        assert_eq!(state.press(Key::Pick), Some(Outcome::Picked("a".to_owned())));
        state.press(Key::Down);
        assert_eq!(state.press(Key::Pick), Some(Outcome::Picked("b".to_owned())));
        assert_eq!(state.press(Key::Leave), Some(Outcome::Left));
    }

    #[test]
    fn the_selection_stays_within_the_list() {
        let mut state = state();
        let check = |state: &mut State, key: Key, expected: usize| {
            assert_eq!(state.press(key.clone()), None);
            assert_eq!(state.selected, expected, "{key:?}");
        };
        state.fit(2);
        check(&mut state, Key::Up, 0);
        check(&mut state, Key::PageUp, 0);
        check(&mut state, Key::PageDown, 2);
        check(&mut state, Key::PageDown, 2);
        check(&mut state, Key::Down, 2);
        check(&mut state, Key::PageUp, 0);
        check(&mut state, Key::Last, 2);
        check(&mut state, Key::First, 0);
    }

    #[test]
    fn the_selected_session_is_in_sight() {
        let many = (0..50).map(|n| row(&n.to_string(), "x", "")).collect();
        let mut state = State::new(many);
        for (key, page, top) in [
            (Key::Down, 10, 0),
            (Key::PageDown, 10, 2),
            (Key::Up, 10, 2),
            (Key::Last, 10, 40),
            (Key::Up, 5, 44),
            (Key::Up, 20, 30),
            (Key::First, 20, 0),
            (Key::Last, 0, 49),
        ] {
            state.press(key);
            state.fit(page);
            assert_eq!(state.top, top);
            assert_eq!(state.visible().filter(|(_, selected)| *selected).count(), 1);
        }
    }

    #[test]
    fn typing_filters_and_erasing_brings_back() {
        let mut state = state();
        state.press(Key::Down);
        typed(&mut state, "login");
        assert_eq!(listed(&mut state), ("ab".to_owned(), Some("a")));
        typed(&mut state, " zz");
        assert_eq!(listed(&mut state), (String::new(), None));
        assert_eq!(state.press(Key::Pick), None);
        state.press(Key::EraseWord);
        assert_eq!(state.query(), "login ");
        assert_eq!(listed(&mut state).0, "ab");
        state.press(Key::EraseWord);
        assert_eq!(state.query(), "");
        typed(&mut state, "dé");
        state.press(Key::EraseChar);
        assert_eq!(state.query(), "d");
        state.press(Key::EraseAll);
        state.press(Key::EraseChar);
        assert_eq!(listed(&mut state), ("abc".to_owned(), Some("a")));
    }

    #[test]
    fn the_text_is_searched_once_for_the_same_words() {
        let mut state = state();
        assert_eq!(state.unsought(), None);
        typed(&mut state, "log");
        assert_eq!(state.unsought().as_deref(), Some("log"));
        state.found("log".to_owned(), &[]);
        assert_eq!(state.unsought(), None);
        typed(&mut state, "  ");
        assert_eq!(state.unsought(), None);
        typed(&mut state, "in");
        assert_eq!(state.unsought().as_deref(), Some("log in"));
    }

    #[test]
    fn what_the_text_gives_comes_last_and_once() {
        let mut state = state();
        typed(&mut state, "login");
        state.press(Key::Down);
        state.found("login".to_owned(), &ids(&["c", "b", "unknown", "c"]));
        assert_eq!(listed(&mut state), ("abc".to_owned(), Some("b")));
        assert_eq!(state.counts(), (3, 3, 1));
        typed(&mut state, " zz");
        assert_eq!(listed(&mut state).0, "");
    }

    #[test]
    fn a_search_for_other_words_counts_for_nothing() {
        let mut state = state();
        typed(&mut state, "login");
        state.found("log".to_owned(), &ids(&["c"]));
        assert_eq!(listed(&mut state).0, "ab");
        assert!(state.unsought().is_some());
    }

    #[test]
    fn a_preview_is_asked_for_once() {
        let mut state = state();
        assert_eq!(state.unseen().as_deref(), Some("a"));
        state.seen("a".to_owned(), &Preview { lines: ids(&["one\ntwo", "", "three\u{1b}"]) });
        assert_eq!(state.unseen(), None);
        assert_eq!(state.preview().unwrap(), ["one", "two", "", "three␛1b;"]);
        state.press(Key::Down);
        assert_eq!(state.unseen().as_deref(), Some("b"));
        assert_eq!(state.preview(), None);
        state.press(Key::Up);
        assert!(!state.is_waiting());
    }

    #[test]
    fn text_is_safe_and_ids_are_untouched() {
        let hostile = "\u{1b}]0;x\u{7}\u{202e}";
        let mut state = State::new(vec![row(hostile, hostile, hostile)]);
        let shown = state.selected_row().unwrap();
        assert_eq!(
            (shown.title.as_str(), shown.summary.as_str()),
            ("␛1b;]0;x␛7;␛202e;", "␛1b;]0;x␛7;␛202e;")
        );
        state.press(Key::Type(hostile.to_owned()));
        assert!(!state.query().chars().any(text::is_unsafe));
        state.press(Key::EraseAll);
        assert_eq!(state.press(Key::Pick), Some(Outcome::Picked(hostile.to_owned())));
    }

    #[test]
    fn what_is_typed_is_bounded() {
        let mut state = state();
        state.press(Key::Type("é".repeat(100_000)));
        assert_eq!(state.query().chars().count(), QUERY_CHARS);
    }

    #[test]
    fn an_empty_list_asks_for_nothing() {
        let mut state = State::new(Vec::new());
        for key in [Key::Down, Key::PageDown, Key::Last, Key::Type("x".to_owned()), Key::Pick] {
            assert_eq!(state.press(key), None);
        }
        state.fit(5);
        assert!(!state.is_waiting());
        assert_eq!(state.counts(), (0, 0, 0));
    }
}
