//! Terms as examples, and the quick way to them against their definition.

use proptest::prelude::*;

use super::*;

fn check(text: &str, expected: &str) {
    assert_eq!(all(text).join(" "), expected, "{text:?}");
}

#[test]
fn words_are_folded_and_stemmed() {
    check("Running tests, twice!", "run test twice");
    check("Café Zürich naïve", "cafe zurich naiv");
    check("", "");
    check("… — !?", "");
}

#[test]
fn the_index_has_words_whose_stem_is_no_beginning() {
    assert_eq!(joined("Staging's tests ran"), "stage staging test run ran");
    assert_eq!(
        joined("Zürich C++ getUserName 数据"),
        "zurich c c++ getusernam get user name 数据 据"
    );
}

#[test]
fn contractions_lose_their_tail() {
    check("what's Anna\u{2019}s don't", "what anna don");
    check("rock'n'roll", "rock n roll");
}

#[test]
fn names_are_found_whole_and_by_their_parts() {
    check("better-sqlite3", "better sqlite3 better-sqlite3");
    check("C++ and C# now.", "c c++ and c c# now");
    check("getUserName", "getusernam get user name");
    check("snake_case_id", "snake_case_id snake case id");
    check("src/main.rs:12", "src main rs 12 src/main.rs:12");
    check("end of sentence.Next", "end of sentenc next sentence.next");
}

#[test]
fn scripts_without_spaces_are_found_by_pairs() {
    check("数据库连接", "数据 据库 库连 连接 接");
    check("SQLite数据", "sqlite 数据 据 sqlite数据");
}

#[test]
fn every_place_is_inside_the_text() {
    for text in ["a\u{301}b c++", "C++x", "x'", "x's", "x'ſ", "_a_", "数a数", "İstanbul's", "a-_-b"]
    {
        each(text, |term, place| {
            assert!(!term.is_empty() && !term.contains(char::is_whitespace), "{text:?} {term:?}");
            assert!(text.get(place).is_some(), "{text:?} {term:?}");
        });
    }
}

/// The terms of a text as they are defined, character by character: what the quick way has to agree with.
mod defined {
    use super::super::{LONGEST, folded, is_cjk, is_word, joins, stems};

    pub(super) fn terms(text: &str) -> Vec<(String, std::ops::Range<usize>)> {
        let mut out = Vec::new();
        let mut at = 0;
        while let Some(found) = text[at..].find(|c: char| c.is_alphanumeric()) {
            at = run(text, at + found, &mut out);
        }
        out
    }

    type Out = Vec<(String, std::ops::Range<usize>)>;

    fn is_joint(c: char) -> bool {
        u8::try_from(c).is_ok_and(joins)
    }

    fn run(text: &str, start: usize, out: &mut Out) -> usize {
        let (mut words, mut at, mut end) = (0, start, start);
        while let Some(first) = text[at..].chars().next() {
            if is_cjk(first) {
                at = pairs(text, at, out);
            } else if first.is_alphanumeric() {
                at = word(text, at, out);
            } else if is_joint(first) && text[at + first.len_utf8()..].starts_with(is_word) {
                at += first.len_utf8();
                continue;
            } else {
                break;
            }
            end = at;
            words += 1;
        }
        let signs = text[end..].chars().take(2).take_while(|c| matches!(c, '+' | '#')).count();
        let ends_word = !text[end + signs..].starts_with(is_word);
        let whole = end + if ends_word { signs } else { 0 };
        if (words > 1 || whole > end) && whole - start <= LONGEST {
            out.push((folded(&text[start..whole]), start..whole));
        }
        whole
    }

    fn pairs(text: &str, start: usize, out: &mut Out) -> usize {
        let chars: Vec<(usize, char)> =
            text[start..].char_indices().take_while(|(_, c)| is_cjk(*c)).collect();
        for (index, (offset, c)) in chars.iter().enumerate() {
            let next = chars.get(index + 1).map_or(0, |(_, next)| next.len_utf8());
            let place = start + offset..start + offset + c.len_utf8() + next;
            out.push((folded(&text[place.clone()]), place));
        }
        chars.last().map_or(start, |(offset, c)| start + offset + c.len_utf8())
    }

    fn word(text: &str, start: usize, out: &mut Out) -> usize {
        let is_other = |c: char| !is_word(c) || is_cjk(c);
        let spoken = text[start..].find(is_other).map_or(text.len(), |length| start + length);
        let mut end = spoken;
        if let Some(after) = text[spoken..].strip_prefix(['\'', '\u{2019}']) {
            let suffix = after.chars().take_while(|c| is_word(*c)).take(3);
            let suffix: String = suffix.flat_map(char::to_lowercase).collect();
            if ["s", "t", "re", "ve", "m", "ll", "d"].contains(&suffix.as_str()) {
                end = text.len() - after.len() + suffix.len();
            }
        }
        term(text, start..spoken, start..end, out);
        let mut parts = vec![start];
        let mut previous = ' ';
        for (offset, c) in text[start..spoken].char_indices() {
            let (at, from) = (start + offset, parts[parts.len() - 1]);
            let grown = c.is_uppercase() && previous.is_lowercase()
                || c == '_'
                || previous == '_'
                || c.is_alphabetic() && previous.is_numeric() && at - from > 3;
            if grown && at > from {
                parts.push(at);
            }
            previous = c;
        }
        parts.push(spoken);
        for part in parts.windows(2).filter(|_| parts.len() > 2) {
            if part[1] - part[0] > 1 && !text[part[0]..].starts_with('_') {
                term(text, part[0]..part[1], part[0]..part[1], out);
            }
        }
        end
    }

    fn term(
        text: &str,
        word: std::ops::Range<usize>,
        shown: std::ops::Range<usize>,
        out: &mut Out,
    ) {
        let cut = text.floor_char_boundary(word.end.min(word.start + LONGEST));
        let folded = folded(&text[word.start..cut]);
        let is_plain = folded.bytes().all(|byte| byte.is_ascii_lowercase());
        out.push((if is_plain { stems::stem(&folded) } else { folded }, shown));
    }
}

proptest! {
    #[test]
    fn the_quick_way_finds_the_terms_that_are_defined(
        parts in prop::collection::vec(
            prop_oneof![
                "[a-zA-Z]{1,20}",
                "[a-zA-Z0-9_]{1,24}",
                "[a-z]{60,70}",
                "[-./:@+#&\\\\=_' \n(,]{1,3}",
                "(running|Staging|children|getUserName|HTTPServer2x|abc12d|don't|C\\+\\+|x's|rock'n'roll)",
                "[éÉßİſ’数据ア한\u{301}\u{939}\u{ff76}]{1,3}",
                "\\PC{0,4}",
            ],
            0..12,
        )
    ) {
        let text = parts.concat();
        let mut found = Vec::new();
        each(&text, |term, place| found.push((term.to_owned(), place)));
        prop_assert_eq!(found, defined::terms(&text), "{:?}", text);
    }
}

#[test]
fn russian_words_are_stemmed_as_russian() {
    check("ошибка ошибки ошибкой", "ошибк ошибк ошибк");
    check("Сервера сервер-test", "сервер сервер test сервер-test");
}
