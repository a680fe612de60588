//! The login cookie of a browser.

use axum::http::{HeaderMap, header};
use jiff::SignedDuration;

use crate::settings::Settings;

/// Over HTTPS the `__Host-` prefix keeps other hosts from setting the cookie. Cookies are shared between ports, so the
/// name contains the port.
fn name(settings: &Settings) -> String {
    let prefix = if settings.is_secure { "__Host-" } else { "" };
    format!("{prefix}rethread-{}", settings.port)
}

pub(super) fn read(headers: &HeaderMap, settings: &Settings) -> Option<String> {
    let name = name(settings);
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut found = all.flat_map(|text| text.split(';')).filter_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then(|| value.to_owned())
    });
    // With two cookies of this name, somebody else has set one: neither is trusted.
    match (found.next(), found.next()) {
        (Some(secret), None) => Some(secret),
        _ => None,
    }
}

/// The `Set-Cookie` value: out of reach of scripts (`HttpOnly`), and never sent from pages of other sites (`SameSite`).
pub(super) fn set(secret: &str, lasts: SignedDuration, settings: &Settings) -> String {
    let (name, secure) = (name(settings), if settings.is_secure { "; Secure" } else { "" });
    let seconds = lasts.as_secs();
    format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
}

pub(super) fn forget(settings: &Settings) -> String {
    set("", SignedDuration::ZERO, settings)
}
