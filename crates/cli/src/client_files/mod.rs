//! Configuration files of other programs: changed as a whole or not at all, with everything in them kept.

pub(crate) mod edit;
pub(crate) mod plan;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::config;
use crate::error::BadInput;
use crate::output;

/// Settings are never so long.
const MOST_BYTES: u64 = 4 * 1024 * 1024;
/// The name of a file that is being written: after that of the file itself, with the number of the process in between.
const PART: &str = ".rethread-";
const PART_END: &str = ".part";

/// How other programs start this one: by its path, and with the store that was named.
pub(crate) fn own_command(store: Option<&str>) -> anyhow::Result<(String, Vec<String>)> {
    let program = std::env::current_exe()?;
    let program = program.to_str().ok_or_else(|| {
        BadInput::new("this program has a name that is not valid UTF-8", "move it elsewhere")
    })?;
    let store = store.filter(|store| !store.is_empty());
    if store.is_some_and(config::has_password) {
        let hint = "leave it out: put it into ~/.pgpass, or the whole address into the settings with `rethread config set \
                    store.url URL`, and name no store here";
        return Err(BadInput::new("others would see the password of the store", hint).into());
    }
    let args = store.map(|store| vec!["--store".to_owned(), store.to_owned()]);
    Ok((program.to_owned(), args.unwrap_or_default()))
}

/// What is in a file; nothing where there is none. Only plain files are read, of a length that settings have: nothing waits for
/// somebody at the other end of a pipe.
pub(crate) fn read(file: &Path) -> std::io::Result<Option<String>> {
    let about = match std::fs::metadata(file) {
        Ok(about) => about,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !about.is_file() {
        return Err(std::io::Error::other("it is not a plain file"));
    }
    let mut text = String::new();
    std::fs::File::open(file)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(std::io::Error::other("it is longer than 4 MiB"));
    }
    Ok(Some(text))
}

/// Takes away what an earlier process left beside a file when it was killed while it wrote.
pub(crate) fn sweep(file: &Path) {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name().and_then(|it| it.to_str()))
    else {
        return;
    };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|part| {
            part.strip_prefix(name)?.strip_prefix(PART)?.strip_suffix(PART_END)?.parse::<i32>().ok()
        });
        let process = number.and_then(rustix::process::Pid::from_raw);
        let is_left =
            |process| rustix::process::test_kill_process(process) == Err(rustix::io::Errno::SRCH);
        if process.is_some_and(is_left) {
            drop(std::fs::remove_file(entry.path())); // Another process may have been quicker.
        }
    }
}

/// The lines that differ: between those that are the same at both ends.
pub(crate) fn difference(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count().min(most);
    let mut out = String::new();
    for (sign, lines) in [("-", &old[head..old.len() - tail]), ("+", &new[head..new.len() - tail])]
    {
        for line in lines {
            out.push_str(&format!("{sign} {}\n", output::shown(line, false)));
        }
    }
    out
}

/// Who may read a file; only its user where there is none yet.
pub(crate) fn mode(file: &Path) -> u32 {
    std::fs::metadata(file).map_or(0o600, |about| about.permissions().mode() & 0o777)
}

/// As a whole: a crash leaves the old file or the new one.
pub(crate) fn replace(file: &Path, text: &str) -> anyhow::Result<()> {
    replace_as(file, text, mode(file))
}

/// The same, with who may do what with the file afterwards.
pub(crate) fn replace_as(file: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // Its own for each process: two at once do not get into each other's way.
    let mut name = file.as_os_str().to_owned();
    name.push(format!("{PART}{}{PART_END}", std::process::id()));
    let half = PathBuf::from(name);
    let written = write(&half, text, mode)
        .and_then(|()| std::fs::rename(&half, file).map_err(anyhow::Error::from));
    if written.is_err() {
        drop(std::fs::remove_file(&half)); // It may not be there.
    }
    written
}

/// Writes a file that is not there, down to the disk.
pub(crate) fn write(file: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    // There is one only after a crash; one that stays in the way fails what follows.
    drop(std::fs::remove_file(file));
    let mut out = OpenOptions::new().create_new(true).write(true).mode(mode).open(file)?;
    out.write_all(text.as_bytes())?;
    Ok(out.sync_all()?)
}
