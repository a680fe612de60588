//! Opening a conversation: its agent's own session if that can be had, a new one that is told the story otherwise.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use rethread_domain::context::Limits;
use rethread_domain::opening::{self, How, Opening, Policy, Settings, Tier, Watermark, Ways};
use rethread_domain::{Conversation, Fact, SessionId};
use rethread_store::Append;
use tokio::time::Instant;

use super::gate::{Asker, Gate};
use super::port::{Agent, Desk, Door, Launcher, Opened, Trouble};
use super::replay::Seen;
use super::rules::{Holds, Rules};
use super::tell::Held;
use super::watermark::remembered;
use crate::pruning::Pruning;
use crate::{Engine, Error, Logged as _, Result};

/// Which conversation to open, and how.
#[derive(Clone)]
pub struct OpenOptions {
    pub session: SessionId,
    pub conversation: String,
    /// The name of the agent's entry.
    pub agent: String,
    pub launcher: Arc<dyn Launcher>,
    /// Told once in each new native session.
    pub system_prompt: Option<String>,
    /// The command whose prompt this is, with its hash, where the agent may know another version.
    pub changed_prompt: Option<(String, String)>,
    /// Set unless the user set something else before.
    pub defaults: Settings,
    /// Set now, by the user.
    pub settings: Settings,
    /// Set last in each native session, so that the rules are kept.
    pub holds: Holds,
    pub policy: Policy,
    pub limits: Limits,
    /// What may be said in one turn; with more it is cancelled.
    pub max_turn_bytes: u64,
    /// The part of the tokens kept back.
    pub margin: f64,
    pub rules: Rules,
    pub asker: Arc<dyn Asker>,
    pub pruning: Pruning,
    /// The id of the request that is sent, for whoever has to know later whether it was written down.
    pub request_id: Option<String>,
}

impl std::fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenOptions")
            .field("session", &self.session)
            .field("conversation", &self.conversation)
            .field("agent", &self.agent)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl OpenOptions {
    pub(super) fn error(&self, trouble: Trouble) -> Error {
        Error::Agent { agent: self.agent.clone(), trouble }
    }
}

/// An agent with the conversation open.
pub(super) struct Attached {
    pub(super) agent: Box<dyn Agent>,
    pub(super) native: String,
    pub(super) held: Held,
    /// Whether the agent can find the native session again.
    pub(super) is_resumable: bool,
    /// What the agent holds in the session that it had before, or what the user set there.
    pub(super) kept: Watermark,
    /// Whether the native session is new: the system prompt is still to be told.
    pub(super) is_new: bool,
    /// Whether the agent may have the request of the turn that was interrupted, which it is told again.
    pub(super) may_repeat: bool,
    pub(super) settings: Settings,
    pub(super) spent_usd: Option<f64>,
    /// When the last turn in the native session ended.
    pub(super) left_at: Option<Timestamp>,
    pub(super) opening: Opening,
    /// What became true, still to be written down.
    pub(super) facts: Vec<Fact>,
}

/// One native session that was tried.
enum Tried {
    /// With what its session holds.
    Opened(Opened, Seen),
    /// Why not, and whether the agent does not know the session any more.
    Failed { why: &'static str, is_gone: bool },
}

/// All that is known when a conversation is opened.
struct Opener<'a> {
    engine: &'a Engine,
    options: &'a OpenOptions,
    folder: PathBuf,
    desk: Arc<dyn Desk>,
    watermark: Option<Watermark>,
    /// What the user had set, in that session or in one that is no more.
    settings: Settings,
    conversation: Option<Conversation>,
    begun: Instant,
    /// Why the way that is tried now is not a better one.
    why: Option<&'static str>,
    /// Whether the agent does not know the session any more.
    is_gone: bool,
}

impl Opener<'_> {
    async fn launch(&self) -> Result<Box<dyn Agent>> {
        let launched = self.options.launcher.launch(&self.folder, Arc::clone(&self.desk)).await;
        launched.map_err(|trouble| self.options.error(trouble))
    }

    /// How many messages the conversation has.
    fn said(&self) -> u32 {
        self.conversation.as_ref().map_or(0, |conversation| conversation.messages)
    }

    /// Whether what the agent's own session holds has to be looked at: a turn in it was interrupted, or somebody may
    /// have talked in it without us.
    async fn is_doubtful(&self, agent: &mut dyn Agent) -> bool {
        let Some(watermark) = &self.watermark else { return false };
        let abilities = agent.abilities();
        let has_choice = abilities.resume && abilities.load && self.options.policy != Policy::Off;
        if !has_choice || watermark.in_doubt.is_some() {
            return watermark.in_doubt.is_some();
        }
        !watermark.is_as_we_left_it(agent.changed_at(&watermark.native).await)
    }

    /// The ways to try. Where one was rejected already, only a new session is left.
    async fn tiers(&mut self, agent: &mut dyn Agent, rejected: Option<&str>) -> Vec<Tier> {
        if rejected.is_some() {
            self.why = Some("session_gone");
            // A session that was told nothing, or was not held yet, is not the one that is.
            self.is_gone = self.watermark.as_ref().map(|watermark| &*watermark.native) == rejected;
            return vec![Tier::New];
        }
        let is_doubtful = self.is_doubtful(agent).await;
        let abilities = agent.abilities();
        let ways = Ways {
            is_held: self.watermark.is_some(),
            can_resume: abilities.resume,
            can_load: abilities.load,
            is_doubtful,
            reuses_ids: abilities.reuses_ids,
        };
        let (tiers, why) = opening::tiers(self.options.policy, ways);
        self.why = match why {
            Some(opening::OTHER_AGENT) => {
                why_unheld(self.conversation.as_ref(), &self.options.agent)
            }
            why => why,
        };
        tiers
    }

    async fn open(&mut self, rejected: Option<&str>) -> Result<Attached> {
        let mut agent = self.launch().await?;
        for tier in self.tiers(agent.as_mut(), rejected).await {
            if tier == Tier::New && self.said() > 0 && self.options.policy == Policy::Required {
                agent.end().await;
                let why = self.why.unwrap_or(opening::UNABLE).to_owned();
                return Err(Error::NotResumable { agent: self.options.agent.clone(), why });
            }
            let watermark = self.watermark.as_ref();
            match self.engine.try_tier(self.options, agent.as_mut(), tier, watermark).await {
                Ok(Tried::Opened(opened, seen)) => {
                    return self.attached(agent, opened, tier, seen).await;
                }
                Ok(Tried::Failed { why, is_gone }) => {
                    self.why = Some(why);
                    self.is_gone |= is_gone;
                }
                Err(trouble) if tier == Tier::New || !trouble.is_fatal() => {
                    agent.end().await;
                    return Err(self.options.error(trouble));
                }
                Err(trouble) => {
                    // Of no use any more: the next way is tried with another process.
                    self.why = Some(trouble.name());
                    agent.end().await;
                    agent = self.launch().await?;
                }
            }
        }
        agent.end().await;
        Err(self.options.error(Trouble::Cancelled))
    }

    async fn attached(
        &self,
        agent: Box<dyn Agent>,
        opened: Opened,
        tier: Tier,
        seen: Seen,
    ) -> Result<Attached> {
        let options = self.options;
        let held = self.watermark.as_ref().filter(|_| tier != Tier::New);
        let mut attached =
            Attached::new(options, agent, opened, tier, held, self.conversation.as_ref());
        if let Some(watermark) = held {
            attached.held = seen.held;
            let is_told = |request| !seen.is_certain && request > watermark.upto;
            attached.may_repeat = seen.repeats || watermark.in_doubt.is_some_and(is_told);
        }
        attached.set(options, &self.settings).await?;
        let is_forgotten = tier == Tier::New && self.is_gone && self.watermark.is_some();
        if is_forgotten {
            attached.facts.push(self.forgot());
        } else if let Some(watermark) = &self.watermark {
            attached.kept.clone_from(watermark);
        }
        if attached.settings != self.settings || is_forgotten && !self.settings.is_empty() {
            attached.facts.push(remembered(&attached));
        }
        attached.opened(options, tier, self.said(), self.why, self.ms());
        self.engine.take_in_native(options.session, &mut attached, seen.more).await?;
        Ok(attached)
    }

    fn forgot(&self) -> Fact {
        let (conversation, agent) = (self.options.conversation.clone(), self.options.agent.clone());
        Fact::Forgot { conversation, agent }
    }

    fn ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// What becomes true with an open that failed: it is counted, and a session that the agent does not know any more
    /// is forgotten. Where that only seems so, because of a missing login, or because nothing else may take its
    /// place, it is not.
    fn failed(&self, error: &Error) -> Vec<Fact> {
        let (why, is_final) = match error {
            Error::Agent { trouble, .. } => {
                let is_open = matches!(trouble, Trouble::NeedsLogin(_) | Trouble::Cancelled);
                (trouble.name(), !is_open)
            }
            Error::NotResumable { why, .. } => (why.as_str(), false),
            _ => return Vec::new(),
        };
        let mut facts = Vec::new();
        if self.is_gone && is_final && self.watermark.is_some() {
            facts.push(self.forgot());
            if !self.settings.is_empty() {
                facts.push(Fact::Holds(Watermark {
                    settings: self.settings.clone(),
                    ..Watermark::nothing(&self.options.conversation, &self.options.agent)
                }));
            }
        }
        facts.push(Fact::Attached(Opening {
            conversation: self.options.conversation.clone(),
            agent: self.options.agent.clone(),
            how: How::Failed,
            why: Some(why.to_owned()),
            ms: self.ms(),
        }));
        facts
    }
}

impl Engine {
    /// Starts the agent and opens the conversation. With `rejected`, which is the native session that was open, none
    /// is even tried.
    #[tracing::instrument(
        name = "opening",
        skip_all,
        fields(session = %options.session, conversation = options.conversation, agent = options.agent)
    )]
    pub(super) async fn attach(
        &self,
        options: &OpenOptions,
        rejected: Option<&str>,
    ) -> Result<Attached> {
        let begun = Instant::now();
        let session = self.store.session(options.session).await?;
        let known =
            self.store.watermark(options.session, &options.conversation, &options.agent).await?;
        let mut opener = Opener {
            engine: self,
            options,
            folder: PathBuf::from(&session.project),
            desk: Arc::new(Gate {
                engine: self.clone(),
                user: session.user,
                project: session.project,
                agent: options.agent.clone(),
                rules: options.rules.clone(),
                asker: Arc::clone(&options.asker),
            }),
            settings: known.as_ref().map_or_else(Settings::default, |known| known.settings.clone()),
            watermark: known.filter(Watermark::is_held),
            conversation: self.conversation(options).await?,
            begun,
            why: None,
            is_gone: false,
        };
        let attached = opener.open(rejected).await;
        if let Ok(attached) = &attached {
            let Opening { how, why, ms, .. } = &attached.opening;
            tracing::info!(how = how.as_str(), why, ms, "opened");
        }
        if let Err(error) = &attached {
            tracing::warn!(error = error as &dyn std::error::Error, "not opened");
            let append = Append {
                facts: opener.failed(error),
                at: Some(self.clock.now()),
                ..Append::new(options.session, Vec::new())
            };
            self.store.append(append).await.or_log("a failed opening could not be recorded");
        }
        attached
    }

    pub(super) async fn conversation(&self, options: &OpenOptions) -> Result<Option<Conversation>> {
        let all = self.store.conversations(options.session).await?;
        Ok(all.into_iter().find(|one| one.name == options.conversation))
    }

    async fn try_tier(
        &self,
        options: &OpenOptions,
        agent: &mut dyn Agent,
        tier: Tier,
        watermark: Option<&Watermark>,
    ) -> std::result::Result<Tried, Trouble> {
        let native = watermark.map_or("", |watermark| watermark.native.as_str());
        let door = match tier {
            Tier::Resume => Door::Resume(native),
            Tier::Load => Door::Load(native),
            Tier::New => Door::New,
        };
        let opened = match agent.open(door).await {
            Ok(opened) => opened,
            Err(trouble) if tier == Tier::New => return Err(trouble),
            // Nothing can be had without a login, and a person who cancels wants no other way.
            Err(trouble @ (Trouble::NeedsLogin(_) | Trouble::Cancelled)) => return Err(trouble),
            Err(trouble) if trouble.is_fatal() => return Err(trouble),
            Err(trouble) => {
                let is_gone = matches!(trouble, Trouble::SessionGone(_));
                return Ok(Tried::Failed { why: trouble.name(), is_gone });
            }
        };
        let Some(watermark) = watermark.filter(|_| tier == Tier::Load) else {
            let held = watermark.map_or_else(Held::default, Held::of);
            return Ok(Tried::Opened(opened, Seen { held, ..Seen::default() }));
        };
        if opened.replayed.updates == 0 {
            return Ok(Tried::Failed { why: opening::HOLLOW, is_gone: true });
        }
        let reuses_ids = agent.abilities().reuses_ids;
        // A store that cannot be read is met with again by the turn itself.
        let seen = self.seen(options, watermark, &opened.replayed.said, reuses_ids).await;
        let assumed = || Some(Seen { held: Held::of(watermark), ..Seen::default() });
        match seen.unwrap_or_else(|_| assumed()) {
            Some(seen) => Ok(Tried::Opened(opened, seen)),
            None => Ok(Tried::Failed { why: opening::MIXED_UP, is_gone: true }),
        }
    }
}

/// Why an agent does not hold a conversation.
fn why_unheld(conversation: Option<&Conversation>, agent: &str) -> Option<&'static str> {
    let conversation = conversation.filter(|conversation| conversation.messages > 0)?;
    let spoke_last = conversation.running.as_deref() == Some(agent);
    Some(if spoke_last { opening::FIRST_TURN } else { opening::OTHER_AGENT })
}

impl Attached {
    fn new(
        options: &OpenOptions,
        agent: Box<dyn Agent>,
        opened: Opened,
        tier: Tier,
        watermark: Option<&Watermark>,
        conversation: Option<&Conversation>,
    ) -> Self {
        let mut held = watermark.map_or_else(Held::default, Held::of);
        if options.policy == Policy::Off
            && let Some(conversation) = conversation
        {
            // It is told nothing of what was said before.
            let (upto, messages) = (conversation.last_seq, conversation.messages);
            held = Held { upto, beyond: None, messages };
        }
        Self {
            agent,
            native: opened.native,
            held,
            is_resumable: watermark.is_some(),
            kept: Watermark::nothing(&options.conversation, &options.agent),
            is_new: tier == Tier::New,
            may_repeat: false,
            settings: Settings::default(),
            spent_usd: watermark.and_then(|watermark| watermark.spent_usd),
            left_at: watermark.and_then(|watermark| watermark.left_at),
            opening: Opening {
                conversation: options.conversation.clone(),
                agent: options.agent.clone(),
                how: How::Fresh,
                why: None,
                ms: 0,
            },
            facts: Vec::new(),
        }
    }

    /// Sets what the user had set before, what they set now, and what keeps the rules.
    async fn set(&mut self, options: &OpenOptions, before: &Settings) -> Result<()> {
        self.settings = before.with(&options.settings);
        let wanted = options.defaults.with(&self.settings);
        let failed = |trouble| options.error(trouble);
        let mut mode = wanted.mode.clone();
        match self.set_some(&wanted).await {
            Err(trouble) if trouble.is_fatal() => return Err(failed(trouble)),
            // What was set in another version of the agent is no reason not to talk to this one.
            Err(_) => {
                let now = options.defaults.with(&options.settings);
                self.set_some(&now).await.map_err(failed)?;
                mode = now.mode;
            }
            Ok(()) => (),
        }
        let holds = options.holds.settings(mode.as_deref());
        self.set_some(&holds).await.map_err(failed)
    }

    async fn set_some(&mut self, settings: &Settings) -> std::result::Result<(), Trouble> {
        if settings.is_empty() { Ok(()) } else { self.agent.set(settings).await }
    }

    fn opened(
        &mut self,
        options: &OpenOptions,
        tier: Tier,
        said: u32,
        why: Option<&'static str>,
        ms: u64,
    ) {
        let how = match tier {
            Tier::Resume => How::Resumed,
            Tier::Load => How::Loaded,
            Tier::New if said == 0 => How::Fresh,
            Tier::New if options.policy == Policy::Off => How::Untold,
            Tier::New => How::Retold,
        };
        self.opening.how = how;
        self.opening.ms = ms;
        self.opening.why = why.filter(|_| how != How::Fresh).map(str::to_owned);
        self.facts.push(Fact::Attached(self.opening.clone()));
    }
}
