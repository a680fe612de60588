//! Counts the tokens of a text as the `o200k_base` encoding has them.
//!
//! The tables lie in the program as they are used: nothing is unpacked or built when the first text is counted, and
//! only the pages that a text needs are read. The work is linear in the length of the text, whatever the text is.
//!
//! A text is `split` into pieces, and each piece is encoded by itself. Words such as `<|endoftext|>`, which
//! mean something special to a model, are counted as the text that they are.

mod encode;
mod hash;
mod split;
mod table;

use std::cell::Cell;

use encode::Encoder;

thread_local! {
    static ENCODER: Cell<Encoder> = Cell::default();
}

/// How many tokens `text` is.
pub fn count(text: &str) -> usize {
    Counter::new().count(text)
}

/// Counts texts as a whole or piece by piece, for who has texts with much in common.
#[derive(Debug)]
pub struct Counter {
    encoder: Encoder,
}

impl Counter {
    /// Takes the memory of the last one of this thread.
    pub fn new() -> Self {
        Self { encoder: ENCODER.take() }
    }

    pub fn count(&mut self, text: &str) -> usize {
        split::pieces(text).map(|piece| self.encoder.count(piece.as_bytes())).sum()
    }

    /// The first piece of a text: how long it is, and how many tokens; none where there is no text.
    ///
    /// The tokens of a text are those of its pieces. Where a piece ends is decided by the characters up to its end, and
    /// by the next few as far as they are letters, an apostrophe or white space.
    pub fn first(&mut self, text: &str) -> Option<(usize, usize)> {
        let piece = split::pieces(text).next()?;
        Some((piece.len(), self.encoder.count(piece.as_bytes())))
    }
}

impl Default for Counter {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let encoder = std::mem::take(&mut self.encoder);
        if !encoder.is_large() {
            ENCODER.set(encoder);
        }
    }
}
