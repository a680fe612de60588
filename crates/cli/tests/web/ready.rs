//! `/readyz` says whether something can be written: not on a full disk, nor on one that may only be read.

use std::path::Path;
use std::process::Command;

use crate::client::Request;
use crate::env::TestEnv;
use crate::site::Site;
use crate::sockets::until;

/// Set where the test runs inside a mount of its own.
const INSIDE: &str = "RETHREAD_TEST_READY_DISK";
const NAME: &str = "ready::a_server_that_cannot_write_is_not_ready";

#[test]
fn a_server_that_cannot_write_is_not_ready() {
    if let Some(disk) = std::env::var_os(INSIDE) {
        return look(Path::new(&disk));
    }
    crate::env::on_small_disk(NAME, INSIDE, 8);
}

fn look(disk: &Path) {
    let site = Site::within(TestEnv::with_store(&disk.join("sessions.db")), &[]);
    let becomes = |status: u16, reason: &str| {
        until(&format!("/readyz is {status}"), || {
            let answer = Request::new("GET", "/readyz").send(site.address);
            (answer.status == status && answer.text().contains(reason)).then_some(())
        });
        // Whoever only wants to know whether it lives is told so.
        Request::new("GET", "/healthz").send(site.address).is(200);
    };
    becomes(200, "ok");
    let filler = disk.join("filler");
    fill(&filler);
    becomes(503, "the store cannot be written: no storage space");
    std::fs::remove_file(&filler).unwrap();
    becomes(200, "ok");
    forbid_writing(disk);
    becomes(503, "the store cannot be written: read-only filesystem");
    assert!(Command::new("umount").arg(disk).status().unwrap().success());
    becomes(200, "ok");
    // Nothing is left of having looked.
    let left = std::fs::read_dir(disk).unwrap().map(|one| one.unwrap().file_name());
    let odd: Vec<_> =
        left.filter(|name| !name.to_string_lossy().starts_with("sessions.db")).collect();
    assert!(odd.is_empty(), "{odd:?}");
}

/// Writes until nothing more fits.
fn fill(path: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    for size in [64 << 10, 4 << 10, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
}

/// What is already open stays as it is; whoever comes by the path meets a disk that may only be read.
fn forbid_writing(disk: &Path) {
    mount(&["--bind"], &[disk, disk]);
    mount(&["-o", "remount,bind,ro"], &[disk]);
}

fn mount(how: &[&str], what: &[&Path]) {
    let done = Command::new("mount").args(how).args(what).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
