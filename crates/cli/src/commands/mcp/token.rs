//! The token that every request over HTTP needs: made at the first start, readable by its user alone.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::config;
use crate::error::BadInput;

const FILE: &str = "mcp-token";
/// The least number of characters that it has.
const SHORTEST: usize = 64;

/// The token, and the file that it is in.
pub(super) fn open() -> anyhow::Result<(String, PathBuf)> {
    let folder = config::data_folder()?;
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    let path = folder.join(FILE);
    make(&path)?;
    let token = read(&path)?;
    Ok((token, path))
}

/// Writes a new one, unless there is one.
fn make(path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let token = rethread_engine::random_digits()?;
    // Complete before it has its name: whoever starts at the same time reads all of it or makes it.
    let half = path.with_extension(std::process::id().to_string());
    let mut options = OpenOptions::new();
    let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&half)?;
    file.write_all(format!("{token}\n").as_bytes())?;
    file.sync_all()?;
    let linked = std::fs::hard_link(&half, path);
    std::fs::remove_file(&half)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    let unusable = |why: &str| {
        let what = format!("the token in {} {why}", path.display());
        BadInput::new(what, "remove the file: the next start makes a new one")
    };
    if std::fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        return Err(unusable("can be read by others").into());
    }
    let token = std::fs::read_to_string(path)?.trim().to_owned();
    let is_token = token.len() >= SHORTEST && token.bytes().all(|byte| byte.is_ascii_graphic());
    if is_token { Ok(token) } else { Err(unusable("is not a token").into()) }
}
