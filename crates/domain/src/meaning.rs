//! What a text is about, as a direction: texts that share no word but mean something alike point the same way.
//!
//! The direction of a text is the sum of those of its words, and of parts of words where a word is not known. They lie in the
//! program as a table that is used where it lies (`data/README.md` says where it comes from): the count of rows, the length of
//! their names, where each name begins, a hash table of rows, then for each row its scale, whether it begins a word, and its 64
//! numbers of 4 bits; then the names.

use std::cell::Cell;

use crate::word_cache::{self, WordCache};

static TABLE: &[u8] = include_bytes!("../data/meaning.table");

const DIMENSIONS: usize = 64;
const ROW: usize = DIMENSIONS / 2;
const SLOTS: usize = 1 << 16;
const EMPTY: u16 = u16::MAX;
/// The step in the table that leads nowhere.
const MIDDLE: u32 = 8;
/// No name is longer.
const LONGEST: usize = 16;
/// A word that is longer is none.
const LONGEST_WORD: usize = 64;
/// A name with digits in it is no longer.
const LONGEST_NAME: usize = 12;
/// So much of a longer text says what it is about: the sum of its words is a number of 32 bits then.
const MOST_BYTES: usize = 5 << 10;

/// What is larger than this, in terms of what is usual in a direction, counts as this.
const LARGEST: f32 = 2.5;

/// The direction of a text, in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning([u8; ROW]);

impl Meaning {
    pub const BYTES: usize = ROW;

    /// `None` for a text without words.
    pub fn of(text: &str) -> Option<Self> {
        let text = &text[..text.floor_char_boundary(MOST_BYTES)];
        let mut sum = Sum::new();
        let mut known = KNOWN.take();
        if text.is_ascii() {
            known.add_plain(&mut sum, text.as_bytes());
        } else {
            known.add_any(&mut sum, text);
        }
        KNOWN.set(known);
        sum.rounded()
    }

    pub fn bytes(&self) -> [u8; ROW] {
        self.0
    }

    pub fn from_bytes(bytes: [u8; ROW]) -> Self {
        Self(bytes)
    }

    /// From 1 where both say the same over 0 to -1.
    pub fn closeness(&self, other: &Self) -> f64 {
        self.closeness_to(&other.steps())
    }

    /// The same, to one that many are compared with.
    pub fn closeness_to(&self, other: &Steps) -> f64 {
        let own = self.steps();
        let mut both = 0_i32;
        for (a, b) in own.numbers.iter().zip(&other.numbers) {
            both += i32::from(*a) * i32::from(*b);
        }
        f64::from(both) / (f64::from(own.squares) * f64::from(other.squares)).sqrt().max(1.0)
    }

    /// Its numbers, one by one.
    pub fn steps(&self) -> Steps {
        let mut numbers = [0_i16; DIMENSIONS];
        let (low, high) = numbers.split_at_mut(ROW);
        for ((byte, low), high) in self.0.iter().zip(low).zip(high) {
            *low = i16::from(byte & 15) - 8;
            *high = i16::from(byte >> 4) - 8;
        }
        let squares = numbers.iter().map(|one| i32::from(*one) * i32::from(*one)).sum();
        Steps { numbers, squares }
    }
}

/// The numbers of a direction, ready to be compared with many others.
#[derive(Debug, Clone)]
pub struct Steps {
    /// The first of each two, then the second.
    numbers: [i16; DIMENSIONS],
    squares: i32,
}

/// Whether a word is a key, a hash or a number: it means nothing, and its parts would.
fn is_key(word: &[u8]) -> bool {
    word.len() > LONGEST_NAME && word.iter().any(u8::is_ascii_digit)
}

/// The bit that makes a letter a small one, in each byte.
const SMALL: u128 = u128::from_ne_bytes([0x20; word_cache::SHORT]);

/// A number from -1 to 1 as one of fifteen steps.
fn step(number: f32) -> u8 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 15")]
    let step = (number * 7.0 + 0.5_f32.copysign(number)).clamp(-7.0, 7.0) as i8 as u8;
    step.wrapping_add(8) & 15
}

/// The sum of directions in whole numbers: whatever order words are added in, it is the same. Apart are the numbers that are in the
/// lower and in the higher half of a byte of the table. A step is counted from 0 here, which is quicker; the middle is taken off at
/// the end.
struct Sum {
    low: [u32; ROW],
    high: [u32; ROW],
    /// The scales of all rows.
    scales: u32,
    /// How often each digit is in the words, behind the first place: they are many, and added together.
    digits: [u32; 10],
}

impl Sum {
    const fn new() -> Self {
        Self { low: [0; ROW], high: [0; ROW], scales: 0, digits: [0; 10] }
    }

    #[inline]
    #[expect(clippy::needless_range_loop, reason = "plain indices are made into wide instructions")]
    fn add_row(&mut self, row: u16) {
        let (layout, row) = (Layout::OF_TABLE, usize::from(row));
        let scale = u32::from(short(layout.scales + 2 * row));
        self.scales += scale;
        let Some(bytes) = TABLE[layout.rows + ROW * row..].first_chunk::<ROW>() else { return };
        // Numbers of 16 bits at most, which a processor multiplies many at a time.
        for at in 0..ROW {
            self.low[at] += u32::from(bytes[at] & 15) * scale;
            self.high[at] += u32::from(bytes[at] >> 4) * scale;
        }
    }

    fn add_digits(&mut self) {
        for (digit, count) in (b'0'..).zip(self.digits) {
            if let Some((row, _)) = longest(&[digit], false).filter(|_| count > 0) {
                let mut one = Self::new();
                one.add_row(row);
                self.scales += one.scales * count;
                for at in 0..ROW {
                    self.low[at] += one.low[at] * count;
                    self.high[at] += one.high[at] * count;
                }
            }
        }
    }

    /// In steps; `None` where it leads nowhere.
    fn rounded(mut self) -> Option<Meaning> {
        self.add_digits();
        let middle = self.scales.wrapping_mul(MIDDLE);
        #[expect(clippy::cast_precision_loss, reason = "it is rounded to fifteen steps")]
        let steps = |sum: [u32; ROW]| sum.map(|one| one.wrapping_sub(middle).cast_signed() as f32);
        let (low, high) = (steps(self.low), steps(self.high));
        // A few numbers are much larger than the others, which need the steps more.
        let mut squares = 0.0;
        for at in 0..ROW {
            squares += low[at] * low[at];
            squares += high[at] * high[at];
        }
        let largest = LARGEST * (squares / 64.0).sqrt();
        if largest <= 0.0 {
            return None;
        }
        let mut bytes = [0; ROW];
        for at in 0..ROW {
            bytes[at] = step(low[at] / largest) | step(high[at] / largest) << 4;
        }
        Some(Meaning(bytes))
    }
}

thread_local! {
    static KNOWN: Cell<Known> = Cell::default();
}

/// The rows of words that were met lately.
#[derive(Default)]
struct Known(WordCache<Parts, { 1 << 6 }, { 1 << 12 }>);

/// The rows of the parts of a word, as many as most words have.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    rows: [u16; 7],
    /// How many there are; where that is more, they are not all here.
    count: u16,
}

impl Parts {
    fn of(word: &[u8]) -> Self {
        let mut parts = Self::default();
        each_row(word, true, |row| {
            if let Some(place) = parts.rows.get_mut(usize::from(parts.count)) {
                *place = row;
            }
            parts.count += 1;
        });
        parts
    }
}

impl Known {
    /// Adds the directions of the words of a text of ASCII.
    fn add_plain(&mut self, sum: &mut Sum, text: &[u8]) {
        let mut at = 0;
        while at < text.len() {
            let (start, mut has_digits) = (at, false);
            while at < text.len() && text[at].is_ascii_alphanumeric() {
                has_digits |= text[at].is_ascii_digit();
                at += 1;
            }
            let length = at - start;
            if length == 0 {
                at += 1;
            } else if has_digits || length > word_cache::SHORT {
                if length <= LONGEST_WORD && !(has_digits && length > LONGEST_NAME) {
                    let mut lower = [0; LONGEST_WORD];
                    lower[..length].copy_from_slice(&text[start..at]);
                    lower.make_ascii_lowercase();
                    self.add(sum, &lower[..length]);
                }
            } else {
                // Of letters only capital ones lack this bit.
                let unused = 8 * (word_cache::SHORT - length);
                let number = word_cache::number_at(text, start..at) | SMALL >> unused;
                self.add_short(sum, number, length);
            }
        }
    }

    /// Adds the directions of the words of any text.
    fn add_any(&mut self, sum: &mut Sum, text: &str) {
        let mut lower = String::new();
        let words = text.split(|c: char| !c.is_alphanumeric());
        for word in words.filter(|word| !word.is_empty() && word.len() <= LONGEST_WORD) {
            if is_key(word.as_bytes()) {
                continue;
            }
            lower.clear();
            if word.is_ascii() {
                lower.push_str(word);
                lower.make_ascii_lowercase();
            } else {
                lower.extend(word.chars().flat_map(char::to_lowercase));
            }
            self.add(sum, lower.as_bytes());
        }
    }

    /// Adds the direction of a word. No row but those of digits has a digit in its name, so what is between digits is looked up by
    /// itself.
    fn add(&mut self, sum: &mut Sum, word: &[u8]) {
        let mut at = 0;
        while let Some(byte) = word.get(at) {
            if byte.is_ascii_digit() {
                // None of them begins a word.
                sum.digits[usize::from(byte - b'0')] += u32::from(at > 0);
                at += 1;
                continue;
            }
            let start = at;
            while word.get(at).is_some_and(|byte| !byte.is_ascii_digit()) {
                at += 1;
            }
            let part = &word[start..at];
            match word_cache::number(part).filter(|_| start == 0) {
                Some(number) => self.add_short(sum, number, part.len()),
                None => each_row(part, start == 0, |row| sum.add_row(row)),
            }
        }
    }

    /// Adds the direction of a short word without digits, or of the beginning of one, given as a number.
    #[inline]
    fn add_short(&mut self, sum: &mut Sum, number: u128, length: usize) {
        let bytes = number.to_le_bytes();
        let parts = self.0.get_or_insert_with(number, || Parts::of(&bytes[..length]));
        match parts.rows.get(..usize::from(parts.count)) {
            Some(rows) => rows.iter().for_each(|row| sum.add_row(*row)),
            None => each_row(&bytes[..length], true, |row| sum.add_row(row)),
        }
    }
}

/// The rows of a part of a word: that of the longest beginning that is known, then of the longest part after it. `begins`: it is the
/// beginning of its word.
fn each_row(bytes: &[u8], begins: bool, mut visit: impl FnMut(u16)) {
    let mut at = 0;
    while at < bytes.len() {
        match longest(&bytes[at..], begins && at == 0) {
            Some((row, length)) => {
                visit(row);
                at += length;
            }
            None => at += 1,
        }
    }
}

/// The row of the longest beginning of these bytes, and its length.
fn longest(bytes: &[u8], begins: bool) -> Option<(u16, usize)> {
    let bytes = &bytes[..bytes.len().min(LONGEST)];
    let mut hashes = [0_u32; LONGEST];
    let mut hash: u32 = if begins { 0x811c_9dc5 } else { 0x0100_0193 };
    for (kept, byte) in hashes.iter_mut().zip(bytes) {
        hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        *kept = hash;
    }
    (1..=bytes.len()).rev().find_map(|length| {
        find(&bytes[..length], begins, hashes[length - 1]).map(|row| (row, length))
    })
}

fn find(name: &[u8], begins: bool, hash: u32) -> Option<u16> {
    let layout = Layout::OF_TABLE;
    let mut slot = (hash ^ hash >> 16) as usize & (SLOTS - 1);
    loop {
        let row = short(layout.slots + 2 * slot);
        if row == EMPTY {
            return None;
        }
        let at = usize::from(row);
        if (TABLE[layout.kinds + at] == 1) == begins && layout.name(at) == name {
            return Some(row);
        }
        slot = (slot + 1) & (SLOTS - 1);
    }
}

fn short(at: usize) -> u16 {
    u16::from_le_bytes([TABLE[at], TABLE[at + 1]])
}

fn long(at: usize) -> usize {
    u32::from_le_bytes([TABLE[at], TABLE[at + 1], TABLE[at + 2], TABLE[at + 3]]) as usize
}

/// Where the parts of the table begin.
struct Layout {
    starts: usize,
    slots: usize,
    scales: usize,
    kinds: usize,
    rows: usize,
    names: usize,
}

impl Layout {
    const COUNT: usize = 22_661;
    const OF_TABLE: Self = {
        let starts = 8;
        let slots = starts + 4 * (Self::COUNT + 1);
        let scales = slots + 2 * SLOTS;
        let kinds = scales + 2 * Self::COUNT;
        let rows = kinds + Self::COUNT;
        Self { starts, slots, scales, kinds, rows, names: rows + ROW * Self::COUNT }
    };

    fn name(&self, row: usize) -> &'static [u8] {
        let start = long(self.starts + 4 * row);
        let end = long(self.starts + 4 * (row + 1));
        &TABLE[self.names + start..self.names + end]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn closeness(a: &str, b: &str) -> f64 {
        Meaning::of(a).unwrap().closeness(&Meaning::of(b).unwrap())
    }

    #[test]
    fn the_table_is_laid_out_as_it_is_read() {
        let layout = Layout::OF_TABLE;
        assert_eq!(long(0), Layout::COUNT);
        assert_eq!(TABLE.len(), layout.names + long(4));
        for row in 0..Layout::COUNT {
            let name = layout.name(row);
            assert!((1..=LONGEST).contains(&name.len()));
            let begins = TABLE[layout.kinds + row] == 1;
            let is_digit = name.len() == 1 && !begins;
            assert!(is_digit || !name.iter().any(u8::is_ascii_digit), "{name:?}");
            assert_eq!(longest(name, begins), Some((u16::try_from(row).unwrap(), name.len())));
        }
    }

    #[test]
    fn texts_about_the_same_thing_are_closer_than_others() {
        let question = "which credential do I need to sign in to the hosting service?";
        let answer = "the password for the login on the server is kept there";
        let other = "the cat slept on the warm roof all afternoon";
        assert!(closeness(question, answer) > closeness(question, other) + 0.1);
        assert!(closeness(question, question) > 0.999);
    }

    #[test]
    fn the_sum_of_the_longest_text_is_a_number_of_32_bits() {
        let layout = Layout::OF_TABLE;
        let largest = (0..Layout::COUNT).map(|row| short(layout.scales + 2 * row)).max().unwrap();
        // Every byte may be a part of its own, and in small letters a text may grow by half.
        let parts = i64::try_from(MOST_BYTES * 3 / 2).unwrap();
        assert!(i64::from(largest) * 8 * parts <= i64::from(i32::MAX), "{largest}");
        assert!(i64::from(largest) * 15 * parts <= i64::from(u32::MAX), "{largest}");
    }

    /// Every part of every word, one after the other, as the table is meant.
    fn by_definition(text: &str) -> Option<Meaning> {
        let text = &text[..text.floor_char_boundary(MOST_BYTES)];
        let mut sum = Sum::new();
        for word in text.split(|c: char| !c.is_alphanumeric()) {
            if word.is_empty() || word.len() > LONGEST_WORD || is_key(word.as_bytes()) {
                continue;
            }
            each_row(word.to_lowercase().as_bytes(), true, |row| sum.add_row(row));
        }
        sum.rounded()
    }

    proptest! {
        #[test]
        fn quick_ways_give_the_sum_of_all_parts(
            words in prop::collection::vec(
                prop_oneof![
                    4 => "[a-zA-Z]{1,9}",
                    2 => "(word|handler_|x|utf|0x|parser)[0-9]{1,6}[a-z]{0,3}[0-9]{0,2}",
                    1 => "[0-9a-f]{1,20}",
                    1 => "[a-z]{15,80}",
                    1 => "(сервер|数据库|Größe|İ)[0-9]{0,2}",
                    1 => "[ ._/:-]{1,3}",
                ],
                0..60,
            ),
            apart in prop_oneof![Just(" "), Just("")],
        ) {
            let text = words.join(apart);
            prop_assert_eq!(Meaning::of(&text), by_definition(&text), "{:?}", text);
        }
    }

    /// What was met before, and how often, changes nothing.
    #[test]
    fn a_text_means_the_same_whatever_was_read_before_it() {
        let text =
            "The parser fails on a very-uncharacteristically-long-identifier, Сервер и parser";
        let alone = std::thread::spawn(move || Meaning::of(text)).join().unwrap();
        for number in 0..20_000 {
            Meaning::of(&format!("word{number} parser{}", number % 7));
        }
        assert_eq!(Meaning::of(text), alone);
    }

    /// Words of ASCII are read in another way where nothing else is in the text.
    #[test]
    fn a_word_means_the_same_beside_other_scripts() {
        for text in [
            "Why does handler_123 FAIL when word7 is not in src/Main.rs?",
            "a",
            "x9 aVeryLongIdentifierOfMoreThanSixteenBytes, 0123456789abcdef, deadbeef12345678",
            &"word ".repeat(2_000),
        ] {
            // A sign that is no word makes it any text.
            let beside = format!("… {}", &text[..text.len().min(MOST_BYTES - 4)]);
            let alone = &text[..text.len().min(MOST_BYTES - 4)];
            assert_eq!(Meaning::of(alone), Meaning::of(&beside), "{text}");
        }
    }

    #[test]
    fn a_text_without_words_means_nothing_and_any_other_something() {
        assert_eq!(Meaning::of(" … \n!"), None);
        assert_eq!(Meaning::of(&"x".repeat(1_000)), None);
        for text in ["ö", "сервер", "数据库", "İ", "a\u{301}", "ſ"] {
            let meaning = Meaning::of(text);
            assert_eq!(meaning.map(|one| Meaning::from_bytes(one.bytes())), meaning);
        }
        assert!(Meaning::of("Сервер").is_some());
    }
}
