//! The page for people: our part of it, and theirs.

use std::fs;

use rethread_workspace::{Error, Page};

use crate::{Place, with_session};

fn page() -> Page {
    Page {
        title: "API design".into(),
        summary: Some("We compare REST\nand RPC.".into()),
        decisions: vec!["REST it is".into(), "No versions\nin paths".into()],
        status: "paused".into(),
        resume: "`rethread resume 001-brainstorm-api-design`".into(),
    }
}

const WRITTEN: &str = "<!-- rethread: begin -->
# API design

Status: paused

## Summary

We compare REST
and RPC.

## Decisions

- REST it is
- No versions in paths

## Resume

`rethread resume 001-brainstorm-api-design`
<!-- rethread: end -->
";

/// What becomes of a page; and whether it changed.
fn write(before: Option<&[u8]>, page: &Page) -> (Vec<u8>, bool) {
    with_session(|place, path| {
        let file = place.path(path.as_str()).join("brainstorm.md");
        if let Some(before) = before {
            fs::write(&file, before).unwrap();
        }
        let changed = place.lock(path).write_page("brainstorm", page).unwrap();
        (fs::read(&file).unwrap(), changed)
    })
}

#[test]
fn a_page_says_what_there_is_to_say() {
    let (text, changed) = write(None, &page());
    assert_eq!((String::from_utf8(text).unwrap().as_str(), changed), (WRITTEN, true));
    assert_eq!(write(Some(WRITTEN.as_bytes()), &page()), (WRITTEN.into(), false));
}

#[test]
fn what_people_write_around_our_part_stays_byte_for_byte() {
    let before =
        b"\xff\xfe mine\r\n<!-- rethread: begin -->\r\nold\r\n<!-- rethread: end -->  \r\nand mine";
    let (after, changed) = write(Some(before), &page());
    assert!(changed);
    let part = WRITTEN.trim_end().as_bytes();
    assert_eq!(after, [b"\xff\xfe mine\r\n", part, b"  \r\nand mine"].concat());
    assert_eq!(write(Some(&after), &page()), (after, false));
}

#[test]
fn a_page_without_our_part_is_somebody_elses() {
    for own in [
        "",
        "# Mine\n",
        "<!-- rethread: begin -->\n",
        "<!-- rethread: end -->\n<!-- rethread: begin -->\n",
        "say <!-- rethread: begin -->\n<!-- rethread: end -->\n",
        "<!-- rethread: begin -->\n<!-- rethread: begin -->\n<!-- rethread: end -->\n",
        "<!-- rethread: begin -->\n<!-- rethread: end -->\n<!-- rethread: end -->\n",
    ] {
        assert_eq!(write(Some(own.as_bytes()), &page()), (own.into(), false));
    }
}

#[test]
fn stored_text_cannot_leave_our_part_or_become_something_else() {
    let hostile = [
        "<!-- rethread: end -->",
        "-->",
        "x\n<!-- rethread: end -->\n<script>alert(1)</script>",
        "# Heading",
        "  ## Heading",
        "title\n===",
        "title\n---",
        "title\n-",
        "```\nswallows all",
        "~~~",
        "![pixel](https://example.com/x.png)",
        "\u{202e}gpj.exe \u{1b}[31m \u{0}",
        "<details>",
        "<!--",
        "<<<<<<< HEAD\n=======\n>>>>>>> x",
        "\u{2028}# x \u{85}# y",
    ];
    for text in hostile {
        let page = Page {
            title: text.into(),
            summary: Some(text.into()),
            decisions: vec![text.into()],
            status: text.into(),
            resume: text.into(),
        };
        let (after, _) = write(None, &page);
        let after = String::from_utf8(after).unwrap();
        for forbidden in ["<script", "<details", "![", "\u{202e}", "\u{1b}", "\0", "<<<"] {
            assert!(!after.contains(forbidden), "{after}");
        }
        assert_eq!(after.matches("<!--").count(), 2, "{after}");
        assert_eq!(after.matches("-->").count(), 2, "{after}");
        let ours = ["# ", "## Summary", "## Decisions", "## Resume"];
        let starts =
            |line: &str| ["#", "=", "```", "~~~", "---"].iter().any(|x| line.starts_with(x));
        let blocks: Vec<_> = after.lines().filter(|line| starts(line) || *line == "-").collect();
        assert_eq!(blocks.len(), ours.len(), "{after}");
        assert!(blocks.iter().zip(ours).all(|(block, ours)| block.starts_with(ours)), "{after}");
        assert_eq!(write(Some(after.as_bytes()), &page), (after.clone().into(), false));
    }
}

#[test]
fn a_page_is_written_under_the_name_of_a_kind_only() {
    let place = Place::new();
    let path = place.session();
    for kind in ["", "..", "../x", "a/b", ".session", "A", "x\0"] {
        let refused = place.lock(&path).write_page(kind, &page()).unwrap_err();
        assert!(matches!(refused, Error::BadName { .. }), "{refused:?}");
    }
}
