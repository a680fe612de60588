//! What the secrets of vendors look like: tables of prefixes, alphabets and lengths.

mod ai;
mod business;
mod cloud;
mod code;
mod named;

use std::collections::HashSet;
use std::sync::LazyLock;

use super::name::SAID;
use super::rule::Rule;
pub(super) use named::NAMED;

pub(super) const PRIVATE_KEY: &str = "private key";
pub(super) const PASSWORD_IN_ADDRESS: &str = "password in an address";
pub(super) const BEARER: &str = "bearer token";
pub(super) const BASIC: &str = "basic credentials";

/// What the layers call things that have no vendor.
const OWN: &[&str] = &[PRIVATE_KEY, PASSWORD_IN_ADDRESS, BEARER, BASIC];

/// The rules that have a text to look for.
pub(super) fn anchored() -> impl Iterator<Item = &'static Rule> {
    ai::RULES.iter().chain(business::RULES).chain(cloud::RULES).chain(code::RULES)
}

/// All that a mask can say, known values aside.
static SAYINGS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let named = NAMED.iter().map(|named| named.what);
    let own = OWN.iter().chain(SAID).copied();
    anchored().map(|rule| rule.what).chain(named).chain(own).collect()
});

/// Whether a mask that says this is one of ours.
pub(super) fn made(what: &str) -> bool {
    SAYINGS.contains(what)
}
