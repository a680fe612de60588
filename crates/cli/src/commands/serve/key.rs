//! What a server leaves beside its store: a token for programs of the same user, and where it listens.

use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rethread_domain::access::{Pass, Role};
use rethread_engine::NewToken;
use rethread_store::StoreUrl;

use super::store_file;
use crate::cli::App;
use crate::error::BadInput;

fn beside(url: &StoreUrl, suffix: &str) -> PathBuf {
    let mut name = store_file(url).into_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

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
    let path = beside(&app.url, ".token");
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

/// Where a server of this store listens.
pub(super) fn address(url: &StoreUrl) -> Option<String> {
    let text = std::fs::read_to_string(beside(url, ".server")).ok()?;
    Some(text.trim().to_owned()).filter(|text| text.starts_with("http"))
}

/// Says where the server listens, as long as it does.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    text: String,
}

impl Place {
    pub(super) fn write(url: &StoreUrl, base: &str) -> std::io::Result<Self> {
        let path = beside(url, ".server");
        let text = format!("{base}\n");
        write(&path, &text)?;
        Ok(Self { path, text })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Another server may have come after us.
        if std::fs::read_to_string(&self.path).is_ok_and(|text| text == self.text) {
            drop(std::fs::remove_file(&self.path));
        }
    }
}
