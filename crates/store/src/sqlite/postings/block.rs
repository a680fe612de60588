//! Blocks, as they are kept: sorted entries, of which each says how much of its term it shares with the one before.
//!
//! A block begins with the smallest key that is in it and a number. In a leaf an entry is a term with some of its places; where
//! these are many, several entries have the same term. In a directory an entry is the first one of a block below it.

/// No block has more bytes: with what is around it, it fits a page of SQLite.
pub(super) const MOST: usize = 3_900;
/// No entry has more bytes of places, but for the last of them.
const MOST_PLACES: usize = 500;
/// The smallest key, and the number.
pub(super) const HEAD: usize = 16;
/// The most bytes of a number.
const LONGEST_NUMBER: usize = 10;

/// A block in the making.
pub(super) struct Writer {
    bytes: Vec<u8>,
    term: Vec<u8>,
    base: i64,
}

impl Writer {
    pub(super) fn new(base: i64, number: i64) -> Self {
        let mut writer = Self { bytes: Vec::with_capacity(MOST), term: Vec::new(), base };
        writer.begin(number);
        writer
    }

    fn begin(&mut self, number: i64) {
        self.bytes.clear();
        self.term.clear();
        self.bytes.extend(self.base.to_le_bytes());
        self.bytes.extend(number.to_le_bytes());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.len() == HEAD
    }

    /// Whether an entry with so many bytes beside its term has room.
    pub(super) fn has_room(&self, term: &[u8], bytes: usize) -> bool {
        self.is_empty() || self.bytes.len() + term.len() + bytes + 3 * LONGEST_NUMBER <= MOST
    }

    pub(super) fn add(&mut self, term: &[u8], first: i64, places: Option<&[u8]>) {
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
        let kept = keep(&self.bytes);
        self.begin(next);
        kept
    }
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
        let (base, rest) = bytes.split_first_chunk::<8>()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let [base, number] = [base, number].map(|bytes| i64::from_le_bytes(*bytes));
        Some(Self { rest, base, number, is_leaf })
    }

    /// Those of a leaf from a place on.
    pub(super) fn from(bytes: &'b [u8], at: usize) -> Option<Self> {
        Some(Self { rest: bytes.get(at..)?, ..Self::of(bytes, true)? })
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

/// The last entry that does not come after a term at a key, how many come before it, and whether it has the term.
pub(super) fn last_upto<'b>(
    entries: Entries<'b>,
    term: &[u8],
    key: i64,
) -> Option<(Entry<'b>, usize, bool)> {
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
        found = Some((entry, at, is_term));
    }
    found
}

/// Whether more places of the same term may follow in another entry.
pub(super) fn goes_on(places: &[u8]) -> bool {
    places.len() >= MOST_PLACES
}
