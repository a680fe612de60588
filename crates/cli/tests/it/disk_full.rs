//! A full disk (PROMISES D7): nothing acknowledged is lost, all can be read, and it goes on when there is space.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::env::{TestEnv, jsonl, user};

/// Set where the test runs inside a mount of its own.
const INSIDE: &str = "RETHREAD_TEST_SMALL_DISK";

#[test]
fn a_full_disk_loses_nothing_and_recovers_when_there_is_space() {
    if let Some(disk) = std::env::var_os(INSIDE) {
        return fill(Path::new(&disk));
    }
    let disk = tempfile::tempdir().unwrap();
    let script =
        r#"mount -t tmpfs -o size=2m,mode=700 tmpfs "$1" && exec "$2" --exact "$3" --nocapture"#;
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh"])
        .arg(disk.path())
        .arg(std::env::current_exe().unwrap())
        .arg("disk_full::a_full_disk_loses_nothing_and_recovers_when_there_is_space")
        .env(INSIDE, disk.path())
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

fn fill(disk: &Path) {
    let env = TestEnv::with_store(&disk.join("sessions.db"));
    let filler = disk.join("filler");
    let first = env.basket();
    std::fs::write(&filler, vec![1; 900 << 10]).unwrap();
    let line = |n: usize| user(&format!("heron {n} {}", "word ".repeat(200)));
    let mut said = 0;
    let mut acked: Vec<u64> = Vec::new();
    let mut id: Option<String> = None;
    let full = loop {
        let lines: Vec<Value> = (said..said + 20).map(line).collect();
        said += 20;
        let mut args = vec!["record", "--ack", "--json"];
        if let Some(id) = &id {
            args.extend(["--session", id]);
        }
        let told = env.feed(args, jsonl(&lines));
        let mut out = told.text().lines();
        if let Some(told) = out.next() {
            id.get_or_insert_with(|| told.to_owned());
        }
        acked.extend(
            out.map(|ack| serde_json::from_str::<Value>(ack).unwrap()["seq"].as_u64().unwrap()),
        );
        if told.code != Some(0) {
            break told;
        }
        assert!(said < 10_000, "the disk does not fill up");
    };
    full.assert_error(1, "storage_full");
    let id = id.unwrap();
    let check = |acked: &[u64]| {
        let messages = env.messages(&id);
        assert!(messages.len() >= acked.len());
        for (n, message) in messages.iter().enumerate() {
            assert_eq!(message["seq"], n + 1);
        }
        assert_eq!(acked, (1..=acked.len() as u64).collect::<Vec<_>>());
    };

    // While it is full.
    check(&acked);
    for args in
        [&["record", "--session", &id][..], &["record"], &["rename", &id, "x"], &["pause", &id]]
    {
        let big = jsonl(&[user(&unlike_itself(400_000))]);
        let told = env.feed([args, &["--json"]].concat(), &big);
        if told.code != Some(0) {
            told.assert_error(1, "storage_full");
        }
    }
    assert_eq!(env.json(["list", "--all"]).as_array().unwrap().len(), 2);
    assert!(!env.json(["search", "heron", "-n", "5"]).as_array().unwrap().is_empty());
    assert_eq!(env.messages(&first).len(), 5);
    assert!(env.data(["context", &id, "--prompt", "heron 3"]).contains("heron"));
    assert!(env.data(["export", &id]).lines().count() > acked.len());
    let refused = env.run(["backup", disk.join("copy.db").to_str().unwrap(), "--json"]);
    refused.assert_error(1, "storage_full");
    let refused =
        env.run(["export", "--all", "-o", disk.join("all.jsonl").to_str().unwrap(), "--json"]);
    refused.assert_error(1, "storage_full");
    assert!(!disk.join("copy.db").exists() && !disk.join("copy.db.part").exists());
    assert_eq!(env.json(["doctor"])["ok"], true);

    // And when there is space again.
    drop(std::fs::remove_file(disk.join("all.jsonl")));
    std::fs::remove_file(&filler).unwrap();
    let before = env.messages(&id).len();
    let told = env.feed(["record", "--ack", "--session", &id], jsonl(&[line(said)])).succeeded();
    assert_eq!(told.text().lines().nth(1), Some(format!("{{\"seq\":{}}}", before + 1).as_str()));
    check(&acked);
    env.assert_sound();
    assert_eq!(env.json(["doctor"])["unindexed_messages"], 0);
}

/// A text that cannot be made much smaller.
fn unlike_itself(length: usize) -> String {
    let mut chance = crate::crash::Chance(7);
    let letter = |n: u64| char::from(b'!' + u8::try_from(n).unwrap());
    (0..length).map(|_| letter(chance.below(90))).filter(|c| *c != '"').collect()
}
