//! Whatever happens, each of an agent's own sessions comes to know each record of its conversation once and in order.
//!
//! A history is a random row of turns, deaths, losses and crashes. What the model says stands apart from the engine:
//! it knows how an open has to come out, what an own session of an agent has to know when a prompt arrives, and what
//! may be doubtful after a crash: what only the agent knew when we died.

mod attempt;
mod checks;
mod expected;
mod marks;
mod steps;

use self::attempt::{Seen, attempt};
use self::marks::{message_marks, update_marks};
use self::steps::{Ending, Kind, Step, Turn, ability, step};
use crate::scripted::{Act, End, Known, Script, Scripted, say, use_tool};
use crate::world::{Home, World, run};
use futures::executor::block_on;
use jiff::SignedDuration;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rethread_domain::message::Message;
use rethread_domain::opening::{Policy, Watermark};
use rethread_domain::turn::Update;
use rethread_domain::{Conversation, Role};
use rethread_engine::Error;
use rethread_engine::agents::{AgentError, OpenOptions, Talk};
use rethread_store::{Append, Begun};
use rethread_testkit::{message, seed};
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// More of them, for a long run: `HISTORIES=100000 cargo test …`.
fn histories() -> u32 {
    given("HISTORIES").unwrap_or(2_000)
}

fn given<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var_os(name)?.into_string().ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
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
    /// The marks of what others said while a turn ran.
    meanwhile: BTreeSet<String>,
    /// The marks of what was said in each own session of an agent without us, since we were last in it.
    natively: BTreeMap<String, Vec<String>>,
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
            meanwhile: BTreeSet::new(),
            natively: BTreeMap::new(),
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

    fn watermark(&self, conversation: usize, agent: usize) -> Option<Watermark> {
        let name = self.agents[agent].name;
        let store = &self.world.store;
        block_on(store.watermark(self.world.session, CONVERSATIONS[conversation], name)).unwrap()
    }

    fn begun(&self, conversation: usize) -> Option<Begun> {
        let store = &self.world.store;
        block_on(store.begun(self.world.session, CONVERSATIONS[conversation])).unwrap()
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Turn(turn) => Box::pin(self.turn(*turn)).await,
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
                if let Some(watermark) = self.watermark(conversation, agent) {
                    self.agents[agent].state().natives.remove(&watermark.native);
                }
            }
            Step::Natively { conversation, agent } => self.natively(conversation, agent),
            Step::Second { conversation } => self.second(conversation).await,
            Step::Tidy => self.tidy().await,
            Step::Record { conversation } => {
                let append = self.record(conversation);
                block_on(self.world.store.append(append)).unwrap();
            }
        }
        for conversation in 0..2 {
            self.check_turns(conversation);
        }
    }

    /// Somebody talks in the agent's own program, while we do not.
    fn natively(&mut self, conversation: usize, agent: usize) {
        let is_open = self.open.get(&conversation).is_some_and(|open| open.agent == agent);
        let Some(watermark) = self.watermark(conversation, agent).filter(|_| !is_open) else {
            return;
        };
        let said = [self.mark(), self.mark()];
        let [request, answer] = said.each_ref().map(|mark| format!("{mark} said natively"));
        self.agents[agent].told_natively(&watermark.native, &request, &answer);
        // Where it stands among what others said meanwhile, nobody can tell.
        self.meanwhile.extend(said.clone());
        self.natively.entry(watermark.native).or_default().extend(said);
    }

    /// What somebody else says.
    fn record(&mut self, conversation: usize) -> Append {
        let mut said = message(Role::System, &format!("{} recorded", self.mark()));
        CONVERSATIONS[conversation].clone_into(&mut said.conversation);
        Append::new(self.world.session, vec![said])
    }

    /// Somebody else says something while the turn runs.
    fn record_meanwhile(&mut self, turn: &Turn, policy: Policy) {
        // Who is to be told nothing is told nothing of this either, if it is opened anew.
        let Some(after) = turn.meanwhile.filter(|_| policy != Policy::Off) else { return };
        let append = self.record(turn.conversation);
        self.meanwhile.extend(marks::marks(&append.messages[0].content));
        let store = self.world.store.clone();
        let act = move || drop(block_on(store.append(append)).unwrap());
        self.world.watched.before("append", after, act);
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
        let meanwhile = &self.meanwhile;
        for agent in &self.agents {
            assert_eq!(agent.state().alive, 0, "{} outlives us", agent.name);
        }
        for conversation in 0..2 {
            let Some(begun) = self.begun(conversation) else { continue };
            let is_answered = begun.updates.iter().any(|(_, update)| update.is_answer());
            let keeps = begun.what.keeps_request == Some(true) && is_answered;
            let held = begun.what.watermark.filter(|_| keeps).map(|watermark| watermark.native);
            let agent = self.agents.iter().find(|agent| agent.name == begun.what.agent).unwrap();
            let mut state = agent.state();
            let Some(last) = state.prompts.last().map(|prompted| prompted.native.clone()) else {
                continue;
            };
            let Some(native) = state.natives.get_mut(&last) else { continue };
            let is_counted = held.as_ref() == Some(&last);
            let (from, has_ended) = (native.turn_from, native.has_ended);
            // What was answered is ours to tell again; the request is not, where it counts as known. What was said natively
            // after the turn stays in doubt.
            let is_of_turn = |known: &&mut Known| {
                known.is_document
                    || marks::marks(&known.text).iter().all(|m| !meanwhile.contains(m))
            };
            for known in native.known.iter_mut().skip(from).filter(is_of_turn) {
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
        let again = if matches!(script.end, End::Forgets | End::Denies) {
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
            state.launching.push_back(Err(AgentError::CannotStart { program, why }));
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
        let held_before = self.watermark(conversation, agent);
        let request = self.mark();
        let named = CONVERSATIONS[conversation].to_owned();
        let options = OpenOptions { conversation: named, policy, ..self.world.options(&who) };
        let mut shown = Vec::new();
        self.record_meanwhile(&turn, policy);
        self.world.fate.set(turn.crash);
        let talk = open.map(|open| open.talk);
        let seen = tokio::select! {
            biased;
            () = self.world.fate.died() => None,
            seen = attempt(&self.world.engine, options, talk, &request, &who, &mut shown) => Some(seen),
        };
        self.world.fate.set(None);
        self.world.watched.forget();
        self.check_prompts(conversation, agent, &request);
        self.check_natively(conversation, &expected, held_before.as_ref());
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
        if let Ending::NotOpened { .. } = expected.end {
            assert!(!is_asked, "nobody was there to ask");
        }
        self.check_held((conversation, agent), &expected, talk.as_ref(), held_before);
        if let Some(talk) = talk {
            self.check_opening(&talk, &expected, is_asked);
            let is_left = talk.opening().is_none();
            let native = who.state().prompts.last().map(|prompted| prompted.native.clone());
            self.open.insert(conversation, Open { agent, policy, talk, is_left, native });
        }
    }
}

async fn live(home: &Home, abilities: [&'static str; 2], steps: Vec<Step>) {
    let mut history = History::new(home, abilities);
    for step in steps {
        Box::pin(history.take(step)).await;
    }
    history.crash();
    history.tidy().await;
    (0..2).for_each(|conversation| history.check_turns(conversation));
}

#[test]
fn each_own_session_of_an_agent_knows_each_record_once_and_in_order() {
    let seed = seed();
    let seed = format!("{seed:0>32}");
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
