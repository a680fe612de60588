//! Markdown on a terminal.

use super::*;
use crate::terminal::text::width;

const ALL: &str = "# A heading\n\nSome *words* and **more**, `code` and a [link](https://example.org).\n\n\
- one\n- two words that are longer than the line is wide\n  1. inner\n\n3. three\n4. four\n\n\
> quoted words that go on and on and on\n\n\
| Name | What it is |\n|---|---|\n| `a` | the first letter of them all |\n| b | x |\n\n\
```rust\nfn main() { let x = \"text\"; } // why\n```\n\nThe end.\n";

fn bare(text: &str, columns: usize) -> Vec<String> {
    lines(text, columns, true).iter().map(Line::bare).collect()
}

/// All of it, as it would be shown when it came in pieces of so many characters.
fn streamed(text: &str, columns: usize, piece: usize) -> Vec<String> {
    let mut stream = Stream::default();
    let mut done = Vec::new();
    let chars: Vec<char> = text.chars().collect();
    for chars in chars.chunks(piece) {
        done.extend(stream.take(&chars.iter().collect::<String>()));
        // What is not over can be shown at any time.
        for piece in stream.rest() {
            assert!(piece.lines(columns, true).iter().all(|line| line.width() <= columns));
        }
    }
    done.extend(stream.end());
    assert_eq!(stream.rest(), []);
    done.iter().flat_map(|piece| piece.lines(columns, true)).map(|line| line.bare()).collect()
}

#[test]
fn everything_has_its_form() {
    let expected = [
        "A heading",
        "",
        "Some words and more, code and a link",
        "(https://example.org).",
        "",
        "• one",
        "• two words that are longer than the",
        "  line is wide",
        "  1. inner",
        "",
        "3. three",
        "4. four",
        "",
        "│ quoted words that go on and on and",
        "│ on",
        "",
        "Name │ What it is",
        "─────┼─────────────────────────────",
        "a    │ the first letter of them all",
        "b    │ x",
        "",
        "  fn main() { let x = \"text\"; } // why",
        "",
        "The end.",
    ];
    assert_eq!(bare(ALL, 38), expected);
}

#[test]
fn it_looks_the_same_however_it_comes() {
    let whole = streamed(ALL, 38, usize::MAX);
    for piece in [1, 2, 3, 7, 50] {
        assert_eq!(streamed(ALL, 38, piece), whole, "{piece}");
    }
    // Lists of two kinds are one block while they come, and code is not part of one.
    assert_eq!(whole, bare(ALL, 38));
}

#[test]
fn it_fits_any_width() {
    for columns in 4..90 {
        for line in bare(ALL, columns).iter().chain(&streamed(ALL, columns, 9)) {
            assert!(width(line) <= columns, "{columns}: {line:?}");
        }
    }
}

#[test]
fn colours_are_ours_and_nothing_in_the_text_is_a_sequence() {
    let text = "a &#27;[2J b\u{1b}[31mc `\u{9b}x`\n\n```sh\necho \u{1b}]0;x\u{7}\n```\n| \u{1b}c | b |\n|---|---|\n";
    for line in lines(text, 40, true) {
        assert!(!line.bare().contains(['\u{1b}', '\u{9b}', '\u{7}']), "{line:?}");
    }
    let shown: String = lines("**b**", 40, true).iter().map(|line| line.rendered(true)).collect();
    assert_eq!(shown, "\u{1b}[1mb\u{1b}[0m");
    // Without colours, marks say what styles would.
    let plain: Vec<String> =
        lines("## Two\n\nx", 40, false).iter().map(|line| line.rendered(false)).collect();
    assert_eq!(plain, ["## Two", "", "x"]);
}

#[test]
fn code_and_diffs_are_coloured() {
    let styled =
        |line: &str, language: &str| coloured(line, Language::named(language)).rendered(true);
    assert_eq!(
        styled("let x = \"a b\"; // why 1", "rust"),
        "\u{1b}[35mlet\u{1b}[0m x = \u{1b}[32m\"a b\"\u{1b}[0m; \u{1b}[2m// why 1\u{1b}[0m"
    );
    assert_eq!(styled("x = 12 # no", "py"), "x = \u{1b}[33m12\u{1b}[0m \u{1b}[2m# no\u{1b}[0m");
    assert_eq!(styled("+in", "diff"), "\u{1b}[32m+in\u{1b}[0m");
    assert_eq!(styled("-out", "diff"), "\u{1b}[31m-out\u{1b}[0m");
    assert_eq!(styled("let it be", ""), "let it be");
    for line in ["fn f<'a>(x: &'a str)", "it's", "a#b", "é'ü\"", "\\", "'"] {
        assert_eq!(coloured(line, Language::named("rust")).bare(), line);
    }
}

#[test]
fn huge_texts_do_not_take_long() {
    let text = "word ".repeat(400_000);
    let mut stream = Stream::default();
    let mut lines = 0;
    for part in text.as_bytes().chunks(4096) {
        let part = std::str::from_utf8(part).unwrap();
        lines += stream.take(part).iter().map(|piece| piece.lines(80, true).len()).sum::<usize>();
        assert!(stream.rest().len() <= 2);
    }
    assert!(lines > 20_000, "{lines}");
}
