//! Programs of others that tests run: installed once for each version, in folders of their own.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[track_caller]
pub(crate) fn succeeded(output: &Output, what: &str) {
    let (said, told) = (&output.stdout, &output.stderr);
    let text =
        || String::from_utf8_lossy(&[said.as_slice(), told.as_slice()].concat()).into_owned();
    assert!(output.status.success(), "{what}\n{}", text());
}

/// A folder for what is pinned: others are other folders. It is complete when it has the mark, and made anew when what is in it
/// no longer runs: a cache of build results outlives the interpreter that an environment was made with.
fn folder(
    name: &str,
    pinned: &[&str],
    runs: impl FnOnce(&Path) -> bool,
    install: impl FnOnce(&Path),
) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    pinned.hash(&mut hasher);
    let name = format!("{name}-{:016x}", hasher.finish());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if !folder.join("complete").exists() || !runs(&folder) {
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir_all(&folder).expect("a folder");
        install(&folder);
        std::fs::write(folder.join("complete"), "").expect("a mark");
    }
    folder
}

/// The folder with the programs of these packages of `PyPI`.
pub(crate) fn python(name: &str, pinned: &[&str]) -> PathBuf {
    // A script of the environment names its interpreter by the whole path: either may be gone.
    let runs = |folder: &Path| {
        let asked = Command::new(folder.join("bin/pip")).arg("--version").output();
        asked.is_ok_and(|output| output.status.success())
    };
    let made = folder(name, pinned, runs, |folder| {
        let made = Command::new("python3").args(["-m", "venv"]).arg(folder).output();
        succeeded(&made.expect("python3"), "python3 -m venv; is python3-venv installed?");
        let pip =
            Command::new(folder.join("bin/pip")).args(["install", "-q"]).args(pinned).output();
        succeeded(&pip.expect("pip"), "pip install");
    });
    made.join("bin")
}

/// The folder in which these packages of npm are installed.
pub(crate) fn node(name: &str, pinned: &[&str]) -> PathBuf {
    let runs = |folder: &Path| folder.join("node_modules").is_dir();
    folder(name, pinned, runs, |folder| {
        std::fs::write(folder.join("package.json"), "{\"private\":true,\"type\":\"module\"}")
            .expect("a file");
        let npm = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--silent"])
            .args(pinned)
            .current_dir(folder)
            .output();
        succeeded(&npm.expect("npm; is it installed?"), "npm install");
    })
}
