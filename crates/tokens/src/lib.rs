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

/// How many tokens `text` is.
pub fn count(text: &str) -> usize {
    let mut encoder = encode::Encoder::default();
    split::pieces(text).map(|piece| encoder.count(piece.as_bytes())).sum()
}
