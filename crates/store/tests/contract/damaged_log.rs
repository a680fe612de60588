//! A log file that a killed process left, damaged since: a bit that flipped is put right, what is lost otherwise is told,
//! and what a kill cut off is not mistaken for damage.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use futures::executor::block_on;
use rethread_domain::SessionId;
use rethread_store::{Store, StoreUrl, open};
use rethread_testkit::{TestStore, Texts, user};

/// Names store and session to the process that is killed.
const WRITE_IN: &str = "RETHREAD_TEST_WRITE_IN";
/// How many messages it has acknowledged when it is.
const SAID: u32 = 20;
const FLIPS: u64 = 150;
const PAGE: usize = 4096;
const FRAME: usize = PAGE + 24;

/// By itself nothing; with the variable set, a process that writes until it is killed.
#[test]
#[expect(clippy::print_stdout, reason = "whoever kills it waits for this")]
fn one_process_writes_until_it_is_killed() {
    let Some(names) = std::env::var_os(WRITE_IN) else { return };
    let names = names.into_string().unwrap();
    let (id, path) = names.split_once(' ').unwrap();
    let id: SessionId = id.parse().unwrap();
    block_on(async {
        let store = open(&StoreUrl::Sqlite(path.into())).await.unwrap();
        for n in 1.. {
            let text = format!("message {n}: {}", Texts::new(n).text(600));
            store.append(rethread_store::Append::new(id, vec![user(&text)])).await.unwrap();
            println!("acknowledged {n}");
        }
    });
}

/// The files of a store whose writer was killed, with the session that it wrote to.
struct Left {
    folder: tempfile::TempDir,
    session: SessionId,
    files: [Vec<u8>; 2],
}

impl Left {
    fn by_a_kill() -> Self {
        let (store, session) = block_on(async {
            let store = TestStore::sqlite().await;
            let session = store.begin().await;
            // All of it is in the store itself: the log begins with what the other process writes.
            store.compact().await.unwrap();
            (store, session)
        });
        let path = store.file().to_owned();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["damaged_log::one_process_writes_until_it_is_killed", "--exact", "--nocapture"])
            .env(WRITE_IN, format!("{session} {}", path.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let last = format!("acknowledged {SAID}");
        assert!(lines.map_while(Result::ok).any(|line| line == last), "it did not write");
        child.kill().unwrap();
        child.wait().unwrap();
        let files = ["", "-wal"].map(|suffix| fs::read(beside(&path, suffix)).unwrap());
        assert!(files[1].len() > SAID as usize * FRAME, "there is no log to damage");
        Self { folder: tempfile::tempdir().unwrap(), session, files }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    /// Opens a copy in which the log file is another.
    async fn open_with(&self, log: &[u8]) -> Arc<dyn Store> {
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            // The folder of the locks stays; nobody has one.
            if path.is_file() {
                fs::remove_file(path).unwrap();
            }
        }
        fs::write(self.path(), &self.files[0]).unwrap();
        fs::write(beside(&self.path(), "-wal"), log).unwrap();
        open(&StoreUrl::Sqlite(self.path())).await.unwrap()
    }

    async fn said(&self, store: &Arc<dyn Store>) -> u32 {
        store.session(self.session).await.unwrap().last_seq
    }

    fn kept_aside(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.to_string_lossy().contains("-wal.damaged-")).collect()
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

/// A seed of this run, or the one of a run to be repeated.
#[expect(clippy::print_stdout, reason = "a run that fails can be repeated with its seed")]
fn chance() -> Texts {
    let seed = std::env::var_os("FLIP_SEED").and_then(|seed| seed.to_str()?.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("FLIP_SEED={seed}");
    Texts::new(seed)
}

#[test]
fn a_bit_that_flipped_in_a_log_that_a_kill_left_is_put_right_or_told() {
    let left = Left::by_a_kill();
    block_on(async {
        let whole = left.open_with(&left.files[1]).await;
        let all = left.said(&whole).await;
        assert!(all >= SAID);
        assert_eq!(
            whole.warning().await.unwrap(),
            None,
            "nothing is wrong with what a kill leaves"
        );
        drop(whole);
        let mut chance = chance();
        let (mut mended, mut told) = (0, 0);
        for flip in 0..FLIPS {
            let mut log = left.files[1].clone();
            // Its beginning is hit now and then, and so are the beginnings of frames, which is otherwise rare.
            let end = if flip % 10 == 0 { 32 } else { log.len() };
            let byte = match chance.below(end) {
                at if flip % 10 == 1 => 32 + (at - at.min(32)) / FRAME * FRAME + chance.below(24),
                at => at,
            };
            let bit = chance.below(8);
            log[byte] ^= 1 << bit;
            let store = left.open_with(&log).await;
            let context = format!("bit {bit} of byte {byte}");
            let said = left.said(&store).await;
            let warning = store.warning().await.unwrap();
            let health = store.check().await.unwrap();
            // Nothing is put right that was another bit: every row has a checksum of its own.
            assert_eq!(health.damage, Vec::<String>::new(), "{context}");
            match warning {
                Some(warning) if warning.contains("Nothing is lost") => {
                    assert_eq!((said, health.damaged_logs.len()), (all, 0), "{context}");
                    mended += 1;
                }
                Some(warning) => {
                    assert!(warning.contains("could not be recovered"), "{warning}");
                    assert_eq!(fs::read(&left.kept_aside()[0]).unwrap(), log, "{context}");
                    told += 1;
                }
                // Of the last commit nobody can tell whether it was written to its end.
                None => assert!(said + 1 >= all, "{context}: {said} of {all}, silently"),
            }
        }
        assert!(mended > FLIPS / 2, "{mended} of {FLIPS} put right, {told} told");
    });
}

#[test]
fn damage_that_costs_commits_is_told() {
    let left = Left::by_a_kill();
    block_on(async {
        let all = left.said(&left.open_with(&left.files[1]).await).await;
        let mut chance = chance();
        let mut told = 0;
        for _ in 0..FLIPS / 3 {
            let mut log = left.files[1].clone();
            let byte = chance.below(log.len() - 8);
            log[byte..byte + 8].iter_mut().for_each(|byte| *byte ^= 0x35);
            let store = left.open_with(&log).await;
            let context = format!("eight bytes from {byte} on");
            let said = left.said(&store).await;
            let warning = store.warning().await.unwrap();
            let health = store.check().await.unwrap();
            assert_eq!(warning.is_some(), !health.damaged_logs.is_empty(), "{context}");
            assert_eq!(health.damage, Vec::<String>::new(), "{context}");
            // Of the last commit nobody can tell whether it was written to its end.
            if said + 1 < all {
                let warning =
                    warning.unwrap_or_else(|| panic!("{context}: {said} of {all}, silently"));
                assert!(warning.contains("could not be recovered"), "{warning}");
                assert_eq!(fs::read(&left.kept_aside()[0]).unwrap(), log, "{context}");
                told += 1;
            } else if said == all {
                assert_eq!(warning, None, "{context}");
            }
        }
        assert!(told > FLIPS / 6, "only {told} of {} cost anything", FLIPS / 3);
    });
}

#[test]
#[expect(clippy::print_stdout, reason = "a run that fails can be repeated with its seed")]
fn a_log_that_is_cut_off_anywhere_is_no_damage() {
    let left = Left::by_a_kill();
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut chance = Texts::new(seed);
    block_on(async {
        for _ in 0..60 {
            let end = chance.below(left.files[1].len());
            let store = left.open_with(&left.files[1][..end]).await;
            assert_eq!(store.warning().await.unwrap(), None, "cut off at {end}");
            assert_eq!(left.kept_aside(), Vec::<PathBuf>::new(), "cut off at {end}");
        }
        // A frame of which only the beginning was written over what was there before.
        let mut log = left.files[1].clone();
        let last = 32 + (log.len() - 32) / FRAME * FRAME - FRAME;
        log[last + 24 + 100..last + FRAME].fill(0x5a);
        assert_eq!(left.open_with(&log).await.warning().await.unwrap(), None);
    });
}

#[test]
fn a_store_goes_on_after_its_log_was_damaged_and_says_it_once_at_opening() {
    let left = Left::by_a_kill();
    block_on(async {
        let mut log = left.files[1].clone();
        log[32 + 2 * FRAME + 1000..][..8].fill(0x5a);
        let store = left.open_with(&log).await;
        let warning = store.warning().await.unwrap().unwrap();
        assert!(warning.contains("frame 3 is damaged"), "{warning}");
        let said = left.said(&store).await;
        store.append(rethread_store::Append::new(left.session, vec![user("more")])).await.unwrap();
        drop(store);
        let again = open(&StoreUrl::Sqlite(left.path())).await.unwrap();
        assert_eq!(again.warning().await.unwrap(), None);
        assert_eq!(left.said(&again).await, said + 1);
        // Until somebody has looked at what was kept.
        let health = again.check().await.unwrap();
        assert_eq!(health.damaged_logs.len(), 1, "{health:?}");
        fs::remove_file(&left.kept_aside()[0]).unwrap();
        assert_eq!(again.check().await.unwrap().damaged_logs, Vec::<String>::new());
    });
}
