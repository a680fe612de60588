//! A request to a conversation that may or may not be open in another process.

use std::time::Duration;

use rethread_domain::opening::Opening;
use rethread_domain::turn::{End, Turn, Update};
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
            answer: turn.text(),
            stop,
            opened,
            upto: 0,
            context: turn.context(),
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
    Update(&'a Update),
}

impl std::fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Opened(_) => "Opened",
            Self::Elsewhere => "Elsewhere",
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
            let mut talk = match Talk::open(self, options.clone()).await {
                Ok(talk) => talk,
                Err(Error::Busy { .. }) => {
                    view(Progress::Elsewhere);
                    match self.ask_elsewhere(options, prompt).await? {
                        Some(answer) => return Ok(answer),
                        // Whoever had it is gone, and had not begun.
                        None => continue,
                    }
                }
                Err(error) => return Err(error),
            };
            if let Some(opening) = talk.opening() {
                view(Progress::Opened(opening));
            }
            let answer = talk.send(prompt, &mut |update| view(Progress::Update(update))).await;
            talk.end().await?;
            return answer;
        }
    }

    async fn ask_elsewhere(&self, options: &OpenOptions, prompt: &str) -> Result<Option<Answer>> {
        let (session, conversation) = (options.session, options.conversation.as_str());
        let no = self.store.ask_prompt(session, conversation, prompt, self.clock.now()).await?;
        let mut looks = 0;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            looks += 1;
            let asked = self.store.asked(no).await?;
            match asked {
                store::Asked::Answered(reply) => {
                    self.store.withdraw(no).await?;
                    return replied(&reply).map(Some);
                }
                store::Asked::Gone => return Ok(None),
                store::Asked::Waiting | store::Asked::Taken if looks % CHECK_EVERY != 0 => (),
                store::Asked::Waiting | store::Asked::Taken => {
                    let Some(drive) = self.store.drive(session, conversation).await? else {
                        continue;
                    };
                    drop(drive);
                    // They may have answered before they left.
                    if let store::Asked::Answered(reply) = self.store.asked(no).await? {
                        self.store.withdraw(no).await?;
                        return replied(&reply).map(Some);
                    }
                    if self.store.withdraw(no).await? || asked == store::Asked::Waiting {
                        return Ok(None);
                    }
                    return Err(Error::Interrupted);
                }
            }
        }
    }

    /// Sends back what came of a prompt that another process asked for.
    pub async fn reply(&self, asked: u64, outcome: &Result<Answer>) -> Result<()> {
        let reply = match outcome {
            Ok(answer) => Reply::Answer(Box::new(answer.clone())),
            Err(error) => Reply::Failed(error.to_string()),
        };
        let text = serde_json::to_string(&reply).unwrap_or_default();
        Ok(self.store.answer(asked, &text).await?)
    }
}

fn replied(reply: &str) -> Result<Answer> {
    match serde_json::from_str(reply) {
        Ok(Reply::Answer(answer)) => Ok(*answer),
        Ok(Reply::Failed(why)) => Err(Error::Elsewhere(why)),
        Err(error) => Err(Error::Elsewhere(error.to_string())),
    }
}
