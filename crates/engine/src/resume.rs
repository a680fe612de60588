//! The context that goes back in.

use rethread_domain::context::{Limits, Metadata};
use rethread_domain::retell::{self, Explanation, Frame, Story, Telling};
use rethread_domain::{Seq, Session, SessionId, conversation, tokens};
use rethread_store::{RecallRequest, Recalled, Within};
use schemars::JsonSchema;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{Engine, Result};

/// Past so many messages that the index lacks, it catches up before relevance is asked for.
const LAG: u32 = 256;

#[derive(Debug, Clone, Default)]
pub struct ContextOptions {
    pub limits: Limits,
    /// The next prompt: what matters to it is brought in from anywhere in the session.
    pub prompt: Option<String>,
    /// The part of the tokens kept back, for a model that counts otherwise.
    pub margin: f64,
    /// Say why each piece is there, and what almost made it in.
    pub explain: bool,
}

/// The story of a session, within the limits.
#[derive(Debug, Clone, Serialize, JsonSchema, ToSchema)]
pub struct Context {
    pub success: bool,
    #[schema(value_type = String)]
    #[schemars(with = "String")]
    pub session_id: SessionId,
    /// Markdown
    pub context: String,
    pub token_count: u32,
    #[schema(value_type = Object)]
    #[schemars(with = "serde_json::Value")]
    pub metadata: Metadata,
    /// Why each piece is there, what it costs, and what almost made it in; where that was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    #[schemars(with = "Option<serde_json::Value>")]
    pub explanation: Option<Explanation>,
}

/// A session at a glance: no message is read.
#[derive(Debug, Clone)]
pub struct Preview {
    pub session: Session,
    pub metadata: Metadata,
}

impl Engine {
    /// The story of a session within the limits.
    pub async fn context(&self, id: SessionId, options: &ContextOptions) -> Result<Context> {
        options.limits.check()?;
        let mut limits = options.limits.with_margin(options.margin);
        // No message costs less than the line before it: more than these cannot be shown.
        limits.messages = limits.messages.min(limits.tokens / retell::CHEAPEST_MESSAGE + 1);
        let request =
            RecallRequest { session: id, limits, prompt: options.prompt.clone(), within: None };
        let mut recalled = self.recalled(&request).await?;
        let repository = self.repository_since(&recalled.session).await?;
        self.mask_place(&mut recalled.session);
        let story = story(&recalled, repository.as_deref(), Frame::Session);
        let (telling, explanation) = if options.explain {
            let (telling, explanation) = retell::tell_explained(&story, &limits);
            (telling, Some(explanation))
        } else {
            (retell::tell(&story, &limits), None)
        };
        // Counted anew where a part had to be priced by its length; not for the few lines about the repository,
        // since that would load the tokenizer whenever somebody committed.
        let token_count = if telling.exact || repository.is_some() {
            telling.tokens
        } else {
            tokens::count(&telling.text)
        };
        let mut metadata = Metadata::of(&recalled.session, recalled.agents);
        metadata.resumed_at = Some(self.clock.now());
        metadata.included = Some(telling.included);
        metadata.omitted = Some(telling.omitted);
        Ok(Context {
            success: true,
            session_id: id,
            context: telling.text,
            token_count,
            metadata,
            explanation,
        })
    }

    /// Where a session stopped, for an agent that begins another one in its folder. What changed in the folder since is left
    /// out: the agent sees it.
    pub(crate) async fn earlier(&self, id: SessionId, options: &ContextOptions) -> Result<Telling> {
        options.limits.check()?;
        let limits = options.limits.with_margin(options.margin);
        let prompt = options.prompt.clone();
        let request = RecallRequest { session: id, limits, prompt, within: None };
        let mut recalled = self.recalled(&request).await?;
        self.mask_place(&mut recalled.session);
        Ok(retell::tell(&story(&recalled, None, Frame::Earlier), &limits))
    }

    /// What was said in the conversation of a task after a message, for an agent that works on another one: what matters to the
    /// prompt, and how it ended. Nothing where nothing was said.
    pub(crate) async fn said_after(
        &self,
        session: SessionId,
        after: Seq,
        prompt: &str,
        limits: Limits,
    ) -> Result<Option<String>> {
        let within = Within {
            conversation: conversation::DEFAULT.to_owned(),
            after,
            before: Seq::MAX,
            but: Vec::new(),
            known: after,
        };
        let prompt = Some(prompt.to_owned());
        let request = RecallRequest { session, limits, prompt, within: Some(within) };
        let recalled = self.recalled(&request).await?;
        if recalled.messages == 0 {
            return Ok(None);
        }
        let frame = Frame::Background { is_whole: recalled.is_whole };
        Ok(Some(retell::tell(&story(&recalled, None, frame), &limits).text))
    }

    /// A context names the agent that answered last. The price of its head was counted for the one it was begun with.
    async fn name_speaker(&self, recalled: &mut Recalled) {
        let session = self.with_speaker(recalled.session.clone()).await;
        if session.speaker() != recalled.session.speaker() {
            recalled.session.prices.head = None;
        }
        recalled.session.answering = session.answering;
    }

    /// Reads what a context is made of; the index catches up first where it is far behind.
    pub(crate) async fn recalled(&self, request: &RecallRequest) -> Result<Recalled> {
        let mut recalled = self.store.recall(request).await?;
        if request.prompt.is_some() && recalled.unindexed > LAG && self.catch_up().await? {
            recalled = self.store.recall(request).await?;
        }
        self.name_speaker(&mut recalled).await;
        self.mask(&mut recalled).await?;
        Ok(recalled)
    }

    /// Brings the index up to date; gives whether it could.
    async fn catch_up(&self) -> Result<bool> {
        match self.store.index(u32::MAX).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_for_now() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub async fn can_resume(&self, id: SessionId) -> Result<bool> {
        Ok(self.store.session(id).await?.can_resume().is_ok())
    }

    /// Metadata and summary, from the counters alone.
    pub async fn preview(&self, id: SessionId) -> Result<Preview> {
        let session = self.session(id).await?;
        let agents = self.store.agents(id).await?;
        let metadata = Metadata::of(&session, agents);
        Ok(Preview { session, metadata })
    }
}

fn story<'a>(recalled: &'a Recalled, repository: Option<&'a str>, frame: Frame) -> Story<'a> {
    Story {
        session: &recalled.session,
        conversations: &recalled.conversations,
        others: &recalled.others,
        recent: &recalled.recent,
        related: &recalled.related,
        wanted: recalled.wanted.as_ref(),
        repository,
        frame,
        messages: recalled.messages,
    }
}
