//! Sentences about single cases; recall and false positives are measured in `tests/redact`.

use serde_json::json;

use super::{Known, Redactor};

fn redactor() -> Redactor {
    let known = [("ACCESS_PASSWORD", "plum-violet/9 tree"), ("HOME", "/home/somebody/else")];
    let known = known.map(|(name, value)| Known { name: name.into(), value: value.into() });
    Redactor::new(known)
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let redacted = redactor().redact(text);
    assert_eq!(redacted.text, expected);
    assert_eq!(redactor().redact(expected).text, expected, "twice");
}

#[track_caller]
fn stays(text: &str) {
    check(text, text);
}

#[test]
fn a_known_value_is_found_in_any_writing() {
    let mask = "[redacted: value of ACCESS_PASSWORD]";
    check("it is plum-violet/9 tree.", &format!("it is {mask}."));
    check("?a=plum-violet%2F9%20tree&b", &format!("?a={mask}&b"));
    check("?a=plum-violet%2f9+tree&b", &format!("?a={mask}&b"));
    check(r#""plum-violet\/9 tree""#, &format!("{mask:?}"));
    check("cGx1bS12aW9sZXQvOSB0cmVl", mask);
    stays("/home/somebody/else/file");
}

#[test]
fn names_give_their_values_away() {
    check("password=hunter2x", "password=[redacted: password]");
    check(
        "export DB_PASSWORD='hunter2 x'; DB_PASSWORD=hunter2x",
        "export DB_PASSWORD='hunter2 x'; DB_PASSWORD=[redacted: password]",
    );
    check("  password: hunter2x # mine", "  password: [redacted: password] # mine");
    check(r#"{"userPassword": "hunter2x"}"#, r#"{"userPassword": "[redacted: password]"}"#);
    check(r#"{\"userPassword\": \"hunter2x\"}"#, r#"{\"userPassword\": \"[redacted: password]\"}"#);
    check("mysql --password hunter2x db", "mysql --password [redacted: password] db");
    check("<password>hunter2x</password>", "<password>[redacted: password]</password>");
    check("X-Api-Key: a8s7d6f5g4h3j2k1", "X-Api-Key: [redacted: key]");
    check("?token=a8s7d6f5g4h3j2k1&x=2", "?token=[redacted: token]&x=2");
    check(r#"let password: &str = "hunter2x";"#, r#"let password: &str = "[redacted: password]";"#);
    check(
        r#"h.set("X-Auth-Token", "a8s7d6f5g4h3j2k1l0q9")"#,
        r#"h.set("X-Auth-Token", "[redacted: token]")"#,
    );
}

#[test]
fn what_is_handed_to_a_program_is_a_password() {
    let mask = "[redacted: password]";
    for (before, secret, after) in [
        ("curl -u anna:", "wobbleboard", " https://example.test"),
        ("curl -sSLu anna:", "wobbleboard", " https://example.test"),
        ("curl -uanna:", "wobbleboard", ""),
        ("curl -X POST \\\n  --user 'anna:", "wobble board", "' https://example.test"),
        ("curl --proxy-user=anna:", "wobbleboard", " x"),
        ("run `curl https://example.test -u anna:", "wobbleboard", "` now"),
        ("mysql -u root -p", "wobbleboard", " shop"),
        ("/usr/bin/mysqldump --single-transaction -p'", "wobbleboard", "' shop > dump.sql"),
        ("mariadb-admin -p", "wobbleboard", " ping"),
        ("PGPASSWORD=", "wobbleboard", " psql -h db"),
        ("MYSQL_PWD=", "wobbleboard", " mysql"),
        ("mysqladmin --password ", "wobbleboard", " ping"),
        ("mysqladmin --password=", "wobbleboard", " ping"),
        ("tool --db-password \"", "wobbleboard", "\" ping"),
        ("args: [\"--password\", \"", "wobbleboard", "\"]"),
    ] {
        if secret.contains(' ') {
            // No password has a blank in it, as everywhere.
            stays(&format!("{before}{secret}{after}"));
        } else {
            check(&format!("{before}{secret}{after}"), &format!("{before}{mask}{after}"));
        }
    }
}

#[test]
fn a_key_is_found_whatever_stands_before_it() {
    let body = "Zq8RkT2mW9xLc4VbN7yH3sJd6fGa1eQu0pXo";
    let keys = [
        format!("ghp{}{body}", '_'),
        format!("AKI{}7QW3NXK5RTY2MPLZ", 'A'),
        format!("glpa{}-{}", 't', &body[..20]),
    ];
    for key in &keys {
        for (before, after) in [
            ("the key is _", "_."),
            ("branch deploy-", " is gone"),
            ("backup_", ".txt"),
            (r#"{"u":"https://h/?t\u003d"#, "\"}"),
            (r"\u0022", r"\u0022"),
            (r"\u001b[32m", r"\u001b[0m"),
            (r"\x1b[32m", " x"),
            (r"\033[1m", " x"),
            (r"\e[0m", " x"),
            ("subject=3D", "\n"),
        ] {
            let text = format!("{before}{key}{after}");
            let redacted = redactor().redact(&text).text;
            assert!(!redacted.contains(key.as_str()), "{text}: {redacted}");
            assert!(redacted.starts_with(before), "{redacted}");
        }
        // Not far within a word: what is so long is something else.
        stays(&format!("{}-{key}", "a1".repeat(40)));
    }
}

#[test]
fn what_only_speaks_of_commands_stays() {
    for line in [
        "curl -u $USER:$PASS https://example.test",
        "curl -u \"${USER}:${PASS}\" https://example.test",
        "curl -u <user>:<password> https://example.test",
        "curl -u user:password https://example.test",
        "curl --unix-socket /run/a.sock http://localhost/a:b",
        "the curly -u anna:wobbleboard",
        "mysql -u root -p shop",
        "mysql -P3306 -proot -p$MYSQL_PWD -p\"$DB_PASS\"",
        "docker run --name mysql -p3306:3306 -d mysql:8",
        "docker run -p8080:80 nginx; tar -pxzf a.tgz",
        "PGPASSWORD=$PGPASSWORD psql; PGPASSWORD=\"${DB_PASS}\" psql; PGPASSWORD= psql",
        "the --password flag, a --password option; --password should be given",
        "pass `--password` instead of typing it; --password VALUE, --password <value>",
        "--password --user anna; --password-stdin; --password=$PW; --password \"$PW\"",
        "--password-file /run/secrets/db --no-password either",
        "Basic authentication, basic science",
    ] {
        stays(line);
    }
}

#[test]
fn webhooks_and_our_own_tokens_go_as_a_whole() {
    let (team, app, end) = ("T01AB2CD3EF", "B04GH5IJ6KL", "aB3dE5fG7hI9jK1lM3nO5pQ7");
    let slack = format!("hooks.slack.com/services/{team}/{app}/{end}");
    check(&format!("at https://{slack}."), "at https://[redacted: slack webhook].");
    let token = format!("{end}-_{end}{end}");
    let discord = format!("discord.com/api/webhooks/112233445566778899/{token}");
    check(&format!("at https://{discord} now"), "at https://[redacted: discord webhook] now");
    check(&format!("https://canary.{discord}"), "https://canary.[redacted: discord webhook]");
    let own = format!("rtk_{}", "0a1b2c3d".repeat(8));
    check(
        &format!("{own} and ?x={own}"),
        "[redacted: rethread token] and ?x=[redacted: rethread token]",
    );
}

#[test]
fn headers_and_addresses_lose_only_the_secret() {
    check(
        "Authorization: Bearer a8s7d6f5g4h3j2k1",
        "Authorization: Bearer [redacted: bearer token]",
    );
    check(
        "Authorization: Basic dXNlcjpodW50ZXIyeA==",
        "Authorization: Basic [redacted: basic credentials]",
    );
    for (before, after) in [("basic ", "."), ("-H 'Authorization: BASIC  ", "'"), ("Basic ", "\\n")]
    {
        let text = format!("{before}dXNlcjpodW50ZXIyeA{after}");
        check(&text, &format!("{before}[redacted: basic credentials]{after}"));
    }
    check(
        "postgres://me:hunter2x@db:5432/a",
        "postgres://me:[redacted: password in an address]@db:5432/a",
    );
    stays("https://example.test/a@b:c");
    stays("Basic authentication is simple; a bearer of news");
}

#[test]
fn a_private_key_goes_as_a_whole() {
    let (begin, end) = ("-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----");
    let line = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtz";
    check(&format!("a\n{begin}\n{line}\n{end}\nb"), "a\n[redacted: private key]\nb");
    check(&format!("a {begin}\\n{line}\\n{end}\\n b"), "a [redacted: private key]\\n b");
    check(
        &format!("a\n{begin}\n{line}\n{line}\nand so on"),
        "a\n[redacted: private key]\nand so on",
    );
    stays("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----");
}

#[test]
fn what_only_speaks_of_secrets_stays() {
    for line in [
        "max_tokens=4096, tokens: 512",
        "tokenizer = \"cl100k_base\"",
        "password: string",
        "password: Option<String>,",
        "secret = os.environ[\"X_SECRET_1\"]",
        "token = getToken()",
        "const token = await user2.getIdToken(true);",
        "API_KEY=<your-key-here>",
        "API_KEY=xxxxxxxxxxxxxxxx",
        "API_KEY=$OTHER_KEY_2 API_KEY=${OTHER_KEY_2}",
        "apiKey: process.env.OPENAI_API_KEY_2,",
        "password = None; password: null, password='********'",
        "primaryKey: \"a8s7d6f5g4h3j2k1l0q9\"",
        "key: a8s7d6f5g4h3j2k1l0q9",
        "token: 550e8400-e29b-41d4-a716-446655440000",
        "next_page_token=a8s7d6f5g4h3j2k1l0q9",
        "PWD=/home/user2/project PASSWORD_FILE=/run/secrets/db1",
        "cache_key = 9b74c9897bac770ffc029102a200c5de",
        "integrity sha512-a8s7d6f5g4h3j2k1l0q9a8s7d6f5g4h3j2k1l0q9==",
        "INFO auth: request=9f3a61c0b7d2e845 took 3 ms",
        "let private_key = ChaCha20Key::from(chacha20_key_bytes);",
        "regKey = sqlite3GetTempRange(pParse, 3);",
        "token_count: 12345678, password_hash: bcrypt12",
    ] {
        stays(line);
    }
}

#[test]
fn fields_of_json_are_driven_by_their_names() {
    let mut value = json!({
        "env": [{"name": "DB_PASSWORD", "value": "hunter2x"}, {"name": "USER", "value": "hunter2x"}],
        "password": ["hunter2x", "string"],
        "note": "see plum-violet/9 tree",
        "usage": {"max_tokens": "4096"},
    });
    let replaced = redactor().redact_json(&mut value);
    assert_eq!(replaced, ["password", "password", "value of ACCESS_PASSWORD"]);
    let expected = json!({
        "env": [
            {"name": "DB_PASSWORD", "value": "[redacted: password]"},
            {"name": "USER", "value": "hunter2x"},
        ],
        "password": ["[redacted: password]", "string"],
        "note": "see [redacted: value of ACCESS_PASSWORD]",
        "usage": {"max_tokens": "4096"},
    });
    assert_eq!(value, expected);
    assert!(redactor().redact_json(&mut value).is_empty());
}

#[test]
fn only_known_values_are_replaced_when_asked_so() {
    let redactor = redactor();
    assert!(redactor.has_known());
    let text = "password=hunter2x and plum-violet/9 tree";
    let expected = "password=hunter2x and [redacted: value of ACCESS_PASSWORD]";
    assert_eq!(redactor.redact_known(text).text, expected);
    let mut value = json!({"password": "hunter2x", "plum-violet/9 tree": 1});
    assert_eq!(redactor.redact_known_json(&mut value), ["value of ACCESS_PASSWORD"]);
    assert_eq!(value, json!({"password": "hunter2x", "[redacted: value of ACCESS_PASSWORD]": 1}));
}

#[test]
fn what_is_plainly_no_secret_is_not_known() {
    for (name, value) in [
        ("API_TOKEN", "short"),
        ("PATH", "/usr/local/bin:/usr/bin"),
        ("API_TOKEN", "true"),
        ("TERM", "xterm-256color"),
        ("LANG", "en_US.UTF-8"),
        ("HOSTNAME", "somebodys-machine"),
        ("DATE", "2026-11-16T10:00:00"),
        ("API_KEY", "your-api-key"),
        ("API_KEY", "${OTHER_KEY}"),
        ("HOMEPAGE", "https://example.test/a8s7d6f5g4h3j2k1"),
    ] {
        let known = Known { name: name.into(), value: value.into() };
        assert!(!Redactor::new([known]).has_known(), "{name}={value}");
    }
}

#[test]
fn the_beginning_of_a_known_value_is_held_back() {
    let redactor = redactor();
    assert_eq!(redactor.held_back("see plum-v"), "plum-v".len());
    assert_eq!(redactor.held_back("see plum-violet/9 tree"), 0);
    assert_eq!(redactor.held_back("see nothing"), 0);
    assert_eq!(redactor.held_back(""), 0);
}

#[test]
fn a_mask_with_a_secret_inside_is_no_mask() {
    let known = "[redacted: [redacted: value of ACCESS_PASSWORD]]";
    check("[redacted: plum-violet/9 tree]", known);
}
