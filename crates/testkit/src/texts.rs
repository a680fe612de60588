//! Texts that look like talk and are the same for the same seed.

const WORDS: &[&str] = &[
    "the",
    "cart",
    "total",
    "rounds",
    "wrong",
    "when",
    "a",
    "coupon",
    "is",
    "used",
    "we",
    "store",
    "amounts",
    "as",
    "cents",
    "now",
    "and",
    "test",
    "passes",
    "again",
    "migration",
    "adds",
    "an",
    "index",
    "on",
    "orders",
    "query",
    "took",
    "seconds",
    "before",
    "deploy",
    "failed",
    "because",
    "of",
    "missing",
    "secret",
    "retry",
    "worked",
    "after",
    "login",
    "token",
    "expired",
    "cache",
    "holds",
    "stale",
    "price",
    "for",
    "minutes",
    "please",
    "look",
    "at",
    "this",
    "error",
    "in",
    "checkout",
    "handler",
    "returns",
    "null",
    "instead",
    "empty",
    "list",
];

/// A stream of texts.
#[derive(Debug, Clone)]
pub struct Texts {
    state: u64,
}

impl Texts {
    pub const fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d }
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.state >> 33).unwrap_or(0) % end
    }

    /// A text of at least `bytes`.
    pub fn text(&mut self, bytes: usize) -> String {
        let mut out = String::new();
        while out.len() < bytes {
            let words = 5 + self.below(10);
            for index in 0..words {
                out.push_str(if index > 0 { " " } else { "" });
                out.push_str(WORDS[self.below(WORDS.len())]);
            }
            out.push_str(". ");
        }
        out
    }
}
