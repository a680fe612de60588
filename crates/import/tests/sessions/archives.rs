//! Archives of sessions from elsewhere.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use rethread_import::{is_archive, look_at, unpack};
use zip::write::SimpleFileOptions;

use crate::common::{fixture, read, texts};

/// Runs the `tar` of the system on a folder with a session.
fn tar(folder: &Path, name: &str, args: &[&str]) -> PathBuf {
    let archive = folder.join(name);
    let mut command = Command::new("tar");
    command.args(args).arg("-cf").arg(&archive).arg("-C").arg(folder.join("from")).arg(".");
    assert!(command.status().unwrap().success(), "{args:?}");
    archive
}

/// A folder with a session of Claude Code, under a long name.
fn sessions(folder: &Path) -> String {
    let name = format!("{}/11111111-1111-4111-8111-111111111111.jsonl", "deep-and-long".repeat(12));
    let to = folder.join("from").join(&name);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(fixture("claude.jsonl"), &to).unwrap();
    name
}

fn expect_session(archive: &Path, name: &str) {
    let at = archive.display();
    assert!(is_archive(archive), "{at}");
    let mut unpacked = unpack(archive).unwrap();
    let (found, closed) = look_at(unpacked.folder());
    assert!(closed.is_empty() && unpacked.left_out().is_empty(), "{at}");
    let found: Vec<_> = found.into_iter().map(|one| unpacked.name(one)).collect();
    assert_eq!(found.len(), 1, "{at}");
    assert_eq!((found[0].agent, &found[0].source), ("claude", &archive.join(name)));
    let whole = texts(&crate::common::read_file("claude", &fixture("claude.jsonl")));
    assert_eq!(texts(&read(&found[0], None).unwrap()), whole, "{at}");
    let folder = unpacked.folder().to_owned();
    drop(unpacked);
    assert!(!folder.exists());
}

#[test]
fn sessions_are_read_out_of_every_kind() {
    let folder = tempfile::tempdir().unwrap();
    let name = sessions(folder.path());
    for (archive, args) in [
        ("gnu.tar", &["--format=gnu"][..]),
        ("posix.tar", &["--format=posix"]),
        ("packed.tar.gz", &["--format=posix", "-z"]),
    ] {
        expect_session(&tar(folder.path(), archive, args), &name);
    }
    let plain = fs::read(folder.path().join("gnu.tar")).unwrap();
    let packed = folder.path().join("packed.tar.zst");
    fs::write(&packed, zstd::encode_all(plain.as_slice(), 0).unwrap()).unwrap();
    expect_session(&packed, &name);
    let single = folder.path().join("session.jsonl.gz");
    let mut gzip = GzEncoder::new(File::create(&single).unwrap(), Compression::default());
    gzip.write_all(&fs::read(fixture("claude.jsonl")).unwrap()).unwrap();
    gzip.finish().unwrap();
    expect_session(&single, "session.jsonl");
    let zipped = folder.path().join("packed.zip");
    let mut zip = zip::ZipWriter::new(File::create(&zipped).unwrap());
    zip.start_file(name.as_str(), SimpleFileOptions::default()).unwrap();
    zip.write_all(&fs::read(fixture("claude.jsonl")).unwrap()).unwrap();
    zip.finish().unwrap();
    expect_session(&zipped, &name);
}

#[test]
fn nothing_leaves_the_folder_and_what_is_left_out_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let name = sessions(folder.path());
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("from/link")).unwrap();
    let up = tar(folder.path(), "up.tar", &["-P", "--transform=s,^.*.jsonl$,../../escaped.jsonl,"]);
    let mut unpacked = unpack(&up).unwrap();
    let told: Vec<String> = unpacked.left_out().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().any(|one| one.contains("leads out of the archive")), "{told:?}");
    assert!(
        told.iter().any(|one| one.contains("link: it is neither a file nor a folder")),
        "{told:?}"
    );
    assert!(look_at(unpacked.folder()).0.is_empty());
    let temp = unpacked.folder().parent().unwrap();
    assert!(!temp.join("escaped.jsonl").exists() && !folder.path().join("escaped.jsonl").exists());
    // What was cut off gives what came before.
    let whole = fs::read(tar(folder.path(), "whole.tar", &["--sort=name"])).unwrap();
    let cut = folder.path().join("cut.tar");
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let mut unpacked = unpack(&cut).unwrap();
    assert_eq!(unpacked.left_out().len(), 1);
    assert!(unpacked.folder().join(&name).exists());
}

#[test]
fn what_is_no_archive_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some.tar");
    for bytes in [&b""[..], b"PK", b"\x1f\x8b\x08", b"not a tar at all", &[0; 2048]] {
        fs::write(&path, bytes).unwrap();
        assert!(unpack(&path).is_err(), "{bytes:?}");
    }
    assert!(unpack(&folder.path().join("missing.zip")).is_err());
}
