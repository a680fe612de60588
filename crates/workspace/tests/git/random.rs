//! Random states of a repository: ours is committed, everything else is compared.

use std::env;
use std::fs;
use std::time::SystemTime;

use rethread_workspace::{Changed, Hurdle, changed, hurdle};

use crate::ground::{FOLDER, Ground, everything, the_rest, try_git, write};

const ROUNDS: u64 = 12;
const PATHS: [&str; 8] = [
    "README.md",
    "src/main.rs",
    "src/-rf",
    "a b",
    "*",
    "conversations.md",
    "conversations/other.md",
    "🦀",
];
const OURS: [&str; 5] =
    [".session/session.json", ".session/messages.jsonl", "chat.md", "notes/*", "-m"];

struct Dice(fastrand::Rng);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0.usize(..sides)
    }

    fn text(&mut self) -> String {
        (0..self.roll(6)).map(|_| ["one\n", "two\n", "three\n"][self.roll(3)]).collect()
    }

    /// Something that a user or a program does to a path. Git may refuse it.
    fn act(&mut self, ground: &Ground, path: &str) {
        let file = ground.top.join(path);
        match self.roll(8) {
            0 | 1 => write(&file, &self.text()),
            2 => drop(fs::remove_file(file)),
            3 | 4 => drop(try_git(&ground.top, &["--literal-pathspecs", "add", "--", path])),
            5 => drop(try_git(&ground.top, &["--literal-pathspecs", "add", "-N", "--", path])),
            6 => {
                let asked = ["--literal-pathspecs", "rm", "-q", "-f", "--cached", "--", path];
                drop(try_git(&ground.top, &asked));
            }
            _ => drop(try_git(&ground.top, &["mv", path, PATHS[self.roll(PATHS.len())]])),
        }
    }
}

fn one(seed: u64) {
    let mut dice = Dice(fastrand::Rng::with_seed(seed));
    let ground = Ground::new();
    for _ in 0..4 {
        for _ in 0..dice.roll(25) {
            let path = PATHS[dice.roll(PATHS.len())];
            dice.act(&ground, path);
        }
        if dice.roll(3) == 0 {
            drop(try_git(&ground.top, &["commit", "-q", "-m", "the user's", "--", "src"]));
        }
        for _ in 0..dice.roll(10) {
            let path = format!("{FOLDER}/{}", OURS[dice.roll(OURS.len())]);
            dice.act(&ground, &path);
        }
        fs::create_dir_all(&ground.folder).unwrap();
        mend(&ground, seed);
        if dice.roll(2) == 0 {
            refuse(&ground, seed);
        }
        let told = changed(&ground.folder).unwrap();
        let before = the_rest(&ground.top);
        let tip = ground.git(&["rev-parse", "HEAD"]);
        match ground.commit().unwrap() {
            None => {
                assert_eq!(told, Changed::Nothing, "seed {seed}");
                assert_eq!(ground.git(&["rev-parse", "HEAD"]), tip, "seed {seed}");
            }
            Some(made) => {
                let update = made.message.starts_with("session update");
                let expected = if update { Changed::OnlySession } else { Changed::More };
                assert_eq!(told, expected, "seed {seed}");
                let taken = ground.taken(&made.id);
                assert!(
                    taken.iter().all(|path| path.starts_with(FOLDER)),
                    "seed {seed}: {taken:?}"
                );
                assert_eq!(ground.git(&["rev-parse", "HEAD^"]), tip, "seed {seed}");
            }
        }
        assert_eq!(the_rest(&ground.top), before, "seed {seed}");
        assert_eq!(changed(&ground.folder), Ok(Changed::Nothing), "seed {seed}");
        let ours = format!("HEAD:{FOLDER}");
        for name in OURS {
            let committed = try_git(&ground.top, &["cat-file", "blob", &format!("{ours}/{name}")]);
            let on_disk = fs::read(ground.folder.join(name)).ok();
            assert_eq!(
                committed.status.success().then_some(committed.stdout),
                on_disk,
                "seed {seed}"
            );
        }
    }
}

/// Does what is asked for where git would drop files of the user's.
fn mend(ground: &Ground, seed: u64) {
    while let Some(hurdle) = hurdle(&ground.folder) {
        let Hurdle::Announced(path) = &hurdle else { panic!("seed {seed}: {hurdle:?}") };
        let before = everything(&ground.top);
        match ground.commit() {
            Ok(None) => (),
            outcome => assert_eq!(outcome.as_ref(), Err(&hurdle), "seed {seed}"),
        }
        assert_eq!(everything(&ground.top), before, "seed {seed}");
        let asked = ["--literal-pathspecs", "add", "--", path.to_str().unwrap()];
        ground.git(&asked);
    }
}

fn refuse(ground: &Ground, seed: u64) {
    ground.hook("pre-commit", "exit 1");
    let before = everything(&ground.top);
    match ground.commit() {
        Ok(None) | Err(Hurdle::Hook(_)) => (),
        other => panic!("seed {seed}: {other:?}"),
    }
    assert_eq!(everything(&ground.top), before, "seed {seed}");
    fs::remove_file(ground.top.join(".git/hooks/pre-commit")).unwrap();
}

isolated! {
    fn nothing_else_is_touched_whatever_the_state() {
        let given = env::var_os("RETHREAD_SEED").map(|seed| seed.into_string().unwrap());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let first = given.map_or(now.as_secs() << 20, |seed| seed.parse().unwrap());
        for seed in first..first + ROUNDS {
            one(seed);
        }
    }
}
