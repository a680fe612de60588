//! A full disk (PROMISES D7): nothing acknowledged is lost, all can be read, and it goes on when there is space.

use std::path::Path;

use serde_json::Value;

use crate::env::{TestEnv, jsonl, user};

/// Set where the test runs inside a mount of its own.
const INSIDE: &str = "RETHREAD_TEST_SMALL_DISK";

#[test]
fn a_full_disk_loses_nothing_and_recovers_when_there_is_space() {
    if let Some(disk) = std::env::var_os(INSIDE) {
        return fill(Path::new(&disk));
    }
    let name = "disk_full::a_full_disk_loses_nothing_and_recovers_when_there_is_space";
    crate::env::on_small_disk(name, INSIDE, 2);
}

fn fill(disk: &Path) {
    let small = SmallDisk { env: TestEnv::with_store(&disk.join("sessions.db")), disk };
    let first = small.env.basket();
    std::fs::write(disk.join("filler"), vec![1; 900 << 10]).unwrap();
    let (id, acked) = small.fill_up();
    small.check(&id, acked);
    small.assert_readable(&first, &id);
    small.assert_nothing_is_half_written(&id);
    small.check(&id, acked);

    std::fs::remove_file(disk.join("filler")).unwrap();
    let before = small.env.messages(&id).len();
    let more = jsonl(&[line(before)]);
    let told = small.env.feed(["record", "--ack", "--session", &id], more).succeeded();
    assert_eq!(told.text().lines().nth(1), Some(format!("{{\"seq\":{}}}", before + 1).as_str()));
    small.check(&id, before + 1);
    small.env.assert_sound();
    small.env.data(["search", "heron"]);
    assert_eq!(small.env.json(["doctor"])["unindexed_messages"], 0);
}

fn line(n: usize) -> Value {
    user(&format!("heron {n} {}", "word ".repeat(200)))
}

struct SmallDisk<'a> {
    env: TestEnv,
    disk: &'a Path,
}

impl SmallDisk<'_> {
    /// Records until there is no space left; gives the session and how many messages were acknowledged.
    fn fill_up(&self) -> (String, usize) {
        let mut acked = 0;
        let mut id: Option<String> = None;
        for _ in 0..500 {
            let lines: Vec<Value> = (acked..acked + 20).map(line).collect();
            let mut args = vec!["record", "--ack", "--json"];
            if let Some(id) = &id {
                args.extend(["--session", id]);
            }
            let told = self.env.feed(args, jsonl(&lines));
            let mut out = told.text().lines();
            let session = out.next().or(id.as_deref()).map(str::to_owned);
            id = session;
            for ack in out {
                acked += 1;
                assert_eq!(ack, format!("{{\"seq\":{acked}}}"));
            }
            if told.code != Some(0) {
                told.assert_error(1, "storage_full");
                return (id.unwrap(), acked);
            }
        }
        panic!("the disk does not fill up");
    }

    fn check(&self, id: &str, acked: usize) {
        let messages = self.env.messages(id);
        assert!(messages.len() >= acked);
        for (n, message) in messages.iter().enumerate() {
            assert_eq!(message["seq"], n + 1);
            assert_eq!(message["content"], line(n)["content"]);
        }
    }

    fn assert_readable(&self, first: &str, id: &str) {
        let env = &self.env;
        assert_eq!(env.json(["list", "--all"]).as_array().unwrap().len(), 2);
        assert!(!env.json(["search", "heron", "-n", "5"]).as_array().unwrap().is_empty());
        assert_eq!(env.messages(first).len(), 5);
        assert!(env.data(["context", id, "--prompt", "heron 3"]).contains("heron"));
        env.data(["export", id]);
        env.assert_sound();
    }

    fn assert_nothing_is_half_written(&self, id: &str) {
        let (copy, export) = (self.disk.join("copy.db"), self.disk.join("all.jsonl"));
        let big = jsonl(&[user(&unlike_itself(400_000))]);
        for args in [
            &["record", "--session", id][..],
            &["record"],
            &["backup", copy.to_str().unwrap()],
            &["export", "--all", "-o", export.to_str().unwrap()],
        ] {
            let told = self.env.feed([args, &["--json"]].concat(), &big);
            told.assert_error(1, "storage_full");
        }
        let names = std::fs::read_dir(self.disk).unwrap().map(|entry| entry.unwrap().file_name());
        let extra: Vec<_> = names
            .filter(|name| {
                let name = name.to_str().unwrap();
                name != "filler" && !name.starts_with("sessions.db")
            })
            .collect();
        assert!(extra.is_empty(), "{extra:?}");
        assert_eq!(self.env.json(["list", "--all"]).as_array().unwrap().len(), 2);
    }
}

/// A text that cannot be made much smaller.
fn unlike_itself(length: usize) -> String {
    let mut chance = crate::crash::Chance(7);
    let letter = |n: u64| char::from(b'!' + u8::try_from(n).unwrap());
    (0..length).map(|_| letter(chance.below(90))).filter(|c| *c != '"').collect()
}
