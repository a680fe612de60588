//! Puts a written session where its agent looks for it: a new file each time, never over one that is there.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Draft, Model, Way, instant, way};
use crate::database::{Database, text};
use crate::{Error, Found, Roots, json};

/// The longest name that Claude Code gives a folder as it is; longer ones end in a digest of its own.
const LONGEST_SLUG: usize = 200;
const LONGEST_CONFIG: u64 = 1024 * 1024;

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    pub path: PathBuf,
    /// For the reader; not where the agent still has to import it.
    pub found: Option<Found>,
}

/// Writes a session for an agent: into the agent's own folder, or, where the agent has to import it, into `aside`.
pub fn place(agent: &str, draft: &Draft, roots: &Roots, aside: &Path) -> Result<Placed, Error> {
    let failed = |path: &Path, error: io::Error| Error::Io { path: path.to_owned(), error };
    let unwritable =
        || Error::Unreadable { path: aside.to_owned(), why: "no such format".to_owned() };
    let bytes = draft.bytes(agent).ok_or_else(unwritable)?;
    let path = match way(agent) {
        Some(Way::File) => target(agent, draft, roots).ok_or_else(unwritable)?,
        _ => aside.join(format!("{}.json", draft.id)),
    };
    let folder = path.parent().unwrap_or(aside);
    make_folder(folder).map_err(|error| failed(folder, error))?;
    if agent == "gemini"
        && let Some(project) = folder.parent()
        && !project.join(".project_root").exists()
    {
        let owner = project.join(".project_root");
        create(&owner, draft.folder.as_bytes()).map_err(|error| failed(&owner, error))?;
    }
    create(&path, &bytes).map_err(|error| failed(&path, error))?;
    let found = match way(agent) {
        Some(Way::File) => crate::locate::file(agent, &path)?,
        _ => None,
    };
    Ok(Placed { path, found })
}

/// The whole file appears at once, readable for its owner only.
fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".rethread-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map_err(|refused| refused.error)?;
    Ok(())
}

fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn target(agent: &str, draft: &Draft, roots: &Roots) -> Option<PathBuf> {
    let root = roots.of(agent).into_iter().next()?;
    let (id, folder) = (&draft.id, draft.folder.as_str());
    let stamp = instant(draft.now);
    Some(match agent {
        "claude" => claude_folder(&root, folder).join(format!("{id}.jsonl")),
        "qwen" => root.join(slug(folder)).join("chats").join(format!("{id}.jsonl")),
        "codex" => {
            let (day, _) = stamp.split_once('T')?;
            let time = stamp.get(..19)?.replace(':', "-");
            root.join(day.replace('-', "/")).join(format!("rollout-{time}-{id}.jsonl"))
        }
        "pi" => {
            let place = folder.trim_start_matches('/').replace(['/', '\\', ':'], "-");
            let time = stamp.replace([':', '.'], "-");
            root.join(format!("--{place}--")).join(format!("{time}_{id}.jsonl"))
        }
        "gemini" => {
            // A session that is resumed in the minute that its file is named after is lost: it gets an earlier name.
            let earlier = draft.now - jiff::SignedDuration::from_mins(2);
            let time = earlier.strftime("%Y-%m-%dT%H-%M").to_string();
            let project = gemini_project(&root, folder);
            project.join("chats").join(format!("session-{time}-{}.jsonl", id.get(..8)?))
        }
        _ => return None,
    })
}

/// The name of a folder as Claude Code and Qwen make it.
fn slug(folder: &str) -> String {
    folder.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '-' }).collect()
}

/// The folder of a project. The digest in long names is Claude Code's own: such a folder is looked for by its beginning.
fn claude_folder(root: &Path, folder: &str) -> PathBuf {
    let slug = slug(folder);
    if slug.len() <= LONGEST_SLUG {
        return root.join(slug);
    }
    let beginning = format!("{}-", &slug[..LONGEST_SLUG]);
    let folders = fs::read_dir(root).into_iter().flatten().flatten();
    let known = folders.map(|entry| entry.path()).find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&beginning))
    });
    known.unwrap_or_else(|| root.join(format!("{beginning}0")))
}

/// The folder in which Gemini keeps a project: by its own list, by the mark in it, or the next free one with its name.
fn gemini_project(root: &Path, folder: &str) -> PathBuf {
    let registry = root.parent().map(|home| home.join("projects.json"));
    let listed = registry.and_then(|file| fs::read(file).ok());
    let listed: Value =
        listed.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let name = listed.get("projects").and_then(|projects| projects.get(folder));
    let is_name = |name: &&str| Path::new(name).file_name() == Some(OsStr::new(name));
    if let Some(name) = name.and_then(Value::as_str).filter(is_name) {
        return root.join(name);
    }
    let own = Path::new(folder).file_name().map(|name| name.to_string_lossy().to_lowercase());
    let own = own.unwrap_or_default();
    let dashed: String =
        own.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '-' }).collect();
    let base = match dashed.trim_matches('-') {
        "" => "project".to_owned(),
        name => name.to_owned(),
    };
    let names = std::iter::once(base.clone()).chain((1..).map(|number| format!("{base}-{number}")));
    let is_free = |path: &PathBuf| match fs::read_to_string(path.join(".project_root")) {
        Ok(owner) => owner.trim() == folder,
        Err(_) => !path.exists(),
    };
    names.map(|name| root.join(name)).take(1000).find(is_free).unwrap_or_else(|| root.join(base))
}

/// Whether an agent that looks for sessions by folder finds this one from `folder`.
pub fn belongs_to(found: &Found, folder: &str, roots: &Roots) -> bool {
    let Some(root) = roots.of(found.agent).into_iter().next() else { return true };
    match found.agent {
        "claude" => found.path.parent() == Some(claude_folder(&root, folder).as_path()),
        "qwen" => found.path.starts_with(root.join(slug(folder))),
        "gemini" => found.path.starts_with(gemini_project(&root, folder)),
        _ => true,
    }
}

/// The model that opencode or Kilo was last used with, or is set up with: a session has to name one.
pub fn model_of_opencode(agent: &str, roots: &Roots) -> Option<Model> {
    last_model(agent, roots).or_else(|| configured_model(agent, roots))
}

fn last_model(agent: &str, roots: &Roots) -> Option<Model> {
    for root in roots.of(agent) {
        let files = fs::read_dir(&root).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_database = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "db");
        for path in files.chain([root.clone()]).filter(is_database) {
            let Ok(database) = Database::open(&path) else { continue };
            let sql = "select data from message where json_extract(data, '$.role') = 'user'
                order by time_created desc limit 1";
            let row = database.connection.query_row(sql, [], |row| Ok(text(row, 0)));
            let data: Option<Value> = row.ok().and_then(|data| serde_json::from_str(&data).ok());
            let model = data.as_ref().and_then(|data| data.get("model"));
            if let Some(model) = model
                && let (Some(provider), Some(id)) =
                    (json::text(model, "providerID"), json::text(model, "modelID"))
            {
                return Some(Model { provider: provider.to_owned(), id: id.to_owned() });
            }
        }
    }
    None
}

fn configured_model(agent: &str, roots: &Roots) -> Option<Model> {
    let config = roots.config();
    for name in [format!("{agent}/{agent}.json"), format!("{agent}/{agent}.jsonc")] {
        let file = config.join(name);
        if fs::metadata(&file).is_ok_and(|metadata| metadata.len() <= LONGEST_CONFIG)
            && let Ok(bytes) = fs::read(&file)
            && let Ok(config) = serde_json::from_slice::<Value>(&bytes)
            && let Some((provider, id)) =
                json::text(&config, "model").and_then(|it| it.split_once('/'))
        {
            return Some(Model { provider: provider.to_owned(), id: id.to_owned() });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geminis_list_names_folders_beside_each_other_only() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("tmp");
        for (name, expected) in
            [("shop-1", "shop-1"), ("..", "shop"), (".", "shop"), ("", "shop"), ("a/b", "shop")]
        {
            let listed = serde_json::json!({"projects": {"/w/shop": name}}).to_string();
            fs::write(home.path().join("projects.json"), listed).unwrap();
            assert_eq!(gemini_project(&root, "/w/shop"), root.join(expected), "{name:?}");
        }
    }
}
