//! The file of passwords that libpq reads: lines of host, port, database, user and password, with colons in between.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::target::{Address, Password, Target};
use crate::error::{Error, Result};

/// The socket that is meant by `localhost` in a file of passwords.
const USUAL_SOCKETS: &str = "/var/run/postgresql";

/// Gives each address the password that the file has for it. A file that is not there says nothing.
pub(super) fn fill(path: &Path, target: &mut Target) -> Result<()> {
    let cannot = |why: String| Error::CannotOpen(format!("{}: {why}", path.display()));
    let about = match std::fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(cannot(error.to_string())),
    };
    if !about.is_file() {
        return Ok(());
    }
    if about.permissions().mode() & 0o077 != 0 {
        return Err(cannot("others can read these passwords; `chmod 600` it first".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
    let found = target.addresses.iter().map(|(address, port)| {
        let wanted = [&host(address), &port.to_string(), &target.database, &target.user];
        find(&text, wanted.map(String::as_str))
    });
    target.passwords = found.collect();
    Ok(())
}

fn host(address: &Address) -> String {
    match address {
        Address::Socket(folder) if folder == Path::new(USUAL_SOCKETS) => "localhost".to_owned(),
        Address::Socket(folder) => folder.display().to_string(),
        Address::Host(name, _) => name.clone(),
    }
}

/// The password of the first line that says all of these, or `*`.
fn find(text: &str, wanted: [&str; 4]) -> Option<Password> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(fields).find_map(|fields| {
        let [fits @ .., password] = fields.as_slice() else { return None };
        let is_this = fits.len() == wanted.len()
            && fits.iter().zip(wanted).all(|(one, wanted)| one == "*" || one == wanted);
        is_this.then(|| Password(password.clone()))
    })
}

/// The five fields of a line; a backslash takes the next character as it is.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        let is_end = c == ':' && fields.len() < 5;
        if is_end {
            fields.push(String::new());
        } else if let Some(field) = fields.last_mut() {
            field.push(if c == '\\' { rest.next().unwrap_or(c) } else { c });
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "# passwords\nhost:5432:*:anna:first\n*:*:db:anna:se\\:co\\\\nd\nbroken\n*:*:*:*:last";

    #[test]
    fn the_first_line_that_fits_counts() {
        let password = |wanted| find(FILE, wanted).map(|password| password.0);
        assert_eq!(password(["host", "5432", "db", "anna"]).unwrap(), "first");
        assert_eq!(password(["host", "5433", "db", "anna"]).unwrap(), "se:co\\nd");
        assert_eq!(password(["host", "5432", "db", "bert"]).unwrap(), "last");
        assert!(find("host:1:db:anna:x", ["host", "2", "db", "anna"]).is_none());
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pgpass");
        let url = "postgres://anna@host/db".parse().unwrap();
        let crate::StoreUrl::Postgres(url) = url else { unreachable!() };
        let mut target = url.target().unwrap();
        fill(&path, &mut target).unwrap();
        assert_eq!(target.passwords, [None]);
        std::fs::write(&path, FILE).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let told = fill(&path, &mut target).unwrap_err().to_string();
        assert!(told.contains("chmod 600"), "{told}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        fill(&path, &mut target).unwrap();
        assert_eq!(target.passwords, [Some(Password("first".to_owned()))]);
    }
}
