//! Settings: defaults, then the user's file, then the environment and the command line. The only place that
//! reads the environment and the home folder.

mod database;
mod folders;
mod lineage;
mod secrets;
mod serve;
mod set;
mod workflow;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use jiff::SignedDuration;
use rethread_acp::Entry;
use rethread_domain::context::Limits;
use rethread_domain::id;
use rethread_domain::opening::Policy;
use rethread_engine::agents::Consent;
use rethread_engine::{Error, Pruning};
use rethread_redact::Redactor;
use rethread_store::StoreUrl;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub(crate) use database::{STORE_VARIABLE, has_password, name_store};
pub(crate) use folders::{
    ClientFolders, agent_folders, beside_store, client_folders, data_folder, folder, path,
};
pub(crate) use lineage::{depth, driven, is_driven, lineage_of, parent};
pub(crate) use set::{set, unset};

use crate::error::BadInput;

pub(crate) const DEFAULTS: &str = include_str!("defaults.toml");
/// The same in a form that is read in a tenth of the time, since every command reads it. A test compares the two.
const DEFAULTS_JSON: &str = include_str!("defaults.json");

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) store: Store,
    pub(crate) user: User,
    pub(crate) record: Record,
    pub(crate) context: Context,
    pub(crate) prune: Prune,
    pub(crate) list: List,
    pub(crate) talk: Talk,
    pub(crate) redact: Redact,
    pub(crate) hooks: Hooks,
    pub(crate) editors: Editors,
    pub(crate) workflow: workflow::Workflow,
    notify: BTreeMap<String, workflow::Hook>,
    tools: BTreeMap<String, Tool>,
    pub(crate) mcp: Mcp,
    pub(crate) serve: serve::Serve,
    pub(crate) model: Model,
    /// As they were written: `acp` knows what an agent is.
    agents: Table,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Store {
    #[serde(serialize_with = "database::without_password")]
    url: String,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct User {
    name: String,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub(crate) max_message_bytes: u64,
    exclude: Vec<String>,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    tokens: u32,
    messages: u32,
    conversations: u32,
    margin: f64,
    margins: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prune {
    pub(crate) keep: u32,
    pub(crate) threshold: u32,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    pub(crate) limit: u32,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Talk {
    permissions: String,
    policy: String,
    idle_seconds: u32,
    initialize_seconds: u64,
    open_seconds: u64,
    answer_seconds: u64,
    cancel_seconds: u64,
    max_line_bytes: usize,
    pub(crate) max_turn_bytes: u64,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Redact {
    pub(crate) at_rest: bool,
    variables: Vec<String>,
}

/// Editors that start agents through `rethread acp`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Editors {
    pub(crate) show_opening: bool,
}

/// What agents are told when their hooks call.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hooks {
    inject: bool,
    tokens: u32,
}

impl Hooks {
    /// What the context of a new session may have; nothing where there is to be none.
    pub(crate) fn limits(&self, config: &Config) -> Option<Limits> {
        self.inject.then(|| Limits { tokens: self.tokens, ..config.limits() })
    }
}

/// An MCP server that agents are given.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    pub(crate) command: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mcp {
    pub(crate) wait_seconds: u64,
    pub(crate) max_prompt_bytes: usize,
    pub(crate) max_depth: u32,
    output_streams: String,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    dialect: String,
    url: String,
    name: String,
    key_variable: String,
    timeout_seconds: u64,
    attempts: u32,
}

impl Config {
    pub(crate) fn load() -> anyhow::Result<Self> {
        Self::from_file(&path()?)
    }

    /// The defaults with what a file says otherwise.
    pub(crate) fn from_file(path: &Path) -> anyhow::Result<Self> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::from_text(&text).map_err(|why| unusable(path, &why)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::from_text(""),
            Err(error) => Err(error).with_context(|| format!("the settings in {}", path.display())),
        }
    }

    fn from_text(text: &str) -> anyhow::Result<Self> {
        let config: Self = if text.is_empty() {
            serde_json::from_str(DEFAULTS_JSON)?
        } else {
            let mut all: Table = serde_json::from_str(DEFAULTS_JSON)?;
            merge(&mut all, text.parse()?);
            all.try_into()?
        };
        config.check()?;
        Ok(config)
    }

    /// Whether a model writes summaries, over the network.
    pub(crate) const fn has_model(&self) -> bool {
        !self.model.url.is_empty()
    }

    fn check(&self) -> anyhow::Result<()> {
        self.limits().check()?;
        let margins = self.context.margins.values().chain([&self.context.margin]);
        for margin in margins {
            anyhow::ensure!(
                (0.0..=0.9).contains(margin),
                "a margin must be between 0 and 0.9, not {margin}"
            );
        }
        anyhow::ensure!(
            self.record.max_message_bytes > 0,
            "record.max_message_bytes must be at least 1"
        );
        anyhow::ensure!(self.hooks.tokens > 0, "hooks.tokens must be at least 1");
        anyhow::ensure!(self.list.limit > 0, "list.limit must be at least 1");
        anyhow::ensure!(self.talk.idle_seconds > 0, "talk.idle_seconds must be at least 1");
        anyhow::ensure!(self.talk.max_line_bytes > 0, "talk.max_line_bytes must be at least 1");
        anyhow::ensure!(self.talk.max_turn_bytes > 0, "talk.max_turn_bytes must be at least 1");
        self.workflow.check()?;
        self.hooks()?;
        self.consent(None)?;
        self.policy(None)?;
        self.changed_agents()?;
        for (name, tool) in &self.tools {
            anyhow::ensure!(!tool.command.is_empty(), "tools.{name}.command is empty");
        }
        Ok(())
    }

    /// Every agent there is, by name.
    pub(crate) fn agents(&self) -> anyhow::Result<BTreeMap<String, Entry>> {
        Ok(rethread_acp::entries(&self.agents)?)
    }

    /// The same, if the settings say anything of agents; what is built in is read only when an agent is needed.
    fn changed_agents(&self) -> anyhow::Result<BTreeMap<String, Entry>> {
        if self.agents.is_empty() { Ok(BTreeMap::new()) } else { self.agents() }
    }

    pub(crate) fn consent(&self, asked: Option<&str>) -> anyhow::Result<Consent> {
        asked.unwrap_or(&self.talk.permissions).parse().map_err(anyhow::Error::msg)
    }

    pub(crate) fn policy(&self, asked: Option<Policy>) -> anyhow::Result<Policy> {
        asked.map_or_else(|| self.talk.policy.parse().map_err(anyhow::Error::msg), Ok)
    }

    /// How long nothing may happen in a session before it is paused.
    pub(crate) fn idle(&self) -> SignedDuration {
        SignedDuration::from_secs(self.talk.idle_seconds.into())
    }

    pub(crate) fn agent_limits(&self) -> rethread_acp::Limits {
        let talk = &self.talk;
        rethread_acp::Limits {
            line: talk.max_line_bytes,
            initialize: Duration::from_secs(talk.initialize_seconds),
            open: Duration::from_secs(talk.open_seconds),
            answer: Some(talk.answer_seconds).filter(|none| *none > 0).map(Duration::from_secs),
            cancel: Duration::from_secs(talk.cancel_seconds),
            ..rethread_acp::Limits::default()
        }
    }

    /// The environment that agents get, but for what is named here.
    pub(crate) fn environment(&self) -> (Vec<(OsString, OsString)>, Vec<OsString>) {
        let key = Some(&self.model.key_variable).filter(|name| !name.is_empty());
        let store = variable(STORE_VARIABLE).filter(|url| database::password_in(url).is_some());
        let withheld = key.map(OsString::from).into_iter();
        let withheld = withheld.chain(store.map(|_| OsString::from(STORE_VARIABLE)));
        (std::env::vars_os().collect(), withheld.collect())
    }

    /// Where invoked sessions are kept as files.
    pub(crate) fn output_streams(&self) -> anyhow::Result<PathBuf> {
        let home = variable("HOME").map(PathBuf::from);
        let place = Some(self.mcp.output_streams.as_str()).filter(|place| !place.is_empty());
        match place {
            Some(place) => Ok(expand(place, home.as_deref())),
            None => Ok(data_folder()?.join("output_streams")),
        }
    }

    /// The MCP servers that agents are given, by name.
    pub(crate) fn tools(&self) -> &BTreeMap<String, Tool> {
        &self.tools
    }

    /// Knows the secrets of this environment and of these settings.
    pub(crate) fn redactor(&self) -> Redactor {
        secrets::redactor(self)
    }

    /// The model, if there is one.
    pub(crate) fn endpoint(&self) -> anyhow::Result<Option<rethread_outbound::model::Endpoint>> {
        let Model { dialect, url, name, key_variable, timeout_seconds, attempts } = &self.model;
        if url.is_empty() {
            return Ok(None);
        }
        let key = Some(key_variable.as_str()).filter(|name| !name.is_empty()).and_then(variable);
        let settings = rethread_outbound::model::Settings {
            key: key.map(rethread_outbound::model::Key::from),
            timeout: Duration::from_secs(*timeout_seconds),
            attempts: *attempts,
            ..rethread_outbound::model::Settings::new(dialect.parse()?, url, name)
        };
        Ok(Some(rethread_outbound::model::Endpoint::new(settings)?))
    }

    /// The webhooks that are told of workflows.
    pub(crate) fn hooks(&self) -> anyhow::Result<Vec<rethread_outbound::webhook::Hook>> {
        let set = self.notify.iter().filter_map(|(name, hook)| hook.ready(name).transpose());
        set.collect()
    }

    pub(crate) fn limits(&self) -> Limits {
        let Context { tokens, messages, conversations, .. } = self.context;
        Limits { tokens, messages, conversations }
    }

    pub(crate) fn margin(&self, agent: Option<&str>) -> f64 {
        agent
            .and_then(|agent| self.context.margins.get(agent))
            .copied()
            .unwrap_or(self.context.margin)
    }

    /// Whether the agent of a session matters to its limits.
    pub(crate) fn has_margins(&self) -> bool {
        self.context.margin > 0.0 || !self.context.margins.is_empty()
    }

    pub(crate) fn pruning(&self) -> Pruning {
        Pruning { keep: self.prune.keep, threshold: self.prune.threshold }
    }

    /// The store that was asked for, or that of the settings, or the usual one.
    pub(crate) fn store_url(&self, asked: Option<&str>) -> anyhow::Result<StoreUrl> {
        let configured = Some(self.store.url.as_str()).filter(|url| !url.is_empty());
        match asked.filter(|url| !url.is_empty()).or(configured) {
            Some(url) => match url.parse().map_err(Error::from)? {
                StoreUrl::Postgres(url) => Ok(StoreUrl::Postgres(database::completed(url)?)),
                url @ StoreUrl::Sqlite(_) => Ok(url),
            },
            None => Ok(StoreUrl::Sqlite(data_folder()?.join("rethread.db"))),
        }
    }

    /// Whom new sessions belong to.
    pub(crate) fn user(&self, asked: Option<&str>) -> anyhow::Result<String> {
        let from_environment = variable("RETHREAD_USER");
        let configured = Some(self.user.name.clone()).filter(|name| !name.is_empty());
        let user =
            asked.map(str::to_owned).or(from_environment).or(configured).unwrap_or_else(login_name);
        id::check_user(&user).map_err(rethread_engine::Error::from)?;
        Ok(user)
    }
}

fn unusable(path: &Path, why: &anyhow::Error) -> anyhow::Error {
    BadInput::new(
        format!(
            "the settings in {} cannot be used: {}",
            path.display(),
            format!("{why:#}").trim_end()
        ),
        "`rethread config show --defaults` lists every setting",
    )
    .into()
}

fn merge(all: &mut Table, layer: Table) {
    for (name, value) in layer {
        match (all.get_mut(&name), value) {
            (Some(Value::Table(inner)), Value::Table(layer)) => merge(inner, layer),
            (_, value) => drop(all.insert(name, value)),
        }
    }
}

fn expand(folder: &str, home: Option<&Path>) -> PathBuf {
    match (folder.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.to_owned(),
        (Some(rest), Some(home)) if rest.starts_with('/') => home.join(&rest[1..]),
        _ => PathBuf::from(folder),
    }
}

/// Whether something was not told before on this machine; from now on it was.
pub(crate) fn is_news(what: &str) -> bool {
    let Ok(path) = data_folder().map(|folder| folder.join("told")) else { return true };
    let told = std::fs::read_to_string(&path).unwrap_or_default();
    if told.lines().any(|line| line == what) {
        return false;
    }
    // Where it cannot be kept, it is told again.
    drop(replace(&path, &format!("{told}{what}\n")));
    true
}

/// How much is noted in the log, where somebody says so.
pub(crate) fn log_filter() -> Option<String> {
    variable("RETHREAD_LOG")
}

#[expect(clippy::disallowed_methods, reason = "this is the place")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn login_name() -> String {
    let by_system = || {
        let uid = rustix::process::getuid().as_raw().to_string();
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find_map(
            |fields| match fields.as_slice() {
                [name, _, id, ..] if *id == uid => Some((*name).to_owned()),
                _ => None,
            },
        )
    };
    let uid = || format!("uid{}", rustix::process::getuid().as_raw());
    variable("LOGNAME").or_else(|| variable("USER")).or_else(by_system).unwrap_or_else(uid)
}

/// Replaces a file as a whole: a crash leaves the old one or the new one.
pub(crate) fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().context("the settings have no folder")?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let half = path.with_extension("toml.part");
    // There is one only after a crash; one that stays in the way fails what follows.
    drop(std::fs::remove_file(&half));
    let mut file =
        std::fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&half)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&half, path)?;
    std::fs::File::open(folder)?.sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_same_in_both_forms() {
        let (toml, json): (Table, Table) =
            (DEFAULTS.parse().unwrap(), serde_json::from_str(DEFAULTS_JSON).unwrap());
        assert_eq!(
            toml,
            json,
            "defaults.json should be: {}",
            serde_json::to_string(&toml).unwrap()
        );
    }

    #[test]
    fn the_defaults_are_those_of_the_specification() {
        let config = Config::from_text("").unwrap();
        assert_eq!(config.limits(), Limits::default());
        assert_eq!(config.pruning(), Pruning::default());
    }

    #[test]
    fn a_misspelt_setting_is_an_error() {
        let error = Config::from_text("[context]\ntoken = 5").unwrap_err();
        assert!(format!("{error:#}").contains("token"), "{error:#}");
    }

    #[test]
    fn a_file_needs_only_what_differs() {
        let config =
            Config::from_text("[context]\ntokens = 5\n[context.margins]\nclaude = 0.2").unwrap();
        assert_eq!(config.limits(), Limits { tokens: 5, ..Limits::default() });
        assert!((config.margin(Some("claude")) - 0.2).abs() < 1e-9);
        assert!(config.margin(Some("codex")).abs() < 1e-9);
    }
}
