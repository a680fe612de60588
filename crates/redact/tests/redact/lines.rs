//! Lines as agents and people write them, without a secret in any.

use crate::dice::Dice;

const WORDS: &[&str] = &[
    "the",
    "session",
    "token",
    "password",
    "key",
    "secret",
    "store",
    "reads",
    "writes",
    "user",
    "auth",
    "header",
    "value",
    "config",
    "client",
    "server",
    "request",
    "response",
    "cache",
    "index",
    "when",
    "which",
    "is",
    "not",
    "and",
    "for",
    "a",
    "checks",
    "rotates",
    "credential",
    "bearer",
    "basic",
    "authorization",
    "stream",
    "parser",
    "lexer",
    "tokens",
    "keys",
    "file",
    "path",
    "error",
];

/// Names that sound secret or stand near to it.
const NAMES: &[&str] = &[
    "token",
    "password",
    "api_key",
    "apiKey",
    "secret",
    "accessToken",
    "DB_PASSWORD",
    "AUTH_TOKEN",
    "client_secret",
    "private_key",
    "key",
    "primaryKey",
    "cache_key",
    "max_tokens",
    "tokenizer",
    "token_count",
    "key_id",
    "secretName",
    "passwordField",
    "authUrl",
    "next_token",
    "public_key",
    "idempotency_key",
    "user",
    "count",
    "authorization",
    "x-api-key",
    "credentials",
];

/// What stands for a secret in code and documents.
const STAND_INS: &[&str] = &[
    "None",
    "null",
    "nil",
    "undefined",
    "\"\"",
    "string",
    "String",
    "str",
    "Option<String>",
    "&str",
    "os.environ[\"API_KEY_2\"]",
    "process.env.API_KEY_V2",
    "getToken()",
    "get_password(user1)",
    "<your-key-here>",
    "xxxxxxxxxxxxxxxx",
    "$API_KEY_2",
    "${API_KEY_2}",
    "$(cat token.txt)",
    "********",
    "\"your-api-key-123\"",
    "\"changeme\"",
    "config.api_key_v2",
    "self.token2",
    "env::var(\"API_KEY2\")?",
    "{{ secrets.API_KEY_2 }}",
    "\"%s\"",
    "4096",
    "3.14",
    "true",
    "Vec<u8>",
    "[u8; 32]",
    "request.headers[\"x-api-key2\"]",
    "\"sk-...\"",
    "\"ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"",
    "secrets.token_hex(32)",
    "hashlib.sha256(data).hexdigest()",
    "crypto.randomBytes(32)",
    "\"example-token-1\"",
    "`${prefix}-${id}`",
    "uuid4()",
    "\"test\"",
    "'password'",
    "Buffer.from(key1, 'base64')",
    "SecretStr",
    "z.string().min(8)",
    "\"Enter your password\"",
];

fn prose(dice: &mut Dice, words: usize) -> String {
    (0..words).map(|_| dice.pick(WORDS)).collect::<Vec<_>>().join(" ")
}

fn identifier(dice: &mut Dice) -> String {
    let joiner = dice.pick(&["_", "-", "", "."]);
    (0..=dice.roll(3)).map(|_| dice.pick(WORDS)).collect::<Vec<_>>().join(joiner)
}

fn assignment(dice: &mut Dice) -> String {
    let (name, value) = (dice.pick(NAMES), dice.pick(STAND_INS));
    match dice.roll(9) {
        0 => format!("{name}={value}"),
        1 => format!("    {name}: {value},"),
        2 => format!("let {name} = {value};"),
        3 => format!("export {name}={value}"),
        4 => format!("  \"{name}\": {value},"),
        5 => format!("{name}: {value}"),
        6 => format!("def login({name}: {value}) -> bool:"),
        7 => format!("if ({name} === {value}) {{ return {}; }}", identifier(dice)),
        _ => format!("const {name} = {value}; // {}", prose(dice, 4)),
    }
}

fn code(dice: &mut Dice) -> String {
    let (one, two) = (identifier(dice), identifier(dice));
    match dice.roll(8) {
        0 => format!("pub fn {one}({two}: &str) -> Result<Token2> {{"),
        1 => format!("import {{ {one} }} from \"./{two}/v2\";"),
        2 => format!("for {one} in {two}.iter().take({}) {{", dice.roll(999)),
        3 => format!("self.{one} = {two}(key, token=token, password=password)"),
        4 => format!("SELECT {one}, key, token FROM {two} WHERE id = {};", dice.roll(99_999)),
        5 => format!("assert_eq!({one}.token, \"{two}\");"),
        6 => format!("<input type=\"password\" name=\"{one}\" id=\"{two}-{}\">", dice.roll(99)),
        _ => format!("type {one} = {{ password: string; token?: {two} }}"),
    }
}

fn hashes(dice: &mut Dice) -> String {
    match dice.roll(10) {
        0 => format!("commit {}", dice.hex(40)),
        1 => format!("{}  {}.tar.gz", dice.hex(64), identifier(dice)),
        2 => format!("id: {}", dice.uuid()),
        3 => format!("\"key\": \"{}\", \"etag\": \"{}\"", dice.uuid(), dice.hex(32)),
        4 => format!("index {}..{} 100644", dice.hex(7), dice.hex(7)),
        5 => format!("md5 {} cache_key={}", dice.hex(32), dice.hex(32)),
        6 => format!("session token {} was closed; token: {}", dice.uuid(), dice.uuid()),
        7 => format!("image@sha256:{}", dice.hex(64)),
        8 => format!("public_key = \"{}\"", dice.base64(43)),
        _ => format!("{} {}", dice.hex(40), prose(dice, 5)),
    }
}

fn lock_file(dice: &mut Dice) -> String {
    match dice.roll(5) {
        0 => format!("checksum = \"{}\"", dice.hex(64)),
        1 => format!("      \"integrity\": \"sha512-{}==\",", dice.base64(86)),
        2 => format!(
            "    resolved \"https://registry.yarnpkg.com/{}/-/a-1.2.3.tgz#{}\"",
            identifier(dice),
            dice.hex(40)
        ),
        3 => format!(
            "github.com/{} v1.{}.0 h1:{}=",
            identifier(dice),
            dice.roll(99),
            dice.base64(43)
        ),
        _ => format!("    --hash=sha256:{} \\", dice.hex(64)),
    }
}

fn image(dice: &mut Dice) -> String {
    let length = 400 + dice.roll(2000);
    let data = dice.base64(length);
    match dice.roll(3) {
        0 => format!("![shot](data:image/png;base64,iVBORw0KGgo{data}=)"),
        1 => format!("{{\"type\": \"image\", \"data\": \"iVBORw0KGgo{data}==\"}}"),
        _ => format!("\"signature\": \"{data}==\""),
    }
}

fn log(dice: &mut Dice) -> String {
    let at = format!(
        "2026-11-{:02}T{:02}:{:02}:11.{:03}Z",
        1 + dice.roll(28),
        dice.roll(24),
        dice.roll(60),
        dice.roll(999)
    );
    match dice.roll(6) {
        0 => format!(
            "{at} INFO auth: token refreshed for user {} in {} ms",
            dice.roll(9999),
            dice.roll(999)
        ),
        1 => format!(
            "{at} WARN {} password check failed: attempt {}",
            identifier(dice),
            dice.roll(9)
        ),
        2 => format!(
            "{at} usage input_tokens={} output_tokens={} max_tokens: 8192",
            dice.roll(99_999),
            dice.roll(9999)
        ),
        3 => format!(
            "{at} GET https://api.example.test/v1/tokens?limit={}&key=name 200",
            dice.roll(99)
        ),
        4 => format!(
            "{at} request_id={} trace={} key=user:{}",
            dice.uuid(),
            dice.hex(32),
            dice.roll(9999)
        ),
        _ => format!("{at} connect postgres://postgres@localhost:5432/{}", identifier(dice)),
    }
}

fn document(dice: &mut Dice) -> String {
    let lead = dice.pick(&["- ", "## ", "", "> ", "1. ", "* **"]);
    let (count, more) = (8 + dice.roll(8), 3 + dice.roll(3));
    match dice.roll(4) {
        0 => format!("{lead}{}: {}.", prose(dice, 3), prose(dice, count)),
        1 => format!(
            "{lead}Set `API_KEY` to your key, e.g. `export API_KEY=<key>`; {}.",
            prose(dice, more)
        ),
        2 => format!(
            "{lead}It costs $12.{:02} for v1.{}.3-rc.1; {}",
            dice.roll(99),
            dice.roll(99),
            prose(dice, more)
        ),
        _ => format!("{lead}{} ({}) — {}", prose(dice, count), identifier(dice), prose(dice, more)),
    }
}

/// Commands, and sentences about them.
fn command(dice: &mut Dice) -> String {
    let (word, number) = (dice.pick(WORDS), dice.roll(9999));
    match dice.roll(16) {
        0 => format!("$ curl -fsSL https://example.test/{}.sh | sh", identifier(dice)),
        1 => format!("curl -u \"$USER:$TOKEN\" -X POST https://example.test/v{number}"),
        2 => format!("curl -u <user>:<{word}> https://example.test | jq ."),
        3 => format!("mysql -u root -p {word} < dump{number}.sql"),
        4 => format!("mysqldump -h db -P{number} -u {word} --password={} > x.sql", "$DB_PASS"),
        5 => format!("docker run --name mysql -p{number}:3306 -e MYSQL_{number}=1 mysql:8"),
        6 => format!("docker run -p {number}:80 {word}; ssh -p {number} host"),
        7 => format!("PGPASSWORD=\"$PGPASSWORD\" psql -h localhost -p {number} {word}"),
        8 => format!("with the --password flag or --user; {}", prose(dice, 4)),
        9 => format!("the `--password` {word} {}", prose(dice, 3)),
        10 => format!("docker login --username {word} --password-stdin < {word}.txt"),
        11 => format!("    --password <PASSWORD>  the {word} of the {word}"),
        12 => format!("Usage: tool --password=<{word}> --limit {number} -u USER"),
        13 => format!("install curl and mysql-client {number}; {}", prose(dice, 4)),
        14 => format!("HTTP Basic {word} and a basic {}", identifier(dice)),
        _ => format!("subprocess.run([\"curl\", \"-u\", creds, \"--password\", {word}])"),
    }
}

/// A line of any kind.
pub(crate) fn any(dice: &mut Dice) -> String {
    match dice.roll(24) {
        0..=4 => assignment(dice),
        5..=8 => code(dice),
        9..=11 => hashes(dice),
        12..=13 => lock_file(dice),
        14 => image(dice),
        15..=16 => log(dice),
        17..=20 => command(dice),
        _ => document(dice),
    }
}
