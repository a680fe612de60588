//! Texts in which secrets travel.

use rethread_redact::Redactor;
use serde_json::json;

use crate::dice::Dice;

/// A name that gives nothing away, in the style of each carrier.
pub(crate) const PLAIN: &str = "SETTING_A";

/// What a rule can find: six of the eight. Base64 and streams hold for known values only.
pub(crate) const FOR_RULES: &[&str] = &["env", "json", "url", "header", "diff", "wrapped"];

/// A text of that kind with a secret under a name.
pub(crate) fn carry(dice: &mut Dice, carrier: &str, name: &str, secret: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let header = lower.split('_').collect::<Vec<_>>().join("-");
    match carrier {
        "env" => {
            format!("PATH=/usr/local/bin:/usr/bin\nTERM=xterm-256color\n{name}={secret}\nSHLVL=1\n")
        }
        "json" => {
            let object = json!({"id": 7, "setting": "none", &lower: secret, "next": null});
            match dice.roll(3) {
                0 => object.to_string(),
                1 => format!("{object:#}"),
                _ => json!({"output": object.to_string()}).to_string(),
            }
        }
        "url" => format!(
            "GET https://api.vendor.test/v1/items?page=2&{lower}={secret}&sort=asc HTTP/1.1"
        ),
        "header" => format!("Accept: */*\r\nx-{header}: {secret}\r\nHost: vendor.test\r\n"),
        "diff" => format!("@@ -3,2 +3,2 @@\n name: service\n-{lower}: {secret}\n+{lower}: none\n"),
        "wrapped" => {
            let at = secret.len() / 2 + dice.roll(secret.len() / 4);
            let (first, second) = secret.split_at(at);
            format!("the value is {first}\n{second} as you can see")
        }
        other => panic!("no carrier {other}"),
    }
}

/// As addresses are encoded.
pub(crate) fn percent(value: &str) -> String {
    let kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    value
        .bytes()
        .map(|byte| if kept(byte) { char::from(byte).into() } else { format!("%{byte:02X}") })
        .collect()
}

/// As `base64` writes it.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let joined = (0..3).fold(0, |sum, at| sum << 8 | usize::from(*group.get(at).unwrap_or(&0)));
        for place in 0..4 {
            let c = alphabet[joined >> (18 - 6 * place) & 63];
            out.push(if place <= group.len() { char::from(c) } else { '=' });
        }
    }
    out
}

/// What a reader of a stream sees when the pieces are redacted as `held_back` says.
pub(crate) fn streamed(redactor: &Redactor, pieces: &[&str]) -> String {
    let (mut out, mut waiting) = (String::new(), String::new());
    for piece in pieces {
        waiting.push_str(piece);
        let ready = waiting.len() - redactor.held_back(&waiting);
        out.push_str(&redactor.redact_known(&waiting[..ready]).text);
        waiting.drain(..ready);
    }
    out + &redactor.redact_known(&waiting).text
}

/// The text in pieces of any length.
pub(crate) fn pieces<'a>(dice: &mut Dice, text: &'a str, longest: usize) -> Vec<&'a str> {
    let mut out = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut at = (1 + dice.roll(longest)).min(rest.len());
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        out.push(&rest[..at]);
        rest = &rest[at..];
    }
    out
}
