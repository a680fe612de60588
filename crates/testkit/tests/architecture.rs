//! The rules of the house: who may use whom, which outside crate belongs to which room, how long a file may be.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// Each crate of ours, with those of ours it may use.
const ROOMS: &[(&str, &[&str])] = &[
    ("tokens", &[]),
    ("domain", &["tokens"]),
    ("redact", &[]),
    ("workflow", &["domain"]),
    ("store", &["domain", "redact", "workflow"]),
    ("workspace", &[]),
    ("import", &["domain"]),
    ("engine", &["domain", "redact", "workflow", "store", "workspace", "import"]),
    ("acp", &["domain", "engine"]),
    ("mcp", &["domain", "redact", "workflow", "engine"]),
    ("server", &["domain", "redact", "workflow", "engine"]),
    ("outbound", &["workflow"]),
    (
        "cli",
        &[
            "domain",
            "redact",
            "workflow",
            "store",
            "engine",
            "acp",
            "mcp",
            "server",
            "outbound",
            "reference",
        ],
    ),
    ("testkit", &["domain", "workflow", "store", "engine"]),
    ("reference", &[]),
    (
        "bench",
        &["domain", "redact", "workflow", "store", "workspace", "engine", "acp", "cli", "testkit"],
    ),
];

/// Outside crates that only some of ours may know.
const RESERVED: &[(&str, &[&str])] = &[
    // Our own database is the store's alone; import reads those of other agents, and writes to none.
    ("rusqlite", &["store", "bench", "import"]),
    ("zstd", &["store", "import"]),
    ("flate2", &["import"]),
    ("zip", &["import"]),
    // What the standard library has not: in import, inotify.
    ("rustix", &["acp", "cli", "store", "workspace", "import"]),
    ("blake3", &["store", "workspace", "import"]),
    ("crc32fast", &["store"]),
    ("tokio-postgres", &["store", "testkit", "bench"]),
    ("bytes", &["store"]),
    ("tiktoken-rs", &["tokens"]),
    ("rust-stemmers", &["domain"]),
    ("aho-corasick", &["redact"]),
    ("pulldown-cmark", &["workflow", "server", "cli"]),
    ("anstyle", &["cli"]),
    ("getrandom", &["engine"]),
    ("strsim", &["domain"]),
    ("clap", &["cli", "reference"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("comfy-table", &["cli"]),
    ("toml_edit", &["cli", "workspace"]),
    ("jsonc-parser", &["cli"]),
    ("etcetera", &["cli"]),
    ("anyhow", &["cli", "bench"]),
    ("ratatui", &["cli"]),
    ("nucleo-matcher", &["cli"]),
    ("reqwest", &["outbound"]),
    ("rustls", &["outbound", "store"]),
    ("rustls-native-certs", &["store"]),
    ("tokio-postgres-rustls", &["store"]),
    ("hmac", &["outbound", "cli"]),
    ("sha2", &["outbound", "cli"]),
    ("agent-client-protocol-schema", &["acp"]),
    ("rmcp", &["mcp"]),
    ("schemars", &["engine", "mcp"]),
    ("axum", &["mcp", "server"]),
    ("hyper", &["server"]),
    ("tower-http", &["server"]),
    ("tracing-subscriber", &["cli"]),
    ("hyper-util", &["server"]),
    ("utoipa", &["engine", "server"]),
    ("utoipa-axum", &["server"]),
    ("askama", &["server"]),
    ("prometheus-client", &["server"]),
    ("tokio-rustls", &["server", "cli"]),
];

/// What every crate may use for its tests.
const FOR_TESTS: &str = "testkit";

const LONGEST_FILE: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read_toml(path: &Path) -> Table {
    fs::read_to_string(path).unwrap().parse().unwrap()
}

/// The crates there are, with their manifests.
fn manifests() -> Vec<(String, Table)> {
    let folders = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<(String, Table)> = folders
        .filter(|folder| folder.join("Cargo.toml").is_file())
        .map(|folder| {
            let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
            (name, read_toml(&folder.join("Cargo.toml")))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// The names of what a crate uses, for itself and for its tests.
fn dependencies(manifest: &Table) -> (Vec<String>, Vec<String>) {
    let names = |table: &Table, name: &str| -> Vec<String> {
        let found = table.get(name).and_then(Value::as_table);
        found.map(|table| table.keys().cloned().collect()).unwrap_or_default()
    };
    let mut own = Vec::new();
    let mut for_tests = Vec::new();
    let targets = manifest.get("target").and_then(Value::as_table).cloned().unwrap_or_default();
    for table in [manifest].into_iter().chain(targets.values().filter_map(Value::as_table)) {
        own.extend(names(table, "dependencies"));
        own.extend(names(table, "build-dependencies"));
        for_tests.extend(names(table, "dev-dependencies"));
    }
    (own, for_tests)
}

/// Every source file of ours.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    assert!(found.len() > 50, "only {} source files were found", found.len());
    found.sort();
    found
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

fn expect_none(broken: Vec<String>) {
    assert!(broken.is_empty(), "rules of the house are broken:\n  {}", broken.join("\n  "));
}

#[test]
fn every_crate_has_a_place_in_the_house() {
    let found: Vec<String> = manifests().into_iter().map(|(name, _)| name).collect();
    let mut known: Vec<&str> = ROOMS.iter().map(|(name, _)| *name).collect();
    known.sort_unstable();
    assert_eq!(found, known, "crates/ and ROOMS of the architecture test differ");
}

#[test]
fn each_crate_uses_only_those_of_ours_that_it_may() {
    let mut broken = Vec::new();
    for (name, manifest) in manifests() {
        let allowed = ROOMS.iter().find(|(room, _)| *room == name).map_or(&[][..], |(_, may)| may);
        let (own, for_tests) = dependencies(&manifest);
        let ours = |used: &String| used.strip_prefix("rethread-").map(str::to_owned);
        for used in own.iter().filter_map(ours).filter(|used| !allowed.contains(&used.as_str())) {
            broken.push(format!("crates/{name}/Cargo.toml: {name} may not use {used}"));
        }
        for used in for_tests
            .iter()
            .filter_map(ours)
            .filter(|used| used != FOR_TESTS && !allowed.contains(&used.as_str()))
        {
            broken.push(format!("crates/{name}/Cargo.toml: tests of {name} may not use {used}"));
        }
    }
    expect_none(broken);
}

#[test]
fn an_outside_crate_stays_in_its_room() {
    let mut broken = Vec::new();
    for (name, manifest) in manifests() {
        let (own, for_tests) = dependencies(&manifest);
        for used in own.iter().chain(&for_tests) {
            let reserved = RESERVED.iter().find(|(outside, _)| outside == used);
            if let Some((_, rooms)) = reserved.filter(|(_, rooms)| !rooms.contains(&name.as_str()))
            {
                let rooms = rooms.join(" and ");
                broken.push(format!("crates/{name}/Cargo.toml: {used} belongs to {rooms}"));
            }
        }
    }
    expect_none(broken);
}

#[test]
fn only_the_workspace_calls_git() {
    let call = format!("Command::new({:?})", "git");
    let mut broken = Vec::new();
    for path in sources() {
        let inside = shown(&path);
        let may = inside.starts_with("crates/workspace/") || inside.contains("/tests/");
        if !may && fs::read_to_string(&path).unwrap().contains(&call) {
            broken.push(format!("{inside}: the program git belongs to workspace"));
        }
    }
    expect_none(broken);
}

#[test]
fn nothing_in_the_domain_knows_how_it_is_retold() {
    let mut broken = Vec::new();
    for path in sources() {
        let inside = shown(&path);
        let below = inside.starts_with("crates/domain/src/") && !inside.contains("/retell/");
        if below && fs::read_to_string(&path).unwrap().contains("crate::retell") {
            broken.push(format!("{inside}: retell uses it, so it may not use retell"));
        }
    }
    expect_none(broken);
}

/// A context is chosen in one place, whoever asks for it: commands, REST, MCP and the dashboard take it from `Engine::context`,
/// agents are told by the same retelling, and only the store ranks.
#[test]
fn every_context_is_chosen_by_the_same_code() {
    let uses = [
        ("retell::tell", &["crates/engine/src/resume.rs", "crates/engine/src/agents/tell.rs"][..]),
        ("rank::choose", &["crates/store/src/sql/recall.rs"][..]),
    ];
    let mut broken = Vec::new();
    for (call, allowed) in uses {
        let mut found = Vec::new();
        for path in sources().into_iter().filter(|path| !shown(path).contains("/tests/")) {
            let inside = shown(&path);
            let is_inside = inside.starts_with("crates/domain/src/");
            if !is_inside && fs::read_to_string(&path).unwrap().contains(call) {
                found.push(inside);
            }
        }
        found.sort();
        let mut expected = allowed.to_vec();
        expected.sort_unstable();
        if found != expected {
            broken.push(format!("{call} is used in {found:?} instead of {expected:?}"));
        }
    }
    expect_none(broken);
}

#[test]
fn doors_do_not_name_the_errors_of_the_store() {
    let mut broken = Vec::new();
    for path in sources() {
        let inside = shown(&path);
        let is_door = ["cli", "server", "mcp"]
            .iter()
            .any(|door| inside.starts_with(&format!("crates/{door}/src/")));
        let text = fs::read_to_string(&path).unwrap();
        let names =
            ["store::Error", "Error::Store("].into_iter().filter(|name| text.contains(name));
        let listed =
            text.split("rethread_store::{").skip(1).filter_map(|rest| rest.split_once('}'));
        let listed =
            listed.filter(|(names, _)| names.split(',').any(|name| name.trim() == "Error"));
        if is_door && names.count() + listed.count() > 0 {
            broken.push(format!(
                "{inside}: errors of the store belong to engine, which gives them codes"
            ));
        }
    }
    expect_none(broken);
}

#[test]
fn no_file_is_too_long_and_each_says_what_it_is_for() {
    let mut broken = Vec::new();
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().count();
        if lines > LONGEST_FILE {
            let inside = shown(&path);
            broken.push(format!("{inside}: {lines} lines, at most {LONGEST_FILE} are allowed"));
        }
        if !text.starts_with("//! ") {
            broken.push(format!("{}: it does not begin with a //! comment", shown(&path)));
        }
    }
    expect_none(broken);
}

/// Whether a line throws away what a call gave: not a value that has a name, nor one that cannot be a failure.
fn discards(line: &str) -> bool {
    let Some((before, dropped)) = line.split_once("drop(") else { return false };
    let is_call = dropped.trim_end_matches([';', ',', ' ']).trim_end_matches(')').contains('(');
    let is_harmless = ["?)", ".insert(", ".pop()", ".take()", ".or_log("];
    let is_own = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    is_call
        && !dropped.starts_with('(')
        && !is_own
        && !is_harmless.iter().any(|one| dropped.contains(one))
}

#[test]
fn whatever_is_discarded_says_why() {
    let mut broken = Vec::new();
    let is_product = |path: &str| {
        path.contains("/src/")
            && !["/tests", "/bench/", "/testkit/", "/reference/"].iter().any(|of| path.contains(of))
    };
    for path in sources().into_iter().filter(|path| is_product(&shown(path))) {
        let text = fs::read_to_string(&path).unwrap();
        let end = ["#[cfg(test)]", "#[test]"].iter().filter_map(|mark| text.find(mark)).min();
        let product = &text[..end.unwrap_or(text.len())];
        let lines: Vec<&str> = product.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| discards(line)) {
            let before = at.checked_sub(1).map_or("", |before| lines[before]);
            if !line.contains("//") && !before.starts_with("//") && !discards(before) {
                let (inside, number) = (shown(&path), at + 1);
                broken.push(format!(
                    "{inside}:{number}: handle it, log it, or say above why not: {line}"
                ));
            }
        }
    }
    expect_none(broken);
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let mut broken = Vec::new();
    for (name, manifest) in manifests() {
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        if lints.and_then(Value::as_bool) != Some(true) {
            broken.push(format!("crates/{name}/Cargo.toml: [lints] workspace = true is missing"));
        }
    }
    expect_none(broken);
}

#[test]
fn there_is_one_sqlite() {
    let lock = read_toml(&root().join("Cargo.lock"));
    let packages = lock["package"].as_array().unwrap();
    let name = |package: &&Value| package["name"].as_str() == Some("libsqlite3-sys");
    assert_eq!(packages.iter().filter(name).count(), 1, "Cargo.lock: exactly one libsqlite3-sys");
}

#[test]
fn every_file_that_the_architecture_names_is_there() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let quoted = text.split('`').skip(1).step_by(2);
    let is_room = |path: &&str| {
        let room = path.split('/').next().unwrap_or_default();
        path.contains('/') && ROOMS.iter().any(|(known, _)| *known == room)
    };
    // `<subject>` and `{a,b}` stand for several.
    let paths: Vec<&str> =
        quoted.filter(is_room).filter(|path| !path.contains(['<', '{', '*', ' '])).collect();
    assert!(paths.len() > 80, "only {} paths", paths.len());
    let missing = paths.iter().filter(|path| !root().join("crates").join(path).exists());
    expect_none(
        missing.map(|path| format!("ARCHITECTURE.md names {path}, which is not there")).collect(),
    );
}
