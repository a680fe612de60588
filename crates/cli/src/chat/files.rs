//! Files that a message names with `@`.

use std::fs;
use std::io::Read as _;
use std::path::Path;

/// The most of a file that is told, and of all of them.
const MOST: usize = 128 * 1024;
const MOST_IN_ALL: usize = 512 * 1024;
/// So many names are offered.
const OFFERED: usize = 200;
/// Agents that read the files by themselves.
const READ_BY_AGENT: &[&str] = &["claude"];

/// The files and folders whose path begins so. Hidden ones where their dot was typed.
pub(super) fn beginning_with(project: &str, typed: &str) -> Vec<String> {
    let (folder, name) =
        typed.rsplit_once('/').map_or(("", typed), |(folder, name)| (folder, name));
    let before = if typed.contains('/') { format!("{folder}/") } else { String::new() };
    let Ok(entries) = fs::read_dir(Path::new(project).join(&before)) else { return Vec::new() };
    let mut found: Vec<String> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let own = entry.file_name().into_string().ok()?;
            let is_hidden = own.starts_with('.') && !name.starts_with('.');
            let is_plain = !own.contains(char::is_whitespace) && !own.contains(char::is_control);
            let fits = own.starts_with(name) && !is_hidden && is_plain;
            let slash = if entry.path().is_dir() { "/" } else { "" };
            fits.then(|| format!("{before}{own}{slash}"))
        })
        .collect();
    found.sort();
    found.truncate(OFFERED);
    found
}

/// The message with the files that it names, and those that could not be told.
pub(super) fn expanded(project: &str, agent: &str, message: &str) -> (String, Vec<String>) {
    let (mut out, mut left_out) = (message.to_owned(), Vec::new());
    if READ_BY_AGENT.contains(&agent) {
        return (out, left_out);
    }
    let mut told: Vec<&str> = Vec::new();
    let mut room = MOST_IN_ALL;
    for word in message.split_whitespace() {
        let Some(named) = word.strip_prefix('@') else { continue };
        let is_file = |name: &&str| !name.is_empty() && Path::new(project).join(name).is_file();
        // It may stand at the end of a sentence.
        let bare = named.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']);
        let Some(name) = [named, bare].into_iter().find(is_file) else { continue };
        if told.contains(&name) {
            continue;
        }
        told.push(name);
        match read(&Path::new(project).join(name), room.min(MOST)) {
            Ok(text) => {
                room = room.saturating_sub(text.len());
                out.push_str(&format!("\n\n{}", fenced(name, &text)));
            }
            Err(why) => left_out.push(format!("{name} was not sent along: {why}")),
        }
    }
    (out, left_out)
}

fn read(path: &Path, most: usize) -> Result<String, String> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    read.map_err(|error| error.to_string())?;
    if bytes.len() > most {
        return Err(format!("it is larger than {} KiB", most / 1024));
    }
    String::from_utf8(bytes).map_err(|_| "it is not text in UTF-8".to_owned())
}

/// A text within a fence that nothing in it ends.
pub(super) fn fenced(name: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{name}:\n{fence}\n{}\n{fence}", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_completed_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().to_str().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        for (name, text) in [("src/a.rs", "fn a() {}\n"), ("src/ab.rs", "```\n"), (".hidden", "x")]
        {
            fs::write(folder.path().join(name), text).unwrap();
        }
        fs::write(folder.path().join("picture"), [0xff, 0xfe]).unwrap();
        fs::write(folder.path().join("large"), vec![b'x'; MOST + 1]).unwrap();
        assert_eq!(beginning_with(project, ""), ["large", "picture", "src/"]);
        assert_eq!(beginning_with(project, ".h"), [".hidden"]);
        assert_eq!(beginning_with(project, "src/a"), ["src/a.rs", "src/ab.rs"]);
        assert_eq!(beginning_with(project, "none/x"), [""; 0]);
        let typed = "look at @src/a.rs, (@src/ab.rs) and @src/a.rs; ask @anna";
        let (message, left_out) = expanded(project, "ref", typed);
        assert_eq!(message, format!("{typed}\n\nsrc/a.rs:\n```\nfn a() {{}}\n```"));
        assert_eq!(left_out, [""; 0]);
        let (message, _) = expanded(project, "ref", "@src/ab.rs");
        assert_eq!(message, "@src/ab.rs\n\nsrc/ab.rs:\n````\n```\n````");
        let (message, left_out) = expanded(project, "ref", "@picture @large");
        assert_eq!(message, "@picture @large");
        assert_eq!(
            left_out,
            [
                "picture was not sent along: it is not text in UTF-8",
                "large was not sent along: it is larger than 128 KiB"
            ]
        );
        assert_eq!(expanded(project, "claude", "@src/a.rs").0, "@src/a.rs");
    }
}
