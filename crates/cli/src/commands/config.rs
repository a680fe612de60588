//! `rethread config`

use std::process::ExitCode;

use clap::Subcommand;

use crate::config::{self, Config, DEFAULTS};
use crate::error::BadInput;
use crate::output;

/// Show and change settings
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the settings in force
    Show {
        /// Only this one, such as context.tokens
        #[arg(conflicts_with = "defaults")]
        key: Option<String>,
        /// The defaults, with an explanation of each
        #[arg(long)]
        defaults: bool,
    },
    /// Set one, for instance `context.tokens 20000`
    Set {
        /// Its name, such as context.tokens
        key: String,
        /// Its new value
        value: String,
    },
    /// Set one back to its default: it is removed from the settings file
    Unset {
        /// Its name, such as context.tokens
        key: String,
    },
    /// Show where the settings file is
    Path,
}

impl Args {
    pub(crate) fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        match self.action {
            Action::Show { defaults: true, .. } if json => {
                output::json(&toml::from_str::<toml::Table>(DEFAULTS)?);
            }
            Action::Show { defaults: true, .. } => output::data(DEFAULTS),
            Action::Show { key: Some(key), .. } => {
                let value = setting(&Config::load()?, &key)?;
                if json {
                    output::json(&value);
                } else {
                    output::data(&shown(&value)?);
                }
            }
            Action::Show { .. } => {
                let config = Config::load()?;
                if json {
                    output::json(&config);
                } else {
                    output::data(&toml::to_string(&config)?);
                }
            }
            Action::Set { key, value } => {
                let path = config::path()?;
                config::set(&path, &key, &value)?;
                output::note(format_args!("Set {key} in {}.", path.display()));
            }
            Action::Unset { key } => {
                let path = config::path()?;
                if config::unset(&path, &key)? {
                    output::note(format_args!("Removed {key} from {}.", path.display()));
                } else {
                    output::note(format_args!("{key} is not set in {}.", path.display()));
                }
            }
            Action::Path if json => output::json(&serde_json::json!({"path": config::path()?})),
            Action::Path => output::data(&format!("{}\n", config::path()?.display())),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The value of one setting, or of a table of them.
fn setting(config: &Config, key: &str) -> anyhow::Result<toml::Value> {
    let mut value = toml::Value::try_from(config)?;
    for name in key.split('.') {
        value = value.get(name).cloned().ok_or_else(|| {
            let hint = "`rethread config show` shows those that are set, `rethread config show --defaults` all of them";
            BadInput::new(format!("{key} is not set"), hint)
        })?;
    }
    Ok(value)
}

/// A text as it is, anything else as in the settings file.
fn shown(value: &toml::Value) -> anyhow::Result<String> {
    Ok(match value {
        toml::Value::Table(table) => toml::to_string(table)?,
        toml::Value::String(text) => format!("{}\n", output::shown(text, false)),
        other => format!("{other}\n"),
    })
}
