//! Opens a conversation: in the agent's native session if possible, otherwise in a new one that gets a retelling.

use std::path::PathBuf;
use std::sync::Arc;

use rethread_domain::context::Limits;
use rethread_domain::opening::{self, How, Opening, Policy, Settings, Tier, Watermark, Ways};
use rethread_domain::{Conversation, Fact, SessionId};
use rethread_store::Append;
use tokio::time::Instant;

use super::attached::Attached;
use super::gate::{Asker, Gate};
use super::port::{Agent, AgentError, Launcher, OpenRequest, Opened, PermissionHandler};
use super::replay::ReplayContents;
use super::request_id::RequestId;
use super::rules::{Holds, Rules};
use super::tell::NativeContents;
use super::transcript::OwnSessions;
use super::watermark::remembered;
use crate::pruning::Pruning;
use crate::{Engine, Error, Logged as _, Result};

/// Which conversation to open, and how.
#[derive(Clone)]
pub struct OpenOptions {
    pub session: SessionId,
    pub conversation: String,
    /// The name of the agent's entry in the settings.
    pub agent: String,
    pub launcher: Arc<dyn Launcher>,
    /// Where the agent keeps its own sessions, if they can be read.
    pub own_sessions: Option<OwnSessions>,
    /// Sent once in each new native session.
    pub system_prompt: Option<String>,
    /// The command whose prompt this is, with its hash, if the agent may know another version.
    pub changed_prompt: Option<(String, String)>,
    /// Defaults, set unless the user chose otherwise before.
    pub defaults: Settings,
    /// Set now, by the user.
    pub settings: Settings,
    /// Set last in each native session, so that the permission rules are enforced.
    pub holds: Holds,
    pub policy: Policy,
    pub limits: Limits,
    /// The most bytes of a turn; beyond that it is cancelled.
    pub max_turn_bytes: u64,
    /// The share of the token budget that is kept in reserve.
    pub margin: f64,
    pub rules: Rules,
    pub asker: Arc<dyn Asker>,
    pub pruning: Pruning,
    /// The id of the request message, for callers that need to know later whether it was recorded.
    pub request_id: Option<RequestId>,
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
    /// Refuses a mode in which the permission rules are not enforced.
    pub(super) fn check_mode(&self, settings: &Settings) -> Result<()> {
        match settings.mode.as_deref().filter(|mode| !self.holds.fits(mode)) {
            Some(mode) => {
                let modes = self.holds.modes.join(", ");
                let why = format!("mode {mode} in which permissions are kept ({modes})");
                Err(self.error(AgentError::Unsupported(why)))
            }
            None => Ok(()),
        }
    }

    pub(super) fn error(&self, trouble: AgentError) -> Error {
        Error::Agent { agent: self.agent.clone(), trouble }
    }
}

/// The result of an attempt to open a native session.
enum TierOutcome {
    /// Opened, with what the session holds.
    Opened(Opened, ReplayContents),
    /// Why it failed, and whether the agent does not know the session any more.
    Failed { why: &'static str, is_gone: bool },
}

/// What is known while a conversation is being opened.
struct Opener<'a> {
    engine: &'a Engine,
    options: &'a OpenOptions,
    folder: PathBuf,
    permissions: Arc<dyn PermissionHandler>,
    watermark: Option<Watermark>,
    /// The settings that the user made, in this native session or an earlier one.
    settings: Settings,
    conversation: Option<Conversation>,
    /// Whether nothing was said in the session yet, in any conversation.
    is_first: bool,
    has_no_title: bool,
    begun: Instant,
    /// Why no better tier was possible.
    why: Option<&'static str>,
    /// Whether the agent does not know the session any more.
    is_gone: bool,
    /// What the native session holds by its file on the disk, if that has changed since the last turn.
    on_disk: Option<ReplayContents>,
}

impl Opener<'_> {
    async fn launch(&self) -> Result<Box<dyn Agent>> {
        let launched =
            self.options.launcher.launch(&self.folder, Arc::clone(&self.permissions)).await;
        launched.map_err(|trouble| self.options.error(trouble))
    }

    /// How many messages the conversation has.
    fn said(&self) -> u32 {
        self.conversation.as_ref().map_or(0, |conversation| conversation.messages)
    }

    /// Whether the content of the native session has to be verified: a turn in it was interrupted, or somebody may have used it
    /// outside of Rethread.
    async fn is_doubtful(&self, agent: &mut dyn Agent) -> bool {
        let Some(watermark) = &self.watermark else { return false };
        let abilities = agent.abilities();
        let has_choice = abilities.resume && abilities.load && self.options.policy != Policy::Off;
        if !has_choice || watermark.in_doubt.is_some() {
            return watermark.in_doubt.is_some();
        }
        if self.on_disk.as_ref().is_some_and(|seen| !seen.more.is_empty()) {
            return true;
        }
        !watermark.is_as_we_left_it(agent.changed_at(&watermark.native).await)
    }

    /// The tiers to try. If the agent has rejected the native session, only a new one is left.
    async fn tiers(&mut self, agent: &mut dyn Agent, rejected: Option<&str>) -> Vec<Tier> {
        if rejected.is_some() {
            self.why = Some("session_gone");
            // A native session that was deliberately told nothing, or has not been used, does not hold the conversation.
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
        // Before the agent runs: it may write to its session at once.
        let said = self.engine.read_transcript(self.options, self.watermark.as_ref()).await;
        let mut agent = self.launch().await?;
        if let (Some(said), Some(watermark)) = (said, &self.watermark) {
            let reuses_ids = agent.abilities().reuses_ids;
            let seen = self.engine.seen(self.options, watermark, &said, reuses_ids).await;
            // What cannot be matched proves nothing: the session is taken for what it was.
            self.on_disk = seen.or_log("an agent's own session could not be compared").flatten();
        }
        for tier in self.tiers(agent.as_mut(), rejected).await {
            if tier == Tier::New && self.said() > 0 && self.options.policy == Policy::Required {
                agent.end().await;
                let why = self.why.unwrap_or(opening::UNABLE).to_owned();
                return Err(Error::NotResumable { agent: self.options.agent.clone(), why });
            }
            match self.try_tier(agent.as_mut(), tier).await {
                Ok(TierOutcome::Opened(opened, seen)) => {
                    return self.attached(agent, opened, tier, seen).await;
                }
                Ok(TierOutcome::Failed { why, is_gone }) => {
                    self.why = Some(why);
                    self.is_gone |= is_gone;
                }
                Err(trouble) if tier == Tier::New || !trouble.is_fatal() => {
                    agent.end().await;
                    return Err(self.options.error(trouble));
                }
                Err(trouble) => {
                    // This process is of no use any more: the next tier is tried with another one.
                    self.why = Some(trouble.name());
                    agent.end().await;
                    agent = self.launch().await?;
                }
            }
        }
        agent.end().await;
        Err(self.options.error(AgentError::Cancelled))
    }

    async fn attached(
        &self,
        agent: Box<dyn Agent>,
        opened: Opened,
        tier: Tier,
        seen: ReplayContents,
    ) -> Result<Attached> {
        let options = self.options;
        let mut more = seen.more;
        let held = self.watermark.as_ref().filter(|_| tier != Tier::New);
        let mut attached =
            Attached::new(options, agent, opened, tier, held, self.conversation.as_ref());
        if let Some(watermark) = held {
            attached.held = seen.held;
            let is_told = |request| !seen.is_certain && request > watermark.upto;
            attached.may_repeat = watermark.in_doubt.is_some_and(is_told);
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
        attached.may_title = self.has_no_title
            || match held {
                None => self.is_first,
                Some(watermark) => self.began_in(&watermark.native).await?,
            };
        if let (Tier::New, Some(seen)) = (tier, &self.on_disk) {
            // The native session is left for a new one, which is told what was said in the old one as well.
            more.clone_from(&seen.more);
        }
        let native = self.watermark.as_ref().map_or("", |watermark| &watermark.native);
        self.engine.take_in_native(options.session, &mut attached, native, more).await?;
        Ok(attached)
    }

    async fn try_tier(
        &self,
        agent: &mut dyn Agent,
        tier: Tier,
    ) -> std::result::Result<TierOutcome, AgentError> {
        let watermark = self.watermark.as_ref();
        let native = watermark.map_or("", |watermark| watermark.native.as_str());
        let door = match tier {
            Tier::Resume => OpenRequest::Resume(native),
            Tier::Load => OpenRequest::Load(native),
            Tier::New => OpenRequest::New,
        };
        let opened = match agent.open(door).await {
            Ok(opened) => opened,
            Err(trouble) if tier == Tier::New => return Err(trouble),
            // Without a login nothing can work, and after a cancel nothing else is wanted.
            Err(trouble @ (AgentError::NeedsLogin(_) | AgentError::Cancelled)) => {
                return Err(trouble);
            }
            Err(trouble) if trouble.is_fatal() => return Err(trouble),
            Err(trouble) => {
                let is_gone = matches!(trouble, AgentError::SessionGone(_));
                return Ok(TierOutcome::Failed { why: trouble.name(), is_gone });
            }
        };
        let Some(watermark) = watermark.filter(|_| tier == Tier::Load) else {
            let held = watermark.map_or_else(NativeContents::default, NativeContents::of);
            let assumed = ReplayContents { held, ..ReplayContents::default() };
            let on_disk = self.on_disk.clone().filter(|_| tier == Tier::Resume);
            return Ok(TierOutcome::Opened(opened, on_disk.unwrap_or(assumed)));
        };
        if opened.replayed.updates == 0 {
            return Ok(TierOutcome::Failed { why: opening::HOLLOW, is_gone: true });
        }
        let reuses_ids = agent.abilities().reuses_ids;
        // If the store cannot be read, the turn itself will report it.
        let seen =
            self.engine.seen(self.options, watermark, &opened.replayed.said, reuses_ids).await;
        let assumed = || {
            Some(ReplayContents {
                held: NativeContents::of(watermark),
                ..ReplayContents::default()
            })
        };
        match seen.unwrap_or_else(|_| assumed()) {
            Some(seen) => Ok(TierOutcome::Opened(opened, seen)),
            None => Ok(TierOutcome::Failed { why: opening::MIXED_UP, is_gone: true }),
        }
    }

    /// Whether the session began in this native session of the agent's.
    async fn began_in(&self, native: &str) -> Result<bool> {
        let OpenOptions { session, agent, .. } = self.options;
        Ok(self.engine.store.began_in(*session, agent, native).await?)
    }

    fn forgot(&self) -> Fact {
        let (conversation, agent) = (self.options.conversation.clone(), self.options.agent.clone());
        Fact::Forgot { conversation, agent }
    }

    fn ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The facts of a failed opening: it is counted, and a native session that the agent does not know any more is forgotten.
    /// It is kept if that may be wrong, because a login is missing, or if the policy allows no other tier.
    fn failed(&self, error: &Error) -> Vec<Fact> {
        let (why, is_final) = match error {
            Error::Agent { trouble, .. } => {
                let is_open = matches!(trouble, AgentError::NeedsLogin(_) | AgentError::Cancelled);
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
            native: None,
        }));
        facts
    }
}

impl Engine {
    /// Starts the agent and opens the conversation. `rejected` is the native session that was open and has been rejected; then
    /// none is tried.
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
            permissions: Arc::new(Gate {
                engine: self.clone(),
                user: session.user,
                project: session.project,
                agent: options.agent.clone(),
                rules: options.rules.clone(),
                asker: Arc::clone(&options.asker),
            }),
            is_first: session.last_seq == 0,
            has_no_title: session.title.is_none(),
            settings: known.as_ref().map_or_else(Settings::default, |known| known.settings.clone()),
            watermark: known.filter(Watermark::is_held),
            conversation: self.conversation(options).await?,
            begun,
            why: None,
            is_gone: false,
            on_disk: None,
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
}

/// Why an agent does not hold a conversation.
fn why_unheld(conversation: Option<&Conversation>, agent: &str) -> Option<&'static str> {
    let conversation = conversation.filter(|conversation| conversation.messages > 0)?;
    let spoke_last = conversation.running.as_deref() == Some(agent);
    Some(if spoke_last { opening::FIRST_TURN } else { opening::OTHER_AGENT })
}
