//! Access to files of the project, and nothing else: every path is resolved beneath the open folder of the project, so that neither
//! `..` nor a link leads out of it, whatever changes meanwhile.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rethread_domain::consent::Intent;
use rethread_engine::program::without_links;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::classify::RpcError;
use crate::protected_paths::{Access, ProtectedPaths};

const LARGEST: u64 = 16 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Files {
    folder: OwnedFd,
    /// The folder as it was given, and its path without links.
    names: [PathBuf; 2],
    ward: ProtectedPaths,
}

impl Files {
    pub(crate) fn open(folder: &Path, ward: ProtectedPaths) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(folder, flags, Mode::empty())?;
        Ok(Self { folder: handle, names: [folder.to_owned(), folder.canonicalize()?], ward })
    }

    /// The folder without links in its name.
    pub(crate) fn root(&self) -> &Path {
        &self.names[1]
    }

    /// The names of the folder.
    pub(crate) fn roots(&self) -> [String; 2] {
        [0, 1].map(|name: usize| self.names[name].to_string_lossy().into_owned())
    }

    /// Notes which files of an intent need an answer of their own.
    pub(crate) fn note(&self, intent: &mut Intent) {
        self.ward.note(intent, self.root());
    }

    /// Refuses protected paths, by the real path of an open file or folder, unless exactly that was allowed.
    fn pass(
        &self,
        path: &Path,
        opened: &OwnedFd,
        name: Option<&OsStr>,
        (access, is_cleared): (Access, bool),
    ) -> Result<(), RpcError> {
        if is_cleared {
            return Ok(());
        }
        let mut real = named(opened).map_err(|errno| failed(path, errno))?;
        real.extend(name);
        self.ward.why(&real, access).map_or(Ok(()), |why| Err(refused(path, why)))
    }

    /// Reads a file; `is_cleared` if it was allowed although it is protected.
    pub(crate) fn read(&self, path: &Path, is_cleared: bool) -> Result<String, RpcError> {
        let inside = self.inside(path)?;
        // Without waiting for the other end of a pipe.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file =
            beneath(&self.folder, inside, flags, Mode::empty()).map_err(|e| failed(path, e))?;
        self.pass(path, &file, None, (Access::Read, is_cleared))?;
        let size = regular(&file).map_err(|why| refused(path, why))?;
        if size > LARGEST {
            return Err(refused(path, "it is too large"));
        }
        let mut bytes = Vec::new();
        let file = File::from(file);
        if !is_cleared && self.ward.is_ours(&file) {
            return Err(refused(path, "it is another name of a file of Rethread"));
        }
        let read = file.take(LARGEST + 1).read_to_end(&mut bytes);
        read.map_err(|error| refused(path, &error.to_string()))?;
        if bytes.len() as u64 > LARGEST {
            return Err(refused(path, "it is too large"));
        }
        String::from_utf8(bytes).map_err(|_| refused(path, "it is not text"))
    }

    /// Replaces a whole file, atomically where possible.
    pub(crate) fn write(
        &self,
        path: &Path,
        content: &[u8],
        is_cleared: bool,
    ) -> Result<(), RpcError> {
        let inside = self.inside(path)?;
        let name = inside.file_name().ok_or_else(|| refused(path, "it is a folder"))?;
        if let Some(why) = self
            .ward
            .why(&without_links(&self.root().join(inside)), Access::Write)
            .filter(|_| !is_cleared)
        {
            // Checked before a folder is created for it.
            return Err(refused(path, why));
        }
        let parent = self.parent(inside).map_err(|errno| failed(path, errno))?;
        self.pass(path, &parent, Some(name), (Access::Write, is_cleared))?;
        let there = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(known) => Some(known),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(failed(path, errno)),
        };
        let mode = match &there {
            None => Mode::from_raw_mode(0o666),
            Some(known) => match FileType::from_raw_mode(known.st_mode) {
                // A new file replaces it: hard links to the old one, perhaps outside of the project, keep their content.
                FileType::RegularFile => Mode::from_raw_mode(known.st_mode & 0o777),
                FileType::Symlink => return self.overwrite(path, inside, content, is_cleared),
                _ => return Err(refused(path, "it is not a file")),
            },
        };
        replace(&parent, name, mode, there.is_some(), content)
            .map_err(|error| refused(path, &error.to_string()))
    }

    fn overwrite(
        &self,
        path: &Path,
        inside: &Path,
        content: &[u8],
        is_cleared: bool,
    ) -> Result<(), RpcError> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file =
            beneath(&self.folder, inside, flags, Mode::empty()).map_err(|e| failed(path, e))?;
        self.pass(path, &file, None, (Access::Write, is_cleared))?;
        regular(&file).map_err(|why| refused(path, why))?;
        if fstat(&file).is_ok_and(|known| known.st_nlink > 1) {
            return Err(refused(path, "it has other names, which would change with it"));
        }
        let mut file = File::from(file);
        let written = file.set_len(0).and_then(|()| file.write_all(content));
        written.map_err(|error| refused(path, &error.to_string()))
    }

    /// The folder of a file, created if it is missing.
    fn parent(&self, inside: &Path) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let Some(parent) = inside.parent().filter(|parent| *parent != Path::new("")) else {
            return beneath(&self.folder, Path::new("."), flags, Mode::empty());
        };
        // No folder is created to be left again by `..`: where such a path ends cannot be told beforehand.
        let leads_back = parent.components().any(|part| part == Component::ParentDir);
        match beneath(&self.folder, parent, flags, Mode::empty()) {
            Err(Errno::NOENT) if !leads_back => (),
            found => return found,
        }
        let above = self.parent(parent)?;
        if let Some(name) = parent.file_name() {
            match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => (),
                Err(errno) => return Err(errno),
            }
        }
        beneath(&self.folder, parent, flags, Mode::empty())
    }

    /// The path relative to the folder.
    fn inside<'p>(&self, path: &'p Path) -> Result<&'p Path, RpcError> {
        if !path.is_absolute() {
            return Err(RpcError::new(-32602, format!("{} is not absolute", path.display())));
        }
        let found = self.names.iter().find_map(|name| path.strip_prefix(name).ok());
        let inside = found.ok_or_else(|| refused(path, "it is outside of the project"))?;
        if inside == Path::new("") { Ok(Path::new(".")) } else { Ok(inside) }
    }

    /// A folder of the project, as the working directory of a program.
    pub(crate) fn folder(&self, path: Option<&Path>) -> Result<PathBuf, RpcError> {
        let Some(path) = path else { return Ok(self.names[1].clone()) };
        let inside = self.inside(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        beneath(&self.folder, inside, flags, Mode::empty()).map_err(|errno| failed(path, errno))?;
        let real = path.canonicalize().map_err(|error| refused(path, &error.to_string()))?;
        if !real.starts_with(&self.names[1]) {
            return Err(refused(path, "it is outside of the project"));
        }
        Ok(real)
    }
}

fn refused(path: &Path, why: &str) -> RpcError {
    RpcError::new(-32603, format!("{}: {why}", path.display()))
}

fn failed(path: &Path, errno: Errno) -> RpcError {
    match errno {
        Errno::NOENT => RpcError::new(-32002, format!("{} does not exist", path.display())),
        Errno::XDEV => refused(path, "it leads out of the project"),
        // A pipe that nobody reads.
        Errno::NXIO => refused(path, "it is not a file"),
        errno => refused(path, &io::Error::from(errno).to_string()),
    }
}

/// The path of an open file, without links.
#[cfg(target_os = "linux")]
fn named(opened: &OwnedFd) -> rustix::io::Result<PathBuf> {
    let link = format!("/proc/self/fd/{}", opened.as_raw_fd());
    let name = rustix::fs::readlink(link, Vec::new())?;
    Ok(PathBuf::from(OsStr::from_bytes(name.as_bytes())))
}

#[cfg(not(target_os = "linux"))]
fn named(opened: &OwnedFd) -> rustix::io::Result<PathBuf> {
    let name = rustix::fs::getpath(opened)?;
    Ok(PathBuf::from(OsStr::from_bytes(name.as_bytes())))
}

/// The size of a regular file.
fn regular(file: &OwnedFd) -> Result<u64, &'static str> {
    let known = fstat(file).map_err(|_| "it cannot be looked at")?;
    if FileType::from_raw_mode(known.st_mode) != FileType::RegularFile {
        return Err("it is not a file");
    }
    Ok(known.st_size.try_into().unwrap_or(u64::MAX))
}

/// Writes a temporary file beside it, then renames it.
fn replace(
    parent: &OwnedFd,
    name: &OsStr,
    mode: Mode,
    is_there: bool,
    content: &[u8],
) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let beside = format!(".rethread-{}-{count}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let _left_behind = unlinkat(parent, &beside, AtFlags::empty());
    let file = openat(parent, &beside, flags, mode)?;
    if is_there {
        // The umask of our process does not apply to a file that existed before.
        rustix::fs::fchmod(&file, mode)?;
    }
    let mut file = File::from(file);
    let written =
        file.write_all(content).and_then(|()| Ok(renameat(parent, &beside, parent, name)?));
    if written.is_err() {
        let _gone = unlinkat(parent, &beside, AtFlags::empty());
    }
    written
}

/// Opens what is beneath a folder, and never what a link leads to outside of it.
#[cfg(target_os = "linux")]
fn beneath(
    folder: &OwnedFd,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // A concurrent rename makes the kernel unsure about `..` for a moment.
    for _ in 0..8 {
        match openat2(folder, path, flags | OFlags::CLOEXEC, mode, how) {
            Err(Errno::AGAIN | Errno::INTR) => (),
            Err(Errno::NOSYS | Errno::PERM) => return step_by_step(folder, path, flags, mode),
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

#[cfg(not(target_os = "linux"))]
fn beneath(
    folder: &OwnedFd,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    step_by_step(folder, path, flags, mode)
}

/// For kernels without openat2: one component after another, and no links at all.
fn step_by_step(
    folder: &OwnedFd,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    let mut names = path.components().peekable();
    let mut at = openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, mode)?;
    while let Some(name) = names.next() {
        let name = match name {
            Component::Normal(name) => name,
            Component::CurDir => OsStr::new("."),
            _ => return Err(Errno::XDEV),
        };
        let is_last = names.peek().is_none();
        let flags = if is_last { flags } else { OFlags::RDONLY | OFlags::DIRECTORY };
        at = openat(&at, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode).map_err(
            |errno| {
                if errno == Errno::LOOP { Errno::XDEV } else { errno }
            },
        )?;
    }
    Ok(at)
}
