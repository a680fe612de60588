//! The ways in which a value can be written down: escaped, encoded for an address, or as base64.

use std::collections::BTreeSet;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const FOR_ADDRESSES: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A shorter piece of base64 could be anything.
const SHORTEST_BASE64: usize = 8;

/// What the usual encoders of addresses leave as it is, letters and digits aside.
const KEPT_IN_ADDRESSES: &[&str] = &["-_.~", "-_.!~*'()", "-_.*", "-_.!~*'();,/?:@&=+$#"];

/// Every way in which `value` is looked for, the plain one included.
pub(super) fn forms(value: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([value.to_owned()]);
    for kept in KEPT_IN_ADDRESSES {
        for hex in [b"0123456789ABCDEF", b"0123456789abcdef"] {
            let encoded = percent(value, kept, hex);
            forms.insert(encoded.replace("%20", "+"));
            forms.insert(encoded);
        }
    }
    for style in [Json::Plain, Json::Slashes, Json::Ascii, Json::Html] {
        let once = json(value, style);
        forms.insert(json(&once, style));
        forms.insert(once);
    }
    forms.insert(html(value));
    for alphabet in [STANDARD, FOR_ADDRESSES] {
        let aligned = (0..3).map(|offset| aligned_base64(value.as_bytes(), offset, alphabet));
        forms.extend(aligned.filter(|core| core.len() >= SHORTEST_BASE64));
    }
    forms
}

fn percent(value: &str, kept: &str, hex: &[u8; 16]) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(hex[usize::from(byte >> 4)]));
            out.push(char::from(hex[usize::from(byte & 15)]));
        }
    }
    out
}

/// What an encoder of JSON escapes beyond what it has to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Json {
    Plain,
    Slashes,
    Ascii,
    Html,
}

fn json(value: &str, style: Json) -> String {
    let mut out = String::with_capacity(value.len() + 8);
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '/' if style == Json::Slashes => out.push_str("\\/"),
            '<' | '>' | '&' if style == Json::Html => out.push_str(&format!("\\u{:04x}", c as u32)),
            c if c.is_control() || (style == Json::Ascii && !c.is_ascii()) => {
                let units = c.encode_utf16(&mut [0; 2]).to_vec();
                for unit in units {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out
}

fn html(value: &str) -> String {
    let escaped = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    escaped.replace('"', "&quot;").replace('\'', "&#39;")
}

/// The characters that stand for nothing but `value` when `offset` other bytes come before it.
fn aligned_base64(value: &[u8], offset: usize, alphabet: &[u8; 64]) -> String {
    let mut bytes = vec![0; offset];
    bytes.extend_from_slice(value);
    let whole = bytes.len() * 8 / 6;
    let mut out = String::with_capacity(whole);
    for group in bytes.chunks(3) {
        let joined = group.iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
        let joined = joined << (8 * (3 - group.len()));
        for place in [18, 12, 6, 0] {
            out.push(char::from(alphabet[joined >> place & 63]));
        }
    }
    let shared = (offset * 8).div_ceil(6);
    out[shared.min(whole)..whole].to_owned()
}

/// What base64 stands for, padded or not.
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut joined, mut bits) = (0_u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        joined = (joined << 6 | u32::from(value)) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push(u8::try_from(joined >> bits & 255).unwrap_or_default());
        }
    }
    Some(out)
}
