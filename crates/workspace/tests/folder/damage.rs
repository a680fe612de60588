//! A damaged log (D3): all intact records are read, and the damage is located.

use std::ops::Range;

use rethread_workspace::{End, Item, Line};

use crate::{Place, intact, items, line, log_of};

/// Where a piece of damage was found.
fn place(item: &Item) -> Option<Range<u64>> {
    match item {
        Item::Line { .. } | Item::Written { .. } => None,
        Item::Edited { at, .. }
        | Item::Newer { at, .. }
        | Item::Conflict { at, .. }
        | Item::Damaged { at, .. } => Some(at.clone()),
    }
}

/// The ranges of the lines of a log, without their newlines.
fn ranges(log: &[u8]) -> Vec<Range<usize>> {
    let mut start = 0;
    let lines = log.split_inclusive(|byte| *byte == b'\n');
    lines
        .map(|line| {
            start += line.len();
            start - line.len()..start - 1
        })
        .collect()
}

fn some_lines(seed: usize) -> Vec<Line> {
    (0..2 + seed % 3).map(|number| line(seed * 31 + number * 17)).collect()
}

#[test]
fn a_log_reads_back_as_it_was_written() {
    let lines: Vec<Line> = (0..100).map(line).collect();
    let log = log_of(&lines);
    let (found, end) = items(&log);
    assert_eq!(intact(&found), lines);
    assert_eq!(end, End { bytes: log.len() as u64, torn: None });
    for ((item, range), number) in found.iter().zip(ranges(&log)).zip(1..) {
        let Item::Line { at, number: found, .. } = item else { panic!("{item:?}") };
        assert_eq!((at.clone(), *found), (range.start as u64..range.end as u64, number));
    }
}

#[test]
fn a_line_has_the_form_that_is_documented() {
    let mut line = line(1);
    line.content = "hello".into();
    let log = String::from_utf8(log_of(&[line])).unwrap();
    let rest = concat!(
        r#""id":"id-1","after":"id-0","v":1,"kind":"message","role":"assistant","content":"hello","#,
        r#""timestamp":"2026-11-16T04:05:06.789Z","conversation":"main","agent":"codex","#,
        r#""model":"gpt-5","extra":{"b":[1,2.5,null],"a":"J*\u001a"}}"#
    );
    let sum = &blake3::hash(rest.as_bytes()).to_hex()[..16];
    assert_eq!(log, format!("{{\"sum\":\"{sum}\",{rest}\n"));
}

#[test]
fn cut_anywhere_all_whole_records_are_read_and_the_rest_is_torn() {
    for seed in 0..200 {
        let lines = some_lines(seed);
        let log = log_of(&lines);
        let ranges = ranges(&log);
        for cut in 0..=log.len() {
            let whole = ranges.iter().filter(|range| range.end <= cut).count();
            let (found, end) = items(&log[..cut]);
            assert_eq!(intact(&found), lines[..whole], "cut at {cut}");
            assert_eq!(found.len(), whole, "cut at {cut}: {found:?}");
            let start = ranges.get(whole).map_or(log.len(), |range| range.start);
            let torn = (cut > start).then_some(start as u64..cut as u64);
            let bytes = if torn.is_some() { start } else { cut } as u64;
            assert_eq!(end, End { bytes, torn }, "cut at {cut}");
        }
    }
}

#[test]
fn with_any_bit_flipped_all_other_records_are_read_and_the_bit_is_located() {
    let mut lines: Vec<Line> = (0..200).map(line).collect();
    let mut log = log_of(&lines);
    while log.len() < 64 << 10 {
        let count = lines.len();
        lines.extend((count..count + 10).map(line));
        log = log_of(&lines);
    }
    let ranges = ranges(&log);
    let mut flips = 0;
    for number in 0..lines.len() {
        // What was read before cannot change; the line behind shows what a flip does to others.
        let (first, last) = (number, (number + 1).min(lines.len() - 1));
        let start = ranges[first].start;
        let mut part = log[start..=ranges[last].end].to_vec();
        for byte in ranges[number].start..=ranges[number].end {
            for bit in 0..8 {
                part[byte - start] ^= 1 << bit;
                let is_newline = byte == ranges[number].end;
                check_flip(&part, byte - start, number - first, &lines[first..=last], is_newline);
                part[byte - start] ^= 1 << bit;
                flips += 1;
            }
        }
    }
    assert!(flips >= 8 * (64 << 10), "{flips}");
    for byte in (0..log.len()).step_by(293) {
        log[byte] ^= 1 << (byte % 8);
        let number = ranges.iter().position(|range| byte <= range.end).unwrap();
        check_flip(&log, byte, number, &lines, byte == ranges[number].end);
        log[byte] ^= 1 << (byte % 8);
    }
}

fn check_flip(log: &[u8], byte: usize, number: usize, lines: &[Line], is_newline: bool) {
    let (found, end) = items(log);
    let whole = found.iter().filter_map(|item| match item {
        Item::Line { line, .. } => Some(line),
        _ => None,
    });
    let expected = lines.iter().enumerate().filter(|(line, _)| is_newline || *line != number);
    assert!(whole.eq(expected.map(|(_, line)| line)), "byte {byte}: {found:?}");
    let damage: Vec<Range<u64>> = found.iter().filter_map(place).chain(end.torn).collect();
    // A bit that makes a newline cuts a record in two: it is between them.
    let byte = byte as u64;
    let located = damage.iter().any(|at| at.contains(&byte) || at.end == byte);
    assert!(located, "byte {byte} is not in {damage:?}");
    assert!(found.iter().all(|item| !matches!(item, Item::Written { .. })), "{found:?}");
    if is_newline {
        assert_eq!(damage, vec![byte..byte + 1]);
    }
}

#[test]
fn welded_records_are_both_read() {
    let lines = [line(1), line(2), line(3)];
    let log = log_of(&lines);
    let text = String::from_utf8(log).unwrap();
    let [one, two, three] = text.lines().collect::<Vec<_>>()[..] else { panic!() };
    let torn = &one[..one.len() / 2];
    let welded =
        format!("{one}{two}\n{torn}{three}\n{one}x{two}\n{one}{torn}\n{torn}{torn}{two}\n");
    let (found, end) = items(welded.as_bytes());
    assert_eq!(intact(&found), [1, 2, 3, 1, 2, 1, 2].map(line));
    let shown: Vec<_> = found.iter().filter_map(place).map(|at| text_at(&welded, at)).collect();
    assert_eq!(shown, [torn, "x", torn, &format!("{torn}{torn}")]);
    assert_eq!(end, End { bytes: welded.len() as u64, torn: None });
}

fn text_at(text: &str, at: Range<u64>) -> &str {
    &text[usize::try_from(at.start).unwrap()..usize::try_from(at.end).unwrap()]
}

#[test]
fn what_editors_and_disks_put_between_records_hides_none() {
    let lines = [line(1), line(2)];
    let text = String::from_utf8(log_of(&lines)).unwrap();
    let [one, two] = text.lines().collect::<Vec<_>>()[..] else { panic!() };
    for (log, damage) in [
        (format!("\u{feff}{one}\n{two}\n"), &[][..]),
        (format!("{one}\r\n{two}\r\n"), &[]),
        (format!("{one}\r{two}\r"), &[]),
        (format!("\n\n  {one}  \n\t\n{two}\n\n"), &[]),
        (format!("{one}\n\0\0\0\0{two}\n"), &["\0\0\0\0"]),
        (format!("{one}\n\0\0\n{two}\n"), &["\0\0"]),
        (format!("{one}\n[1]\n{two}\n"), &["[1]"]),
        (format!("{one}\n{{\"a\":1}}\n{two}\n"), &["{\"a\":1}"]),
        (
            format!("{one}\n{{\"role\":\"u\",\"content\":\"\\ud800\"}}\n{two}\n"),
            &["{\"role\":\"u\",\"content\":\"\\ud800\"}"],
        ),
        (
            format!("{one}\n{{\"role\":1,\"content\":\"x\"}}\n{two}\n"),
            &["{\"role\":1,\"content\":\"x\"}"],
        ),
        (
            format!("<<<<<<< HEAD\n{one}\n=======\n{two}\n>>>>>>> main\n"),
            &["<<<<<<< HEAD", "=======", ">>>>>>> main"],
        ),
    ] {
        let (found, end) = items(log.as_bytes());
        assert_eq!(intact(&found), lines, "{log}");
        let shown: Vec<_> = found.iter().filter_map(place).map(|at| text_at(&log, at)).collect();
        assert_eq!(shown, damage, "{log}");
        assert_eq!(end.torn, None);
    }
}

#[test]
fn damage_says_what_it_is() {
    let log = b"\0\n\xff\xfe\nhello\n[]\n{}\n{\"role\":\"u\",\"content\":\"\\udead\"}\n";
    let reasons = items(log).0.into_iter().map(|item| match item {
        Item::Damaged { number, why, .. } => (number, why),
        other => panic!("{other:?}"),
    });
    let expected = [
        (1, "it has NUL bytes"),
        (2, "it is not UTF-8"),
        (3, "it is not JSON"),
        (4, "it is not a JSON object"),
        (5, "it has no role and content as text"),
        (6, "it is JSON with half a character, or nested too deeply"),
    ];
    assert_eq!(reasons.collect::<Vec<_>>(), expected);
}

#[test]
fn what_somebody_wrote_or_edited_is_told_apart() {
    let text = String::from_utf8(log_of(&[line(4)])).unwrap();
    let edited = text.replace("Say", "Do not say");
    let written = r#"{"role":"user","content":"by hand","mood":"good"}"#;
    let (found, _) = items(format!("{edited}{written}\n{written}{written}").as_bytes());
    let [Item::Edited { line, number: 1, .. }, rest @ ..] = &found[..] else { panic!("{found:?}") };
    assert_eq!(line.id.as_deref(), Some("id-4"));
    assert!(line.content.starts_with("Do not say"));
    assert_eq!(rest.len(), 3);
    for item in rest {
        let Item::Written { line, .. } = item else { panic!("{item:?}") };
        assert_eq!((line.role.as_str(), line.content.as_str()), ("user", "by hand"));
        assert_eq!((&line.id, &line.after, &line.timestamp), (&None, &None, &None));
        assert_eq!(line.other["mood"], "good");
    }
}

#[test]
fn a_record_of_a_later_version_is_left_as_it_is() {
    let rest = r#""id":"x","v":2,"what":{}}"#;
    let sum = &blake3::hash(rest.as_bytes()).to_hex()[..16];
    let (found, _) = items(format!("{{\"sum\":\"{sum}\",{rest}\n").as_bytes());
    assert_eq!(found, [Item::Newer { at: 0..51, number: 1, version: 2 }]);
}

#[test]
fn a_record_twice_is_told_twice() {
    let log = log_of(&[line(1)]);
    let (found, _) = items(&[&log[..], &log[..]].concat());
    assert_eq!(intact(&found), [line(1), line(1)]);
}

#[test]
fn a_line_made_of_beginnings_only_takes_no_time() {
    let beginning = r#"{"sum":"0123456789abcdef","a":"#;
    let started = std::time::Instant::now();
    for hostile in [beginning.repeat(200_000), format!("{beginning}[").repeat(200_000)] {
        let (found, end) = items(format!("{hostile}\n").as_bytes());
        assert_eq!((found.len(), end.torn), (1, None));
        let (found, end) = items(hostile.as_bytes());
        assert_eq!((found.len(), end.torn), (0, Some(0..hostile.len() as u64)));
    }
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
}

#[test]
fn reading_goes_on_where_it_ended() {
    let place = Place::new();
    let path = place.session();
    let locked = place.lock(&path);
    let first = locked.append(&[line(1), line(2)], false).unwrap();
    let second = locked.append(&[line(3)], false).unwrap();
    assert_eq!((first.from, first.to), (0, second.from));
    let mut found = Vec::new();
    let end = locked.read(first.to, &mut |item| found.push(item)).unwrap();
    let at = second.from..second.to - 1;
    assert_eq!(found, [Item::Line { line: line(3), at, number: 1 }]);
    assert_eq!(end.bytes, second.to);
    assert_eq!(locked.stamp().unwrap(), Some(second.stamp));
    let refused = locked.read(second.to + 1, &mut |_| ()).unwrap_err();
    assert!(matches!(refused, rethread_workspace::Error::Cut { size, .. } if size == second.to));
}
