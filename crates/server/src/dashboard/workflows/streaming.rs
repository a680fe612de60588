//! The text that agents are streaming at the moment. It causes no events: the script polls while something runs.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rethread_workflow::{Status, Workflow};

use super::describe;
use crate::access::Caller;
use crate::dashboard::frame;
use crate::extract::PathParams;
use crate::problem::Problem;
use crate::state::App;

/// How many characters of each stream are shown, from its end.
const SHOWN: usize = 2_000;

#[derive(Template)]
#[template(path = "workflows/now.html")]
pub(super) struct Streaming {
    is_running: bool,
    saying: Vec<Words>,
}

struct Words {
    on: String,
    session: String,
    short: String,
    text: String,
    is_cut: bool,
}

impl Streaming {
    pub(super) async fn of(app: &App, workflow: &Workflow) -> Result<Self, Problem> {
        let words = |saying: rethread_engine::workflows::LiveText| {
            let session = saying.session.to_string();
            let before = saying.text.chars().count().saturating_sub(SHOWN);
            Words {
                on: saying.on,
                short: describe::short(&session),
                session,
                text: saying.text.chars().skip(before).collect(),
                is_cut: before > 0,
            }
        };
        let saying = app.engine.live_texts(workflow).await?.into_iter().map(words).collect();
        Ok(Self { is_running: workflow.status() == Status::InProgress, saying })
    }
}

/// The streams alone, for the script.
pub(super) async fn part(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Response, Problem> {
    let workflow = app.workflow(&caller, &id).await?;
    frame::page(&Streaming::of(&app, &workflow).await?)
}
