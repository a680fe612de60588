//! What is being typed: editing, history, completion, several lines. Pure: keys in, a text and a cursor out.

use super::keys::Key;
use super::text::{graphemes, is_unsafe, width};

/// What a key came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Typed {
    /// Nothing but what is seen.
    Edited,
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D where nothing is typed, or the terminal is gone.
    End,
    /// A key that means nothing to an editor.
    Other(Key),
}

/// What can follow: where it begins, and what it may become. The shown name, what is put in.
pub(crate) type Completions = (usize, Vec<String>);

/// What completes a text, of which the cursor stands at a place.
pub(crate) type Complete<'a> = &'a dyn Fn(&str, usize) -> Completions;

#[derive(Debug, Default)]
pub(crate) struct LineEditor {
    text: String,
    cursor: usize,
    history: Vec<String>,
    /// Where in the history, and what had been typed before.
    at: Option<(usize, String)>,
    search: Option<Search>,
    cut: String,
    /// What Tab found, to be shown.
    offered: Vec<String>,
}

#[derive(Debug)]
struct Search {
    words: String,
    /// The entry that was found.
    found: Option<usize>,
    before: String,
}

impl LineEditor {
    pub(crate) fn new(history: Vec<String>) -> Self {
        Self { history, ..Self::default() }
    }

    #[cfg(test)]
    fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// What Tab found that the text could become.
    pub(crate) fn offered(&self) -> &[String] {
        &self.offered
    }

    /// Adds an entry to the history.
    pub(crate) fn remember(&mut self, line: &str) {
        self.history.retain(|entry| entry != line);
        self.history.push(line.to_owned());
    }

    /// What is searched for in the history, while that is done.
    pub(crate) fn searched(&self) -> Option<(&str, bool)> {
        let search = self.search.as_ref()?;
        Some((&search.words, search.found.is_some() || search.words.is_empty()))
    }

    pub(crate) fn put(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    fn set(&mut self, text: String) {
        self.cursor = text.len();
        self.text = text;
    }

    pub(crate) fn key(&mut self, key: Key, complete: Complete<'_>) -> Typed {
        if self.search.is_some() {
            match self.search_key(&key) {
                Some(typed) => return typed,
                None => self.search = None,
            }
        }
        if key != Key::Tab {
            self.offered.clear();
        }
        match key {
            Key::Char(c) => self.put(c.encode_utf8(&mut [0; 4])),
            Key::Paste(text) => self.put(text.strip_suffix('\n').unwrap_or(&text)),
            Key::Enter => return self.enter(),
            Key::AltEnter => self.put("\n"),
            Key::Tab => self.complete(complete),
            Key::Backspace => self.delete_to(self.before(self.cursor)),
            Key::DeleteWord => self.delete_to(self.word_before()),
            Key::DeleteWordAfter => self.delete_to(self.word_after()),
            Key::Left | Key::Ctrl('b') => self.cursor = self.before(self.cursor),
            Key::Right | Key::Ctrl('f') => self.cursor = self.after(self.cursor),
            Key::WordLeft => self.cursor = self.word_before(),
            Key::WordRight => self.cursor = self.word_after(),
            Key::Home | Key::Ctrl('a') => self.cursor = self.line_start(),
            Key::End | Key::Ctrl('e') => self.cursor = self.line_end(),
            Key::Up | Key::Ctrl('p') => self.up(),
            Key::Down | Key::Ctrl('n') => self.down(),
            Key::Ctrl('u') => self.delete_to(self.line_start()),
            Key::Ctrl('k') => self.delete_to(self.line_end()),
            Key::Ctrl('y') => self.put(&self.cut.clone()),
            Key::Ctrl('r') => self.begin_search(),
            Key::Ctrl('c') => return Typed::Interrupted,
            Key::Ctrl('d') if self.text.is_empty() => return Typed::End,
            Key::Delete | Key::Ctrl('d') => self.delete_to(self.after(self.cursor)),
            Key::Gone => return Typed::End,
            other => return Typed::Other(other),
        }
        Typed::Edited
    }

    /// Throws away what is typed.
    pub(crate) fn clear(&mut self) {
        self.set(String::new());
        self.at = None;
        self.search = None;
        self.offered.clear();
    }

    /// Gives what is typed, or begins another line after a backslash. Two backslashes stand for themselves.
    fn enter(&mut self) -> Typed {
        let is_last = self.cursor == self.text.len();
        if is_last && self.text.ends_with('\\') && !self.text.ends_with("\\\\") {
            self.text.pop();
            self.cursor = self.text.len();
            self.put("\n");
            return Typed::Edited;
        }
        let line = std::mem::take(&mut self.text);
        self.clear();
        Typed::Line(line)
    }

    fn complete(&mut self, complete: Complete<'_>) {
        let (from, found) = complete(&self.text, self.cursor);
        self.offered.clear();
        let Some(first) = found.first() else { return };
        let shared = found.iter().skip(1).fold(first.as_str(), |shared, next| {
            let same = shared.char_indices().zip(next.chars()).find(|((_, a), b)| a != b);
            let end = same.map_or(shared.len().min(next.len()), |((at, _), _)| at);
            &shared[..shared.floor_char_boundary(end)]
        });
        if self.text.get(from..self.cursor).is_some_and(|typed| shared.len() > typed.len()) {
            let shared = shared.to_owned();
            self.text.replace_range(from..self.cursor, &shared);
            self.cursor = from + shared.len();
        }
        if found.len() > 1 {
            self.offered = found;
        }
    }

    fn delete_to(&mut self, to: usize) {
        let (from, to) = (self.cursor.min(to), self.cursor.max(to));
        let gone: String = self.text.drain(from..to).collect();
        if graphemes(&gone).nth(1).is_some() {
            self.cut = gone;
        }
        self.cursor = from;
    }

    fn before(&self, at: usize) -> usize {
        let c = self.text[..at].chars().next_back();
        if c == Some('\n') || c.is_some_and(is_unsafe) {
            return at - c.map_or(0, char::len_utf8);
        }
        let line = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        at - graphemes(&self.text[line..at]).last().map_or(0, |last| last.len())
    }

    fn after(&self, at: usize) -> usize {
        let c = self.text[at..].chars().next();
        if c == Some('\n') || c.is_some_and(is_unsafe) {
            return at + c.map_or(0, char::len_utf8);
        }
        at + graphemes(&self.text[at..]).next().map_or(0, |first| first.len())
    }

    fn word_before(&self) -> usize {
        let before = self.text[..self.cursor].trim_end_matches(|c: char| !c.is_alphanumeric());
        before.trim_end_matches(char::is_alphanumeric).len()
    }

    fn word_after(&self) -> usize {
        let rest = &self.text[self.cursor..];
        let after = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
        self.text.len() - after.trim_start_matches(char::is_alphanumeric).len()
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |end| end + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |end| self.cursor + end)
    }

    /// The line above; from the first one, the entry before.
    fn up(&mut self) {
        let start = self.line_start();
        if start > 0 {
            let column = self.cursor - start;
            let above = self.text[..start - 1].rfind('\n').map_or(0, |end| end + 1);
            let at = (above + column).min(start - 1);
            self.cursor = self.text.floor_char_boundary(at);
            return;
        }
        let (place, typed) = match self.at.take() {
            Some(at) => at,
            None => (self.history.len(), self.text.clone()),
        };
        let place = place.saturating_sub(1);
        if let Some(entry) = self.history.get(place) {
            self.set(entry.clone());
        }
        self.at = Some((place, typed));
    }

    fn down(&mut self) {
        let end = self.line_end();
        if end < self.text.len() {
            let column = self.cursor - self.line_start();
            let below = self.text[end + 1..].find('\n').map_or(self.text.len(), |at| end + 1 + at);
            self.cursor = self.text.floor_char_boundary((end + 1 + column).min(below));
            return;
        }
        let Some((place, typed)) = self.at.take() else { return };
        match self.history.get(place + 1) {
            Some(entry) => {
                self.set(entry.clone());
                self.at = Some((place + 1, typed));
            }
            None => self.set(typed),
        }
    }

    fn begin_search(&mut self) {
        self.search = Some(Search { words: String::new(), found: None, before: self.text.clone() });
    }

    /// A key while the history is searched; `None` where it ends the search and means what it does otherwise.
    fn search_key(&mut self, key: &Key) -> Option<Typed> {
        let search = self.search.as_mut()?;
        let below = match key {
            Key::Char(c) => {
                search.words.push(*c);
                self.history.len()
            }
            Key::Backspace => {
                search.words.pop();
                self.history.len()
            }
            Key::Ctrl('r') => search.found.unwrap_or(self.history.len()),
            Key::Escape | Key::Ctrl('c' | 'g') => {
                let before = std::mem::take(&mut search.before);
                self.search = None;
                self.set(before);
                return Some(Typed::Edited);
            }
            _ => return None,
        };
        let words = search.words.to_lowercase();
        let is_found = |entry: &String| !words.is_empty() && entry.to_lowercase().contains(&words);
        let found = self.history[..below].iter().rposition(is_found);
        if found.is_some() || *key != Key::Ctrl('r') {
            search.found = found;
        }
        if let Some(entry) = found.and_then(|found| self.history.get(found)) {
            let entry = entry.clone();
            self.set(entry);
        }
        Some(Typed::Edited)
    }

    /// The text in rows of so many columns, after a prompt that the rows after the first are indented by, and where the cursor
    /// is in them. Of many rows, those around the cursor.
    pub(crate) fn rows(
        &self,
        prompt: &str,
        columns: usize,
        most: usize,
    ) -> (Vec<String>, (usize, usize)) {
        let indent = width(prompt);
        let room = columns.saturating_sub(indent).max(1);
        let mut rows = vec![String::new()];
        let (mut used, mut cursor, mut at) = (0, (0, 0), 0);
        for line in self.text.split_inclusive('\n') {
            let bare = line.strip_suffix('\n').unwrap_or(line);
            let shown: String = bare.chars().map(harmless).collect();
            let mut offset = at;
            let mut bytes = bare.chars();
            for grapheme in graphemes(&shown) {
                let wide = width(&grapheme);
                if used + wide > room {
                    rows.push(String::new());
                    used = 0;
                }
                if offset <= self.cursor {
                    cursor = (rows.len() - 1, used);
                }
                let count = grapheme.chars().count();
                offset += bytes.by_ref().take(count).map(char::len_utf8).sum::<usize>();
                if let Some(row) = rows.last_mut() {
                    row.push_str(&grapheme);
                }
                used += wide;
            }
            at += line.len();
            if self.cursor >= offset {
                cursor = (rows.len() - 1, used);
            }
            if line.ends_with('\n') {
                rows.push(String::new());
                used = 0;
                if self.cursor >= at {
                    cursor = (rows.len() - 1, 0);
                }
            }
        }
        if cursor.1 >= room {
            cursor = (cursor.0 + 1, 0);
            if cursor.0 == rows.len() {
                rows.push(String::new());
            }
        }
        let first = (cursor.0 + 1).saturating_sub(most.max(1));
        let rows = rows.into_iter().enumerate().skip(first).take(most.max(1));
        let indented = |(at, row): (usize, String)| match at {
            0 => format!("{prompt}{row}"),
            _ => format!("{}{row}", " ".repeat(indent)),
        };
        (rows.map(indented).collect(), (cursor.0 - first, cursor.1 + indent))
    }
}

/// What stands on the screen for a character that is not safe: always one character for one.
fn harmless(c: char) -> char {
    match u32::from(c) {
        _ if c == '\t' => ' ',
        _ if !is_unsafe(c) => c,
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'),
        _ => '\u{fffd}',
    }
}

#[cfg(test)]
mod tests;
