//! A request to a conversation that may or may not be open in another process.

use std::time::Duration;

use rethread_domain::opening::Opening;
use rethread_domain::turn::{End, Permission, Turn, Update};
use rethread_domain::{Seq, SessionId};
use rethread_store as store;
use serde::{Deserialize, Serialize};

use super::open::OpenOptions;
use super::talk::Talk;
use crate::{Engine, Error, Result};

/// How often is looked whether another process has answered.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often, in looks, is seen to whether that process still lives.
const CHECK_EVERY: u32 = 25;

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub session_id: SessionId,
    pub conversation: String,
    pub agent: String,
    /// What was said, without thoughts and tools.
    pub answer: String,
    /// Why the agent stopped: `end_turn`, `cancelled`, …
    pub stop: String,
    pub opened: Opening,
    /// The newest message of the conversation now.
    pub upto: Seq,
    /// Tokens in the agent's context and its size, where it told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<(u64, u64)>,
    /// What the agent asked to do in this turn and was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Permission>,
}

impl Answer {
    pub(super) fn new(options: &OpenOptions, opened: Opening, turn: &Turn, end: &End) -> Self {
        let stop = match end {
            End::Stopped(reason) => reason.clone(),
            End::Failed(_) => "failed".to_owned(),
            End::Interrupted => "interrupted".to_owned(),
        };
        Self {
            session_id: options.session,
            conversation: options.conversation.clone(),
            agent: options.agent.clone(),
            // A failure is told without it, and it may be large.
            answer: if matches!(end, End::Stopped(_)) { turn.text() } else { String::new() },
            stop,
            opened,
            upto: 0,
            context: turn.context(),
            refused: turn.refused(),
        }
    }
}

/// What is sent back to whoever asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Answer(Box<Answer>),
    Failed(String),
}

/// What a person is told while a request is on its way.
pub enum Progress<'a> {
    Opened(&'a Opening),
    /// Another process has the conversation open, and sends it.
    Elsewhere,
    /// It was asked to, under this number: it can be taken back.
    Asked(u64),
    Update(&'a Update),
}

impl std::fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Opened(_) => "Opened",
            Self::Elsewhere => "Elsewhere",
            Self::Asked(_) => "Asked",
            Self::Update(_) => "Update",
        })
    }
}

impl Engine {
    /// Sends a request: by whoever has the conversation open, or by opening it.
    pub async fn send(
        &self,
        options: &OpenOptions,
        prompt: &str,
        view: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Answer> {
        loop {
            match self.send_here(options, prompt, view).await {
                Err(Error::Busy { .. }) => {
                    if let Some(answer) = self.ask_elsewhere(options, prompt, view).await? {
                        return Ok(answer);
                    }
                    // Whoever had it is gone, and had not begun.
                }
                outcome => return outcome,
            }
        }
    }

    /// Sends a request by opening the conversation; [`Error::Busy`] where somebody else has it open.
    pub async fn send_here(
        &self,
        options: &OpenOptions,
        prompt: &str,
        view: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Answer> {
        let mut talk = Talk::open(self, options.clone()).await?;
        let opened = talk.opening().cloned();
        if let Some(opening) = &opened {
            view(Progress::Opened(opening));
        }
        let answer = talk.send(prompt, &mut |update| view(Progress::Update(update))).await;
        if let Ok(Answer { opened: now, .. }) = &answer
            && Some(now) != opened.as_ref()
        {
            // Its session was lost in between.
            view(Progress::Opened(now));
        }
        talk.end().await?;
        answer
    }

    async fn ask_elsewhere(
        &self,
        options: &OpenOptions,
        prompt: &str,
        view: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Option<Answer>> {
        let (session, conversation) = (options.session, options.conversation.as_str());
        let no = self.store.ask_prompt(session, conversation, prompt, self.clock.now()).await?;
        view(Progress::Asked(no));
        view(Progress::Elsewhere);
        let (mut looks, mut was_taken) = (0, false);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            looks += 1;
            match self.store.asked(no).await? {
                store::Asked::Answered(reply) => {
                    self.store.withdraw(no).await?;
                    return replied(&reply).map(Some);
                }
                store::Asked::Abandoned => {
                    self.store.withdraw(no).await?;
                    return Err(Error::Interrupted);
                }
                // Its answer was taken away, with a message that was purged.
                store::Asked::Gone if was_taken => return Err(Error::Interrupted),
                store::Asked::Gone => return Ok(None),
                store::Asked::Taken => was_taken = true,
                store::Asked::Waiting => (),
            }
            if looks % CHECK_EVERY == 0 {
                // Where nobody drives it any more, the next look tells whether they had begun.
                drop(self.store.drive(session, conversation).await?);
            }
        }
    }

    /// Takes back a prompt that another process was asked to send; gives whether it had not begun.
    pub async fn take_back(&self, asked: u64) -> Result<bool> {
        Ok(self.store.withdraw(asked).await?)
    }

    /// Sends back what came of a prompt that another process asked for.
    pub async fn reply(&self, asked: u64, outcome: &Result<Answer>) -> Result<()> {
        let reply = match outcome {
            Ok(answer) => Reply::Answer(Box::new(answer.clone())),
            Err(error) => Reply::Failed(error.to_string()),
        };
        let text = serde_json::to_string(&reply).unwrap_or_default();
        Ok(self.store.answer(asked, &text, self.clock.now()).await?)
    }
}

fn replied(reply: &str) -> Result<Answer> {
    match serde_json::from_str(reply) {
        Ok(Reply::Answer(answer)) => Ok(*answer),
        Ok(Reply::Failed(why)) => Err(Error::Elsewhere(why)),
        Err(error) => Err(Error::Elsewhere(error.to_string())),
    }
}
