//! The secrets that we know because they were given to us: by the environment, and by the settings.

use rethread_redact::{Known, Redactor};

use super::database::{STORE_VARIABLE, password_in};
use super::{Config, variable};

/// Parts of names that say that the value is nobody's business.
const TELLING: &[&str] = &["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH"];
/// Names with such parts whose values are no secrets.
const HARMLESS: &[&str] = &[
    "SSH_AUTH_SOCK",
    "XAUTHORITY",
    "GPG_KEY",
    "KEYTIMEOUT",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
];

pub(super) fn redactor(config: &Config) -> Redactor {
    let from_environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let agents = config.changed_agents().unwrap_or_default();
    let from_agents = agents.into_values().flat_map(|entry| entry.env);
    let from_tools = config.tools.values().flat_map(|tool| tool.env.clone());
    let all = from_environment.chain(from_agents).chain(from_tools);
    let told =
        all.filter(|(name, _)| is_telling(name, config)).map(|(name, value)| Known { name, value });
    let stores = [variable(STORE_VARIABLE), Some(config.store.url.clone())].into_iter().flatten();
    let of_stores = stores.filter_map(|url| password_in(&url));
    let of_stores = of_stores.map(|value| Known { name: STORE_VARIABLE.to_owned(), value });
    Redactor::new(told.chain(of_stores))
}

fn is_telling(name: &str, config: &Config) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_named =
        config.redact.variables.iter().any(|one| one == name) || config.model.key_variable == name;
    is_named
        || TELLING.iter().any(|part| upper.contains(part)) && !HARMLESS.contains(&upper.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_is_secret() {
        let config = Config::from_text("[redact]\nvariables = [\"BOAT\"]").unwrap();
        for name in ["OPENAI_API_KEY", "GITHUB_TOKEN", "db_password", "BOAT"] {
            assert!(is_telling(name, &config), "{name}");
        }
        for name in ["PATH", "HOME", "SSH_AUTH_SOCK", "LANG"] {
            assert!(!is_telling(name, &config), "{name}");
        }
    }
}
