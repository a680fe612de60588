//! Sessions, talks and finding, as every store does them: on what the other files of this folder read and write.

use std::ops::Range;

use async_trait::async_trait;
use jiff::Timestamp;
use rethread_domain::context::AgentUse;
use rethread_domain::id::SessionRef;
use rethread_domain::opening::Watermark;
use rethread_domain::search::Found;
use rethread_domain::session::{Beginning, FactRecord};
use rethread_domain::turn::Update;
use rethread_domain::{Conversation, Fact, Message, Seq, Session, SessionId};

use super::read::Texts;
use super::{ThisStore, append, facts, index, openings, read, recall, rows, scope, search, talks};
use crate::error::Result;
use crate::search::Search;
use crate::types::{
    Append, Appended, Begun, Grant, ListFilter, OpeningCount, RecallRequest, Recalled, Span,
};
use crate::{Finding, Sessions, Talks};

#[async_trait]
impl Sessions for ThisStore {
    async fn start(&self, id: SessionId, beginning: Beginning, at: Timestamp) -> Result<Session> {
        self.write_before(move |connection| facts::start(connection, id, beginning, at)).await
    }

    async fn append(&self, append: Append) -> Result<Vec<Appended>> {
        self.write(move |connection| append::append(connection, append)).await
    }

    async fn change(&self, before: &Session, fact: Fact, at: Timestamp) -> Result<Session> {
        let (id, decided_on) = (before.id, before.facts);
        self.write_before(move |connection| facts::change(connection, id, decided_on, &fact, at))
            .await
    }

    async fn fork(
        &self,
        source: SessionId,
        at_seq: Seq,
        id: SessionId,
        at: Timestamp,
    ) -> Result<Session> {
        self.write(move |connection| facts::fork(connection, source, at_seq, id, at)).await
    }

    async fn session(&self, id: SessionId) -> Result<Session> {
        self.read(|connection| Ok(rows::session_by_id(connection, id)?.session))
    }

    async fn resolve(&self, reference: &SessionRef, user: Option<&str>) -> Result<Vec<SessionId>> {
        self.read(|connection| read::resolve(connection, reference, user))
    }

    async fn list(&self, filter: &ListFilter) -> Result<Vec<Session>> {
        self.read(|connection| read::list(connection, filter))
    }

    async fn conversations(&self, id: SessionId) -> Result<Vec<Conversation>> {
        self.read(|connection| {
            facts::conversations(connection, rows::session_by_id(connection, id)?.no)
        })
    }

    async fn message_by_id(&self, id: SessionId, message: &str) -> Result<Option<Seq>> {
        self.read(|connection| {
            let row = rows::session_by_id(connection, id)?;
            match id.seq_of(message) {
                Some(seq) => Ok(Some(seq).filter(|seq| (1..=row.session.last_seq).contains(seq))),
                None => scope::Scope::of(connection, &row)?.given(connection, message),
            }
        })
    }

    async fn messages(&self, id: SessionId, span: Span) -> Result<Vec<Message>> {
        self.read(|connection| {
            read::messages(connection, &rows::session_by_id(connection, id)?, span, Texts::Whole)
        })
    }

    async fn heads(&self, id: SessionId, span: Span) -> Result<Vec<Message>> {
        self.read(|connection| {
            read::messages(connection, &rows::session_by_id(connection, id)?, span, Texts::Ends)
        })
    }

    async fn facts(&self, id: SessionId) -> Result<Vec<FactRecord>> {
        self.read(|connection| facts::facts(connection, rows::session_by_id(connection, id)?.no))
    }

    async fn agents(&self, id: SessionId) -> Result<Vec<AgentUse>> {
        self.read(|connection| {
            read::agent_runs(connection, rows::session_by_id(connection, id)?.no, recall::AGENTS)
        })
    }

    async fn recall(&self, request: &RecallRequest) -> Result<Recalled> {
        self.read(|connection| recall::recall(connection, request))
    }
}

#[async_trait]
impl Talks for ThisStore {
    async fn stream(
        &self,
        id: SessionId,
        conversation: &str,
        updates: Vec<(Timestamp, Update)>,
    ) -> Result<()> {
        let conversation = conversation.to_owned();
        self.write(move |connection| talks::stream(connection, id, &conversation, &updates)).await
    }

    async fn begun(&self, id: SessionId, conversation: &str) -> Result<Option<Begun>> {
        self.read(|connection| talks::begun(connection, id, conversation))
    }

    async fn underway(&self) -> Result<Vec<(SessionId, String)>> {
        self.read(talks::underway)
    }

    async fn watermark(
        &self,
        id: SessionId,
        conversation: &str,
        agent: &str,
    ) -> Result<Option<Watermark>> {
        self.read(|connection| talks::watermark(connection, id, conversation, agent))
    }

    async fn last_agent(
        &self,
        id: SessionId,
        conversation: Option<&str>,
    ) -> Result<Option<String>> {
        self.read(|connection| {
            let session = rows::session_by_id(connection, id)?;
            talks::last_agent(connection, &session, conversation)
        })
    }

    async fn attached(&self, id: SessionId, after: Range<Seq>) -> Result<Vec<(u32, FactRecord)>> {
        self.read(|connection| facts::attached(connection, id, &after))
    }

    async fn openings(&self, user: Option<&str>) -> Result<Vec<OpeningCount>> {
        self.read(|connection| openings::counts(connection, user))
    }

    async fn quiet_since(&self, before: Timestamp, limit: u32) -> Result<Vec<SessionId>> {
        self.read(|connection| talks::quiet_since(connection, before, limit))
    }

    async fn granted(
        &self,
        user: &str,
        project: &str,
        agent: &str,
        what: &str,
    ) -> Result<Option<bool>> {
        self.read(|connection| talks::granted(connection, user, project, agent, what))
    }

    async fn grants(&self) -> Result<Vec<Grant>> {
        self.read(talks::grants)
    }

    async fn grant(&self, grant: Grant, at: Timestamp) -> Result<()> {
        self.write(move |connection| talks::grant(connection, &grant, at)).await
    }

    async fn ungrant(&self, project: &str) -> Result<u32> {
        let project = project.to_owned();
        self.write(move |connection| talks::ungrant(connection, &project)).await
    }

    async fn ungrant_unlike(&self, agent: &str, beginning: &str) -> Result<u32> {
        let (agent, beginning) = (agent.to_owned(), beginning.to_owned());
        self.write(move |connection| talks::ungrant_unlike(connection, &agent, &beginning)).await
    }
}

#[async_trait]
impl Finding for ThisStore {
    async fn search(&self, search: &Search) -> Result<Found> {
        self.read_metered(|connection| search::search(connection, search))
    }

    async fn index(&self, most: u32) -> Result<u64> {
        if !self.read(index::is_behind)? {
            return Ok(0);
        }
        let mut left = most;
        let large = self.read(index::step)?;
        while left > 0 {
            let step = left.min(large);
            if self.bring_in(step).await? < step {
                break;
            }
            left -= step;
        }
        self.read(index::left)
    }
}
