//! The open permission questions of a session's running turns, with the possible answers.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rethread_domain::Session;
use rethread_domain::quote::{one_line, safe, visible};

use crate::access::Caller;
use crate::dashboard::frame;
use crate::extract::PathParams;
use crate::problem::Problem;
use crate::state::App;
use crate::turns::Turn;
use crate::views::QuestionView;

/// All open questions of all running turns.
#[derive(Template)]
#[template(path = "sessions/questions.html")]
pub(super) struct Questions {
    id: String,
    turns: Vec<Asking>,
    /// Announced by screen readers when it changes.
    said: String,
    may_write: bool,
}

/// A running turn with its open questions.
struct Asking {
    turn: String,
    agent: String,
    questions: Vec<Question>,
}

/// An open question. Bidirectional and invisible characters are spelled out, long gaps are counted: what is read is what is
/// allowed.
struct Question {
    number: u32,
    kind: String,
    title: String,
    details: Vec<Detail>,
    not_for_good: Option<String>,
    not_allowable: Option<&'static str>,
    options: Vec<Choice>,
}

struct Detail {
    label: String,
    text: String,
}

struct Choice {
    number: u32,
    name: String,
    /// What the answer means, whatever the agent calls it.
    means: &'static str,
}

fn means(kind: &str) -> &'static str {
    match kind {
        "allow_once" => "yes, this once",
        "allow_always" => "yes, from now on in this project",
        "reject_once" => "no, this once",
        // `reject_always`: no option of another kind is offered.
        _ => "no, from now on in this project",
    }
}

impl Question {
    fn of(view: &QuestionView) -> Self {
        let options = view.options.iter().map(|option| Choice {
            number: option.option_id,
            name: safe(&option.name),
            means: means(&option.kind),
        });
        let details = view
            .details
            .iter()
            .map(|detail| Detail { label: detail.label.clone(), text: visible(&detail.text) });
        Self {
            number: view.question_id,
            kind: one_line(&view.kind, 20),
            title: visible(&view.title),
            details: details.collect(),
            not_for_good: view.not_for_good.clone(),
            not_allowable: view.not_allowable,
            options: options.collect(),
        }
    }
}

impl Asking {
    fn of(turn: &Turn) -> Self {
        Self {
            turn: turn.id.to_string(),
            agent: turn.agent.clone(),
            questions: turn.questions.open().iter().map(Question::of).collect(),
        }
    }
}

impl Questions {
    pub(super) fn of(app: &App, caller: &Caller, session: &Session) -> Self {
        let running = app.turns.running_in(session.id);
        let turns: Vec<Asking> = running.iter().map(|turn| Asking::of(turn)).collect();
        let all = turns.iter().flat_map(|asking| {
            let agent = &asking.agent;
            let told = move |one: &Question| {
                let what = one_line(&one.title, 200);
                format!("{agent} asks for permission: {} {what}", one.kind)
            };
            asking.questions.iter().map(told)
        });
        let said = all.collect::<Vec<_>>().join(" ");
        Self { id: session.id.to_string(), turns, said, may_write: caller.may_write() }
    }
}

/// The questions alone, for the script.
pub(super) async fn questions(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    frame::page(&Questions::of(&app, &caller, &session))
}
