//! What changed since a commit, as a text for somebody who reviews it.

use std::path::Path;
use std::process::Command;

use super::head::is_commit;
use super::place::Place;
use super::program::{Answer, ask, reading};
use super::state::{Names, Uncommitted};

const MOST_NAMES: usize = 500;
/// No file: without an index git never looks at the disk in place of an object.
const NO_INDEX: &str = "/nonexistent/index";

/// What was committed since a commit: names with counts of lines, then the patch, at most so many bytes of it, and
/// the names of what is not committed. `None` where the repository cannot tell. Executes nothing of it.
pub fn diff(project: &Path, since: &str, most_bytes: usize) -> Option<String> {
    if !is_commit(since) {
        return None;
    }
    let place = Place::find(project).ok()?.whole();
    let now = place.commit().ok()??;
    let counts = ask(&mut tree(&place, &["--numstat", "-z"], since, &now)).ok();
    let counts = counts.filter(Answer::success)?;
    let mut text = summary_of(&counts.out, since);
    let uncommitted = Names::of(&Uncommitted::of(&place).ok()?.all());
    if !uncommitted.is_empty() {
        text.push_str(&format!("\n{} uncommitted:\n", files(uncommitted.count())));
        uncommitted.names.iter().for_each(|name| text.push_str(&format!("  {}\n", shown(name))));
        text.push_str(&more(uncommitted.more));
    }
    if counts.out.is_empty() {
        return Some(text);
    }
    text.push('\n');
    match ask(&mut tree(&place, &["--patch"], since, &now)).ok().filter(Answer::success) {
        Some(patch) => text.push_str(&cut(&String::from_utf8_lossy(&patch.out), most_bytes)),
        None => text.push_str("[the patch is too long to be shown]\n"),
    }
    Some(text)
}

/// Compares two trees with everything switched off that could start a program or look at the disk.
fn tree(place: &Place, form: &[&str], since: &str, now: &str) -> Command {
    let mut git = reading(&place.top);
    git.env("GIT_INDEX_FILE", NO_INDEX);
    git.args(["diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-color"])
        .args(["--submodule=short", "--ignore-submodules=dirty", "--src-prefix=a/"])
        .arg("--dst-prefix=b/")
        .args(form)
        .args([since, now, "--", "."])
        .args([
            ":(exclude,glob)**/conversations/*/*/.session/**",
            ":(exclude,glob)**/conversations/[0-9]*/*/*.md",
        ]);
    git
}

/// Reads `added\tremoved\tpath\0…`; a binary file has `-` for both counts.
fn summary_of(counts: &[u8], since: &str) -> String {
    let records: Vec<&[u8]> = counts.split(|byte| *byte == 0).filter(|it| !it.is_empty()).collect();
    let mut text = format!("{} changed since {}:\n", files(records.len()), &since[..12]);
    for record in records.iter().take(MOST_NAMES) {
        let record = String::from_utf8_lossy(record);
        let mut fields = record.splitn(3, '\t');
        let (Some(added), Some(removed), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let path = shown(path);
        match added {
            "-" => text.push_str(&format!("  binary {path}\n")),
            _ => text.push_str(&format!("  +{added} -{removed} {path}\n")),
        }
    }
    text + &more(records.len().saturating_sub(MOST_NAMES))
}

fn files(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

fn more(count: usize) -> String {
    if count == 0 { String::new() } else { format!("  … and {count} more\n") }
}

/// A name on one line.
fn shown(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// Whole lines, at most so many bytes, and a word on what is missing.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    let end = text[..end].rfind('\n').map_or(0, |at| at + 1);
    format!("{}[… {} bytes are left out …]\n", &text[..end], text.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_cut_between_lines() {
        assert_eq!(cut("ä\nb\n", 5), "ä\nb\n");
        assert_eq!(cut("ä\nb\n", 4), "ä\n[… 2 bytes are left out …]\n");
        assert_eq!(cut("äää", 1), "[… 6 bytes are left out …]\n");
    }

    #[test]
    fn counts_are_read() {
        let text = summary_of(b"3\t0\ta b\0-\t-\tx\ny\0", &"a".repeat(40));
        assert_eq!(text, "2 files changed since aaaaaaaaaaaa:\n  +3 -0 a b\n  binary x?y\n");
    }
}
