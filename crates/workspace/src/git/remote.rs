//! The remote of a repository, read from its files: no process is started.

use std::path::Path;

use super::head::{common_dir, read, top_and_git};

/// Where a folder lies in which repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Host and path, without protocol, user and `.git`: the same for every way in which a repository is cloned.
    pub address: String,
    /// The way from the top of the working tree to the folder.
    pub within: String,
}

/// The remote `origin`, or the first one there is, of the repository that holds `folder`.
pub fn remote(folder: &Path) -> Option<Remote> {
    let (top, git) = top_and_git(folder)?;
    let config = read(&common_dir(&git).join("config"))?;
    let within = folder.strip_prefix(&top).ok()?.to_str()?.to_owned();
    Some(Remote { address: address(&url(&config)?)?, within })
}

fn url(config: &str) -> Option<String> {
    let mut name = None;
    let mut first = None;
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            let quoted = line.strip_prefix("[remote \"").and_then(|rest| rest.strip_suffix("\"]"));
            name = quoted.map(str::to_owned);
        } else if let (Some(name), Some((key, value))) = (&name, line.split_once('='))
            && key.trim() == "url"
        {
            let value = value.trim().trim_matches('"').to_owned();
            if name == "origin" {
                return Some(value);
            }
            first.get_or_insert(value);
        }
    }
    first
}

/// Host and path of an address, by which clones of one repository are known. Folders of this machine are no addresses of others.
pub fn address(url: &str) -> Option<String> {
    let url = url.trim();
    let rest = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.to_owned(),
        // git@host:path
        None => match url.split_once(':') {
            Some((host, path)) if !host.contains('/') => format!("{host}/{path}"),
            _ => return None,
        },
    };
    let (host, path) = rest.split_once('/')?;
    // A user, and a password that may be a secret.
    let host = host.rsplit('@').next()?.split(':').next()?.to_lowercase();
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    (!host.is_empty() && !path.is_empty()).then(|| format!("{host}/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_repository_has_one_address() {
        for url in [
            "https://example.com/ann/shop.git",
            "https://ann:token@example.com/ann/shop",
            "git@example.com:ann/shop.git",
            "ssh://git@Example.com:22/ann/shop/",
        ] {
            assert_eq!(address(url).as_deref(), Some("example.com/ann/shop"), "{url}");
        }
        for url in ["", "/srv/shop.git", "../shop", "file:///srv/shop", "https://example.com"] {
            assert_eq!(address(url), None, "{url}");
        }
    }

    #[test]
    fn the_remote_of_a_folder_is_that_of_its_repository() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        std::fs::create_dir_all(top.join(".git")).unwrap();
        std::fs::create_dir_all(top.join("parts/till")).unwrap();
        let config = "[core]\n\tbare = false\n[remote \"up\"]\n\turl = https://a.example/x/y\n[remote \"origin\"]\n\turl = git@b.example:ann/shop.git\n";
        std::fs::write(top.join(".git/config"), config).unwrap();
        let found = remote(&top.join("parts/till")).unwrap();
        assert_eq!(found.address, "b.example/ann/shop");
        assert_eq!(found.within, "parts/till");
        assert_eq!(remote(top).unwrap().within, "");
        assert_eq!(remote(Path::new("/nowhere/at/all")), None);
    }
}
