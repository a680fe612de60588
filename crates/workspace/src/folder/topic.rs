//! What people call a session, made into a part of a file name.

/// The longest topic in bytes: the name stays readable, and far below what file systems allow.
const LONGEST: usize = 60;

/// Letters to Unicode that nobody sees: two names could look the same.
const INVISIBLE: [char; 4] = ['\u{115f}', '\u{1160}', '\u{3164}', '\u{ffa0}'];

/// Makes any text into a name: `API design!` becomes `api-design`, `../../etc` becomes `etc`.
///
/// Letters and digits of all scripts stay, in lower case; everything between them becomes one `-`. At most 60 bytes,
/// never empty, beginning with a letter or a digit.
pub fn topic(text: &str) -> String {
    let mut topic = String::new();
    let mut gap = false;
    // Accents that stand by themselves are part of the letter before them, not a gap.
    let letters = text.chars().flat_map(char::to_lowercase).filter(|letter| !is_accent(*letter));
    for letter in letters {
        if !is_letter(letter) {
            gap = true;
            continue;
        }
        let between = usize::from(gap && !topic.is_empty());
        if topic.len() + between + letter.len_utf8() > LONGEST {
            break;
        }
        if between == 1 {
            topic.push('-');
        }
        gap = false;
        topic.push(letter);
    }
    if topic.is_empty() { "untitled".to_owned() } else { topic }
}

/// Whether a name may have this letter.
pub(super) fn is_letter(letter: char) -> bool {
    letter.is_alphanumeric() && !INVISIBLE.contains(&letter)
}

fn is_accent(letter: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&letter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn any_text_becomes_a_name() {
        let long = "x".repeat(300);
        for (text, expected) in [
            ("API design!", "api-design"),
            ("../../etc", "etc"),
            ("", "untitled"),
            (&"🎉".repeat(300), "untitled"),
            ("-rf /", "rf"),
            (".hidden", "hidden"),
            ("C:\\Windows\\system32", "c-windows-system32"),
            ("con", "con"),
            ("Größe der Straße", "größe-der-straße"),
            ("設計 会議", "設計-会議"),
            ("cafe\u{301}", "cafe"),
            ("İstanbul", "istanbul"),
            ("a\0b\nc\td", "a-b-c-d"),
            ("\u{202e}gpj.exe", "gpj-exe"),
            ("\u{3164}\u{3164}", "untitled"),
            ("%2e%2e%2fetc", "2e-2e-2fetc"),
            ("--- a --- b ---", "a-b"),
            (&long, &long[..60]),
        ] {
            assert_eq!(topic(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_long_topic_ends_between_two_letters() {
        let topic = topic(&"ä".repeat(200));
        assert_eq!(topic, "ä".repeat(30));
    }

    proptest! {
        #[test]
        fn a_topic_is_short_plain_and_its_own_topic(text in any::<String>()) {
            let name = topic(&text);
            prop_assert!(!name.is_empty() && name.len() <= LONGEST);
            prop_assert!(name.starts_with(is_letter) && name.ends_with(is_letter));
            prop_assert!(name.chars().all(|letter| letter == '-' || is_letter(letter)));
            prop_assert_eq!(topic(&name), name);
        }
    }
}
