//! Whatever happens, each of an agent's own sessions comes to know each record of its conversation once and in order.
//!
//! A history is a random row of turns, deaths, losses and crashes. What the model says stands apart from the engine:
//! it knows how an open has to come out, what an own session of an agent has to know when a prompt arrives, and what
//! may be doubtful after a crash: what only the agent knew when we died.

mod attempt;
mod marks;
mod steps;

use self::attempt::{Seen, attempt};
use self::marks::{check_prompt, marks, message_marks, trouble, update_marks};
use self::steps::{Ending, Expected, Kind, Step, Turn, ability, step};
use crate::scripted::{Act, End, Outcome, Script, Scripted, say, use_tool};
use crate::world::{Home, World, is_interrupted, run, told};
use futures::executor::block_on;
use jiff::SignedDuration;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rethread_domain::message::Message;
use rethread_domain::opening::{Holding, Policy};
use rethread_domain::turn::Update;
use rethread_domain::{Conversation, Role};
use rethread_engine::Error;
use rethread_engine::agents::{OpenOptions, Talk, Trouble};
use rethread_store::{Append, Begun};
use rethread_testkit::message;
use std::collections::{BTreeMap, BTreeSet};

/// More of them, for a long run: `HISTORIES=100000 cargo test …`.
fn histories() -> u32 {
    option_env!("HISTORIES").map_or(2_000, |text| text.parse().expect("HISTORIES is a number"))
}

const AT_ONCE: u32 = 2;
const CONVERSATIONS: [&str; 2] = ["main", "side"];

/// A conversation that is open in our process.
struct Open {
    agent: usize,
    policy: Policy,
    talk: Talk,
    /// Its agent is not there any more: it is opened anew before the next request.
    is_left: bool,
    /// The agent's own session that it was last asked in.
    native: Option<String>,
}

struct History {
    world: World,
    agents: [Scripted; 2],
    open: BTreeMap<usize, Open>,
    marks: u32,
    /// The conversation that each own session of an agent belongs to.
    owners: BTreeMap<String, usize>,
    /// The marks of requests whose turn nobody ended, and of those that somebody did.
    interrupted: BTreeSet<String>,
    ended: BTreeSet<String>,
}

impl History {
    fn new(home: &Home, abilities: [&str; 2]) -> Self {
        let world = World::new(home);
        let agents = [world.agent("anna", abilities[0]), world.agent("bert", abilities[1])];
        Self {
            world,
            agents,
            open: BTreeMap::new(),
            marks: 0,
            owners: BTreeMap::new(),
            interrupted: BTreeSet::new(),
            ended: BTreeSet::new(),
        }
    }

    fn mark(&mut self) -> String {
        self.marks += 1;
        format!("m{}", self.marks)
    }

    fn log(&self, conversation: usize) -> Vec<Message> {
        let all = self.world.messages().into_iter();
        all.filter(|message| message.conversation == CONVERSATIONS[conversation]).collect()
    }

    fn conversation(&self, conversation: usize) -> Option<Conversation> {
        let all = block_on(self.world.store.conversations(self.world.session)).unwrap();
        all.into_iter().find(|one| one.name == CONVERSATIONS[conversation])
    }

    fn holding(&self, conversation: usize, agent: usize) -> Option<Holding> {
        let name = self.agents[agent].name;
        let store = &self.world.store;
        block_on(store.holding(self.world.session, CONVERSATIONS[conversation], name)).unwrap()
    }

    fn begun(&self, conversation: usize) -> Option<Begun> {
        let store = &self.world.store;
        block_on(store.begun(self.world.session, CONVERSATIONS[conversation])).unwrap()
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Turn(turn) => self.turn(*turn).await,
            Step::End { conversation } => {
                if let Some(open) = self.open.remove(&conversation) {
                    open.talk.end().await.unwrap();
                }
            }
            Step::Crash => self.crash(),
            Step::Dies { agent } => {
                self.agents[agent].kill();
                let own = self.open.values_mut().filter(|open| open.agent == agent);
                own.for_each(|open| open.is_left = true);
            }
            Step::Loses { conversation, agent } => {
                if let Some(holding) = self.holding(conversation, agent) {
                    self.agents[agent].state().natives.remove(&holding.native);
                }
            }
            Step::Second { conversation } => self.second(conversation).await,
            Step::Tidy => self.tidy().await,
            Step::Record { conversation } => {
                let mut said = message(Role::System, &format!("{} recorded", self.mark()));
                CONVERSATIONS[conversation].clone_into(&mut said.conversation);
                let append = Append::new(self.world.session, vec![said]);
                block_on(self.world.store.append(append)).unwrap();
            }
        }
        for conversation in 0..2 {
            self.check_turns(conversation);
        }
    }

    async fn tidy(&self) {
        self.world.engine.tidy(SignedDuration::from_hours(1)).await.unwrap();
        for conversation in 0..2 {
            assert!(self.begun(conversation).is_none(), "a turn that nobody ends stays");
        }
    }

    /// Nobody else gets a conversation that is talked in.
    async fn second(&self, conversation: usize) {
        if let Some(open) = self.open.get(&conversation) {
            let mut options = self.world.options(&self.agents[open.agent]);
            CONVERSATIONS[conversation].clone_into(&mut options.conversation);
            let again = Talk::open(&self.world.engine, options).await;
            assert!(matches!(again, Err(Error::Busy { .. })), "{again:?}");
        }
    }

    /// Everything of ours is gone, and with it the agents' processes.
    fn crash(&mut self) {
        self.open.clear();
        for agent in &self.agents {
            assert_eq!(agent.state().alive, 0, "{} outlives us", agent.name);
        }
        for conversation in 0..2 {
            let Some(begun) = self.begun(conversation) else { continue };
            let is_answered = begun.updates.iter().any(|(_, update)| update.is_answer());
            let held = begun.what.holding.filter(|_| is_answered).map(|holding| holding.native);
            let agent = self.agents.iter().find(|agent| agent.name == begun.what.agent).unwrap();
            let mut state = agent.state();
            let Some(last) = state.prompts.last().map(|prompted| prompted.native.clone()) else {
                continue;
            };
            let Some(native) = state.natives.get_mut(&last) else { continue };
            let is_counted = held.as_ref() == Some(&last);
            let (from, has_ended) = (native.turn_from, native.has_ended);
            // What was answered is ours to tell again; the request is not, where it counts as known.
            for known in native.known.iter_mut().skip(from) {
                let is_told = known.is_request || known.is_document;
                known.is_doubtful = if is_told { !is_counted } else { has_ended };
            }
        }
    }

    fn script(&mut self, turn: &Turn) -> Script {
        let mut acts = Vec::new();
        for kind in &turn.acts {
            let mark = self.mark();
            acts.push(match kind {
                Kind::Say => Act::Send(say(&format!("{mark} "))),
                Kind::Think => Act::Send(Update::Thought { text: format!("{mark} ") }),
                Kind::Tool => Act::Send(use_tool(&mark)),
                Kind::Title => Act::Send(Update::Title { title: "a title".into() }),
                Kind::Pause => Act::Pause,
            });
        }
        Script { acts, end: turn.end.clone() }
    }

    fn prepare(&mut self, turn: &Turn, policy: Policy) {
        let script = self.script(turn);
        let last_seq = self.conversation(turn.conversation).map_or(0, |one| one.last_seq);
        let mut state = self.agents[turn.agent].state();
        state.doors = turn.doors.clone();
        state.from = if policy == Policy::Off { last_seq } else { 0 };
        // Told anew after it forgot, it answers.
        let again = if matches!(script.end, End::Forgets) {
            script.clone().ending(End::Stop)
        } else {
            script.clone()
        };
        state.turns = [script, again].into();
        state.prompts.clear();
        state.sent.clear();
        state.launching.clear();
        if turn.launch_fails {
            let (program, why) = ("agent".to_owned(), "no memory".to_owned());
            state.launching.push_back(Err(Trouble::CannotStart { program, why }));
        }
    }

    async fn turn(&mut self, turn: Turn) {
        let (conversation, agent) = (turn.conversation, turn.agent);
        let mut open = self.open.remove(&conversation);
        if let Some(other) = open.take_if(|open| open.agent != agent) {
            other.talk.end().await.unwrap();
        }
        let policy = open.as_ref().map_or(turn.policy, |open| open.policy);
        if open.is_none() && policy == Policy::Off {
            self.tidy().await;
        }
        self.prepare(&turn, policy);
        let who = self.agents[agent].clone();
        let expected = self.expect(&turn, policy, open.as_ref());
        let held_before = self.holding(conversation, agent).map(|holding| holding.native);
        let request = self.mark();
        let named = CONVERSATIONS[conversation].to_owned();
        let options = OpenOptions { conversation: named, policy, ..self.world.options(&who) };
        let mut shown = Vec::new();
        self.world.fate.set(turn.crash);
        let talk = open.map(|open| open.talk);
        let seen = tokio::select! {
            biased;
            () = self.world.fate.died() => None,
            seen = attempt(&self.world.engine, options, talk, &request, &who, &mut shown) => Some(seen),
        };
        self.world.fate.set(None);
        self.check_prompts(conversation, agent, &request);
        self.check_shown(conversation, &shown);
        let is_asked = self.log(conversation).iter().any(|one| message_marks(one) == [&*request]);
        let Some(Seen { talk, outcome }) = seen else {
            if is_asked && self.begun(conversation).is_some() {
                self.interrupted.insert(request);
            }
            self.crash();
            return;
        };
        assert!(self.begun(conversation).is_none(), "a turn is left under way");
        expected.end.check(&outcome);
        if is_asked {
            let is_over = matches!(expected.end, Ending::Stopped(_) | Ending::Failed(_));
            if is_over { &mut self.ended } else { &mut self.interrupted }.insert(request);
            assert_eq!(update_marks(&who.state().sent), update_marks(&shown), "all is shown");
        }
        match expected.end {
            Ending::Stopped(_) => self.check_holding(conversation, agent),
            Ending::NotOpened(_) => {
                assert!(!is_asked, "nobody was there to ask");
                let held = self.holding(conversation, agent).map(|holding| holding.native);
                assert_eq!(held, held_before, "nothing is forgotten");
            }
            Ending::Failed(_) | Ending::Interrupted(_) => (),
        }
        if let Some(talk) = talk {
            self.check_opening(&talk, &expected, is_asked);
            let is_left = talk.opening().is_none();
            let native = who.state().prompts.last().map(|prompted| prompted.native.clone());
            self.open.insert(conversation, Open { agent, policy, talk, is_left, native });
        }
    }

    /// How the conversation was opened is as it has to be, and written down.
    fn check_opening(&self, talk: &Talk, expected: &Expected, is_asked: bool) {
        assert_eq!(talk.opening().is_none(), expected.end.leaves(), "{:?}", expected.end);
        if is_asked && let Some(opening) = talk.opening() {
            let openings = self.world.openings();
            let own = openings
                .iter()
                .rev()
                .find(|one| one.conversation == opening.conversation && one.agent == opening.agent);
            assert_eq!(own, Some(opening), "how it was opened is written down");
            assert_eq!(told(opening), expected.opened.unwrap_or_else(|| told(opening)));
        }
    }

    fn check_holding(&self, conversation: usize, agent: usize) {
        let holding = self.holding(conversation, agent).expect("it holds the conversation");
        let own = self.conversation(conversation).unwrap();
        assert_eq!((holding.upto, holding.messages), (own.last_seq, own.messages));
        assert_eq!(holding.native, self.agents[agent].last_prompt().native);
    }

    /// What an own session of the agent knows when a request has arrived is the conversation, whole and in order.
    fn check_prompts(&mut self, conversation: usize, agent: usize, request: &str) {
        let log = self.log(conversation);
        let prompts = self.agents[agent].state().prompts.clone();
        for prompted in prompts {
            let owner = *self.owners.entry(prompted.native.clone()).or_insert(conversation);
            assert_eq!(owner, conversation, "{} has two conversations", prompted.native);
            check_prompt(&log, &prompted, request);
        }
    }

    /// What was shown is kept, whatever happens.
    fn check_shown(&self, conversation: usize, shown: &[Update]) {
        let mut kept: BTreeSet<String> = BTreeSet::new();
        for message in self.log(conversation) {
            kept.extend(message_marks(&message));
            let thoughts = message.extras.other.get("thoughts").and_then(|text| text.as_str());
            kept.extend(marks(thoughts.unwrap_or_default()));
        }
        if let Some(begun) = self.begun(conversation) {
            let updates: Vec<Update> = begun.updates.into_iter().map(|(_, one)| one).collect();
            kept.extend(update_marks(&updates));
        }
        let lost: Vec<String> =
            update_marks(shown).into_iter().filter(|mark| !kept.contains(mark)).collect();
        assert!(lost.is_empty(), "shown and lost: {lost:?}");
    }

    /// The last message of a turn that nobody ended says so, and no other one.
    fn check_turns(&self, conversation: usize) {
        if self.begun(conversation).is_some() {
            return;
        }
        let log: Vec<Message> =
            self.log(conversation).into_iter().filter(|one| one.role != Role::System).collect();
        for turn in log.chunk_by(|_, next| next.role != Role::User) {
            let request = message_marks(&turn[0]).remove(0);
            let marked: Vec<bool> = turn.iter().map(is_interrupted).collect();
            let mut expected = vec![false; marked.len()];
            if self.interrupted.contains(&request) {
                assert!(turn.len() > 1, "{request}: no word of the interruption");
                expected[turn.len() - 1] = true;
            } else if !self.ended.contains(&request) {
                continue;
            }
            assert_eq!(marked, expected, "{request}");
        }
    }

    /// How the conversation has to be opened, or why it cannot be.
    fn expect_open(
        &self,
        turn: &Turn,
        policy: Policy,
    ) -> Result<(&'static str, Option<&'static str>), &'static str> {
        let (conversation, agent) = (turn.conversation, turn.agent);
        let holding = self.holding(conversation, agent);
        let own = self.conversation(conversation);
        let is_said = own.as_ref().is_some_and(|own| own.messages > 0);
        let mut why = None;
        if turn.launch_fails {
            return Err("cannot_start");
        }
        if policy == Policy::Off {
            why = Some("policy");
        } else if let Some(holding) = holding {
            let can = &self.agents[agent].abilities;
            let is_known = self.agents[agent].state().natives.contains_key(&holding.native);
            let ways = [
                ("resumed", can.resume, &turn.doors.resume),
                ("loaded", can.load, &turn.doors.load),
            ];
            if !can.resume && !can.load {
                why = Some("unable");
            }
            for (how, _, outcome) in ways.into_iter().filter(|(_, can, _)| *can) {
                why = Some(match (trouble(outcome), outcome) {
                    (Some(name @ ("needs_login" | "cancelled")), _) => return Err(name),
                    (Some(name), _) => name,
                    (None, _) if !is_known => "session_gone",
                    (None, Outcome::Hollow) if how == "loaded" => "hollow",
                    (None, Outcome::Mixed) if how == "loaded" => "mixed_up",
                    (None, _) => return Ok((how, why)),
                });
            }
        } else {
            let begun = self.begun(conversation).map(|begun| begun.what.agent);
            let running = begun.or(own.and_then(|own| own.running));
            let was_here = running.as_deref() == Some(self.agents[agent].name);
            why = Some(if was_here { "first_turn" } else { "other_agent" });
        }
        match (trouble(&turn.doors.new), is_said, policy) {
            (_, true, Policy::Required) => Err("not_resumable"),
            (Some(name), _, _) => Err(name),
            (None, false, _) => Ok(("fresh", None)),
            (None, true, Policy::Off) => Ok(("untold", why)),
            (None, true, Policy::Auto) => Ok(("retold", why)),
        }
    }

    fn expect(&self, turn: &Turn, policy: Policy, open: Option<&Open>) -> Expected {
        let mut opened = None;
        let mut is_lost = false;
        match open.filter(|open| !open.is_left) {
            None => match self.expect_open(turn, policy) {
                Ok(how) => opened = Some(how),
                Err(why) => return Expected { opened: None, end: Ending::NotOpened(why) },
            },
            Some(open) => {
                let state = self.agents[turn.agent].state();
                is_lost =
                    open.native.as_ref().is_some_and(|native| !state.natives.contains_key(native));
            }
        }
        let is_answered = turn.acts.iter().any(|kind| !matches!(kind, Kind::Title | Kind::Pause));
        let forgets = matches!(turn.end, End::Forgets) && !is_answered;
        if !is_lost && !forgets {
            return Expected { opened, end: Ending::of(&turn.end) };
        }
        // Told anew, once.
        let why = match (trouble(&turn.doors.new), policy) {
            _ if turn.launch_fails => Some("cannot_start"),
            (_, Policy::Required) => Some("not_resumable"),
            (trouble, _) => trouble,
        };
        if let Some(why) = why {
            return Expected { opened: None, end: Ending::Interrupted(why) };
        }
        let how = if policy == Policy::Off { "untold" } else { "retold" };
        let end = if is_lost { Ending::of(&turn.end) } else { Ending::Stopped("end_turn") };
        Expected { opened: Some((how, Some("session_gone"))), end }
    }
}

async fn live(home: &Home, abilities: [&'static str; 2], steps: Vec<Step>) {
    let mut history = History::new(home, abilities);
    for step in steps {
        history.take(step).await;
    }
    history.crash();
    history.tidy().await;
    (0..2).for_each(|conversation| history.check_turns(conversation));
}

#[test]
#[expect(clippy::print_stderr, reason = "a failure is told with its seed")]
fn each_own_session_of_an_agent_knows_each_record_once_and_in_order() {
    let seed = option_env!("SEED").map_or_else(
        || format!("{:032}", u64::from(std::process::id()) * 1_000_003),
        |seed| format!("{seed:0>32}"),
    );
    // To see the same again: `SEED=… cargo test …`.
    eprintln!("seed {seed}");
    std::thread::scope(|scope| {
        for part in 0..AT_ONCE {
            let mut seed: Vec<u8> = seed.bytes().take(32).collect();
            scope.spawn(move || {
                seed[0] = u8::try_from(part).unwrap();
                let config = Config {
                    cases: histories() / AT_ONCE,
                    failure_persistence: None,
                    ..Config::default()
                };
                let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
                let mut runner = TestRunner::new_with_rng(config, rng);
                let home = Home::new();
                let history = ([ability(), ability()], prop::collection::vec(step(), 1..16));
                let outcome = runner.run(&history, |(abilities, steps)| {
                    run(live(&home, abilities, steps));
                    Ok(())
                });
                outcome.unwrap_or_else(|error| panic!("{error}"));
                let health = block_on(home.store.check()).unwrap();
                assert_eq!((health.damage, health.drift), (Vec::new(), Vec::new()));
            });
        }
    });
}
