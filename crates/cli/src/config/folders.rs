//! The folders of this user: for settings, for data, and where other programs keep theirs.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};

use etcetera::BaseStrategy;
use rethread_engine::imports::{AgentFolders, ImportOptions};
use rethread_engine::program::is_excluded;
use rethread_store::StoreUrl;

use super::{Config, expand, variable};
use crate::error::BadInput;

fn base() -> anyhow::Result<etcetera::base_strategy::Xdg> {
    etcetera::base_strategy::Xdg::new().map_err(|_| {
        BadInput::new(
            "there is no home folder",
            "set HOME, or give the store with `--store sqlite:PATH`",
        )
        .into()
    })
}

/// Where what is kept beside the store goes: what was typed, what is known of agents.
pub(crate) fn data_folder() -> anyhow::Result<PathBuf> {
    Ok(base()?.data_dir().join("rethread"))
}

/// A file of this machine that belongs to a store: beside its file, where it is one, otherwise in the data folder.
pub(crate) fn beside_store(url: &StoreUrl, suffix: &str) -> anyhow::Result<PathBuf> {
    let mut name = match url {
        StoreUrl::Sqlite(path) => path.clone().into_os_string(),
        StoreUrl::Postgres(url) => {
            let folder = data_folder()?;
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            folder.join(format!("postgres-{}", url.file_name())).into_os_string()
        }
    };
    name.push(suffix);
    Ok(PathBuf::from(name))
}

/// The folders that other programs keep their configuration in.
#[derive(Debug)]
pub(crate) struct ClientFolders {
    pub(crate) home: PathBuf,
    pub(crate) config: PathBuf,
    /// By their own variables.
    variables: BTreeMap<String, String>,
    /// Where programs are looked for.
    path: Vec<PathBuf>,
}

impl ClientFolders {
    pub(crate) fn set(&self, variable: &str) -> Option<PathBuf> {
        self.variables.get(variable).map(PathBuf::from)
    }

    /// The folder that a variable names, or the usual one below the home folder.
    pub(crate) fn set_or(&self, variable: &str, otherwise: &str) -> PathBuf {
        self.set(variable).unwrap_or_else(|| self.home.join(otherwise))
    }

    pub(crate) fn has_program(&self, name: &str) -> bool {
        self.path.iter().any(|folder| folder.join(name).is_file())
    }

    pub(crate) fn zed_settings(&self) -> PathBuf {
        self.config.join("zed/settings.json")
    }

    /// What Neovim reads, under another name if it is called by one.
    pub(crate) fn neovim(&self) -> PathBuf {
        let name = variable("NVIM_APPNAME").map(PathBuf::from);
        let is_plain =
            |name: &PathBuf| name.components().all(|part| matches!(part, Component::Normal(_)));
        self.config.join(name.filter(is_plain).unwrap_or_else(|| PathBuf::from("nvim")))
    }

    /// The folder that Emacs takes for its user's: the old one, unless there is only the new one.
    pub(crate) fn emacs(&self) -> PathBuf {
        let (old, new) = (self.home.join(".emacs.d"), self.config.join("emacs"));
        if !old.is_dir() && new.is_dir() { new } else { old }
    }

    /// Where Codex notes, among other things, which hooks its user trusts.
    pub(crate) fn codex_settings(&self) -> PathBuf {
        self.set_or("CODEX_HOME", ".codex").join("config.toml")
    }
}

/// Where clients keep their files.
pub(crate) fn client_folders() -> anyhow::Result<ClientFolders> {
    let base = base()?;
    let path = variable("PATH").unwrap_or_default();
    Ok(ClientFolders {
        home: base.home_dir().to_owned(),
        config: base.config_dir(),
        variables: agent_folders()?.variables,
        path: std::env::split_paths(&path).collect(),
    })
}

/// Where agents keep their own sessions, by their own variables; some keep them in the folder that they work in.
pub(crate) fn agent_folders() -> anyhow::Result<AgentFolders> {
    let names = AgentFolders::VARIABLES.iter();
    let variables = names.filter_map(|name| Some(((*name).to_owned(), variable(name)?)));
    let here = std::env::current_dir().ok();
    Ok(AgentFolders {
        home: base()?.home_dir().to_owned(),
        variables: variables.collect(),
        projects: here.into_iter().collect(),
    })
}

/// Where the user's settings are.
pub(crate) fn path() -> anyhow::Result<PathBuf> {
    Ok(folder()?.join("config.toml"))
}

/// What the settings lie in.
pub(crate) fn folder() -> anyhow::Result<PathBuf> {
    Ok(base()?.config_dir().join("rethread"))
}

impl Config {
    /// The folder of the settings that says not to record in `project`.
    pub(crate) fn excluded(&self, project: &Path) -> Option<PathBuf> {
        let mut excluded = self.exclusions();
        excluded
            .find(|(folder, real)| is_excluded(project, folder) || is_excluded(project, real))
            .map(|(folder, _)| folder)
    }

    /// Whether nothing is recorded of what an agent does in a folder. One that does not name it calls its hook in it.
    pub(crate) fn excludes_call(&self, folder: Option<&str>) -> bool {
        let folder = folder.map_or_else(std::env::current_dir, |folder| Ok(folder.into()));
        folder.is_ok_and(|folder| self.excluded(&folder).is_some())
    }

    /// The folders whose sessions are not recorded, as they were written and without links.
    fn exclusions(&self) -> impl Iterator<Item = (PathBuf, PathBuf)> {
        let home = variable("HOME").map(PathBuf::from);
        self.record.exclude.iter().map(move |folder| {
            let folder = expand(folder, home.as_deref());
            let real = std::fs::canonicalize(&folder).unwrap_or_else(|_| folder.clone());
            (folder, real)
        })
    }

    /// How the sessions that agents keep themselves are imported, for this user.
    pub(crate) fn import_options(&self, user: String) -> anyhow::Result<ImportOptions> {
        Ok(ImportOptions {
            user,
            roots: agent_folders()?,
            excluded: self.exclusions().flat_map(<[PathBuf; 2]>::from).collect(),
            most_bytes: self.record.max_message_bytes,
            ..ImportOptions::default()
        })
    }
}
