//! What the renderer lets through, and what it does not.

use super::*;

/// Every tag that may come out, with its attributes.
const ALLOWED: &[(&str, &[&str])] = &[
    ("p", &[]),
    ("h3", &[]),
    ("h4", &[]),
    ("h5", &[]),
    ("h6", &[]),
    ("blockquote", &[]),
    ("pre", &[]),
    ("code", &[]),
    ("ol", &["start"]),
    ("ul", &[]),
    ("li", &[]),
    ("table", &[]),
    ("tr", &[]),
    ("th", &[]),
    ("td", &[]),
    ("em", &[]),
    ("strong", &[]),
    ("del", &[]),
    ("br", &[]),
    ("hr", &[]),
    ("a", &["href", "rel"]),
];

/// Reads the output as a browser would begin to: every `<` opens one of our tags, whose attributes are quoted.
fn check(text: &str) -> String {
    let out = html(text);
    let mut rest = out.as_str();
    while let Some(at) = rest.find('<') {
        assert!(!rest[..at].contains('>'), "a lone > in {out:?} of {text:?}");
        rest = &rest[at + 1..];
        let is_end = rest.starts_with('/');
        let end = rest.find('>').unwrap_or_else(|| panic!("an open tag in {out:?}"));
        let inside = rest[..end].trim_start_matches('/');
        rest = &rest[end + 1..];
        let (name, attributes) = inside.split_once(' ').unwrap_or((inside, ""));
        let allowed = ALLOWED.iter().find(|(known, _)| *known == name);
        let allowed = allowed.unwrap_or_else(|| panic!("<{inside}> in {out:?} of {text:?}")).1;
        assert!(!is_end || attributes.is_empty());
        check_attributes(attributes, allowed, text);
    }
    assert!(!rest.contains('>'), "a lone > in {out:?} of {text:?}");
    out
}

fn check_attributes(mut attributes: &str, allowed: &[&str], text: &str) {
    while !attributes.is_empty() {
        let (name, rest) = attributes.split_once("=\"").expect("a quoted value");
        let (value, rest) = rest.split_once('"').expect("an end of the value");
        assert!(allowed.contains(&name.trim()), "{name} of {text:?}");
        assert!(!value.contains(['<', '>', '\'', '\n']), "{value} of {text:?}");
        if name.trim() == "href" {
            let value = value.to_ascii_lowercase();
            let known = ["http://", "https://", "http:", "https:", "mailto:"];
            assert!(known.iter().any(|scheme| value.starts_with(scheme)), "{value} of {text:?}");
        }
        attributes = rest;
    }
}

/// What people have tried on other renderers.
const CORPUS: &[&str] = &[
    "<script>alert(1)</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    "<script\n>alert(1)</script\n>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<img src=x onerror=alert(1)>",
    "<img src=\"x\" onerror=\"alert(1)\">",
    "<IMG \"\"\"><SCRIPT>alert(1)</SCRIPT>\">",
    "<img src=`x` onerror=`alert(1)`>",
    "<svg onload=alert(1)>",
    "<svg><script>alert&#40;1)</script></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg><a xlink:href=\"javascript:alert(1)\"><text x=20 y=20>x</text></a></svg>",
    "<math><mi xlink:href=\"data:x,<script>alert(1)</script>\"></mi></math>",
    "<body onload=alert(1)>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<iframe srcdoc=\"<script>alert(1)</script>\"></iframe>",
    "<object data=\"data:text/html,<script>alert(1)</script>\"></object>",
    "<embed src=javascript:alert(1)>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<meta http-equiv=refresh content=\"0;url=javascript:alert(1)\">",
    "<base href=//evil.example/>",
    "<form action=javascript:alert(1)><button>x</button></form>",
    "<input autofocus onfocus=alert(1)>",
    "<details open ontoggle=alert(1)>x</details>",
    "<video><source onerror=alert(1)></video>",
    "<audio src=x onerror=alert(1)>",
    "<marquee onstart=alert(1)>x</marquee>",
    "<style>@import '//evil.example/x.css';</style>",
    "<p style=\"background:url(javascript:alert(1))\">x</p>",
    "<a href=\"javascript:alert(1)\">x</a>",
    "<!--><script>alert(1)</script>-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "]]><script>alert(1)</script>",
    "<?xml version=\"1.0\"?><x/>",
    "<!DOCTYPE html><html><head></head></html>",
    "<template><script>alert(1)</script></template>",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\"></noscript>",
    "<textarea></textarea><script>alert(1)</script>",
    "<title></title><script>alert(1)</script>",
    "</p></div></main><script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](&#x6A;&#x61;&#x76;&#x61;script:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](<java\nscript:alert(1)>)",
    "[x](<javascript:alert(1)>)",
    "[x]( javascript:alert(1))",
    "[x](\u{1}javascript:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[x](vbscript:msgbox(1))",
    "[x](file:///etc/passwd)",
    "[x](//evil.example)",
    "[x](/logout)",
    "[x](https://ok.example/\"onmouseover=\"alert(1))",
    "[x](https://ok.example/'><script>alert(1)</script>)",
    "[x](<https://ok.example/\"><script>alert(1)</script>>)",
    "[x](https://ok.example \"title\" onclick=\"alert(1)\")",
    "[x](https://ok.example \"\\\"><script>alert(1)</script>\")",
    "[<img src=x onerror=alert(1)>](https://ok.example)",
    "![x](javascript:alert(1))",
    "![\"><script>alert(1)</script>](https://ok.example/x.png)",
    "![x\" onerror=\"alert(1)](https://ok.example/x.png)",
    "[![x](https://ok.example/x.png)](https://ok.example)",
    "[a [b](https://ok.example) c](https://ok.example)",
    "<javascript:alert(1)>",
    "<https://ok.example/\"onclick=alert(1)>",
    "<a@b.example>",
    "<a@b.example\"onclick=alert(1)>",
    "[x][y]\n\n[y]: javascript:alert(1) \"<script>\"",
    "```\"><script>alert(1)</script>\ncode\n```",
    "```html onload=alert(1)\n</code></pre><script>alert(1)</script>\n```",
    "    </code></pre><script>alert(1)</script>",
    "`</code><script>alert(1)</script>`",
    "| a | <script>alert(1)</script> |\n|---|:-:|\n| </td><script>alert(1)</script> | \" onclick=x |",
    "# <script>alert(1)</script> {#x onclick=alert(1)}",
    "> <script>alert(1)</script>\n> </blockquote>",
    "- <li onclick=alert(1)>\n- [x] <input onfocus=alert(1)>",
    "99999999. <script>alert(1)</script>",
    "{{ 7*7 }} {% raw %} ${7*7} #{7*7} <%= 7*7 %> {{constructor.constructor('alert(1)')()}}",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "&#x3C;script&#x3E;alert(1)",
    "\\<script\\>alert(1)\\</script\\>",
    "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
    "\u{feff}<script>alert(1)</script>",
    "<\0script>alert(1)</script>",
    "<script>alert(1)",
    "<<script>alert(1)//<</script>",
    "\"><img src=x onerror=alert(1)>",
    "'-alert(1)-'",
    "<x onpointerenter=alert(1)>",
    "<x/onclick=alert(1)//",
    "\u{202e}<script>alert(1)</script>",
    "**<b onclick=alert(1)>x</b>** ~~<s>~~ _<i>_",
];

#[test]
fn nothing_comes_out_but_our_own_tags() {
    assert!(CORPUS.len() >= 60);
    for text in CORPUS {
        check(text);
        check(&format!("before\n\n{text}\n\nafter"));
        check(&format!("> - **{text}** and [{text}]({text})"));
        check(&format!("| {text} |\n|---|\n| `{text}` |"));
    }
}

#[test]
fn one_payload_after_another_changes_nothing() {
    for pair in CORPUS.windows(3) {
        check(&pair.concat());
        check(&pair.join("\n"));
    }
}

#[test]
fn links_lead_to_the_web_and_to_mail_only() {
    for dead in ["javascript:x", "data:x", "/logout", "//e.example", "ftp://x", "x", "", "HTTPS"] {
        assert!(!check(&format!("[x]({dead})")).contains("<a"), "{dead}");
    }
    let out = check("[x](HTTPS://ok.example/?a=1&b=2) <a@b.example>");
    assert!(out.contains("href=\"HTTPS://ok.example/?a=1&amp;b=2\""), "{out}");
    assert!(out.contains("href=\"mailto:a@b.example\""), "{out}");
    assert_eq!(out.matches("rel=\"noopener noreferrer nofollow\"").count(), 2);
}

#[test]
fn images_are_links() {
    let out = check("![a cat](https://ok.example/cat.png)");
    assert!(out.contains(">Image: a cat</a>"), "{out}");
}

#[test]
fn what_markdown_is_for_comes_out() {
    let out = check(
        "# A\n\none\ntwo **b** `c`\n\n1. x\n2. y\n\n| h |\n|---|\n| d |\n\n```rust\nfn a<T>() {}\n```",
    );
    for part in [
        "<h3>A</h3>",
        "one<br>\ntwo <strong>b</strong> <code>c</code>",
        "<ol><li>x</li>",
        "<th>h</th>",
        "<td>d</td>",
        "<pre><code>fn a&lt;T&gt;() {}\n</code></pre>",
    ] {
        assert!(out.contains(part), "{part} in {out}");
    }
}

#[test]
fn depth_is_bounded() {
    let out = check(&format!("{} deep", ">".repeat(5_000)));
    assert!(out.matches("<blockquote>").count() <= DEEPEST);
    assert!(out.contains("deep"));
    check(&"- ".repeat(3_000));
    check(&"[".repeat(20_000));
    check(&"*a **".repeat(5_000));
}
