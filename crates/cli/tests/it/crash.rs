//! 300 recorders are killed at random moments: nothing that was acknowledged is lost (PROMISES D1).

use std::collections::{BTreeMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::Mutex;

use serde_json::Value;

use crate::env::{TestEnv, user};

/// More of them, for a long run: `KILLS=20000 cargo test …`.
fn kills() -> u64 {
    option_env!("KILLS").map_or(300, |text| text.parse().expect("KILLS is a number"))
}

const AT_ONCE: usize = 2;
/// Lines that a recorder is given, so that there is always more to say when it dies.
const LINES: u64 = 600;
const MOST_ACKS: u64 = 30;

/// A small generator of chance: the same seed kills at the same moments.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What line `line` of run `run` says: some of it is long enough to be kept apart.
fn text(run: u64, line: u64) -> String {
    let length = if (run + line).is_multiple_of(17) { 20_000 } else { (run * 31 + line * 7) % 300 };
    let rest = "x".repeat(usize::try_from(length).unwrap());
    format!("run {run} line {line} heron {rest}")
}

/// Which messages of which session were acknowledged, with the run and the line.
type Acked = BTreeMap<String, BTreeMap<u64, (u64, u64)>>;

/// One recorder from its start to its death.
struct Run {
    number: u64,
    acks_before_death: u64,
    spin: u64,
    /// Whether it is told one line at a time, each after the ack of the one before.
    one_by_one: bool,
}

impl Run {
    fn plan(number: u64, chance: &mut Chance) -> Self {
        let acks_before_death = chance.below(MOST_ACKS + 1);
        let longest = if chance.below(2) == 0 { 5_000 } else { 3_000_000 };
        let spin = chance.below(longest);
        Self { number, acks_before_death, spin, one_by_one: chance.below(2) == 0 }
    }

    /// Runs it and kills it; gives the session, if it was told, and the numbers of the acks.
    fn run(&self, mut command: std::process::Command) -> (Option<String>, Vec<u64>) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut say = child.stdin.take().unwrap();
        let mut hear = BufReader::new(child.stdout.take().unwrap()).lines();
        let number = self.number;
        let mut heard = Vec::new();
        if self.one_by_one {
            let mut next = || hear.next().map(Result::unwrap);
            if self.acks_before_death > 0 {
                heard.extend(next());
            }
            for line in 0..self.acks_before_death {
                writeln!(say, "{}", user(&text(number, line))).unwrap();
                heard.extend(next());
            }
            // It dies with one more on its way.
            writeln!(say, "{}", user(&text(number, self.acks_before_death))).unwrap();
            self.kill(&mut child);
        } else {
            let teller = std::thread::spawn(move || {
                for line in 0..LINES {
                    if writeln!(say, "{}", user(&text(number, line))).is_err() {
                        break;
                    }
                }
                // The pipe stays open until the recorder is dead.
                say
            });
            while (heard.len() as u64) < self.acks_before_death {
                heard.extend(hear.next().map(Result::unwrap));
            }
            self.kill(&mut child);
            drop(teller.join().unwrap());
        }
        // What it had printed before it died counts.
        heard.extend(hear.map_while(Result::ok));
        let mut heard = heard.into_iter();
        let id = heard.next();
        let acks = heard.map(|ack| serde_json::from_str::<Value>(&ack).unwrap()["seq"].as_u64());
        (id, acks.map(Option::unwrap).collect())
    }

    fn kill(&self, child: &mut Child) {
        let mut turns = 0;
        for turn in 0..self.spin {
            turns = std::hint::black_box(turns + turn);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a failure is told with its seed")]
fn three_hundred_kills_lose_no_acknowledged_message() {
    let seed = 0x5eed_2026_u64 ^ u64::from(std::process::id()) << 32;
    // Kept by hand when it fails: put it above in place of the number of the process.
    eprintln!("seed {seed:#x}");
    let env = TestEnv::new();
    let plans = Mutex::new({
        let mut chance = Chance(seed);
        let runs: Vec<(Run, u64)> = (0..kills())
            .map(|number| (Run::plan(number, &mut chance), chance.below(1 << 32)))
            .collect();
        runs.into_iter().rev().collect::<Vec<_>>()
    });
    let acked: Mutex<Acked> = Mutex::default();
    let fresh =
        Mutex::new((0..kills()).map(|_| env.command(["record", "--ack"])).collect::<Vec<_>>());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((run, pick)) = plans.lock().unwrap().pop() else { break };
                    let mut command = fresh.lock().unwrap().pop().unwrap();
                    let known: Vec<String> = acked.lock().unwrap().keys().cloned().collect();
                    // Most go on with one of a few sessions, at times both with the same.
                    if !known.is_empty() && (known.len() > 8 || pick % 4 != 0) {
                        let chosen = usize::try_from(pick >> 2).unwrap() % known.len();
                        command.args(["--session", &known[chosen]]);
                    }
                    let (id, acks) = run.run(command);
                    let Some(id) = id else { continue };
                    let mut acked = acked.lock().unwrap();
                    let session = acked.entry(id).or_default();
                    for (line, seq) in (0..).zip(acks) {
                        let before = session.insert(seq, (run.number, line));
                        assert_eq!(before, None, "number {seq} was given twice; seed {seed:#x}");
                    }
                }
            });
        }
    });
    let acked = acked.into_inner().unwrap();
    let count: usize = acked.values().map(BTreeMap::len).sum();
    eprintln!("{} kills, {count} acknowledged messages in {} sessions", kills(), acked.len());
    assert!(count as u64 > kills(), "hardly anything was acknowledged");
    audit(&env, &acked);
}

/// What was acknowledged is there, nothing else is but what was said, and the store is in order.
fn audit(env: &TestEnv, acked: &Acked) {
    env.assert_sound();
    let sessions = env.json(["list", "--all", "-n", "1000"]);
    let listed: HashSet<&str> = sessions
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["session_id"].as_str().unwrap())
        .collect();
    for id in acked.keys() {
        assert!(listed.contains(id.as_str()), "session {id} is lost");
    }
    for id in listed {
        let messages = env.messages(id);
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        for (place, message) in (1..).zip(&messages) {
            assert_eq!(message["seq"], place, "a gap in {id}");
            let content = message["content"].as_str().unwrap();
            let words: Vec<&str> = content.split(' ').collect();
            let (run, line) = (words[1].parse().unwrap(), words[3].parse().unwrap());
            assert_eq!(content, text(run, line));
            let before = last.insert(run, line);
            assert_eq!(before.map_or(0, |before| before + 1), line, "run {run} in {id}");
        }
        for (seq, (run, line)) in acked.get(id).into_iter().flatten() {
            let message = &messages[usize::try_from(*seq).unwrap() - 1];
            assert_eq!(message["content"].as_str(), Some(text(*run, *line).as_str()));
        }
        if !messages.is_empty() {
            let found = env.json(["search", "heron", "--session", id, "-n", "1"]);
            assert_eq!(found.as_array().unwrap().len(), 1, "{id}");
        }
        env.data(["context", id]);
    }
    let other = TestEnv::new();
    other.feed(["import", "-"], env.data(["export", "--all"])).succeeded();
    other.assert_sound();
    // Recording goes on.
    let id = acked.keys().next().unwrap();
    env.record(["--session", id], &[user("run 0 line 0 heron")]);
    env.assert_sound();
}
