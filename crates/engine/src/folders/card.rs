//! What a folder says of its session: for programs in `session.json`, for people in `<kind>.md`.

use rethread_domain::{Session, quote, summary};
use rethread_store::{Home, Span};
use rethread_workspace::{Card, Page, digest};

use super::{Followed, Place};
use crate::{Engine, Result};

/// The newest messages in which decisions are looked for.
const LATEST: u32 = 400;

impl Engine {
    /// Writes what the folder says of its session, where that has changed.
    pub(super) async fn describe(
        &self,
        place: &Place,
        session: &Session,
        home: &mut Home,
        followed: &mut Followed,
    ) -> Result<()> {
        home.facts = session.facts;
        let card = self.card(session, followed);
        let stands = place.locked.card_stamp()?.map(|stamp| stamp.to_string()).unwrap_or_default();
        // When it was last active follows from the messages: for that alone nothing is written.
        let told = digest(&format!("{:?}", Card { last_active: String::new(), ..card.clone() }));
        if told == home.told && stands == home.card {
            return Ok(());
        }
        home.card = match place.locked.card() {
            // The folder is another session's: this one is a branch of it.
            Ok(Some(other)) if other.id != card.id => return Ok(()),
            // After a merge fields may stand twice. As long as it says the same, it stays as git has it.
            Ok(Some(same)) if is_same(&same, &card) => stands,
            Err(error @ rethread_workspace::Error::Newer { .. }) => return Err(error.into()),
            Ok(_) | Err(_) => place.locked.write_card(&card)?.to_string(),
        };
        home.told = told;
        let page = self.page_of(session, card).await?;
        place.locked.write_page(&session.kind, &page)?;
        Ok(())
    }

    fn card(&self, session: &Session, followed: &mut Followed) -> Card {
        let mut clean = |text: &str| {
            let redacted = self.redactor.redact(text);
            followed.mask(redacted.found.into_iter().map(|found| found.what));
            redacted.text.into_owned()
        };
        Card {
            id: session.id.to_string(),
            kind: session.kind.clone(),
            title: session.title.as_deref().map(&mut clean),
            status: session.status.to_string(),
            summary: session.summary.as_deref().map(&mut clean),
            command: session.command.clone(),
            prompt_hash: session.prompt_hash.clone(),
            model: session.model.clone(),
            tools: session.tools.clone(),
            agent: session.agent.clone(),
            created: session.started_at.to_string(),
            last_active: session.last_active_at.to_string(),
            ..Card::default()
        }
    }

    async fn page_of(&self, session: &Session, card: Card) -> Result<Page> {
        let mut latest = self.store.heads(session.id, Span::newest(LATEST)).await?;
        latest.reverse();
        let decisions = summary::decisions(&latest);
        let clean = |text: String| self.redactor.redact(&text).text.into_owned();
        let title = card.title.unwrap_or_else(|| session.kind.clone());
        Ok(Page {
            title: quote::one_line(&title, 120),
            summary: card.summary,
            decisions: decisions.into_iter().map(clean).collect(),
            status: card.status,
            resume: format!("rethread resume {}", session.id.short()),
        })
    }
}

/// Whether two descriptions say the same, but for when the session was last active.
fn is_same(one: &Card, other: &Card) -> bool {
    let bare = |card: &Card| Card {
        version: Card::VERSION,
        last_active: String::new(),
        other: serde_json::Map::new(),
        ..card.clone()
    };
    one.version <= Card::VERSION && bare(one) == bare(other)
}
