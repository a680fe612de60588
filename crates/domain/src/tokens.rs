//! Counting tokens, with a real tokenizer (o200k).

/// How many tokens `text` is.
pub fn count(text: &str) -> u32 {
    u32::try_from(rethread_tokens::count(text)).unwrap_or(u32::MAX)
}

/// No text has more tokens than this: a token has at least one byte.
pub fn at_most(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}
