//! Files beneath a folder that is held open: no symbolic link is followed, nothing but plain files is opened.
//!
//! A workspace may come from anybody. Every look goes through a handle of the folder above, so that a folder that is
//! swapped for a link between two looks leads nowhere.

use std::ffi::CStr;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use crate::error::{Doing, Error};

/// Only their owner reads and writes our files.
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);
const PRIVATE_FOLDER: Mode = Mode::RWXU;
const PERMISSIONS: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

/// Opens a folder only to look up what is in it, where the system can tell that apart from reading.
#[cfg(target_os = "linux")]
const GLANCE: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const GLANCE: OFlags = OFlags::RDONLY;

/// A folder that is held open.
#[derive(Debug)]
pub(crate) struct Directory {
    handle: OwnedFd,
    /// For messages only: nothing is opened by it.
    shown: PathBuf,
}

/// Which permissions a file has after it was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Private,
    /// As before; a new file is private.
    AsItWas,
}

/// How a file comes into its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Replace,
    OnlyIfFree,
}

impl Directory {
    /// Opens the top. How people reach it is up to them: links above it are followed.
    pub(crate) fn top(path: &Path) -> Result<Self, Error> {
        let failed = |errno| Error::from_system(path, Doing::Read, errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = fs::open(path, flags, Mode::empty()).map_err(failed)?;
        Ok(Self { handle, shown: path.to_owned() })
    }

    pub(crate) fn shown(&self, name: &str) -> PathBuf {
        self.shown.join(name)
    }

    /// The folder at a relative path; `None` where there is nothing.
    pub(crate) fn directory(&self, path: &str) -> Result<Option<Self>, Error> {
        match open_beneath(&self.handle, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) {
            Ok(handle) => Ok(Some(Self { handle, shown: self.shown(path) })),
            Err(Errno::NOENT) => Ok(None),
            // Component by component: also without openat2, and it finds out which of them is in the way.
            Err(_) => self.walk(path),
        }
    }

    fn walk(&self, path: &str) -> Result<Option<Self>, Error> {
        let mut found: Option<Self> = None;
        for name in path.split('/') {
            match found.as_ref().unwrap_or(self).step(name)? {
                Some(next) => found = Some(next),
                None => return Ok(None),
            }
        }
        Ok(found)
    }

    fn step(&self, name: &str) -> Result<Option<Self>, Error> {
        if matches!(name, "" | "." | "..") {
            return Err(self.failed(name, Doing::Read, Errno::INVAL));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match fs::openat(&self.handle, name, flags, Mode::empty()) {
            Ok(handle) => Ok(Some(Self { handle, shown: self.shown(name) })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => match self.stat(name)? {
                Some(stat) if !is(&stat, FileType::Directory) => {
                    Err(Error::NotPlain { path: self.shown(name), found: describe(&stat) })
                }
                _ => Err(Error::from_system(&self.shown(name), Doing::Read, errno)),
            },
        }
    }

    /// A handle that can only be looked through, which is enough for [`Directory::stat`].
    pub(crate) fn glance(&self, path: &str) -> Result<Option<Self>, Error> {
        match open_beneath(&self.handle, path, GLANCE | OFlags::DIRECTORY, Mode::empty()) {
            Ok(handle) => Ok(Some(Self { handle, shown: PathBuf::new() })),
            Err(Errno::NOENT) => Ok(None),
            Err(_) => self.walk(path),
        }
    }

    /// The folder of this name, made if it is missing.
    pub(crate) fn make(&self, name: &str) -> Result<Self, Error> {
        if let Some(found) = self.step(name)? {
            return Ok(found);
        }
        self.make_new(name)?;
        self.step(name)?.ok_or_else(|| self.failed(name, Doing::Write, Errno::NOENT))
    }

    /// Makes a folder; whether it was free.
    pub(crate) fn make_new(&self, name: &str) -> Result<bool, Error> {
        match fs::mkdirat(&self.handle, name, PRIVATE_FOLDER) {
            Ok(()) => (),
            Err(Errno::EXIST) => return Ok(false),
            Err(errno) => return Err(self.failed(name, Doing::Write, errno)),
        }
        if let Some(made) = self.step(name)? {
            made.make_private()?;
        }
        Ok(true)
    }

    /// Takes from others what the umask or a checkout gave them. Somebody else's folder stays as it is.
    pub(crate) fn make_private(&self) -> Result<(), Error> {
        let stat = self.own_stat()?;
        if Mode::from_raw_mode(stat.st_mode) & PERMISSIONS != PRIVATE_FOLDER {
            ignore_refusal(fs::fchmod(&self.handle, PRIVATE_FOLDER))
                .map_err(|errno| self.failed("", Doing::Write, errno))?;
        }
        Ok(())
    }

    pub(crate) fn own_stat(&self) -> Result<Stat, Error> {
        fs::fstat(&self.handle).map_err(|errno| self.failed("", Doing::Read, errno))
    }

    /// What stands under this name itself: a link is not followed.
    pub(crate) fn stat(&self, name: &str) -> Result<Option<Stat>, Error> {
        match fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.failed(name, Doing::Read, errno)),
        }
    }

    /// The stat of a plain file; anything else in its place is an error.
    pub(crate) fn plain(&self, name: &str) -> Result<Option<Stat>, Error> {
        let Some(stat) = self.stat(name)? else { return Ok(None) };
        match oddity(&stat) {
            None => Ok(Some(stat)),
            Some(found) => Err(Error::NotPlain { path: self.shown(name), found }),
        }
    }

    /// Opens a plain file to read.
    pub(crate) fn read(&self, name: &str) -> Result<Option<(File, Stat)>, Error> {
        self.open(name, OFlags::RDONLY, Doing::Read)
    }

    /// Opens a plain file to append, private from then on; and whether it is new.
    pub(crate) fn append(&self, name: &str) -> Result<(File, Stat, bool), Error> {
        let flags = OFlags::RDWR | OFlags::APPEND;
        let mut new = false;
        let opened = match self.open(name, flags, Doing::Write)? {
            Some(opened) => Some(opened),
            None => {
                new = true;
                self.open_new(name)?;
                self.open(name, flags, Doing::Write)?
            }
        };
        let (file, stat) = opened.ok_or_else(|| self.failed(name, Doing::Write, Errno::NOENT))?;
        if Mode::from_raw_mode(stat.st_mode) & PERMISSIONS != PRIVATE_FILE {
            ignore_refusal(fs::fchmod(&file, PRIVATE_FILE))
                .map_err(|errno| self.failed(name, Doing::Write, errno))?;
        }
        Ok((file, stat, new))
    }

    fn open(&self, name: &str, flags: OFlags, doing: Doing) -> Result<Option<(File, Stat)>, Error> {
        // Before opening, because opening a device can already have an effect; and after it, for what was swapped.
        if self.plain(name)?.is_none() {
            return Ok(None);
        }
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match open_beneath(&self.handle, name, flags, Mode::empty()) {
            Ok(handle) => File::from(handle),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(self.failed(name, doing, errno)),
        };
        let stat = fs::fstat(&file).map_err(|errno| self.failed(name, doing, errno))?;
        match oddity(&stat) {
            None => Ok(Some((file, stat))),
            Some(found) => Err(Error::NotPlain { path: self.shown(name), found }),
        }
    }

    /// Makes an empty private file under a name that has to be free.
    fn open_new(&self, name: &str) -> Result<File, Error> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let handle = open_beneath(&self.handle, name, flags, PRIVATE_FILE)
            .map_err(|errno| self.failed(name, Doing::Write, errno))?;
        fs::fchmod(&handle, PRIVATE_FILE)
            .map_err(|errno| self.failed(name, Doing::Write, errno))?;
        Ok(File::from(handle))
    }

    /// Replaces a file as a whole: whoever looks finds the old one or the new one, also after a crash.
    ///
    /// The caller holds a lock, so that the temporary name, which is always the same, is nobody else's: one that is
    /// there was left by a crash.
    pub(crate) fn replace(
        &self,
        name: &str,
        access: Access,
        place: Place,
        write: &mut dyn FnMut(&mut File) -> Result<(), Error>,
    ) -> Result<File, Error> {
        let before = self.plain(name)?;
        let temporary = format!(".{name}.new");
        let failed = |errno| self.failed(name, Doing::Write, errno);
        match fs::unlinkat(&self.handle, &*temporary, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => (),
            Err(errno) => return Err(self.failed(&temporary, Doing::Write, errno)),
        }
        let mut file = self.open_new(&temporary)?;
        let written = write(&mut file).and_then(|()| {
            if let (Access::AsItWas, Some(before)) = (access, before) {
                let mode = Mode::from_raw_mode(before.st_mode) & PERMISSIONS;
                fs::fchmod(&file, mode).map_err(failed)?;
            }
            fs::fsync(&file).map_err(failed)?;
            self.rename(&temporary, name, place).map_err(failed)
        });
        if let Err(error) = written {
            // The first error is the one that matters.
            let _left_behind = fs::unlinkat(&self.handle, &*temporary, AtFlags::empty());
            return Err(error);
        }
        self.sync()?;
        Ok(file)
    }

    fn rename(&self, from: &str, to: &str, place: Place) -> Result<(), Errno> {
        let (old, new) = (&self.handle, &self.handle);
        if place == Place::OnlyIfFree {
            match fs::renameat_with(old, from, new, to, RenameFlags::NOREPLACE) {
                // Not every file system can; the caller has looked, and holds a lock.
                Err(Errno::INVAL | Errno::NOSYS) => (),
                outcome => return outcome,
            }
        }
        fs::renameat(old, from, new, to)
    }

    /// As [`Directory::replace`], from bytes.
    pub(crate) fn replace_with(
        &self,
        name: &str,
        access: Access,
        place: Place,
        bytes: &[u8],
    ) -> Result<File, Error> {
        let path = self.shown(name);
        self.replace(name, access, place, &mut |file| {
            file.write_all(bytes).map_err(|error| Error::from_io(&path, Doing::Write, error))
        })
    }

    /// Makes what was created or renamed in this folder outlast a power cut.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        match fs::fsync(&self.handle) {
            // Some file systems cannot sync a folder.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(errno) => Err(self.failed("", Doing::Write, errno)),
        }
    }

    /// The names in this folder that are text, with what stands there. A name that is no text is none of ours.
    pub(crate) fn entries(&self) -> Result<Vec<(String, FileType)>, Error> {
        let failed = |errno| self.failed("", Doing::Read, errno);
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.handle).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Some(name) = own_name(entry.file_name()) else { continue };
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let Some(stat) = self.stat(name)? else { continue };
                    FileType::from_raw_mode(stat.st_mode)
                }
                kind => kind,
            };
            found.push((name.to_owned(), kind));
        }
        Ok(found)
    }

    pub(crate) fn failed(&self, name: &str, doing: Doing, errno: Errno) -> Error {
        let path = if name.is_empty() { self.shown.clone() } else { self.shown(name) };
        Error::from_system(&path, doing, errno)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

fn own_name(name: &CStr) -> Option<&str> {
    name.to_str().ok().filter(|name| !matches!(*name, "." | ".."))
}

/// Opens a relative path and nothing else than what it says.
fn open_beneath(folder: &OwnedFd, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match open_in_one_step(folder, path, flags, mode) {
        // A system without the call, or a sandbox that does not know it. One name needs no help to stay where it is.
        Err(Errno::NOSYS | Errno::PERM) if !path.contains('/') && path != ".." => {
            fs::openat(folder, path, flags, mode)
        }
        outcome => outcome,
    }
}

#[cfg(target_os = "linux")]
fn open_in_one_step(
    folder: &OwnedFd,
    path: &str,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    fs::openat2(folder, path, flags, mode, resolve)
}

/// Only Linux can keep a whole path beneath a folder; elsewhere [`Directory::walk`] takes it name by name.
#[cfg(not(target_os = "linux"))]
fn open_in_one_step(_: &OwnedFd, _: &str, _: OFlags, _: Mode) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// What others own we can use without owning it.
fn ignore_refusal(outcome: Result<(), Errno>) -> Result<(), Errno> {
    match outcome {
        Err(Errno::PERM | Errno::ACCESS | Errno::ROFS | Errno::OPNOTSUPP) => Ok(()),
        outcome => outcome,
    }
}

fn is(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
}

/// Why this is not a plain file with one name.
pub(crate) fn oddity(stat: &Stat) -> Option<&'static str> {
    match FileType::from_raw_mode(stat.st_mode) {
        // Somebody else's file could have been linked here, and would be written to.
        FileType::RegularFile if stat.st_nlink > 1 => {
            Some("a file with several names (hard links)")
        }
        FileType::RegularFile => None,
        _ => Some(describe(stat)),
    }
}

pub(crate) fn describe(stat: &Stat) -> &'static str {
    describe_kind(FileType::from_raw_mode(stat.st_mode))
}

pub(crate) fn describe_kind(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_openat2_each_step_is_taken_by_itself_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b/c")).unwrap();
        std::os::unix::fs::symlink("/etc", folder.path().join("a/link")).unwrap();
        let top = Directory::top(folder.path()).unwrap();
        assert_eq!(top.walk("a/b/c").unwrap().unwrap().shown, folder.path().join("a/b/c"));
        assert!(top.walk("a/missing/c").unwrap().is_none());
        let refused = top.walk("a/link/ssl").unwrap_err();
        assert!(matches!(&refused, Error::NotPlain { found: "a symbolic link", path }
            if *path == folder.path().join("a/link")));
    }

    #[test]
    fn a_path_that_leaves_the_folder_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("inside")).unwrap();
        let inside = Directory::top(&folder.path().join("inside")).unwrap();
        for path in ["..", "../inside", "/etc", "/"] {
            let opened = open_beneath(&inside.handle, path, OFlags::RDONLY, Mode::empty());
            assert!(opened.is_err(), "{path}");
            assert!(inside.directory(path).is_err(), "{path}");
        }
    }
}
