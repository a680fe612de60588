//! Blocks, as they are kept: sorted entries, of which each says how much of its term it shares with the one before.
//!
//! A block begins with the smallest key that is in it and a number. In a leaf an entry is a term with some of its places; where
//! these are many, several entries have the same term. In a directory an entry is the first one of a block below it. Every few
//! entries one shares nothing; a block ends with where these are and how many, so that a term is found by halving. Blocks of
//! earlier versions do not, and are gone through from their beginning.

/// No block has more bytes: with what is around it, it fits a page of SQLite.
pub(super) const MOST: usize = 3_900;
/// No entry has more bytes of places, but for the last of them.
const MOST_PLACES: usize = 500;
/// The smallest key, and the number.
pub(super) const HEAD: usize = 16;
/// Each of so many entries shares nothing with the one before.
const EVERY: usize = 16;
/// In the number of a block that ends with places. No number is negative.
const ENDS_WITH_PLACES: i64 = i64::MIN;
/// The bytes of a place in a block.
const PLACE: usize = 2;
/// The most bytes of a number.
const LONGEST_NUMBER: usize = 10;

/// A block in the making.
pub(super) struct Writer {
    bytes: Vec<u8>,
    term: Vec<u8>,
    base: i64,
    count: usize,
    /// Where the entries are that share nothing.
    whole: Vec<u8>,
}

impl Writer {
    pub(super) fn new(base: i64, number: i64) -> Self {
        let (bytes, term, whole) = (Vec::with_capacity(MOST), Vec::new(), Vec::new());
        let mut writer = Self { bytes, term, base, count: 0, whole };
        writer.begin(number);
        writer
    }

    fn begin(&mut self, number: i64) {
        self.bytes.clear();
        self.term.clear();
        self.whole.clear();
        self.count = 0;
        self.bytes.extend(self.base.to_le_bytes());
        self.bytes.extend((number | ENDS_WITH_PLACES).to_le_bytes());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.len() == HEAD
    }

    /// Whether an entry with so many bytes beside its term has room.
    pub(super) fn has_room(&self, term: &[u8], bytes: usize) -> bool {
        let places = self.whole.len() + 2 * PLACE;
        let entry = term.len() + bytes + 3 * LONGEST_NUMBER;
        self.is_empty() || self.bytes.len() + entry + places <= MOST
    }

    pub(super) fn add(&mut self, term: &[u8], first: i64, places: Option<&[u8]>) {
        if self.count.is_multiple_of(EVERY) {
            self.term.clear();
            self.whole.extend(place(self.bytes.len()));
        }
        self.count += 1;
        let shared = self.term.iter().zip(term).take_while(|(a, b)| a == b).count();
        push(&mut self.bytes, shared as u64);
        push(&mut self.bytes, (term.len() - shared) as u64);
        self.bytes.extend(&term[shared..]);
        push(&mut self.bytes, first.abs_diff(self.base));
        if let Some(places) = places {
            push(&mut self.bytes, places.len() as u64);
            self.bytes.extend(places);
        }
        self.term.truncate(shared);
        self.term.extend(&term[shared..]);
    }

    /// Gives the block to whoever keeps it, and begins another.
    pub(super) fn finish<T>(&mut self, next: i64, keep: impl FnOnce(&[u8]) -> T) -> T {
        self.bytes.extend(&self.whole);
        self.bytes.extend(place(self.whole.len() / PLACE));
        let kept = keep(&self.bytes);
        self.begin(next);
        kept
    }
}

/// A place in a block, or a number of places, as it is kept. A block is much shorter than what this can say.
fn place(at: usize) -> [u8; PLACE] {
    u16::try_from(at).unwrap_or(u16::MAX).to_le_bytes()
}

/// Where the entries of a block end, and the places of those that share nothing, as far as it has them.
fn split(bytes: &[u8]) -> Option<(usize, &[[u8; PLACE]])> {
    let number = bytes.get(8..HEAD)?.first_chunk::<8>()?;
    if i64::from_le_bytes(*number) & ENDS_WITH_PLACES == 0 {
        return Some((bytes.len(), &[]));
    }
    let (rest, count) = bytes.split_last_chunk::<PLACE>()?;
    let end = rest.len().checked_sub(PLACE * usize::from(u16::from_le_bytes(*count)))?;
    Some((end, rest[end..].as_chunks().0))
}

/// Where the entries of a block end.
pub(super) fn end(bytes: &[u8]) -> Option<usize> {
    split(bytes).map(|(end, _)| end)
}

/// Places in parts of which each fits an entry: the first key, and the distances of the others.
pub(super) fn parts(keys: &[i64], scratch: &mut Vec<u8>, mut visit: impl FnMut(i64, &[u8])) {
    scratch.clear();
    let Some((mut first, rest)) = keys.split_first().map(|(first, rest)| (*first, rest)) else {
        return;
    };
    let mut last = first;
    for key in rest {
        if scratch.len() >= MOST_PLACES {
            visit(first, scratch);
            scratch.clear();
            first = *key;
        } else {
            push(scratch, key.abs_diff(last));
        }
        last = *key;
    }
    visit(first, scratch);
}

/// The keys of an entry, added to what is there in their order.
pub(super) fn keys(first: i64, places: &[u8], out: &mut Vec<i64>) {
    out.push(first);
    let mut last = first;
    // Most messages with a word are close to the next.
    let mut rest = places;
    while let Some((byte, after)) = rest.split_first() {
        if byte & 0x80 == 0 {
            last = last.wrapping_add(i64::from(*byte));
            rest = after;
        } else {
            let Some(distance) = number(&mut rest) else { return };
            last = last.wrapping_add_unsigned(distance);
        }
        out.push(last);
    }
}

fn push(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

#[inline]
fn number(rest: &mut &[u8]) -> Option<u64> {
    let (byte, after) = rest.split_first()?;
    *rest = after;
    if byte & 0x80 == 0 {
        return Some(u64::from(*byte));
    }
    let mut number = u64::from(byte & 0x7f);
    for shift in (7..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take<'b>(rest: &mut &'b [u8], count: u64) -> Option<&'b [u8]> {
    let (taken, after) = rest.split_at_checked(usize::try_from(count).ok()?)?;
    *rest = after;
    Some(taken)
}

/// An entry, without what it shares with the one before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'b> {
    pub(super) shared: usize,
    pub(super) suffix: &'b [u8],
    pub(super) first: i64,
    pub(super) places: &'b [u8],
}

/// The entries of a block, in order.
#[derive(Debug, Clone)]
pub(super) struct Entries<'b> {
    rest: &'b [u8],
    base: i64,
    /// The number that the block begins with.
    pub(super) number: i64,
    is_leaf: bool,
}

impl<'b> Entries<'b> {
    /// `None` for what is no block.
    pub(super) fn of(bytes: &'b [u8], is_leaf: bool) -> Option<Self> {
        Self::from(bytes, HEAD, is_leaf)
    }

    /// Those from a place on, which shares nothing, or which follows one that was gone through.
    pub(super) fn from(bytes: &'b [u8], at: usize, is_leaf: bool) -> Option<Self> {
        let (end, _) = split(bytes)?;
        let (base, rest) = bytes.split_first_chunk::<8>()?;
        let (number, _) = rest.split_first_chunk::<8>()?;
        let [base, number] = [base, number].map(|bytes| i64::from_le_bytes(*bytes));
        let number = number & !ENDS_WITH_PLACES;
        Some(Self { rest: bytes.get(at..end)?, base, number, is_leaf })
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }
}

impl<'b> Iterator for Entries<'b> {
    type Item = Entry<'b>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'b>> {
        let rest = &mut self.rest;
        let shared = usize::try_from(number(rest)?).ok()?;
        let length = number(rest)?;
        let suffix = take(rest, length)?;
        let first = self.base.wrapping_add_unsigned(number(rest)?);
        let places = if self.is_leaf {
            let length = number(rest)?;
            take(rest, length)?
        } else {
            &[]
        };
        Some(Entry { shared, suffix, first, places })
    }
}

/// The entries from the last one on that shares nothing and does not come after a term at a key, and how many come before it; `None`
/// where all come after.
fn nearest<'b>(
    bytes: &'b [u8],
    is_leaf: bool,
    term: &[u8],
    key: i64,
) -> Option<(Entries<'b>, usize)> {
    let (_, places) = split(bytes)?;
    if places.is_empty() {
        return Some((Entries::of(bytes, is_leaf)?, 0));
    }
    let at = |index: usize| Entries::from(bytes, u16::from_le_bytes(places[index]).into(), is_leaf);
    let (mut from, mut to) = (0, places.len());
    while from < to {
        let middle = from.midpoint(to);
        let entry = at(middle)?.next()?;
        if (entry.suffix, entry.first) <= (term, key) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    let last = from.checked_sub(1)?;
    Some((at(last)?, last * EVERY))
}

/// The last entry of a block that does not come after a term at a key, how many come before it, and whether it has the term.
pub(super) fn last_upto<'b>(
    bytes: &'b [u8],
    is_leaf: bool,
    term: &[u8],
    key: i64,
) -> Option<(Entry<'b>, usize, bool)> {
    let (entries, before) = nearest(bytes, is_leaf, term, key)?;
    let mut found = None;
    // So many bytes of the term has the entry before; where it has all of them and no more, it has the term.
    let (mut matched, mut is_term) = (0, false);
    for (at, entry) in entries.enumerate() {
        if entry.shared < matched {
            break;
        }
        if entry.shared == matched {
            let wanted = &term[matched..];
            let common = entry.suffix.iter().zip(wanted).take_while(|(a, b)| a == b).count();
            let is_after = match (entry.suffix.get(common), wanted.get(common)) {
                (Some(own), Some(wanted)) => own > wanted,
                (Some(_), None) => true,
                (None, _) => false,
            };
            matched += common;
            is_term = common == wanted.len() && common == entry.suffix.len();
            if is_after || is_term && entry.first > key {
                break;
            }
        }
        found = Some((entry, before + at, is_term));
    }
    found
}

/// Whether more places of the same term may follow in another entry.
pub(super) fn goes_on(places: &[u8]) -> bool {
    places.len() >= MOST_PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(terms: &[String]) -> Vec<u8> {
        let mut writer = Writer::new(1, 7);
        for (term, key) in terms.iter().zip(1..) {
            assert!(writer.has_room(term.as_bytes(), 1));
            writer.add(term.as_bytes(), key, Some(&[1]));
        }
        writer.finish(0, <[u8]>::to_vec)
    }

    /// The same block as earlier versions kept it.
    fn earlier(terms: &[String]) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            [1_i64, 7].iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut before = "";
        for (term, key) in terms.iter().zip(0_u64..) {
            let shared = before.bytes().zip(term.bytes()).take_while(|(a, b)| a == b).count();
            push(&mut bytes, shared as u64);
            push(&mut bytes, (term.len() - shared) as u64);
            bytes.extend(&term.as_bytes()[shared..]);
            push(&mut bytes, key);
            bytes.extend([1, 1]);
            before = term;
        }
        bytes
    }

    #[test]
    fn a_term_is_found_in_blocks_of_any_length_and_version() {
        for count in [1, 2, 15, 16, 17, 32, 33, 100, 250] {
            let terms: Vec<String> = (0..count).map(|n| format!("t{:04}", n * 2)).collect();
            for bytes in [written(&terms), earlier(&terms)] {
                assert!(bytes.len() <= MOST);
                assert_eq!(Entries::of(&bytes, true).unwrap().number, 7);
                assert_eq!(Entries::of(&bytes, true).unwrap().count(), count);
                assert!(last_upto(&bytes, true, b"a", i64::MAX).is_none());
                for (at, key) in (0..count).zip(1..) {
                    let same = last_upto(&bytes, true, terms[at].as_bytes(), key).unwrap();
                    assert_eq!((same.0.first, same.1, same.2), (key, at, true));
                    let after = format!("t{:04}", at * 2 + 1);
                    let next = last_upto(&bytes, true, after.as_bytes(), 0).unwrap();
                    assert_eq!((next.1, next.2), (at, false));
                    let before = last_upto(&bytes, true, terms[at].as_bytes(), key - 1);
                    assert_eq!(before.map(|found| found.1), at.checked_sub(1));
                }
            }
        }
    }
}
