//! Where a store is: the file of an SQLite store, or a database of a PostgreSQL server.

mod passfile;
mod postgres;
mod service;
mod target;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use self::postgres::PostgresUrl;
pub(crate) use self::target::{Address, ChannelBinding, Password, Roots, SslMode, Target};
use crate::error::Error;

/// Where a store is. Never shown with a password, neither by `Display` nor by `Debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    Sqlite(PathBuf),
    Postgres(PostgresUrl),
}

impl StoreUrl {
    /// The file of an SQLite store.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(path) => Some(path),
            Self::Postgres(_) => None,
        }
    }

    /// The address with its password, for the environment of processes that we start: other users of the machine see what is
    /// on a command line.
    pub fn with_password(&self) -> String {
        match self {
            Self::Sqlite(_) => self.to_string(),
            Self::Postgres(url) => url.with_password(),
        }
    }
}

impl FromStr for StoreUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |why: String| Error::BadUrl { url: without_secrets(text), why };
        if text.contains('\0') {
            return Err(bad("it has a NUL".to_owned()));
        }
        if let Some(rest) =
            text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"))
        {
            return PostgresUrl::parse(rest).map(Self::Postgres).map_err(bad);
        }
        match text.strip_prefix("sqlite:") {
            Some("") => Err(bad(EXPECTED.to_owned())),
            Some(path) => Ok(Self::Sqlite(PathBuf::from(path))),
            None if is_plain_path(text) => Ok(Self::Sqlite(PathBuf::from(text))),
            None => Err(bad(EXPECTED.to_owned())),
        }
    }
}

const EXPECTED: &str = "expected sqlite:PATH or postgres://USER@HOST/DATABASE";

/// A path that nobody takes for anything else.
fn is_plain_path(text: &str) -> bool {
    ["/", "./", "../"].iter().any(|beginning| text.starts_with(beginning))
}

/// As much of what was given as can be shown: behind `://` there may be a password.
fn without_secrets(text: &str) -> String {
    match text.split_once("://") {
        Some((scheme, _)) => format!("{}://…", scheme.chars().take(20).collect::<String>()),
        None if text.starts_with("postgres") => "postgres…".to_owned(),
        None => text.chars().take(200).collect(),
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_needs_no_scheme_where_nobody_takes_it_for_anything_else() {
        for path in ["/home/anna/x.db", "./x.db", "../x:y.db"] {
            assert_eq!(path.parse::<StoreUrl>().unwrap(), StoreUrl::Sqlite(path.into()));
        }
        assert_eq!("sqlite:x.db".parse::<StoreUrl>().unwrap(), StoreUrl::Sqlite("x.db".into()));
        for bad in ["", "x.db", "sqlite:", "boat:here", "postgres:x", "mysql://a:b@c/d", "/a\0b"] {
            assert!(bad.parse::<StoreUrl>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn no_error_shows_a_password() {
        let bad = [
            "postgres://anna:secret@host:port/db",
            "postgres://anna:secret@host/db?sslmode=perhaps",
            concat!("postgres://anna:", "sec@ret@host/db"),
            "postgres://host/db?passwort=secret",
            "postgresql:anna:secret@host",
            "mysql://anna:secret@host",
        ];
        for url in bad {
            let told = url.parse::<StoreUrl>().unwrap_err().to_string();
            assert!(!told.contains("sec"), "{told}");
        }
    }
}
