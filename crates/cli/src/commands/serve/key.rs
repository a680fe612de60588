//! What a server leaves beside its store: a token for programs of the same user, and where it listens.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rethread_domain::access::{Pass, Role};
use rethread_engine::NewToken;
use rethread_store::StoreUrl;

use crate::cli::App;
use crate::config::beside_store;
use crate::error::BadInput;

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let half = path.with_extension(format!("{}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&half)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&half, path)
}

/// Makes a token at the first start; gives the file that it is in, which only its user can read.
pub(in crate::commands) async fn ensure(app: &App) -> anyhow::Result<PathBuf> {
    let path = beside_store(&app.url, ".token")?;
    if let Ok(known) = std::fs::read_to_string(&path) {
        if std::fs::metadata(&path)?.permissions().mode() & 0o077 != 0 {
            let what = format!("the token in {} can be read by others", path.display());
            return Err(BadInput::new(
                what,
                "remove the file and revoke the token: the next start makes a new one",
            )
            .into());
        }
        if app.engine.admit(known.trim()).await?.is_some() {
            return Ok(path);
        }
    }
    let new = NewToken {
        name: "local".to_owned(),
        role: Role::Admin,
        user: app.config.user(None)?,
        pass: Pass::Token,
        lasts: None,
        parent: None,
    };
    let (_, secret) = app.engine.issue(new).await?;
    write(&path, &format!("{secret}\n"))?;
    Ok(path)
}

/// Where servers of this store listen, the one that was started last first. Those that have ended are forgotten.
pub(super) fn addresses(url: &StoreUrl) -> Vec<String> {
    let Ok(prefix) = beside_store(url, ".server.") else { return Vec::new() };
    let (Some(folder), Some(prefix)) = (prefix.parent(), prefix.file_name()) else {
        return Vec::new();
    };
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let own = files
        .filter(|file| file.file_name().as_encoded_bytes().starts_with(prefix.as_encoded_bytes()));
    let mut found: Vec<_> = own.filter_map(|file| living(&file.path())).collect();
    found.sort();
    found.into_iter().rev().map(|(_, address)| address).collect()
}

/// The address in a note, and since when it is there, if whoever wrote it still runs: then it has the file locked.
fn living(path: &Path) -> Option<(std::time::SystemTime, String)> {
    let file = std::fs::File::open(path).ok()?;
    if file.try_lock_shared().is_ok() {
        // Whoever looks next tries again.
        drop(std::fs::remove_file(path));
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    Some((file.metadata().ok()?.modified().ok()?, text.trim().to_owned()))
}

/// Says where the server listens, as long as it does.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    /// Locked as long as this process lives, however it ends.
    _file: std::fs::File,
}

impl Place {
    pub(super) fn write(url: &StoreUrl, port: u16, base: &str) -> anyhow::Result<Self> {
        let path = beside_store(url, &format!(".server.{port}"))?;
        let mut file = Self::own(&path)?;
        file.set_len(0)?;
        writeln!(file, "{base}")?;
        Ok(Self { path, _file: file })
    }

    /// A file that is locked, and still there: between the two somebody may have taken it for an old one.
    fn own(path: &Path) -> std::io::Result<std::fs::File> {
        let mut options = std::fs::OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        loop {
            let file = options.open(path)?;
            file.lock()?;
            let is_there = |there: std::fs::Metadata| Some(there.ino()) == inode(&file);
            if std::fs::metadata(path).is_ok_and(is_there) {
                return Ok(file);
            }
        }
    }
}

fn inode(file: &std::fs::File) -> Option<u64> {
    file.metadata().ok().map(|own| own.ino())
}

impl Drop for Place {
    fn drop(&mut self) {
        // One that stays is seen to be nobody's: it is not locked.
        drop(std::fs::remove_file(&self.path));
    }
}
