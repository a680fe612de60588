//! What a change to a file takes away and puts in, as text.

/// How much of it is kept of a change that was made, in lines and bytes.
pub(crate) const KEPT: Most = Most { lines: 40, bytes: 4096 };
/// How much is shown to whoever is asked about it.
pub(crate) const ASKED: Most = Most { lines: 200, bytes: 16 * 1024 };
/// Larger parts are not compared line by line: all of the old is gone, all of the new came.
const MOST_COMPARED: usize = 1 << 20;

/// The most of a change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub(crate) lines: usize,
    pub(crate) bytes: usize,
}

/// A stretch of lines that differ: where it begins in the new text, what is gone and what came.
#[derive(Debug, Default, PartialEq, Eq)]
struct Hunk<'a> {
    line: usize,
    gone: Vec<&'a str>,
    came: Vec<&'a str>,
}

/// The change of a file whose old text is known, or which is new. Where several places change, each is named by its line.
pub(crate) fn changed(path: &str, old: Option<&str>, new: &str, most: Most) -> String {
    let verb = if old.is_some() { "edited" } else { "wrote" };
    let mut text = format!("{verb} {path}");
    let hunks = hunks(old.unwrap_or_default(), new);
    let all: usize = hunks.iter().map(|hunk| hunk.gone.len() + hunk.came.len()).sum();
    let mut shown = 0;
    for hunk in &hunks {
        let place = (hunks.len() > 1).then(|| format!("@@ line {}", hunk.line));
        let gone = hunk.gone.iter().map(|line| ('-', line));
        let came = hunk.came.iter().map(|line| ('+', line));
        for (at, (mark, line)) in gone.chain(came).enumerate() {
            if shown == most.lines || text.len() > most.bytes {
                let (more, lines) = (all - shown, if all - shown == 1 { "line" } else { "lines" });
                text.push_str(&format!("\n… and {more} more {lines}"));
                return text;
            }
            if let Some(place) = place.as_ref().filter(|_| at == 0) {
                text.push_str(&format!("\n{place}"));
            }
            let line = &line[..line.floor_char_boundary(most.bytes)];
            text.push_str(&format!("\n{mark}{line}"));
            shown += 1;
        }
    }
    text
}

fn hunks<'a>(old: &'a str, new: &'a str) -> Vec<Hunk<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[same..], &new[same..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    if old.is_empty() && new.is_empty() {
        return Vec::new();
    }
    if old.len().saturating_mul(new.len()) > MOST_COMPARED {
        return vec![Hunk { line: same + 1, gone: old.to_vec(), came: new.to_vec() }];
    }
    compared(old, new, same)
}

/// By the longest sequence of lines that both have.
fn compared<'a>(old: &[&'a str], new: &[&'a str], before: usize) -> Vec<Hunk<'a>> {
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for (i, a) in old.iter().enumerate().rev() {
        for (j, b) in new.iter().enumerate().rev() {
            common[i * width + j] = if a == b {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut hunks: Vec<Hunk<'a>> = Vec::new();
    let mut is_open = false;
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j, is_open) = (i + 1, j + 1, false);
            continue;
        }
        if !std::mem::replace(&mut is_open, true) {
            hunks.push(Hunk { line: before + j + 1, ..Hunk::default() });
        }
        let Some(hunk) = hunks.last_mut() else { break };
        let is_gone = j == new.len()
            || i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1];
        if is_gone {
            hunk.gone.push(old[i]);
            i += 1;
        } else {
            hunk.came.push(new[j]);
            j += 1;
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_told() {
        let old = "one\ntwo\nthree\nfour\nfive\n";
        assert_eq!(changed("/a", Some(old), old, KEPT), "edited /a");
        let new = "one\nII\nthree\nfour\nV\nsix\n";
        let expected = "edited /a\n@@ line 2\n-two\n+II\n@@ line 5\n-five\n+V\n+six";
        assert_eq!(changed("/a", Some(old), new, KEPT), expected);
        assert_eq!(changed("/a", None, "1\n2", KEPT), "wrote /a\n+1\n+2");
        let moved = changed("/a", Some("a\nb\nc\n"), "b\nc\na\n", KEPT);
        assert_eq!(moved, "edited /a\n@@ line 1\n-a\n@@ line 3\n+a");
    }

    #[test]
    fn long_changes_are_cut_and_say_so() {
        let many = |count: usize| {
            let lines: Vec<String> = (0..count).map(|n| format!("{n}\n")).collect();
            lines.concat()
        };
        let text = changed("/a", None, &many(50), KEPT);
        assert!(text.ends_with("\n+39\n… and 10 more lines"), "{text}");
        assert!(changed("/a", None, &many(50), ASKED).ends_with("\n+49"));
        let text = changed("/a", None, &"é".repeat(100_000), KEPT);
        assert!(text.len() < 10_000);
        // Too much to be compared.
        let text = changed("/a", Some(&many(5_000)), &format!("x\n{}y\n", many(5_000)), ASKED);
        assert!(text.ends_with("more lines"), "{text}");
    }
}
