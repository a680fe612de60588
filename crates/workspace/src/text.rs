//! A text file that people write and we write back to: read whole, replaced at once, never overwritten blindly.

use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// No plan that people read is longer.
const LONGEST: u64 = 4 << 20;

/// Reads a plain file of text.
pub fn read(path: &Path) -> Result<String, Error> {
    let file = OpenOptions::new().read(true).custom_flags(no_wait()).open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a plain file"));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        let why = format!("it is longer than {} MiB", LONGEST >> 20);
        return Err(Error::new(ErrorKind::InvalidInput, why));
    }
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// A pipe in the place of the file is not waited for.
fn no_wait() -> i32 {
    i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0)
}

/// Puts `new` in the place of `old`, at once; not where the file says something else by now.
pub fn replace(path: &Path, old: &str, new: &str) -> Result<(), Error> {
    // Through a link, the file itself is replaced.
    let path = fs::canonicalize(path)?;
    let mode = fs::metadata(&path)?.mode() & 0o777;
    let beside = beside(&path)?;
    sweep(&path);
    let written = write(&beside, new, mode).and_then(|()| {
        if read(&path)? != old {
            return Err(Error::other("somebody changed it just now"));
        }
        fs::rename(&beside, &path)
    });
    if written.is_err() {
        // What went wrong before is told.
        drop(fs::remove_file(&beside));
    }
    written
}

/// Writes a new file, all of it or nothing; not over one that is there.
pub fn create(path: &Path, text: &str) -> Result<(), Error> {
    let beside = beside(path)?;
    sweep(path);
    // A link does not take the place of what is there, as a rename would; not every file system has them.
    let put = |()| match fs::hard_link(&beside, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists && !path.exists() => {
            fs::rename(&beside, path)
        }
        linked => linked,
    };
    let written = write(&beside, text, 0o644).and_then(put);
    // After a rename it is not there any more; what is left is swept the next time.
    drop(fs::remove_file(&beside));
    written
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn beside(path: &Path) -> Result<std::path::PathBuf, Error> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Error::new(ErrorKind::InvalidInput, "its name is not text"))?;
    Ok(path.with_file_name(format!(".{name}.{}.new", std::process::id())))
}

/// Removes what processes that were killed while they wrote this file have left beside it.
pub fn sweep(path: &Path) {
    let (Some(folder), Some(name)) =
        (path.parent(), path.file_name().and_then(|name| name.to_str()))
    else {
        return;
    };
    let begins = format!(".{name}.");
    let left_by = |file: &str| -> Option<i32> {
        file.strip_prefix(&begins)?.strip_suffix(".new")?.parse().ok()
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let writer = entry.file_name().to_str().and_then(left_by);
        let writer = writer.and_then(rustix::process::Pid::from_raw);
        let is_gone = |pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH);
        if writer.is_some_and(is_gone) {
            // The next writer tries again.
            drop(fs::remove_file(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_only_while_it_says_what_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.md");
        create(&path, "one").unwrap();
        assert!(create(&path, "other").is_err());
        replace(&path, "one", "two").unwrap();
        assert_eq!(read(&path).unwrap(), "two");
        assert!(replace(&path, "one", "three").is_err());
        assert_eq!(read(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_a_killed_process_left_beside_the_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.md");
        create(&path, "one").unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let (gone, alive) = (child.id(), std::os::unix::process::parent_id());
        for pid in [gone, alive] {
            fs::write(folder.path().join(format!(".plan.md.{pid}.new")), "half").unwrap();
        }
        replace(&path, "one", "two").unwrap();
        assert!(!folder.path().join(format!(".plan.md.{gone}.new")).exists());
        assert!(folder.path().join(format!(".plan.md.{alive}.new")).exists(), "it still writes");
    }

    #[test]
    fn what_is_not_a_plain_file_of_text_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).is_err());
        let path = folder.path().join("bytes");
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("UTF-8"));
        File::create(&path).unwrap().set_len(LONGEST + 1).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("longer"));
    }
}
