//! Changing some places in a file that others wrote: JSON, with comments or without, and TOML.
//!
//! Everything else stays as it is, comments, order and white space included.

mod json;
mod toml;

pub(crate) use json::{
    add_json, check_strict_json, json_value, remove_json, remove_json_entries, set_json,
};
pub(crate) use toml::{add_toml, remove_toml, set_toml, set_toml_in_list, toml_as_json};

/// Why a file is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("{0}")]
    Syntax(String),
    #[error("{0:?} is not a table")]
    NotATable(String),
    #[error("{0:?} is not a list")]
    NotAList(String),
}
