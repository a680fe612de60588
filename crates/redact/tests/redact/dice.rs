//! Chance that is the same in every run.

/// Printed by every test that uses it, so that a failure can be repeated.
pub(crate) const SEED: u64 = 20_261_116;

const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const DIGITS: &str = "0123456789";

pub(crate) struct Dice(fastrand::Rng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0.usize(..sides)
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.roll(of.len())]
    }

    pub(crate) fn text(&mut self, alphabet: &str, length: usize) -> String {
        let bytes = alphabet.as_bytes();
        (0..length).map(|_| char::from(bytes[self.roll(bytes.len())])).collect()
    }

    pub(crate) fn hex(&mut self, length: usize) -> String {
        self.text("0123456789abcdef", length)
    }

    pub(crate) fn base64(&mut self, length: usize) -> String {
        self.text(&format!("{UPPER}{LOWER}{DIGITS}+/"), length)
    }

    pub(crate) fn uuid(&mut self) -> String {
        [8, 4, 4, 4, 12].map(|length| self.hex(length)).join("-")
    }

    /// A text as a pattern of `samples` says, with the part that is by chance.
    pub(crate) fn make(&mut self, pattern: &str) -> String {
        let mut out = String::new();
        let mut rest = pattern;
        while let Some((before, (class, after))) =
            rest.split_once('{').map(|(before, rest)| (before, rest.split_once('}').unwrap()))
        {
            out.push_str(before);
            out.push_str(&self.class(&class[..1], class[1..].parse().unwrap()));
            rest = after;
        }
        out + rest
    }

    fn class(&mut self, class: &str, length: usize) -> String {
        let both = format!("{UPPER}{LOWER}{DIGITS}");
        match class {
            "D" => self.text(DIGITS, length),
            "H" => self.hex(length),
            "X" => self.text("0123456789ABCDEF", length),
            "U" => self.text(&format!("{UPPER}{DIGITS}"), length),
            "L" => self.text(&format!("{LOWER}{DIGITS}"), length),
            "A" => self.text(&both, length),
            "W" => self.text(&format!("{both}_"), length),
            "R" => self.text(&format!("{both}_-"), length),
            "B" => self.base64(length),
            "E" => self.text(&both, length - 9) + "%2B" + &self.text(&both, 3) + "%3D",
            "T" => self.text(&format!("{UPPER}234567"), length),
            "I" => self.uuid(),
            other => panic!("no class {other}"),
        }
    }
}
