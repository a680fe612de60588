//! What was said in an agent's own program is found in the file that the agent keeps, where no replay shows it.

use std::fs::{self, File};
use std::path::PathBuf;

use rethread_engine::agents::{OpenOptions, OwnSessions, Talk};
use rethread_engine::imports::AgentFolders;
use rethread_testkit::at;
use serde_json::json;

use crate::scripted::{End, Script, Scripted, say};
use crate::world::{Home, World, run, told};

const REQUEST: &str = "paint the fence, the one behind the shop";
const ANSWER: &str = "It is painted.";

/// An agent whose sessions lie on the disk as Claude Code keeps them.
struct Keeper {
    world: World,
    agent: Scripted,
    home: tempfile::TempDir,
    lines: Vec<String>,
}

impl Keeper {
    fn new(home: &Home, abilities: &str) -> Self {
        let world = World::new(home);
        let agent = world.agent("claude", abilities);
        Self { world, agent, home: tempfile::tempdir().unwrap(), lines: Vec::new() }
    }

    fn file(&self) -> PathBuf {
        let folder = self.home.path().join(".claude/projects/shop");
        fs::create_dir_all(&folder).unwrap();
        folder.join("claude-1.jsonl")
    }

    /// Writes what was said into the agent's file.
    fn keeps(&mut self, said: &[(&str, &str)]) {
        for (role, text) in said {
            let number = self.lines.len();
            let parent = number.checked_sub(1).map(|before| format!("u{before}"));
            let line = json!({
                "parentUuid": parent, "type": role, "uuid": format!("u{number}"), "sessionId": "claude-1",
                "message": { "id": format!("m{number}"), "role": role, "content": [{ "type": "text", "text": text }] },
                "timestamp": at(1), "cwd": "/shop", "isSidechain": false,
            });
            self.lines.push(format!("{line}\n"));
        }
        fs::write(self.file(), self.lines.concat()).unwrap();
    }

    fn options(&self) -> OpenOptions {
        let roots = AgentFolders { home: self.home.path().to_owned(), ..AgentFolders::default() };
        let own_sessions = Some(OwnSessions { agent: "claude".to_owned(), roots });
        OpenOptions { own_sessions, ..self.world.options(&self.agent) }
    }

    async fn turn(&self, prompt: &str) -> (&'static str, Option<String>) {
        let mut talk = Talk::open(&self.world.engine, self.options()).await.unwrap();
        let answer = talk.send(prompt, &mut |_| ()).await.unwrap();
        talk.end().await.unwrap();
        let (how, why) = told(&answer.opened);
        (how, why.map(str::to_owned))
    }

    /// A conversation of one turn, after which somebody talks in the agent's own program.
    async fn natively(&mut self) {
        self.agent.plays([Script::saying(&["It is fixed."])]);
        self.turn("fix the basket").await;
        self.keeps(&[("user", "fix the basket"), ("assistant", "It is fixed.")]);
        self.keeps(&[("user", REQUEST), ("assistant", ANSWER)]);
        self.agent.told_natively("claude-1", REQUEST, ANSWER);
    }
}

#[test]
fn it_is_taken_in_once_before_anything_is_sent() {
    run(async {
        let home = Home::new();
        let mut keeper = Keeper::new(&home, "resume");
        keeper.natively().await;
        for _ in 0..2 {
            let talk = Talk::open(&keeper.world.engine, keeper.options()).await.unwrap();
            talk.end().await.unwrap();
        }
        assert_eq!(keeper.world.texts(), ["fix the basket", "It is fixed.", REQUEST, ANSWER]);
        assert_eq!(keeper.turn("go on").await, ("resumed", None));
        assert_eq!(keeper.agent.last_prompt().document(), None, "it knows all of that");
        keeper.keeps(&[("user", "go on"), ("assistant", "Gone.")]);
        keeper.turn("and on").await;
        let texts = keeper.world.texts();
        assert_eq!(texts.iter().filter(|text| *text == REQUEST).count(), 1, "{texts:?}");
        assert_eq!(texts.iter().filter(|text| *text == "go on").count(), 1, "{texts:?}");
    });
}

#[test]
fn an_agent_that_can_only_begin_anew_is_told_of_it() {
    run(async {
        let home = Home::new();
        let mut keeper = Keeper::new(&home, "none");
        keeper.natively().await;
        assert_eq!(keeper.turn("go on").await, ("retold", Some("unable".to_owned())));
        let prompt = keeper.agent.last_prompt();
        let retold = prompt.document().unwrap();
        assert_eq!(retold.matches(REQUEST).count(), 1, "{retold}");
        assert!(retold.contains(ANSWER) && retold.contains("fix the basket"), "{retold}");
    });
}

#[test]
fn what_is_as_we_left_it_is_not_read() {
    run(async {
        let home = Home::new();
        let mut keeper = Keeper::new(&home, "resume");
        keeper.natively().await;
        let untouched = fs::File::options().write(true).open(keeper.file()).unwrap();
        File::set_modified(&untouched, at(-5).into()).unwrap();
        keeper.turn("go on").await;
        assert!(!keeper.world.texts().contains(&REQUEST.to_owned()));
    });
}

#[test]
fn what_an_interrupted_turn_left_there_is_not_guessed() {
    for keeps in [true, false] {
        run(async {
            let home = Home::new();
            let mut keeper = Keeper::new(&home, "resume unknown");
            keeper.agent.plays([
                Script::saying(&["It is fixed."]),
                Script::default().then(crate::scripted::Act::Send(say("Pai"))).ending(End::Dies),
            ]);
            keeper.turn("fix the basket").await;
            keeper.keeps(&[("user", "fix the basket"), ("assistant", "It is fixed.")]);
            let mut talk = Talk::open(&keeper.world.engine, keeper.options()).await.unwrap();
            talk.send(REQUEST, &mut |_| ()).await.unwrap_err();
            talk.end().await.unwrap();
            if keeps {
                keeper.keeps(&[("user", REQUEST), ("assistant", "Pai")]);
            }
            keeper.turn("go on").await;
            let prompt = keeper.agent.last_prompt();
            let is_told = prompt.document().is_some_and(|told| told.contains(REQUEST));
            assert_eq!(is_told, !keeps);
            let is_guessed = prompt.texts().iter().any(|text| text.contains("may be a repetition"));
            assert!(!is_guessed, "the file shows what there is: {prompt:?}");
        });
    }
}

#[test]
fn a_file_of_something_else_and_a_broken_one_change_nothing() {
    let other = json!({
        "parentUuid": null, "type": "user", "uuid": "x", "sessionId": "claude-9", "cwd": "/shop", "isSidechain": false,
        "message": { "role": "user", "content": "paint it black" }, "timestamp": at(1),
    });
    let elsewhere = other.to_string().replace("claude-9", "claude-1");
    for content in [other.to_string(), elsewhere, "{\"type\":\"us".to_owned(), "\0\0".to_owned()] {
        run(async {
            let home = Home::new();
            let mut keeper = Keeper::new(&home, "resume");
            keeper.natively().await;
            fs::write(keeper.file(), &content).unwrap();
            assert_eq!(keeper.turn("go on").await, ("resumed", None), "{content}");
            assert_eq!(keeper.agent.last_prompt().document(), None, "{content}");
            assert_eq!(keeper.world.texts()[..3], ["fix the basket", "It is fixed.", "go on"]);
        });
    }
}
