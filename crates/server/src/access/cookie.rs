//! The cookie of a browser that was logged in.

use axum::http::{HeaderMap, header};
use jiff::SignedDuration;

/// Behind HTTPS the name itself keeps others from setting it.
const fn name(is_secure: bool) -> &'static str {
    if is_secure { "__Host-rethread" } else { "rethread" }
}

pub(super) fn read(headers: &HeaderMap, is_secure: bool) -> Option<String> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut found = all.flat_map(|text| text.split(';')).filter_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name(is_secure)).then(|| value.to_owned())
    });
    // Two of them: somebody else has set one.
    match (found.next(), found.next()) {
        (Some(secret), None) => Some(secret),
        _ => None,
    }
}

/// What the browser is to keep: out of reach of scripts, sent to nobody else's pages.
pub(super) fn set(secret: &str, lasts: SignedDuration, is_secure: bool) -> String {
    let (name, secure) = (name(is_secure), if is_secure { "; Secure" } else { "" });
    let seconds = lasts.as_secs();
    format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
}

pub(super) fn forget(is_secure: bool) -> String {
    set("", SignedDuration::ZERO, is_secure)
}
