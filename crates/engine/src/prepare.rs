//! The one place that every message passes on its way into the store: secrets, and what it costs.

use std::borrow::Cow;

use rethread_domain::message::{Body, Message, NewMessage, Secret};
use rethread_domain::price::Price;
use rethread_domain::session::Beginning;
use rethread_domain::summary::Summary;
use rethread_domain::turn::Update;
use rethread_domain::{Session, SessionId};
use rethread_redact::{self as redact, Found, Redactor};
use rethread_store::{Recalled, Span};
use rethread_workspace::digest;
use serde_json::Value;

use crate::{Engine, Result};

impl Engine {
    /// Makes a message ready to be written.
    ///
    /// Values that we know never reach the disk. What rules recognise is marked, and masked wherever it leaves; or at
    /// once, where that is set.
    pub(crate) fn prepare(&self, message: &mut NewMessage) {
        self.forget_known(&mut message.content);
        if self.redactor.has_known() {
            let names = [&mut message.id, &mut message.extras.agent, &mut message.extras.model];
            names.into_iter().flatten().for_each(|name| self.forget_known_name(name));
            if let Some(calls) = &mut message.extras.tool_calls {
                self.redactor.redact_known_json(calls);
            }
            for value in message.extras.other.values_mut() {
                self.redactor.redact_known_json(value);
            }
        }
        let found = self.redactor.redact(&message.content);
        if self.masks_at_rest {
            if let Cow::Owned(text) = found.text {
                message.content = text;
            }
            message.extras.tool_calls.iter_mut().for_each(|calls| self.mask_json(calls));
            message.extras.other.values_mut().for_each(|value| self.mask_json(value));
        } else {
            message.extras.secrets = marks(found.found);
        }
        message.extras.rules = redact::VERSION;
        message.price = Price::of(&message.content);
    }

    pub(crate) fn prepared(&self, mut messages: Vec<NewMessage>) -> Vec<NewMessage> {
        for message in &mut messages {
            self.prepare(message);
        }
        messages
    }

    /// A text that is stored: without values that we know; and without what rules recognise, where that is set.
    pub(crate) fn prepared_text(&self, text: &str) -> String {
        let redactor = &self.redactor;
        let found =
            if self.masks_at_rest { redactor.redact(text) } else { redactor.redact_known(text) };
        found.text.into_owned()
    }

    fn mask_json(&self, value: &mut Value) {
        self.redactor.redact_json(value);
    }

    fn forget_known(&self, text: &mut String) {
        if let Cow::Owned(masked) = self.redactor.redact_known(text).text {
            *text = masked;
        }
    }

    /// A name or an id that has a value that we know becomes another one, always the same.
    pub(crate) fn forget_known_name(&self, name: &mut String) {
        if self.redactor.has_known() && !self.redactor.redact_known(name).found.is_empty() {
            *name = other_name(name);
        }
    }

    /// A sender's id that looks like a secret becomes another one, always the same: in folders, messages refer to it, so that it could
    /// not be masked there.
    pub(crate) fn forget_secret_id(&self, id: &mut String) {
        let is_number = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b':');
        if !id.bytes().all(is_number) && !self.redactor.redact(id).found.is_empty() {
            *id = other_name(id);
        }
    }

    /// The same for what a session begins with. Its folder and its user stay: that is where it is, and whose.
    pub(crate) fn forget_known_names(&self, beginning: &mut Beginning) {
        let Beginning { kind, agent, model, command, tools, .. } = beginning;
        for name in [agent, model].into_iter().flatten().chain([kind]) {
            self.forget_known_name(name);
        }
        for text in command.iter_mut().chain(tools) {
            self.forget_known(text);
        }
    }

    /// The same for what an agent says while it says it.
    pub(crate) fn forget_known_in(&self, update: &mut Update) {
        if !self.redactor.has_known() {
            return;
        }
        match update {
            Update::Text { text } | Update::Thought { text } | Update::Title { title: text } => {
                self.forget_known(text);
            }
            Update::Tool(tool) => {
                for text in [&mut tool.title, &mut tool.output].into_iter().flatten() {
                    self.forget_known(text);
                }
                for value in tool.raw.values_mut() {
                    self.redactor.redact_known_json(value);
                }
            }
            Update::Plan { entries: value } | Update::Other { raw: value } => {
                self.redactor.redact_known_json(value);
            }
            Update::Permission(permission) => self.forget_known(&mut permission.title),
            Update::Usage { .. } | Update::Context { .. } | Update::Mode { .. } => (),
        }
    }

    /// A summary says what was said, but no secrets.
    pub(crate) fn mask_summary(&self, summary: &mut Summary) {
        let points = summary.points.iter_mut().map(|point| &mut point.text);
        for text in points.chain([&mut summary.text]) {
            if let Cow::Owned(masked) = self.redactor.redact(text).text {
                *text = masked;
            }
        }
    }

    fn without_secrets_in(&self, title: Option<&String>) -> Option<String> {
        match self.redactor.redact(title?).text {
            Cow::Owned(masked) => Some(masked),
            Cow::Borrowed(_) => None,
        }
    }

    /// Masks what rules recognise in what a context is made of: it leaves. In messages it was marked when they were
    /// written, unless the rules knew less then.
    pub(crate) async fn mask(&self, recalled: &mut Recalled) -> Result<()> {
        let id = recalled.session.id;
        self.mask_titles_and_summaries(recalled);
        self.mask_names(recalled);
        for message in &mut recalled.recent {
            self.mask_message(id, message).await?;
        }
        for related in &mut recalled.related {
            if let Some(text) = self.mask_message(id, &mut related.message).await? {
                related.move_to(&text);
            }
        }
        Ok(())
    }

    /// Masks a message that goes out; gives its text where that is another now.
    async fn mask_message(&self, id: SessionId, message: &mut Message) -> Result<Option<String>> {
        let is_old = message.extras.rules < redact::VERSION && message.purged_at.is_none();
        if message.extras.secrets.is_empty() && !is_old {
            return Ok(None);
        }
        let mut body = Cow::Borrowed(&message.body);
        if message.body.whole().is_none() {
            let span = Span { to: message.seq, ..Span::after(message.seq, 1) };
            if let Some(whole) = self.store.messages(id, span).await?.into_iter().next() {
                body = Cow::Owned(whole.body);
            }
        }
        if is_old {
            let found = self.redactor.redact(body.head()).found;
            message.extras.secrets = marks(found);
            if message.extras.secrets.is_empty() {
                return Ok(None);
            }
        }
        message.body = body.into_owned();
        let text = message.masked().into_owned();
        message.price = Price::of(&text);
        message.body = Body::Whole(text.clone());
        Ok(Some(text))
    }

    /// Masks all of a message that goes out as a whole: its text, and the arguments of its tools.
    pub(crate) async fn mask_whole(&self, id: SessionId, message: &mut Message) -> Result<()> {
        self.mask_message(id, message).await?;
        message.extras.tool_calls.iter_mut().for_each(|calls| self.mask_json(calls));
        Ok(())
    }

    /// A text without what rules recognise.
    pub(crate) fn masked_text(&self, text: &str) -> String {
        self.redactor.redact(text).text.into_owned()
    }

    /// Masks the names of conversations and agents.
    fn mask_names(&self, recalled: &mut Recalled) {
        let mask = |name: &mut String| match shown_name(&self.redactor, name) {
            Cow::Owned(masked) => {
                *name = masked;
                true
            }
            Cow::Borrowed(_) => false,
        };
        let mut any_conversation = false;
        for conversation in recalled.conversations.iter_mut().chain(&mut recalled.others) {
            if mask(&mut conversation.name) {
                (conversation.prices.name, conversation.prices.heading) = (None, None);
                any_conversation = true;
            }
        }
        let session = &mut recalled.session;
        let mut any_agent = false;
        let speakers = [&mut session.agent, &mut session.answering].into_iter().flatten();
        for name in speakers.chain(recalled.agents.iter_mut().map(|agent| &mut agent.name)) {
            any_agent |= mask(name);
        }
        if any_agent {
            session.prices.head = None;
        }
        let related = recalled.related.iter_mut().map(|related| &mut related.message);
        for message in recalled.recent.iter_mut().chain(related) {
            if any_conversation {
                mask(&mut message.conversation);
            }
            if let Some(agent) = message.extras.agent.as_mut().filter(|_| any_agent) {
                mask(agent);
            }
        }
    }

    /// Masks whose a session is and where, once nobody needs to find its folder any more.
    pub(crate) fn mask_place(&self, session: &mut Session) {
        for text in [&mut session.user, &mut session.project] {
            if let Cow::Owned(masked) = self.redactor.redact(text).text {
                *text = masked;
                session.prices.head = None;
            }
        }
    }

    fn mask_titles_and_summaries(&self, recalled: &mut Recalled) {
        if let Some(title) = self.without_secrets_in(recalled.session.title.as_ref()) {
            recalled.session.title = Some(title);
            recalled.session.prices.title = None;
        }
        for conversation in recalled.conversations.iter_mut().chain(&mut recalled.others) {
            if let Some(title) = self.without_secrets_in(conversation.title.as_ref()) {
                conversation.title = Some(title);
                conversation.prices.heading = None;
            }
            if let Some(summary) = &mut conversation.summary
                && let Cow::Owned(masked) = self.redactor.redact(&summary.text).text
            {
                conversation.prices.summary = None;
                summary.text = masked;
            }
        }
        if let Some(masked) = self.without_secrets_in(recalled.session.summary.as_ref()) {
            recalled.session.prices.summary = None;
            recalled.session.summary = Some(masked);
        }
    }
}

/// A name as it is shown, and written to folders: another one, always the same, where rules recognise a secret in it. It can be
/// read back as a name.
pub(crate) fn shown_name<'a>(redactor: &Redactor, name: &'a str) -> Cow<'a, str> {
    if redactor.redact(name).found.is_empty() {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(other_name(name))
    }
}

fn other_name(name: &str) -> String {
    format!("masked-{}", &digest(name)[..16])
}

fn marks(found: Vec<Found>) -> Vec<Secret> {
    let mark = |found: Found| Secret { from: found.at.start, to: found.at.end, what: found.what };
    found.into_iter().map(mark).collect()
}
