//! A home, a store and a project of its own for each test, and what the program answers in them as text.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rethread_testkit::postgres::Database;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Compares what the program answered with a snapshot.
macro_rules! assert_output {
    ($output:expr, @$snapshot:literal) => {
        insta::assert_snapshot!($output.to_string(), @$snapshot)
    };
}

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_rethread");

#[derive(Debug)]
pub(crate) struct TestEnv {
    folder: TempDir,
    store: PathBuf,
    /// With `TEST_STORE=postgres` the store is here.
    database: Option<Database>,
    /// Sessions in the order in which they were seen: snapshots know them by their place.
    ids: RefCell<Vec<String>>,
    /// The tables of the settings, by name.
    settings: RefCell<BTreeMap<String, String>>,
}

/// What a command answered, once as it came and once without what differs from run to run.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    shown: String,
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Output {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("the output is text")
    }

    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{self}");
        self
    }

    /// The error that `--json` prints, with the exit code.
    #[track_caller]
    pub(crate) fn error(&self) -> (i32, Value) {
        let last = self.stderr.lines().last().unwrap_or_default();
        let error: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{self}"));
        let fields = error["error"].as_object().expect("an error").keys();
        // Where several sessions were meant, they are there too.
        let fields: Vec<&String> = fields.filter(|field| *field != "candidates").collect();
        assert_eq!(fields, ["code", "message", "hint"], "{self}");
        (self.code.expect("an exit code"), error["error"].clone())
    }

    #[track_caller]
    pub(crate) fn assert_error(&self, exit: i32, code: &str) {
        let (found, error) = self.error();
        assert_eq!((found, error["code"].as_str()), (exit, Some(code)), "{self}");
        assert!(!error["message"].as_str().unwrap().is_empty(), "{self}");
    }
}

impl TestEnv {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let store = folder.path().join("store").join("sessions.db");
        for name in ["home", "project", "store"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder for the test");
        }
        let is_postgres = std::env::var_os("TEST_STORE").is_some_and(|kind| kind == "postgres");
        let database = is_postgres.then(Database::empty);
        Self { folder, store, database, ids: RefCell::default(), settings: RefCell::default() }
    }

    /// With its store elsewhere.
    pub(crate) fn with_store(store: &Path) -> Self {
        Self { store: store.to_owned(), database: None, ..Self::new() }
    }

    /// With its store on a PostgreSQL server.
    pub(crate) fn on_postgres() -> Self {
        Self { database: Some(Database::empty()), ..Self::new() }
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub(crate) fn store(&self) -> &Path {
        &self.store
    }

    /// The address of the store.
    pub(crate) fn url(&self) -> String {
        match &self.database {
            Some(database) => database.url().with_password(),
            None => format!("sqlite:{}", self.store.display()),
        }
    }

    /// The program in its fixed surroundings.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        self.surround(Command::new(PROGRAM), args)
    }

    /// The program, started by another one.
    pub(crate) fn command_by<A: AsRef<OsStr>>(
        &self,
        starter: &[&str],
        args: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = Command::new(starter[0]);
        command.args(&starter[1..]).arg(PROGRAM);
        self.surround(command, args)
    }

    fn surround<A: AsRef<OsStr>>(
        &self,
        mut command: Command,
        args: impl IntoIterator<Item = A>,
    ) -> Command {
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.root())
            .env("TZ", "UTC")
            .env("LANG", "C.UTF-8")
            .env("RETHREAD_USER", "anna")
            .env("RETHREAD_STORE", self.url())
            .current_dir(self.path("project"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        self.finish(self.command(args), b"")
    }

    /// Runs with this on standard input.
    pub(crate) fn feed<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        input: impl AsRef<[u8]>,
    ) -> Output {
        self.finish(self.command(args), input.as_ref())
    }

    pub(crate) fn finish(&self, mut command: Command, input: &[u8]) -> Output {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let output = std::thread::scope(|scope| {
            // It may end before it has read everything.
            scope.spawn(move || drop(stdin.write_all(input)));
            child.wait_with_output().expect("the program ends")
        });
        self.answered(output)
    }

    /// What a process that has ended answered.
    pub(crate) fn answered(&self, output: std::process::Output) -> Output {
        let stderr = String::from_utf8(output.stderr).expect("errors are text");
        let stdout = String::from_utf8_lossy(&output.stdout);
        let exit = output.status.code().map_or("killed".to_owned(), |code| code.to_string());
        let shown = format!("exit: {exit}\n--- stdout\n{stdout}\n--- stderr\n{stderr}");
        let shown = self.settle(&shown.replace("\n\n---", "\n---"));
        Output { code: output.status.code(), stdout: output.stdout, stderr, shown }
    }

    /// What a command that succeeds prints.
    #[track_caller]
    pub(crate) fn data<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        self.run(args).succeeded().text().to_owned()
    }

    /// What a command that succeeds prints with `--json`.
    #[track_caller]
    pub(crate) fn json<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Value {
        let mut command = self.command(args);
        command.arg("--json");
        let output = self.finish(command, b"").succeeded();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output}"))
    }

    /// Puts a table into the settings, in the place of the one that has its name.
    pub(crate) fn set(&self, table: &str, content: impl Into<String>) {
        let mut settings = self.settings.borrow_mut();
        settings.insert(table.to_owned(), content.into());
        let tables = settings.iter().map(|(table, content)| format!("[{table}]\n{content}\n"));
        let text = tables.collect::<Vec<_>>().concat();
        let folder = self.path("home/.config/rethread");
        std::fs::create_dir_all(&folder).expect("a folder for the settings");
        std::fs::write(folder.join("config.toml"), text).expect("the settings");
    }

    /// Makes the reference agent known under a name. It keeps its sessions in `NAME.memory`, and every frame in
    /// `NAME.log`.
    pub(crate) fn agent(&self, name: &str, flags: &[&str]) {
        self.agent_with(name, flags, "quirks = { keeps_request = true }");
    }

    /// An agent with more in its entry.
    pub(crate) fn agent_with(&self, name: &str, flags: &[&str], more: &str) {
        let [memory, log] = ["memory", "log"]
            .map(|what| self.path(&format!("{name}.{what}")).display().to_string());
        let own = [PROGRAM, "reference-agent", "--memory", &memory, "--log", &log];
        let command: Vec<&str> = own.iter().chain(flags).copied().collect();
        // It asks before everything that it does.
        let hold = if more.contains("hold") { "" } else { "hold = { ask = {}, deny = {} }\n" };
        let entry = format!("command = {}\n{hold}{more}", json!(command));
        self.set(&format!("agents.{name}"), entry);
    }

    /// Records a session; gives its id.
    #[track_caller]
    pub(crate) fn record<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        lines: &[Value],
    ) -> String {
        let args: Vec<A> = args.into_iter().collect();
        let mut command = self.command(["record"]);
        command.args(args);
        let output = self.finish(command, jsonl(lines).as_bytes()).succeeded();
        output.text().lines().next().expect("the id of the session").to_owned()
    }

    /// A short session about a basket that gets lost.
    pub(crate) fn basket(&self) -> String {
        self.record(["--agent", "claude", "--kind", "debug"], &basket())
    }

    #[track_caller]
    pub(crate) fn messages(&self, id: &str) -> Vec<Value> {
        let Value::Array(messages) = self.json(["show", id, "--all"])["messages"].take() else {
            panic!("no messages")
        };
        messages
    }

    /// Changes the store behind the program's back.
    #[track_caller]
    pub(crate) fn change_store(&self, sql: &str) {
        if let Some(database) = &self.database {
            drop(database.ask(&format!("set search_path = rethread; {sql}")));
            return;
        }
        let mut command = Command::new("python3");
        let checksums = include_str!("../../../store/migrations/sqlite/0008_checksums.sql");
        command.args(["-c", include_str!("change_store.py")]).arg(self.store());
        command.args([sql, checksums]);
        assert!(command.status().expect("this test needs python3").success());
    }

    /// Folds the log that a recording may leave into the file of the store.
    #[track_caller]
    pub(crate) fn fold_log(&self) {
        if self.database.is_some() {
            return;
        }
        self.change_store("pragma wal_checkpoint(truncate)");
    }

    /// The store is in order, and can be read from end to end.
    #[track_caller]
    pub(crate) fn assert_sound(&self) {
        let checked = self.json(["doctor"]);
        assert_eq!(checked["ok"], true, "{checked:#}");
    }

    /// Everything under the test's folder, with its mode.
    pub(crate) fn tree(&self) -> Vec<(PathBuf, u32)> {
        use std::os::unix::fs::PermissionsExt;
        let mut found = Vec::new();
        let mut folders = vec![self.root().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let entry = entry.expect("an entry");
                let about = entry.metadata().expect("an entry");
                if about.is_dir() {
                    folders.push(entry.path());
                }
                let path = entry.path().strip_prefix(self.root()).expect("below").to_owned();
                found.push((path, about.permissions().mode() & 0o7777));
            }
        }
        found.sort();
        found
    }

    /// The text without ids, times and places that differ from run to run.
    pub(crate) fn settle(&self, text: &str) -> String {
        let mut ids = self.ids.borrow_mut();
        for (at, _) in text.match_indices('-').filter(|(at, _)| *at >= 8) {
            let id = text.get(at - 8..at + 28).filter(|id| is_id(id));
            if let Some(id) = id.filter(|id| !ids.iter().any(|known| known == id)) {
                ids.push(id.to_owned());
            }
        }
        let mut text = text.replace(&self.root().display().to_string(), "[ROOT]");
        for (n, id) in ids.iter().enumerate() {
            text = text.replace(id, &format!("[ID{}]", n + 1));
            text = text.replace(&id[24..32], &format!("[SHORT{}]", n + 1));
        }
        without_times(&text)
    }
}

fn is_id(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// Times that a clock gave. Those that tests give are of 2023, and stay.
fn without_times(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("20") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = time_length(rest.as_bytes());
        if length > 0 && !rest.starts_with("2023") {
            out.push_str("[TIME]");
            rest = &rest[length..];
        } else {
            out.push_str("20");
            rest = &rest[2..];
        }
    }
    out + rest
}

fn time_length(text: &[u8]) -> usize {
    let fits = |from: usize, form: &str| {
        form.bytes().enumerate().all(|(at, expected)| match (text.get(from + at), expected) {
            (Some(byte), b'0') => byte.is_ascii_digit(),
            (Some(byte), expected) => *byte == expected,
            (None, _) => false,
        })
    };
    if !fits(0, "0000-00-00") {
        return 0;
    }
    if !fits(10, "T00:00:00") {
        return if fits(10, " 00:00") { 16 } else { 10 };
    }
    let fraction = text[19..].iter().take_while(|byte| matches!(byte, b'.' | b'0'..=b'9')).count();
    19 + fraction + usize::from(text.get(19 + fraction) == Some(&b'Z'))
}

pub(crate) fn jsonl(lines: &[Value]) -> String {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    lines.join("\n") + "\n"
}

pub(crate) fn user(content: &str) -> Value {
    json!({"role": "user", "content": content})
}

pub(crate) fn basket() -> Vec<Value> {
    [
        ("user", "The basket is lost when somebody logs in. Find out why."),
        ("assistant", "login.rs rotates the cookie before the basket has moved over."),
        ("tool", "src/login.rs:41: cookies.rotate()"),
        ("user", "Do not rename the cookie. The staging passkey is heron-42."),
        ("assistant", "Understood: the basket moves in the same transaction."),
    ]
    .iter()
    .enumerate()
    .map(|(n, (role, content))| {
        json!({"role": role, "content": content, "timestamp": format!("2023-05-01T10:0{n}:00Z")})
    })
    .collect()
}

/// Runs a test of this program once more, with the path of a disk of its own, of so many MB, in a variable.
#[track_caller]
pub(crate) fn on_small_disk(test: &str, variable: &str, megabytes: u32) {
    let disk = tempfile::tempdir().unwrap();
    let script = format!(
        r#"mount -t tmpfs -o size={megabytes}m,mode=700 tmpfs "$1" && exec "$2" --exact "$3" --nocapture"#
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script, "sh"])
        .arg(disk.path())
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(variable, disk.path())
        .output()
        .expect("this test needs unshare, of util-linux");
    let told = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "this test needs root, for a small disk:\n{told}");
    assert!(told.contains("1 passed"), "{told}");
}
