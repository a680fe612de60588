//! Counting tokens, with a real tokenizer (o200k).
//!
//! The first count loads the dictionary (about 80 ms, 70 MB): what has to start fast uses prices that
//! were counted when the text was written, and never comes here.

/// How many tokens `text` is.
pub fn count(text: &str) -> u32 {
    u32::try_from(bpe_openai::o200k_base().count(text)).unwrap_or(u32::MAX)
}

/// No text has more tokens than this: a token has at least one byte.
pub fn at_most(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter that is quadratic, or recurses, on such texts would not come back, or die.
    #[test]
    fn texts_made_to_hurt_a_tokenizer_are_counted() {
        for unit in
            ["a", "^", " ", "\n", " \n", "0", "\u{1f600}", "\u{301}", "aB", "'s", "\t ", "한"]
        {
            let text = unit.repeat(10 * 1024 * 1024 / unit.len());
            let tokens = count(&text);
            assert!(tokens > 0 && tokens <= at_most(&text), "{unit:?}");
        }
    }
}
