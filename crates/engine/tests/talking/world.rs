//! A store, a session and agents for one test.

use std::sync::Arc;

use futures::executor::block_on;
use rethread_domain::context::Limits;
use rethread_domain::message::Message;
use rethread_domain::opening::{Opening, Policy, Settings, Watermark};
use rethread_domain::session::Beginning;
use rethread_domain::{Fact, SessionId};
use rethread_engine::agents::{Abilities, Answer, Holds, Nobody, OpenOptions, Rules, Talk};
use rethread_engine::{Clock, Engine, Pruning, Result};
use rethread_store::{Span, Store, StoreUrl};
use rethread_testkit::{at, beginning};

use crate::scripted::Scripted;
use crate::watched::{Fate, Watched};

pub(crate) const MAIN: &str = "main";

/// A store in a folder that is gone when the test is over; in memory, where that is possible.
pub(crate) struct Home {
    folder: tempfile::TempDir,
    pub(crate) store: Arc<dyn Store>,
}

impl Home {
    pub(crate) fn new() -> Self {
        let memory = std::path::Path::new("/dev/shm");
        let folder =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = folder.unwrap();
        let url = StoreUrl::Sqlite(folder.path().join("store.db"));
        Self { store: block_on(rethread_store::open(&url)).unwrap(), folder }
    }

    /// The same store, as another process has it.
    pub(crate) fn open_again(&self) -> Arc<dyn Store> {
        let url = StoreUrl::Sqlite(self.folder.path().join("store.db"));
        block_on(rethread_store::open(&url)).unwrap()
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}

/// One session in a store, and one process that talks in it.
pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) watched: Arc<Watched>,
    pub(crate) fate: Arc<Fate>,
    pub(crate) engine: Engine,
    pub(crate) session: SessionId,
}

impl World {
    pub(crate) fn new(home: &Home) -> Self {
        Self::about(home, beginning())
    }

    pub(crate) fn about(home: &Home, beginning: Beginning) -> Self {
        let store = Arc::clone(&home.store);
        let fate = Arc::new(Fate::default());
        let watched = Arc::new(Watched::new(Arc::clone(&store), Arc::clone(&fate)));
        let engine = Engine::new(watched.clone(), Clock::Fixed(at(0)));
        let session = block_on(store.start(SessionId::generate(), beginning, at(0))).unwrap().id;
        Self { store, watched, fate, engine, session }
    }

    pub(crate) fn agent(&self, name: &'static str, can: &str) -> Scripted {
        let has = |word| can.split(' ').any(|one| one == word);
        let abilities = Abilities {
            resume: has("resume"),
            load: has("load"),
            list: has("list"),
            keeps_request: if has("unknown") { None } else { Some(has("keeps")) },
            reuses_ids: has("reuses"),
            ..Abilities::default()
        };
        Scripted::new(name, abilities, Arc::clone(&self.fate))
    }

    pub(crate) fn options(&self, agent: &Scripted) -> OpenOptions {
        OpenOptions {
            session: self.session,
            conversation: MAIN.to_owned(),
            agent: agent.name.to_owned(),
            launcher: Arc::new(agent.clone()),
            own_sessions: None,
            system_prompt: None,
            changed_prompt: None,
            defaults: Settings::default(),
            settings: Settings::default(),
            policy: Policy::Auto,
            limits: Limits::default(),
            max_turn_bytes: 64 << 20,
            margin: 0.0,
            holds: Holds::default(),
            rules: Rules::default(),
            asker: Arc::new(Nobody),
            pruning: Pruning::default(),
            request_id: None,
        }
    }

    pub(crate) async fn open(&self, agent: &Scripted) -> Result<Talk> {
        Talk::open(&self.engine, self.options(agent)).await
    }

    /// One turn in a process of its own.
    pub(crate) async fn turn(&self, agent: &Scripted, prompt: &str) -> Result<Answer> {
        let mut talk = self.open(agent).await?;
        let answer = talk.send(prompt, &mut |_| ()).await;
        talk.end().await?;
        answer
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        block_on(self.store.messages(self.session, Span::after(1, u32::MAX))).unwrap()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.messages().iter().map(|one| one.body.whole().unwrap().to_owned()).collect()
    }

    pub(crate) fn watermark(&self, agent: &Scripted) -> Option<Watermark> {
        block_on(self.store.watermark(self.session, MAIN, agent.name)).unwrap()
    }

    pub(crate) fn facts(&self) -> Vec<Fact> {
        let facts = block_on(self.store.facts(self.session)).unwrap();
        facts.into_iter().map(|record| record.fact).collect()
    }

    /// How conversations were opened, as it was written down.
    pub(crate) fn openings(&self) -> Vec<Opening> {
        let opening = |fact| match fact {
            Fact::Attached(opening) => Some(opening),
            _ => None,
        };
        self.facts().into_iter().filter_map(opening).collect()
    }
}

/// Short: `how` and `why`.
pub(crate) fn told(opening: &Opening) -> (&'static str, Option<&str>) {
    (opening.how.as_str(), opening.why.as_deref())
}

pub(crate) fn is_interrupted(message: &Message) -> bool {
    message.extras.other.contains_key(rethread_domain::turn::INTERRUPTED)
}

/// Runs on a clock that jumps to the next thing that is waited for.
pub(crate) fn run<F: Future>(test: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap().block_on(test)
}
