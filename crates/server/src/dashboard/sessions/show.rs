//! The page of one session: its details, its messages, and what can be done with it.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rethread_domain::session::Move;
use rethread_domain::{Session, SessionId};
use rethread_engine::{Order, Span};
use serde::Deserialize;

use super::list::{self, Row};
use super::questions::Questions;
use super::send::{Choice, Draft, Speakers};
use super::transcript::{self, Item};
use crate::access::Caller;
use crate::dashboard::frame::{self, Frame, Nav};
use crate::dashboard::humanize::{self, Moment};
use crate::extract::{PathParams, QueryParams};
use crate::problem::Problem;
use crate::state::App;

/// How many messages a page has.
const PAGE: u32 = 50;

/// Which part of the conversation to show.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PageParams {
    /// Messages before this number; by default the newest.
    before: Option<u32>,
    /// Messages around this one.
    at: Option<u32>,
    /// Messages after this one: for the script.
    after: Option<u32>,
    notice: Option<String>,
}

/// A button that does something with the session.
struct Action {
    path: &'static str,
    name: &'static str,
    style: &'static str,
}

#[derive(Template)]
#[template(path = "sessions/head.html")]
struct Head {
    id: String,
    short: String,
    title: String,
    status: &'static str,
    kind: String,
    user: Option<String>,
    /// The agent that answered last.
    agent: Option<String>,
    /// The agent it was started with, if that is another one.
    begun_with: Option<String>,
    model: Option<String>,
    project: String,
    project_name: String,
    branch: Option<String>,
    summary: Option<String>,
    started: Moment,
    active: Moment,
    messages: String,
    /// The number of the newest message.
    last: u32,
    tokens: String,
    /// Input and output tokens, as reported by agents.
    usage: Option<(String, String)>,
    cost: Option<String>,
    forked_from: Option<(String, String, u32)>,
    parent: Option<(String, String)>,
    imported_from: Option<String>,
    children: Vec<Row>,
    resume: Option<String>,
    actions: Vec<Action>,
    may_write: bool,
    may_fork: bool,
}

/// A part of the conversation.
#[derive(Template)]
#[template(path = "sessions/talk.html")]
struct Talk {
    id: String,
    items: Vec<Item>,
    /// Which messages of how many, if these are not all.
    part: Option<String>,
    older: Option<String>,
    newer: Option<String>,
}

#[derive(Template)]
#[template(path = "sessions/show.html")]
struct Show {
    frame: Frame,
    id: String,
    head: Head,
    talk: Talk,
    /// The script appends what follows this message; `None` on older parts.
    upto: Option<u32>,
    fragment: String,
    /// The link to the newest message.
    newest: Option<String>,
    /// The running turns, with the agent of each.
    turns: Vec<(String, String)>,
    questions: Questions,
    choices: Vec<Choice>,
    /// How to install an agent, if none can be chosen.
    install: Option<String>,
    draft: Draft,
    /// Why nothing can be sent.
    closed: Option<String>,
}

fn actions(session: &Session) -> Vec<Action> {
    if session.deleted_at.is_some() {
        let (path, name) = ("undelete", "Bring back");
        return vec![Action { path, name, style: "primary" }];
    }
    let moves = [
        (Move::Pause, "pause", "Pause"),
        (Move::Complete, "complete", "Complete"),
        (Move::Reopen, "activate", "Activate"),
        (Move::Archive, "archive", "Archive"),
        (Move::Unarchive, "unarchive", "Unarchive"),
    ];
    let fit = moves.into_iter().filter(|(params, ..)| {
        // An active session needs no activation.
        session.decide(*params).is_ok_and(|status| status != session.status())
    });
    fit.map(|(_, path, name)| Action { path, name, style: "" }).collect()
}

impl Head {
    async fn of(
        app: &App,
        caller: &Caller,
        session: &Session,
        speakers: &Speakers,
    ) -> Result<Self, Problem> {
        let now = app.engine.clock().now();
        let counters = &session.counters;
        let children = app.engine.children(session.id).await?;
        let children = children.iter().filter(|child| caller.may_see(&child.user));
        let link = |id: SessionId| (id.to_string(), id.short());
        let (project, branch) = (&session.project, session.repository.as_ref());
        Ok(Self {
            id: session.id.to_string(),
            short: session.id.short(),
            title: list::title(app, session),
            status: list::status(session),
            kind: session.kind.clone(),
            user: caller.is_admin().then(|| session.user.clone()),
            agent: app.clean_some(speakers.last.as_deref()),
            begun_with: app
                .clean_some(session.agent.as_deref().filter(|_| session.agent != speakers.last)),
            model: app.clean_some(session.model.as_deref()),
            project_name: humanize::last_part(project).to_owned(),
            project: project.clone(),
            branch: branch.and_then(|repository| repository.branch.clone()),
            summary: app.clean_some(session.summary.as_deref()),
            started: Moment::of(session.started_at, now),
            active: Moment::of(session.last_active_at, now),
            messages: humanize::grouped(session.last_seq.into()),
            tokens: humanize::grouped(counters.tokens),
            last: session.last_seq,
            usage: (counters.input_tokens + counters.output_tokens > 0).then(|| {
                (humanize::short(counters.input_tokens), humanize::short(counters.output_tokens))
            }),
            cost: (counters.cost_nano > 0).then(|| humanize::dollars(counters.cost_usd())),
            forked_from: session.forked_from.map(|origin| {
                let (id, short) = link(origin.session);
                (id, short, origin.seq)
            }),
            parent: session.parent.map(link),
            imported_from: session.imported_from.clone(),
            children: children.map(|child| Row::of(app, child)).take(50).collect(),
            resume: session.can_resume().is_ok().then(|| speakers.resume(session)),
            actions: if caller.may_write() { actions(session) } else { Vec::new() },
            may_write: caller.may_write() && session.deleted_at.is_none(),
            may_fork: caller.may_write() && session.deleted_at.is_none() && session.last_seq > 0,
        })
    }
}

/// The numbers of the first and the last message of the requested part.
fn part(params: &PageParams, last_seq: u32) -> (u32, u32) {
    let to = match (params.before, params.at) {
        (Some(before), _) => before.saturating_sub(1),
        (None, Some(at)) => at.saturating_add(PAGE / 2),
        (None, None) => last_seq,
    };
    let to = to.min(last_seq);
    (to.saturating_sub(PAGE - 1).max(1), to)
}

impl Talk {
    async fn of(app: &App, session: &Session, params: &PageParams) -> Result<Self, Problem> {
        let (id, last) = (session.id, session.last_seq);
        let (from, to) = match params.after {
            Some(after) => (after.saturating_add(1), last.min(after.saturating_add(PAGE))),
            None => part(params, last),
        };
        // Long messages may exceed the size of a part, so that fewer are returned: the newest, or the next ones.
        let order = if params.after.is_some() { Order::OldestFirst } else { Order::NewestFirst };
        let mut messages = if from <= to {
            app.engine.messages(id, Span { from, to, order, limit: PAGE }).await?
        } else {
            Vec::new()
        };
        if order == Order::NewestFirst {
            messages.reverse();
        }
        let from = messages.first().map_or(from, |first| first.seq);
        let to = messages.last().map_or(to, |last| last.seq);
        let now = app.engine.clock().now();
        // An opening at the end belongs to the last message; one before the next message, to the next part.
        let until = if to >= last { u32::MAX } else { to };
        let opened = app.engine.attached(id, from - 1..until).await?;
        let openings = transcript::openings(app, opened, now);
        let is_whole = params.after.is_none();
        Ok(Self {
            id: id.to_string(),
            items: transcript::woven(app, &messages, openings),
            part: (is_whole && from <= to && (from > 1 || to < last)).then(|| {
                let [from, to, last] = [from, to, last].map(|seq| humanize::grouped(seq.into()));
                format!("{from}–{to} of {last}")
            }),
            older: (is_whole && from > 1).then(|| format!("/sessions/{id}?before={from}#end")),
            newer: (is_whole && to < last)
                .then(|| format!("/sessions/{id}?before={}#messages", to.saturating_add(PAGE + 1))),
        })
    }
}

pub(super) async fn page(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(params): QueryParams<PageParams>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let (params, draft) = (PageParams { after: None, ..params }, Draft::left(&app, &session));
    with(&app, &caller, &session, &params, draft).await
}

/// The page, with a draft in its form.
pub(super) async fn with(
    app: &App,
    caller: &Caller,
    session: &Session,
    params: &PageParams,
    draft: Draft,
) -> Result<Response, Problem> {
    let after = app.engine.feed_head().await?;
    // Read first: nothing on the page may be older than this event.
    let session = &app.engine.session(session.id).await?;
    let speakers = Speakers::of(app, session).await?;
    let head = Head::of(app, caller, session, &speakers).await?;
    let talk = Talk::of(app, session, params).await?;
    let frame = Frame::new(head.title.clone(), Nav::Sessions, caller);
    let query = match (params.before, params.at) {
        (Some(before), _) => format!("?before={before}"),
        (None, Some(at)) => format!("?at={at}"),
        (None, None) => String::new(),
    };
    let (id, last) = (session.id.to_string(), session.last_seq);
    let running = app.turns.running_in(session.id);
    let place = if talk.newer.is_some() { format!("/sessions/{id}") } else { String::new() };
    let choices = speakers.choices(draft.agent.as_deref());
    let is_any = choices.iter().any(|choice| choice.is_installed);
    frame::page(&Show {
        frame: frame.notice(params.notice.as_deref()).live(after),
        upto: talk.newer.is_none().then_some(last),
        fragment: format!("/sessions/{id}/talk{query}"),
        newest: (last > 0).then(|| format!("{place}#m{last}")),
        turns: running.iter().map(|turn| (turn.id.to_string(), turn.agent.clone())).collect(),
        questions: Questions::of(app, caller, session),
        // The form stays visible while it has a draft that could not be sent.
        choices: if is_any || !draft.text.is_empty() { choices } else { Vec::new() },
        install: speakers.install().map(str::to_owned),
        draft,
        closed: session.accepts_messages().err().map(|refusal| refusal.to_string()),
        id,
        head,
        talk,
    })
}

/// The details alone, for the script.
pub(super) async fn head(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let speakers = Speakers::of(&app, &session).await?;
    frame::page(&Head::of(&app, &caller, &session, &speakers).await?)
}

/// The messages alone, for the script.
pub(super) async fn talk(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(params): QueryParams<PageParams>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    frame::page(&Talk::of(&app, &session, &params).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(params: PageParams, expected: (u32, u32)) {
        assert_eq!(part(&params, 120), expected);
    }

    #[test]
    fn parts_of_a_conversation() {
        check(PageParams::default(), (71, 120));
        check(PageParams { before: Some(71), ..PageParams::default() }, (21, 70));
        check(PageParams { before: Some(21), ..PageParams::default() }, (1, 20));
        check(PageParams { before: Some(0), ..PageParams::default() }, (1, 0));
        check(PageParams { before: Some(u32::MAX), ..PageParams::default() }, (71, 120));
        check(PageParams { at: Some(1), ..PageParams::default() }, (1, 26));
        check(PageParams { at: Some(u32::MAX), ..PageParams::default() }, (71, 120));
        assert_eq!(part(&PageParams::default(), 0), (1, 0));
    }
}
