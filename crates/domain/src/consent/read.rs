//! From an agent's request to what it will do.

use serde_json::{Map, Value};

use super::{CONTENT, Intent, is_harmless};
use crate::shell;

/// The kinds of tools that the Agent Client Protocol knows.
pub const KINDS: &[&str] = &[
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
];
const COMMANDS: &[&str] =
    &["command", "cmd", "commandLine", "command_line", "shell_command", "script"];
const FOLDERS: &[&str] =
    &["cwd", "workdir", "working_directory", "workingDirectory", "directory", "dir_path"];
const PATHS: &[&str] = &[
    "path",
    "paths",
    "file_path",
    "filePath",
    "filepath",
    "file",
    "files",
    "fileName",
    "filename",
    "absolute_path",
    "abs_path",
    "target_file",
    "notebook_path",
    "source",
    "destination",
    "source_path",
    "destination_path",
    "new_path",
    "old_path",
    "uri",
    "directory",
    "dir",
    "folder",
];
/// What is moved, and where to, with some tools.
const MOVED: &[&str] = &["from", "to", "src", "dst", "dest", "target"];
const URLS: &[&str] = &["url", "uri"];
/// What an editor may be told to do with a file. Any other command beside a path is one for a shell.
const EDITOR_COMMANDS: &[&str] = &[
    "append",
    "apply_diff",
    "copy",
    "create",
    "delete",
    "edit",
    "insert",
    "list",
    "move",
    "multi_edit",
    "open",
    "overwrite",
    "read",
    "rename",
    "replace",
    "save",
    "search",
    "str_replace",
    "undo_edit",
    "update",
    "view",
    "write",
];
/// Where some tools have the words that follow a program.
const ARGUMENTS: &[&str] = &["args", "arguments"];
/// Shells whose `-c` takes a line.
const SHELLS: &[&str] = &["sh", "bash", "zsh", "dash"];
/// Where they lie. A program of the same name elsewhere may do anything.
const SHELL_FOLDERS: &[&str] = &["", "/bin/", "/usr/bin/"];
/// A longer text names no place.
const LONGEST_PATH: usize = 4096;

/// What an agent sent when it asked.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub kind: &'a str,
    pub title: &'a str,
    /// The arguments of the tool.
    pub input: &'a Value,
    /// The files that the agent says it is about.
    pub places: &'a [String],
    /// Changes to files, as text.
    pub changes: &'a [String],
    /// The names of the folder of the project.
    pub roots: &'a [&'a str],
}

/// Reads what will be done.
pub fn read(request: &Request<'_>) -> Intent {
    let kind = if KINDS.contains(&request.kind) { request.kind } else { "other" };
    let mut rest = match request.input {
        Value::Object(fields) => fields.clone(),
        Value::Null => Map::new(),
        Value::String(line) if kind == "execute" => one("command", line.as_str().into()),
        other => one("input", other.clone()),
    };
    let names_path = rest.keys().any(|name| is_path(name));
    let has_content = CONTENT.iter().any(|name| rest.contains_key(*name));
    // A tool that is given a command may run it, whatever else it is given and whatever kind it is said to be: `cat` is read by some.
    let is_shell = kind == "execute" || names_command(&rest) || (kind == "other" && !names_path);
    let is_edit = kind == "other" && !is_shell && names_path && has_content;
    let kind = if is_edit { "edit" } else { kind };
    if is_shell {
        join(&mut rest);
    }
    let mut take = |names: &[&str], read: fn(&Value) -> Option<String>| {
        names.iter().find_map(|name| {
            let found = rest.get(*name).and_then(read)?;
            rest.shift_remove(*name);
            Some(found)
        })
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let command = if is_shell { take(COMMANDS, command) } else { None };
    // Rules about running things are about every command.
    let kind = if command.is_some() { "execute" } else { kind };
    let folder = if command.is_some() { take(FOLDERS, text) } else { None };
    let url = if kind == "fetch" { take(URLS, web_address) } else { None };
    let folder = folder.map(|folder| place(&folder, request.roots)).filter(|folder| folder != ".");
    let command = command.map(|line| match folder {
        None => in_place(&line, request.roots),
        Some(_) => line,
    });
    // Files that an unknown command may touch do not say what it does.
    let is_about_files = command.is_none() && kind != "execute";
    let paths = if is_about_files { touched(&mut rest, request) } else { Vec::new() };
    let mut intent = Intent {
        kind: kind.to_owned(),
        title: request.title.to_owned(),
        command,
        folder,
        paths,
        url,
        rest,
        changes: request.changes.to_vec(),
        ..Intent::default()
    };
    if intent.command.is_none() {
        intent.mentioned = mentioned(&intent, request.roots);
    }
    intent
}

/// The files that a request is about: those that its arguments name, and those that the agent names beside them.
fn touched(rest: &mut Map<String, Value>, request: &Request<'_>) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    let mut add = |path: &str| {
        let path = place(path, request.roots);
        if !paths.contains(&path) {
            paths.push(path);
        }
    };
    let is_moved = |name: &str| request.kind == "move" && MOVED.contains(&name);
    let is_named = |name: &&String| is_path(name) || is_moved(name);
    let named: Vec<String> = rest.keys().filter(is_named).cloned().collect();
    for name in named {
        let Some(value) = rest.get(&name) else { continue };
        let mut found = Vec::new();
        // What is in a path's argument beside texts is shown and remembered as every other argument.
        if collect_texts(value, &mut found) {
            rest.shift_remove(&name);
        }
        for path in found {
            add(&path);
        }
    }
    for path in request.places {
        add(path);
    }
    for path in patched(rest, &paths) {
        let path = place(&path, request.roots);
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// Texts in the arguments that may name a place, whatever the argument is called.
fn mentioned(intent: &Intent, roots: &[&str]) -> Vec<String> {
    let is_text = |name: &str, value: &Value| {
        is_harmless(name, value) || (intent.is_edit() && CONTENT.contains(&name))
    };
    let mut texts = Vec::new();
    for (_, value) in intent.rest.iter().filter(|(name, value)| !is_text(name, value)) {
        collect_texts(value, &mut texts);
    }
    texts.retain(|text| text.len() <= LONGEST_PATH && !text.contains('\n'));
    for text in &mut texts {
        *text = place(text, roots);
    }
    texts.sort();
    texts.dedup();
    texts
}

/// An address that is not that of a file on this machine.
fn web_address(value: &Value) -> Option<String> {
    value.as_str().filter(|url| file_path(url).is_none()).map(str::to_owned)
}

/// The path that an address of a file stands for.
fn file_path(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("file") || !rest.starts_with('/') {
        return None;
    }
    // After two slashes stands the machine, mostly none.
    let path = match rest.strip_prefix("//") {
        Some(rest) => &rest[rest.find('/')?..],
        None => rest,
    };
    let path = path.split(['?', '#']).next().unwrap_or(path);
    Some(percent_decoded(path))
}

/// What stands as `%` and two digits, as it is.
fn percent_decoded(text: &str) -> String {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = text.as_bytes();
    let (mut decoded, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                decoded.extend(u8::try_from(high * 16 + low));
                at += 3;
            }
            _ => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn one(name: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), value)])
}

/// A line without a change to the folder that it is run in anyway.
fn in_place(line: &str, roots: &[&str]) -> String {
    // In a name with other characters a shell would see more than a name.
    let rest =
        roots.iter().filter(|root| shell::is_plain(&root.replace(' ', "-"))).find_map(|root| {
            let spellings = [shell::word(root), format!("'{root}'"), format!("\"{root}\"")];
            spellings.iter().find_map(|root| line.strip_prefix(&format!("cd {root} && ")))
        });
    rest.unwrap_or(line).trim_ascii().to_owned()
}

fn command(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim_ascii().to_owned()).filter(|text| !text.is_empty()),
        Value::Array(_) => {
            let words = texts(value)?;
            let (program, args) = words.split_first()?;
            Some(line(program, args))
        }
        _ => None,
    }
}

/// Makes one line of a program and of the words that follow it, where they stand apart: a rule is about both.
fn join(rest: &mut Map<String, Value>) {
    let program = COMMANDS.iter().find(|name| rest.get(**name).and_then(command).is_some());
    let is_list = |name: &&&str| rest.get(**name).is_some_and(Value::is_array);
    let (Some(program), Some(name)) = (program, ARGUMENTS.iter().find(is_list)) else { return };
    let Some(Value::String(text)) = rest.get(*program) else { return };
    let Some(words) = rest.get(*name).and_then(texts) else { return };
    let line = if is_line(text) {
        let words: Vec<String> = words.iter().map(|one| shell::word(one)).collect();
        format!("{} {}", text.trim_ascii(), words.join(" "))
    } else {
        line(text.trim_ascii(), &words)
    };
    rest.insert((*program).to_owned(), line.into());
    rest.shift_remove(*name);
}

/// One text, or a list of texts.
fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) if !text.is_empty() => Some(vec![text.clone()]),
        Value::Array(all) if !all.is_empty() => {
            all.iter().map(|one| one.as_str().map(str::to_owned)).collect()
        }
        _ => None,
    }
}

/// A program with its arguments as a shell would read it. What is a line for a shell already is that line.
pub fn line(program: &str, args: &[String]) -> String {
    if let ([flag, line], true) = (args, is_shell(program))
        && matches!(flag.as_str(), "-c" | "-lc")
    {
        return line.trim_ascii().to_owned();
    }
    if args.is_empty() {
        // A whole line, with some agents.
        return program.trim_ascii().to_owned();
    }
    let words = args.iter().map(|one| shell::word(one));
    std::iter::once(named(program)).chain(words).collect::<Vec<_>>().join(" ")
}

/// The name of a program. With `=` in it a shell would read it as a variable, and run what follows.
fn named(program: &str) -> String {
    if program.contains('=') { shell::quoted(program) } else { shell::word(program) }
}

fn is_shell(program: &str) -> bool {
    let name = program.rfind('/').map_or(0, |slash| slash + 1);
    let (folder, name) = program.split_at(name);
    SHELLS.contains(&name) && SHELL_FOLDERS.contains(&folder)
}

/// Whether a command without arguments is a line for a shell, and not the name of a program.
pub fn is_line(command: &str) -> bool {
    !shell::is_plain(command.trim_ascii()) || command.contains('=')
}

/// A path from the folder of the project on; absolute where it is elsewhere. `..` stays: only the disk knows where it
/// leads.
fn place(path: &str, roots: &[&str]) -> String {
    let decoded = file_path(path);
    let path = decoded.as_deref().unwrap_or(path);
    let inside = roots.iter().find_map(|root| {
        let rest = path.strip_prefix(root.trim_end_matches('/'))?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    });
    let is_absolute = inside.is_none() && path.starts_with('/');
    let names = inside.unwrap_or(path).split('/').filter(|name| !name.is_empty() && *name != ".");
    let names = names.collect::<Vec<_>>().join("/");
    match (is_absolute, names.is_empty()) {
        (true, _) => format!("/{names}"),
        (false, true) => ".".to_owned(),
        // A name in the project, and not the home of the user.
        (false, false) if inside.is_some() && names.starts_with('~') => format!("./{names}"),
        (false, false) => names,
    }
}

/// The files that a patch or a list of edits in the arguments changes, beside those that are known already. A lasting answer about a
/// file covers any content of these arguments, so none of them may lead to another file unseen.
fn patched(rest: &Map<String, Value>, known: &[String]) -> Vec<String> {
    // Some agents write only the name of the file above a patch, without its folder.
    let is_named = |path: &String| {
        !path.contains('/') && known.iter().any(|known| known.ends_with(&format!("/{path}")))
    };
    let mut paths = Vec::new();
    for (name, value) in rest.iter().filter(|(name, _)| is_content(name)) {
        match value {
            Value::Object(changes) if name == "changes" => paths.extend(changes.keys().cloned()),
            Value::String(patch) if PATCHES.contains(&name.as_str()) => {
                paths.extend(named_in_patch(patch).filter(|path| !is_named(path)));
            }
            _ => (),
        }
        collect_paths(value, &mut paths);
    }
    paths
}

/// Arguments that may be a patch.
const PATCHES: &[&str] = &["changes", "patch", "diff", "input", "unified_diff", "fileDiff"];

pub(super) fn is_patch(name: &str) -> bool {
    PATCHES.contains(&name)
}

fn is_content(name: &str) -> bool {
    CONTENT.contains(&name) || is_patch(name)
}

/// Whether an argument of this name is a file or several: by a name that is known, or by how it ends (`output_path`,
/// `targetFile`).
fn is_path(name: &str) -> bool {
    const ENDINGS: &[&str] = &["path", "paths", "file", "files", "filename"];
    let lower = name.to_ascii_lowercase();
    PATHS.contains(&name) || ENDINGS.iter().any(|ending| lower.ends_with(ending))
}

/// Whether the arguments have a command for a shell: to an editor, a "command" is what to do with a file.
fn names_command(rest: &Map<String, Value>) -> bool {
    let is_command = |value: &Value| match value {
        Value::String(text) => {
            !text.trim().is_empty() && !EDITOR_COMMANDS.contains(&text.trim_ascii())
        }
        Value::Array(all) => !all.is_empty(),
        _ => false,
    };
    COMMANDS.iter().any(|name| rest.get(*name).is_some_and(is_command))
}

/// The paths in lists and objects, under the names that paths have.
fn collect_paths(value: &Value, paths: &mut Vec<String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| collect_paths(one, paths)),
        Value::Object(fields) => {
            for (name, value) in fields {
                if is_path(name) {
                    collect_texts(value, paths);
                } else {
                    collect_paths(value, paths);
                }
            }
        }
        _ => (),
    }
}

/// All texts in a value; whether there is nothing but texts, alone or in a list.
fn collect_texts(value: &Value, texts: &mut Vec<String>) -> bool {
    match value {
        Value::String(text) if !text.is_empty() => {
            texts.push(text.clone());
            true
        }
        Value::Array(all) => {
            all.iter().fold(!all.is_empty(), |is_all, one| collect_texts(one, texts) & is_all)
        }
        Value::Object(fields) => {
            for value in fields.values() {
                collect_texts(value, texts);
            }
            false
        }
        _ => false,
    }
}

/// The files that the lines above the parts of a patch name.
fn named_in_patch(text: &str) -> impl Iterator<Item = String> {
    const MARKS: &[&str] =
        &["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
    text.lines().filter_map(|line| {
        if let Some(path) = MARKS.iter().find_map(|mark| line.strip_prefix(mark)) {
            return Some(path.trim().to_owned());
        }
        let path = ["--- ", "+++ "].iter().find_map(|mark| line.strip_prefix(mark))?;
        let path = path.split('\t').next().unwrap_or(path).trim();
        let path = ["a/", "b/"].iter().find_map(|side| path.strip_prefix(side)).unwrap_or(path);
        (path != "/dev/null").then(|| path.to_owned())
    })
}
