//! Values out of lines that are damaged, deep or large.

use super::*;

fn parsed(line: &[u8]) -> Option<(Value, bool)> {
    parse(line).map(|parsed| (parsed.value, parsed.is_damaged))
}

#[test]
fn what_is_nested_too_deeply_is_kept_as_a_text() {
    for depth in [10, 126, 127, 128, 5_000] {
        let nested = format!("{}\"]\\u00e9\\\"[\"{}", "[".repeat(depth), "]".repeat(depth));
        let line = format!(r#"{{"a":"x","b":{nested},"c":[{nested},1]}}"#);
        let (value, is_damaged) = parsed(line.as_bytes()).unwrap();
        assert_eq!((&value["a"], &value["c"][1], is_damaged), (&"x".into(), &1.into(), false));
        let text = value.to_string();
        assert_eq!(text.matches("\u{e9}").count() + text.matches("u00e9").count(), 2, "{depth}");
        let torn = &line[..line.len() - 1];
        assert!(depth < 100 || parsed(torn.as_bytes()).is_none_or(|(_, is_damaged)| is_damaged));
    }
}

#[test]
fn damaged_lines_give_what_can_be_read() {
    let whole = serde_json::json!({"a": "x"});
    assert_eq!(parsed(br#"{"a":"x"}"#), Some((whole.clone(), false)));
    assert_eq!(parsed(b"\xef\xbb\xbf{\"a\":\"x\"}\r"), Some((whole.clone(), false)));
    assert_eq!(parsed(br#"{"type":"b","text":"to{"a":"x"}"#), Some((whole, true)));
    let mended = |text: &str| Some((serde_json::json!({ "a": text }), true));
    assert_eq!(parsed(b"{\"a\":\"x\xff\"}"), mended("x\u{fffd}"));
    assert_eq!(parsed(b"{\"a\":\"x\ty\"}"), mended("x\ty"));
    assert_eq!(parsed(br#"{"a":"\ud83dx"}"#), mended("\u{fffd}x"));
    assert_eq!(parsed(br#"{"a":"\udc00"}"#), mended("\u{fffd}"));
    assert_eq!(parsed(br#"{"a":"\ud83d\ude00\"\\ \ud8"#), None);
    assert_eq!(parsed(br#"{"a":"x"#), None);
    assert_eq!(parsed("[".repeat(10_000).as_bytes()), None);
}

#[test]
fn times_are_read_in_each_form() {
    let at = |value: Value| time(&value).map(|at| at.to_string());
    assert_eq!(at("2026-11-17T19:02:40.631Z".into()).as_deref(), Some("2026-11-17T19:02:40.631Z"));
    assert_eq!(at(1_794_942_160.into()).as_deref(), Some("2026-11-17T19:02:40Z"));
    assert_eq!(at(1_794_942_160_631_u64.into()).as_deref(), Some("2026-11-17T19:02:40.631Z"));
    assert_eq!(at("-009999-01-01T00:00:00Z".into()), None);
    assert_eq!(at(1e300.into()), None);
}
