//! How a receiver can tell that a notice is ours, and not an old one sent again.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::webhook::Key;

/// Returns `sha256=` and the HMAC of `timestamp.body`; `None` for a key that is none.
pub(crate) fn signature(key: &Key, timestamp: i64, body: &[u8]) -> Option<String> {
    if key.reveal().is_empty() {
        return None;
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(key.reveal().as_bytes()).ok()?;
    mac.update(timestamp.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    let digest = mac.finalize().into_bytes();
    let mut told = "sha256=".to_owned();
    digest.iter().for_each(|byte| told.push_str(&format!("{byte:02x}")));
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_others_compute() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac geheim
        let key = Key::from("geheim".to_owned());
        let told = signature(&key, 1_700_000_000, br#"{"a":1}"#);
        assert_eq!(
            told.as_deref(),
            Some("sha256=c2f0a59f12d0bcd3933234d85083c03b99e970604203fd059a320436bb602adf")
        );
        assert_eq!(signature(&Key::from(String::new()), 0, b""), None);
    }
}
