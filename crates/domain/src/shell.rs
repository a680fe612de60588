//! Words as a shell reads them.

/// Whether a shell reads a word as it stands.
pub fn is_plain(word: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,^".contains(c);
    !word.is_empty() && word.chars().all(is_plain)
}

/// A word, in quotes where a shell would read it as something else.
pub fn word(word: &str) -> String {
    if is_plain(word) { word.to_owned() } else { quoted(word) }
}

/// A word in quotes.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_word_as_one() {
        for (given, written) in [
            ("src/a-b_c.rs", "src/a-b_c.rs"),
            ("grün", "grün"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("~", "'~'"),
            ("a;b", "'a;b'"),
        ] {
            assert_eq!(word(given), written, "{given}");
        }
    }
}
