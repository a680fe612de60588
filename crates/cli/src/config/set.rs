//! Setting and unsetting one setting in the user's file.

use std::path::Path;

use rethread_domain::near::near;
use rethread_domain::wording::plain;
use toml::Table;

use super::{Config, DEFAULTS, replace, unusable};
use crate::error::BadInput;

const LISTED: &str = "`rethread config show --defaults` lists every setting";

/// Sets one setting in the user's file, which keeps its comments and its order.
pub(crate) fn set(path: &Path, key: &str, value: &str) -> anyhow::Result<()> {
    let mut document = document(path)?;
    let parsed = value.parse::<toml_edit::Value>().unwrap_or_else(|_| value.into());
    let unknown = || no_setting(key);
    anyhow::ensure!(key.split('.').all(|part| !part.is_empty()), unknown());
    let (sections, name) = key.rsplit_once('.').unwrap_or(("", key));
    let mut table: &mut dyn toml_edit::TableLike = document.as_table_mut();
    for section in sections.split('.').filter(|section| !section.is_empty()) {
        let place = table.entry(section).or_insert_with(toml_edit::table);
        table = place.as_table_like_mut().ok_or_else(unknown)?;
    }
    table.insert(name, toml_edit::value(parsed));
    let text = document.to_string();
    Config::from_text(&text).map_err(|why| unfit(key, value, &why))?;
    replace(path, &text)
}

/// Removes one setting from the user's file, and the section that it leaves empty. Returns whether it was set there.
pub(crate) fn unset(path: &Path, key: &str) -> anyhow::Result<bool> {
    let mut document = document(path)?;
    let parts: Vec<&str> = key.split('.').collect();
    let removed = remove(document.as_table_mut(), &parts);
    if removed {
        let text = document.to_string();
        Config::from_text(&text).map_err(|why| unusable(path, &why))?;
        replace(path, &text)?;
    } else {
        // A name that no setting has is a mistake; one that is not in the file has its default already.
        let defaults: Table = DEFAULTS.parse().unwrap_or_default();
        let place = format!("/{}", parts.join("/"));
        let is_known = serde_json::to_value(&defaults)?.pointer(&place).is_some();
        // Deeper ones (agents.NAME.command) have names that the user chose.
        anyhow::ensure!(is_known || parts.len() > 2, no_setting(key));
    }
    Ok(removed)
}

fn remove(table: &mut dyn toml_edit::TableLike, parts: &[&str]) -> bool {
    match parts {
        [] => false,
        [name] => table.remove(name).is_some(),
        [section, rest @ ..] => {
            let inner = table.get_mut(section).and_then(toml_edit::Item::as_table_like_mut);
            let Some(inner) = inner else { return false };
            let removed = remove(inner, rest);
            if removed && inner.is_empty() {
                table.remove(section);
            }
            removed
        }
    }
}

fn document(path: &Path) -> anyhow::Result<toml_edit::DocumentMut> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    text.parse().map_err(|error| unusable(path, &anyhow::Error::from(error)))
}

/// What is wrong with a setting: there is none of this name, or it cannot have this value.
fn unfit(key: &str, value: &str, why: &anyhow::Error) -> BadInput {
    let why = format!("{why:#}");
    // The parser shows the place in a file that nobody has seen.
    let why = why.split("\nin `").next().unwrap_or_default().trim();
    if why.starts_with("unknown field") {
        return no_setting(key);
    }
    if why.contains("expected struct ") || why.ends_with("expected a map") {
        let what = format!("{key} is a section with settings of its own");
        return BadInput::new(what, LISTED);
    }
    let expected = match why.split_once(", expected ") {
        Some((_, expected)) if why.starts_with("invalid ") => format!("expected {expected}"),
        _ => why.to_owned(),
    };
    let expected = plain(&expected);
    let what = match expected.strip_prefix("expected ") {
        Some(expected) => format!("{key} cannot be {value:?}: it must be {expected}"),
        None => format!("{key} cannot be {value:?}: {expected}"),
    };
    BadInput::new(what, LISTED)
}

fn no_setting(key: &str) -> BadInput {
    let defaults: Table = DEFAULTS.parse().unwrap_or_default();
    let names: Vec<String> = defaults
        .iter()
        .filter_map(|(section, values)| Some((section, values.as_table()?)))
        .flat_map(|(section, values)| values.keys().map(move |name| format!("{section}.{name}")))
        .collect();
    // Of the right section, but for a slip in the name; or the right name alone.
    let by_name = || {
        let name = key.rsplit('.').next().unwrap_or_default();
        names.iter().find(|known| known.rsplit('.').next() == Some(name)).cloned()
    };
    let hint = match near(key, names.iter()).or_else(by_name) {
        Some(name) => format!("did you mean {name}? {LISTED}"),
        None => LISTED.to_owned(),
    };
    let what = if key.is_empty() {
        "no setting given".to_owned()
    } else {
        format!("there is no setting {key}")
    };
    BadInput::new(what, hint)
}
