//! What was meant by a name that there is not.

/// The first of the names that was meant: one that is the typed one but for a slip, or that begins or goes on like it.
pub fn near<'a>(typed: &str, names: impl Iterator<Item = &'a String>) -> Option<String> {
    let typed = typed.to_lowercase();
    let is_part = |name: &str| {
        let least = name.len().min(typed.len());
        least >= 3 && (name.starts_with(&typed) || typed.starts_with(name))
    };
    let mut names = names.filter(|name| is_slip(&typed, name) || is_part(name));
    names.next().cloned()
}

/// Whether one character is missing, too many or another, or two have changed places.
pub fn is_slip(typed: &str, meant: &str) -> bool {
    strsim::osa_distance(typed, meant) == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_what_is_like_them() {
        let names = ["claude", "codex", "gemini"].map(str::to_owned);
        for (typed, meant) in [
            ("claud", Some("claude")),
            ("Claude", Some("claude")),
            ("caludee", None),
            ("cluade", Some("claude")),
            ("claude-code", Some("claude")),
            ("gem", Some("gemini")),
            ("co", None),
            ("", None),
            ("missing", None),
        ] {
            assert_eq!(near(typed, names.iter()).as_deref(), meant, "{typed}");
        }
    }
}
