//! Resuming never shortens anything: random sequences of invocations, continuations and crashes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::mcp_client::{Mcp, failed, succeeded, text};
use crate::reference::until;

const STEPS: usize = 14;

/// Numbers that a seed gives.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // Xorshift: any will do, so that it is the same next time.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

struct World {
    env: TestEnv,
    mcp: Option<Mcp>,
    /// What each session has been seen to hold.
    seen: BTreeMap<String, Vec<Value>>,
}

impl World {
    fn new() -> Self {
        let env = TestEnv::new();
        env.agent("resumes", &["--resume"]);
        env.agent("loads", &["--load", "--persist-nothing-until-end"]);
        env.agent("forgets", &[]);
        Self { env, mcp: None, seen: BTreeMap::new() }
    }

    fn mcp(&mut self) -> &mut Mcp {
        self.mcp.get_or_insert_with(|| Mcp::start(&self.env))
    }

    fn arguments(&self, dice: &mut Dice, prompt: &str) -> Value {
        let agent = ["resumes", "loads", "forgets"][usize::try_from(dice.roll(3)).unwrap()];
        let mut all = json!({"agentName": agent, "prompt": prompt});
        let known = u64::try_from(self.seen.len()).unwrap();
        if known > 0 && dice.roll(4) > 0 {
            let nth = usize::try_from(dice.roll(known)).unwrap();
            all["continueSessionId"] = json!(self.seen.keys().nth(nth).unwrap());
            all["agentChange"] = json!(true);
        }
        all
    }

    /// One invocation, which may fail in the agent.
    fn invoke(&mut self, dice: &mut Dice, prompt: &str) {
        let arguments = self.arguments(dice, prompt);
        let mcp = self.mcp();
        let id = mcp.ask_tool("invoke_agent", arguments);
        let answer = mcp.answer(id);
        if answer["result"]["isError"] == true {
            assert!(failed(&answer).contains("sessionId"), "{answer:#}");
        } else {
            assert!(!text(&succeeded(&answer)["sessionId"]).is_empty());
        }
    }

    /// The server is killed in the middle of an answer.
    fn crash(&mut self, dice: &mut Dice) {
        let arguments = self.arguments(dice, "hang");
        let is_hanging = |env: &TestEnv| {
            let sessions = env.json(["list"]);
            let mut all = sessions.as_array().unwrap().iter();
            all.any(|one| {
                let messages = env.messages(text(&one["session_id"]));
                messages.last().is_some_and(|last| last["content"] == "hang")
            })
        };
        let mcp = self.mcp();
        mcp.ask_tool("invoke_agent", arguments);
        until("the turn runs", || is_hanging(&self.env).then_some(()));
        self.mcp.take().unwrap().kill();
    }

    /// Everything that was there is still there, as it was, in store and files.
    fn check(&mut self, when: &str) {
        let sessions = self.env.json(["list", "--all"]);
        let ids: Vec<String> = sessions
            .as_array()
            .unwrap()
            .iter()
            .map(|one| text(&one["session_id"]).to_owned())
            .collect();
        for known in self.seen.keys() {
            assert!(ids.contains(known), "{when}: {known} is gone");
        }
        for id in ids {
            let messages = self.env.messages(&id);
            let before = self.seen.remove(&id).unwrap_or_default();
            assert!(
                messages.len() >= before.len(),
                "{when}: {id} had {} messages and has {}",
                before.len(),
                messages.len()
            );
            assert_eq!(messages[..before.len()], before[..], "{when}: {id}");
            let file = self
                .env
                .path(&format!("home/.local/share/rethread/output_streams/{id}/conversation.json"));
            if let Ok(text) = std::fs::read(&file) {
                let filed: Value =
                    serde_json::from_slice(&text).expect("one JSON document at every moment");
                let filed = filed["messages"].as_array().unwrap();
                assert!(filed.len() <= messages.len());
                let same = filed.iter().zip(&messages).all(|(a, b)| a["content"] == b["content"]);
                assert!(same, "{when}: {id}: the file says something else");
            }
            self.seen.insert(id, messages);
        }
    }
}

#[test]
fn resuming_never_shortens_anything() {
    for seed in [0x9e37_79b9_7f4a_7c15, 0x0123_4567_89ab_cdef, 0xdead_beef_cafe_f00d] {
        let mut dice = Dice(seed);
        let mut world = World::new();
        for step in 0..STEPS {
            let what = dice.roll(6);
            match what {
                0 => world.crash(&mut dice),
                1 => world.invoke(&mut dice, "die"),
                2 => world.invoke(&mut dice, "tool: ls"),
                3 => {
                    world.mcp.take().map(Mcp::end);
                }
                _ => world.invoke(&mut dice, &format!("say: step {step}")),
            }
            world.check(&format!("seed {seed:#x}, step {step}"));
        }
        assert!(!world.seen.is_empty());
        world.mcp.take().map(Mcp::end);
        world.env.assert_sound();
    }
}
