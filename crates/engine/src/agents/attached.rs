//! An agent with a conversation open in it, and the settings that it is given.

use jiff::Timestamp;
use rethread_domain::opening::{How, Opening, Policy, Settings, Tier, Watermark};
use rethread_domain::{Conversation, Fact};

use super::open::OpenOptions;
use super::port::{Agent, AgentError, Opened};
use super::tell::NativeContents;
use crate::Result;

/// An agent with the conversation open.
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that is so or not")]
pub(super) struct Attached {
    pub(super) agent: Box<dyn Agent>,
    pub(super) native: String,
    pub(super) held: NativeContents,
    /// Whether the agent can find the native session again.
    pub(super) is_resumable: bool,
    /// What the native session holds, and the settings that the user made in it.
    pub(super) kept: Watermark,
    /// Whether the native session is new: it still needs the system prompt.
    pub(super) is_new: bool,
    /// Whether the agent may already have the request of the interrupted turn, which is repeated.
    pub(super) may_repeat: bool,
    pub(super) settings: Settings,
    pub(super) spent_usd: Option<f64>,
    /// When the last turn in the native session ended.
    pub(super) left_at: Option<Timestamp>,
    pub(super) opening: Opening,
    /// Whether the agent's title is one for the whole session: it began in this native session, or has no title yet.
    pub(super) may_title: bool,
    /// How the parts of what it was sent last begin.
    pub(super) sent: Vec<String>,
    /// Facts that are still to be recorded.
    pub(super) facts: Vec<Fact>,
}

impl Attached {
    pub(super) fn new(
        options: &OpenOptions,
        agent: Box<dyn Agent>,
        opened: Opened,
        tier: Tier,
        watermark: Option<&Watermark>,
        conversation: Option<&Conversation>,
    ) -> Self {
        let mut held = watermark.map_or_else(NativeContents::default, NativeContents::of);
        if options.policy == Policy::Off
            && let Some(conversation) = conversation
        {
            // It is told nothing of what was said before.
            let (upto, messages) = (conversation.last_seq, conversation.messages);
            held = NativeContents { upto, beyond: Vec::new(), messages };
        }
        let native = Some(opened.native.clone()).filter(|native| !native.is_empty());
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
                native,
            },
            may_title: false,
            facts: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Applies the user's earlier settings, the ones of now, and those that enforce the rules.
    pub(super) async fn set(&mut self, options: &OpenOptions, before: &Settings) -> Result<()> {
        self.settings = before.with(&options.settings);
        let wanted = options.defaults.with(&self.settings);
        let failed = |trouble| options.error(trouble);
        let mut mode = wanted.mode.clone();
        match self.set_some(&wanted).await {
            Err(trouble) if trouble.is_fatal() => return Err(failed(trouble)),
            // A setting from another version of the agent is no reason to fail.
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

    /// Enforces the rules again if the agent has left its mode or changed an option since the last turn. Fails if it does not
    /// return to them: then nothing may be sent.
    pub(super) async fn hold_again(&mut self, options: &OpenOptions) -> Result<()> {
        let holds = &options.holds;
        // To ask takes until the agent is quiet: a prompt is not kept waiting for nothing before it is recorded.
        if holds.is_empty() || !holds.is_left_for(&self.agent.reported().await) {
            return Ok(());
        }
        let wanted = options.defaults.with(&self.settings).mode.filter(|mode| holds.fits(mode));
        let mode = wanted.or_else(|| holds.modes.first().cloned());
        tracing::warn!(mode, "the agent left the settings that enforce the permission rules");
        let settings = Settings { mode, ..holds.settings(None) };
        self.agent.set(&settings).await.map_err(|trouble| options.error(trouble))
    }

    async fn set_some(&mut self, settings: &Settings) -> std::result::Result<(), AgentError> {
        if settings.is_empty() { Ok(()) } else { self.agent.set(settings).await }
    }

    pub(super) fn opened(
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
