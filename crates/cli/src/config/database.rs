//! What the environment and the home folder say of a PostgreSQL server, as libpq reads them.

use std::path::{Path, PathBuf};
use std::process::Command;

use rethread_engine::Error;
use rethread_store::{PostgresUrl, StoreUrl};
use serde::Serializer;

use super::{login_name, variable};
use crate::error::BadInput;

/// Names the store to processes that we start, too: nobody else can read their environment.
pub(crate) const STORE_VARIABLE: &str = "RETHREAD_STORE";

/// Tells a process of ours which store is meant, so that nobody else sees a password.
pub(crate) fn name_store(command: &mut Command, url: &StoreUrl) {
    match url {
        StoreUrl::Sqlite(_) => command.args(["--store", &url.to_string()]),
        StoreUrl::Postgres(_) => command.env(STORE_VARIABLE, url.with_password()),
    };
}

/// The address with what the environment says where it says nothing itself.
pub(super) fn completed(url: PostgresUrl) -> anyhow::Result<PostgresUrl> {
    let mut url = match variable("PGSERVICE") {
        Some(service) => url.or("service", &service).map_err(Error::from)?,
        None => url,
    };
    let home = variable("HOME").map(PathBuf::from);
    if url.service().is_some() {
        url = with_service(url, home.as_deref())?;
    }
    url = url.or_from(variable).map_err(Error::from)?;
    let passwords = home.map(|home| home.join(".pgpass")).filter(|file| file.is_file());
    if let Some(passwords) = passwords {
        url = url.or("passfile", &passwords.to_string_lossy()).map_err(Error::from)?;
    }
    Ok(url.or("user", &login_name()).map_err(Error::from)?)
}

/// The password in the address of a store.
pub(super) fn password_in(url: &str) -> Option<String> {
    let StoreUrl::Postgres(url) = url.parse().ok()? else { return None };
    url.password().map(str::to_owned)
}

/// A setting for the address of a store, as it is shown.
pub(super) fn without_password<S: Serializer>(url: &str, to: S) -> Result<S::Ok, S::Error> {
    let parsed = url.parse::<StoreUrl>();
    match parsed {
        Ok(StoreUrl::Postgres(shown)) => to.collect_str(&shown),
        Err(_) if url.contains("://") => to.collect_str("(not a valid address)"),
        _ => to.serialize_str(url),
    }
}

/// Whether the address of a store has a password in it.
pub(crate) fn has_password(url: &str) -> bool {
    password_in(url).is_some()
}

/// With what the first file of services says that knows the service.
fn with_service(url: PostgresUrl, home: Option<&Path>) -> anyhow::Result<PostgresUrl> {
    let own = variable("PGSERVICEFILE").map(PathBuf::from);
    let own = own.or_else(|| home.map(|home| home.join(".pg_service.conf")));
    let system = variable("PGSYSCONFDIR").unwrap_or_else(|| "/etc/postgresql-common".to_owned());
    let files: Vec<PathBuf> =
        own.into_iter().chain([Path::new(&system).join("pg_service.conf")]).collect();
    for file in &files {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => {
                let what = format!("{} cannot be read: {error}", file.display());
                return Err(BadInput::new(what, "make it readable, or give host and user").into());
            }
        };
        if let Some(url) = url.clone().or_service(&text).map_err(Error::from)? {
            return Ok(url);
        }
    }
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let service = url.service().unwrap_or_default();
    let what = format!("there is no service {service:?} in {}", files.join(", or in "));
    Err(BadInput::new(what, "add it there, or give host, user and database in the address").into())
}
