//! Who may read and write what we make (S10), and folders that we may not write to.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Stdio;

use rethread_workspace::Page;
use rustix::process::geteuid;

use crate::roles::{role, role_of, said};
use crate::{Place, card, line};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn whatever_the_umask_only_the_owner_may_look() {
    let folder = tempfile::tempdir().unwrap();
    let output = role("open umask", folder.path(), "").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(said(&output.stdout).len(), 20, "{:?}", said(&output.stdout));
}

#[test]
fn what_a_checkout_opened_to_others_is_closed_again_and_pages_stay_as_they_are() {
    let place = Place::new();
    let path = place.session();
    let locked = place.lock(&path);
    locked.append(&[line(1)], false).unwrap();
    locked.write_card(&card()).unwrap();
    locked.write_page("brainstorm", &Page::default()).unwrap();
    drop(locked);
    let session = place.path(path.as_str()).join(".session");
    let page = place.path(path.as_str()).join("brainstorm.md");
    for (file, mode) in [(&session, 0o755), (&place.log(&path), 0o644), (&page, 0o644)] {
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }
    let locked = place.lock(&path);
    locked.append(&[line(2)], false).unwrap();
    locked.write_page("brainstorm", &Page { title: "new".into(), ..Page::default() }).unwrap();
    assert_eq!([mode(&session), mode(&place.log(&path)), mode(&page)], [0o700, 0o600, 0o644]);
}

#[test]
fn a_folder_that_is_read_only_is_read_and_says_so_when_it_is_written_to() {
    let place = Place::new();
    let path = place.session();
    let locked = place.lock(&path);
    locked.append(&[line(1), line(2)], false).unwrap();
    locked.write_card(&card()).unwrap();
    drop(locked);
    let mut open = vec![place.path("")];
    while let Some(inside) = open.pop() {
        let is_folder = inside.is_dir();
        if is_folder {
            open.extend(fs::read_dir(&inside).unwrap().map(|entry| entry.unwrap().path()));
        }
        let mode = if is_folder { 0o555 } else { 0o444 };
        fs::set_permissions(&inside, fs::Permissions::from_mode(mode)).unwrap();
    }
    // Nothing is read-only to root, so root becomes somebody else, who needs to reach the program.
    let program = tempfile::tempdir().unwrap();
    fs::set_permissions(program.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = program.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let mut command = if geteuid().is_root() {
        let by = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
        role_of(&[&by[..], &[copy.to_str().unwrap()]].concat(), "read only", &place.path(""), "")
    } else {
        role("read only", &place.path(""), "")
    };
    let output = command.current_dir("/").stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(said(&output.stdout), ["2"]);
    for inside in [".", "conversations", "conversations/2026-11-16"] {
        let path = place.path(inside);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}
