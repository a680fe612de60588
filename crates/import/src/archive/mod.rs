//! Archives of sessions from elsewhere: `.tar`, `.tar.gz`, `.tar.zst` and `.zip`, and single files that are compressed.
//!
//! What is in one is put into a folder of its own, and read there. Only plain files are taken, under names that stay inside that
//! folder; links, devices and names that lead elsewhere are passed over and told.

mod tar;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use flate2::read::MultiGzDecoder;
use tempfile::TempDir;

use crate::{Error, Found, stamp};

/// So many files are taken out of an archive.
const MOST_FILES: u64 = 1_000_000;
/// So deep lies what is taken out, and so long may its name be.
const DEEPEST: usize = 32;
const LONGEST_NAME: usize = 4_096;
/// So much is told of what was left out.
const MOST_TOLD: usize = 20;

/// An archive, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tar,
    Gzip,
    Zstd,
    Zip,
}

fn kind_of(path: &Path) -> io::Result<Option<Kind>> {
    let mut first = Vec::new();
    File::open(path)?.take(tar::BLOCK).read_to_end(&mut first)?;
    Ok(match first.as_slice() {
        [0x1f, 0x8b, 8, ..] => Some(Kind::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Kind::Zstd),
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Some(Kind::Zip),
        block if tar::is_header(block) => Some(Kind::Tar),
        _ => None,
    })
}

/// Whether a file is an archive that can be taken apart.
pub fn is_archive(path: &Path) -> bool {
    path.is_file() && matches!(kind_of(path), Ok(Some(_)))
}

/// What was in an archive, for as long as this is held.
#[derive(Debug)]
pub struct Unpacked {
    archive: PathBuf,
    folder: TempDir,
    /// The same as long as the archive does not change.
    stamp: String,
    left: u64,
    files: u64,
    /// What was left out, and why.
    left_out: Vec<Error>,
}

/// A file in an archive, before it is taken out.
struct Entry {
    name: Vec<u8>,
    /// Seconds since 1970.
    changed_at: u64,
}

/// Takes an archive apart, into a folder that goes when what is given back is dropped.
pub fn unpack(path: &Path) -> Result<Unpacked, Error> {
    unpack_within(path, room())
}

/// How many bytes may be unpacked: half of what is free where it goes.
pub(crate) fn room() -> u64 {
    let about = rustix::fs::statvfs(std::env::temp_dir());
    // Where the system does not say, the disk itself is the bound.
    about.map_or(u64::MAX / 4, |about| about.f_bavail.saturating_mul(about.f_frsize) / 2)
}

/// Copies so many bytes at most; more is an error.
pub(crate) fn copy_within(from: &mut dyn Read, to: &mut File, most: u64) -> io::Result<u64> {
    let written = io::copy(&mut from.take(most.saturating_add(1)), to)?;
    if written > most {
        return Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!(
                "unpacked it is larger than half of what is free in {}: unpack it elsewhere, and import what is in it",
                std::env::temp_dir().display()
            ),
        ));
    }
    Ok(written)
}

fn unpack_within(path: &Path, most: u64) -> Result<Unpacked, Error> {
    let failed = |error| Error::Io { path: path.to_owned(), error };
    let metadata = fs::metadata(path).map_err(failed)?;
    let folder = tempfile::Builder::new().prefix("rethread-archive-").tempdir().map_err(failed)?;
    let mut unpacked = Unpacked {
        archive: path.to_owned(),
        stamp: stamp::of(&metadata),
        folder,
        left: most,
        files: 0,
        left_out: Vec::new(),
    };
    match unpacked.take_apart() {
        Ok(()) => (),
        // What came before the damage can be read.
        Err(error) if unpacked.files > 0 && error.kind() != io::ErrorKind::StorageFull => {
            unpacked.leave_out(path.to_owned(), &error.to_string());
        }
        Err(error) => return Err(failed(error)),
    }
    Ok(unpacked)
}

impl Unpacked {
    /// The folder with what was in it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What was left out, and why.
    pub fn left_out(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.left_out)
    }

    /// Calls a session by its place in the archive: where it lies now is gone soon.
    pub fn name(&self, found: Found) -> Found {
        let inside = found.path.strip_prefix(self.folder()).unwrap_or(&found.path);
        let stamp = format!("{}/{}", self.stamp, found.native);
        Found { source: self.archive.join(inside), stamp, ..found }
    }

    fn take_apart(&mut self) -> io::Result<()> {
        let mut file = File::open(&self.archive)?;
        match kind_of(&self.archive)? {
            Some(Kind::Tar) => self.take_tar(&mut BufReader::new(file)),
            Some(Kind::Gzip) => {
                self.take_stream(&mut BufReader::new(MultiGzDecoder::new(BufReader::new(file))))
            }
            Some(Kind::Zstd) => {
                self.take_stream(&mut BufReader::new(zstd::stream::Decoder::new(file)?))
            }
            Some(Kind::Zip) => {
                file.seek(SeekFrom::Start(0))?;
                self.take_zip(file)
            }
            None => {
                Err(io::Error::other("it is no archive: expected .tar, .tar.gz, .tar.zst or .zip"))
            }
        }
    }

    /// What was compressed as a whole: a tar, or one file.
    fn take_stream(&mut self, input: &mut impl BufRead) -> io::Result<()> {
        let mut first = vec![0; usize::try_from(tar::BLOCK).unwrap_or(512)];
        let count = read_up_to(input, &mut first)?;
        let mut input = BufReader::new(first[..count].chain(input));
        if tar::is_header(&first[..count]) {
            return self.take_tar(&mut input);
        }
        let name = self.archive.file_stem().unwrap_or_default().as_encoded_bytes().to_vec();
        self.take(&Entry { name, changed_at: 0 }, &mut input)
    }

    fn take_tar(&mut self, input: &mut impl BufRead) -> io::Result<()> {
        let mut tar = tar::Tar::new(input);
        while let Some(file) = tar.next()? {
            let entry = Entry { name: file.name, changed_at: file.changed_at };
            if file.is_plain {
                let mut inside = tar.content();
                self.take(&entry, &mut inside)?;
            } else if !file.is_folder {
                self.leave_out(self.place(&entry.name), "it is neither a file nor a folder");
            }
        }
        Ok(())
    }

    fn take_zip(&mut self, file: File) -> io::Result<()> {
        let mut zip = zip::ZipArchive::new(BufReader::new(file)).map_err(io::Error::other)?;
        for number in 0..zip.len() {
            let mut inside = match zip.by_index(number) {
                Ok(inside) => inside,
                Err(error) => {
                    self.leave_out(self.archive.clone(), &format!("entry {number}: {error}"));
                    continue;
                }
            };
            let entry = Entry { name: inside.name_raw().to_vec(), changed_at: 0 };
            if inside.is_file() {
                self.take(&entry, &mut inside)?;
            } else if !inside.is_dir() {
                self.leave_out(self.place(&entry.name), "it is neither a file nor a folder");
            }
        }
        Ok(())
    }

    /// Puts one file where it belongs in the folder.
    fn take(&mut self, entry: &Entry, content: &mut dyn Read) -> io::Result<()> {
        let Some(inside) = inside(&entry.name) else {
            self.leave_out(self.place(&entry.name), "its name leads out of the archive");
            return Ok(());
        };
        self.files += 1;
        if self.files > MOST_FILES {
            return Err(io::Error::other(format!("it has more than {MOST_FILES} files")));
        }
        let path = self.folder().join(&inside);
        let parent = path.parent().unwrap_or(&path);
        // A file may lie where a folder should be: that one is not the archive's fault alone to have.
        let made = fs::create_dir_all(parent).and_then(|()| File::create(&path));
        let mut file = match made {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::StorageFull => return Err(error),
            Err(error) => {
                self.leave_out(self.archive.join(&inside), &error.to_string());
                return Ok(());
            }
        };
        self.left -= copy_within(content, &mut file, self.left)?;
        if entry.changed_at > 0 {
            let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(entry.changed_at));
            // A time that the file system cannot keep is no loss.
            drop(at.map(|at| file.set_modified(at)));
        }
        Ok(())
    }

    fn place(&self, name: &[u8]) -> PathBuf {
        let name = String::from_utf8_lossy(&name[..name.len().min(200)]).into_owned();
        self.archive.join(name.trim_start_matches('/'))
    }

    fn leave_out(&mut self, path: PathBuf, why: &str) {
        if self.left_out.len() < MOST_TOLD {
            self.left_out.push(Error::Unreadable { path, why: why.to_owned() });
        }
    }
}

/// The place of a file below the folder that an archive is unpacked to; nothing where it would lie elsewhere.
fn inside(name: &[u8]) -> Option<PathBuf> {
    let name = std::str::from_utf8(name).ok().filter(|name| name.len() <= LONGEST_NAME)?;
    let mut path = PathBuf::new();
    for component in Path::new(name).components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::RootDir | Component::CurDir => (),
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    let depth = path.components().count();
    ((1..=DEEPEST).contains(&depth) && !name.contains('\0')).then_some(path)
}

fn read_up_to(input: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < into.len() {
        match input.read(&mut into[count..])? {
            0 => break,
            more => count += more,
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside() {
        for (name, expected) in [
            ("a/b", Some("a/b")),
            ("./a", Some("a")),
            ("/etc/passwd", Some("etc/passwd")),
            ("a//b/", Some("a/b")),
            ("../a", None),
            ("a/../../b", None),
            ("", None),
            ("/", None),
            (".", None),
            ("a\0b", None),
        ] {
            assert_eq!(inside(name.as_bytes()), expected.map(PathBuf::from), "{name:?}");
        }
        assert_eq!(inside(b"\xff"), None);
        assert_eq!(inside("a/".repeat(40).as_bytes()), None);
        assert_eq!(inside("a".repeat(5_000).as_bytes()), None);
    }
}
