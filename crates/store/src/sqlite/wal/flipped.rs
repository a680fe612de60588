//! Finding the one bit of a log file that flipped, by the checksums of its frames.

use super::FRAME_HEADER;

/// A byte that has to be another, for one of its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Correction {
    /// Where in the file, or in the part of it that is looked at.
    pub(super) at: u64,
    pub(super) byte: u8,
}

pub(super) type Sum = (u32, u32);

pub(super) fn number(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    u32::from_be_bytes(bytes.unwrap_or_default())
}

/// The checksum of SQLite's log files.
pub(super) fn checksum(bytes: &[u8], seed: Sum, is_big: bool) -> Sum {
    let read = |part: &[u8]| {
        let part: [u8; 4] = part.try_into().unwrap_or_default();
        if is_big { u32::from_be_bytes(part) } else { u32::from_le_bytes(part) }
    };
    bytes.chunks_exact(8).fold(seed, |(mut one, mut two), part| {
        one = one.wrapping_add(read(&part[..4])).wrapping_add(two);
        two = two.wrapping_add(read(&part[4..])).wrapping_add(one);
        (one, two)
    })
}

pub(super) fn stored(bytes: &[u8], at: usize) -> Sum {
    (number(bytes, at), number(bytes, at + 4))
}

/// Each bit with which a part of the file is as it should be, of those bytes that may be wrong.
pub(super) fn flipped(
    part: &mut [u8],
    suspects: impl Iterator<Item = usize>,
    is_good: impl Fn(&[u8]) -> bool,
) -> Vec<Correction> {
    let mut found = Vec::new();
    for at in suspects {
        for bit in 0..8 {
            part[at] ^= 1 << bit;
            if is_good(part) {
                found.push(Correction { at: at as u64, byte: part[at] });
            }
            part[at] ^= 1 << bit;
        }
    }
    found
}

/// What mends the beginning of a file. Several bits of it may do for its checksum; the first frame has the same salt, and its
/// checksum goes on from there.
pub(super) fn header_correction(
    header: &mut [u8],
    frame: &[u8],
    is_big: bool,
    is_header: impl Fn(&[u8]) -> bool,
) -> Option<Correction> {
    let goes_on = |header: &[u8]| {
        header[16..24] == frame[8..16]
            && frame_sum(frame, stored(header, 24), is_big) == stored(frame, 16)
    };
    let suspects = 0..header.len();
    let found = flipped(header, suspects, |header| is_header(header) && goes_on(header));
    if let [only] = found[..] { Some(only) } else { None }
}

pub(super) fn frame_sum(frame: &[u8], seed: Sum, is_big: bool) -> Sum {
    checksum(&frame[FRAME_HEADER..], checksum(&frame[..8], seed, is_big), is_big)
}

/// What may be wrong with a frame of which one bit flipped. Which it is, the frame after it says: its checksum goes on from
/// what that of this one should be.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// The salt, which no checksum covers.
    salt: Option<Correction>,
    /// The checksum itself.
    sum: Option<Correction>,
    /// What the checksum is made of: no more than two bits, since of two nobody knows which one it was.
    summed: Vec<Correction>,
}

impl Suspects {
    pub(super) fn of(frame: &mut [u8], salt: [u8; 8], seed: Sum, is_big: bool) -> Self {
        let (said, made) = (stored(frame, 16), frame_sum(frame, seed, is_big));
        let own = frame[8..16].iter().zip(salt);
        let wrong: u32 = own.map(|(own, salt)| (own ^ salt).count_ones()).sum();
        let mut suspects = Self::default();
        if wrong == 1 && said == made {
            suspects.salt = flipped(frame, 8..16, |frame| frame[8..16] == salt).pop();
        } else if wrong == 0 {
            suspects.sum = flipped(frame, 16..24, |frame| stored(frame, 16) == made).pop();
            let goal = (said.0.wrapping_sub(made.0), said.1.wrapping_sub(made.1));
            suspects.summed = summed(frame, goal, is_big);
        }
        suspects
    }

    /// Which bit it was, if that is sure. `goes_on` says how the next frame goes on, where there is one and it is good:
    /// from what the checksum says, or from what it amounts to.
    pub(super) fn settle(&self, goes_on: Option<GoesOn>) -> Option<Correction> {
        let only = match self.summed[..] {
            [only] => Some(only),
            _ => None,
        };
        match goes_on {
            _ if self.salt.is_some() => self.salt,
            Some(GoesOn::FromSaid) => only,
            Some(GoesOn::FromMade) => self.sum,
            None if self.sum.is_none() => only,
            None => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.salt.is_none() && self.sum.is_none() && self.summed.is_empty()
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum GoesOn {
    FromSaid,
    FromMade,
}

impl GoesOn {
    /// By what its checksum would be after each way to go on: the first is from what the bad frame says.
    pub(super) fn of(sums: &[Sum], said: Sum) -> Option<Self> {
        let way = sums.iter().position(|sum| *sum == said)?;
        Some(if way == 0 { Self::FromSaid } else { Self::FromMade })
    }
}

/// Up to two bits, of those that the checksum is made of, with either of which it would differ by so much.
///
/// The sum is linear: what a change of a number does to it depends only on how many numbers follow. So each bit costs two
/// multiplications, and not a sum over the whole frame. High bits count for little of it: several can do the same.
fn summed(frame: &[u8], goal: Sum, is_big: bool) -> Vec<Correction> {
    let after = |(one, two): Sum| (one.wrapping_add(two), two.wrapping_add(one.wrapping_add(two)));
    // What adding 1 to the first and to the second number of a pair does.
    let mut weights: [Sum; 2] = [(1, 1), (0, 1)];
    let mut found = Vec::new();
    for pair in (FRAME_HEADER..frame.len()).step_by(8).rev().chain([0]) {
        for (at, weight) in [pair, pair + 4].into_iter().zip(weights) {
            let bytes: [u8; 4] = frame[at..at + 4].try_into().unwrap_or_default();
            let value = if is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
            for bit in 0..32 {
                let is_set = value >> bit & 1 == 1;
                let change = if is_set { (1u32 << bit).wrapping_neg() } else { 1 << bit };
                if (weight.0.wrapping_mul(change), weight.1.wrapping_mul(change)) == goal {
                    let within = if is_big { 3 - bit / 8 } else { bit / 8 };
                    let byte = bytes[within] ^ (1 << (bit % 8));
                    found.push(Correction { at: (at + within) as u64, byte });
                }
            }
        }
        if found.len() > 1 {
            break;
        }
        weights = weights.map(after);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 512;

    /// Numbers without an order, the same in each run.
    fn noise(seed: u64, bytes: usize) -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[3]
        };
        (0..bytes).map(|_| next()).collect()
    }

    #[test]
    fn a_bit_is_put_right_only_where_it_is_sure_which_one_it_was() {
        let salt = [7; 8];
        for is_big in [false, true] {
            let mut frame = noise(3, FRAME_HEADER + PAGE);
            let seed = (0x1234_5678, 0x9abc_def0);
            frame[8..16].copy_from_slice(&salt);
            let sum = frame_sum(&frame, seed, is_big);
            frame[16..20].copy_from_slice(&sum.0.to_be_bytes());
            frame[20..24].copy_from_slice(&sum.1.to_be_bytes());
            let (mut sure, mut unsure) = (0, 0);
            for bit in 0..frame.len() * 8 {
                let (at, whole) = (bit / 8, frame[bit / 8]);
                frame[at] ^= 1 << (bit % 8);
                let suspects = Suspects::of(&mut frame, salt, seed, is_big);
                assert!(!suspects.is_empty(), "bit {bit}");
                let goes_on =
                    if (16..24).contains(&at) { GoesOn::FromMade } else { GoesOn::FromSaid };
                for goes_on in [Some(goes_on), None] {
                    match suspects.settle(goes_on) {
                        None => unsure += 1,
                        Some(found) => {
                            assert_eq!((found.at, found.byte), (at as u64, whole), "bit {bit}");
                            sure += 1;
                        }
                    }
                }
                frame[at] = whole;
            }
            assert!(sure > 2 * unsure, "{sure} sure, {unsure} not");
        }
    }
}
