//! A session that is paused in place: its agent has ended and nobody holds it, but the prompt stays.

use rethread_engine::Logged as _;
use rethread_engine::agents::OpenOptions;

use super::lines::Lines;
use super::{Left, View, settle, slash};
use crate::cli::App;
use crate::output;
use crate::terminal::window::Event;

/// What ends the rest.
pub(super) enum Rest {
    /// A line that takes the session up again.
    Line(String),
    /// The person leaves.
    Over(Left),
}

/// Tells that the session is paused, and waits for a line.
pub(super) async fn rest(
    app: &App,
    options: &OpenOptions,
    lines: &mut Lines,
) -> anyhow::Result<Rest> {
    let session = app.engine.session(options.session).await?;
    let mut view = View::new(app.json, lines.window(), &session.project);
    let idle = output::time::length(app.config.idle());
    view.note(&if session.last_seq == 0 {
        format!(
            "nothing was said for {idle}: {} was ended; the next line starts it again",
            options.agent
        )
    } else {
        format!("nothing was said for {idle}: saved and paused; the next line takes it up again")
    });
    view.set_status(|status| status.note = Some("paused".to_owned()));
    let rest = until_line(app, options, lines, &mut view, &session).await;
    view.set_status(|status| status.note = None);
    rest
}

async fn until_line(
    app: &App,
    options: &OpenOptions,
    lines: &mut Lines,
    view: &mut View,
    session: &rethread_domain::Session,
) -> anyhow::Result<Rest> {
    // A question would stand in the line that is being typed.
    app.commit_if_automatic(session).await.or_log("a paused session was not committed");
    loop {
        match lines.next().await? {
            Event::End => return Ok(Rest::Over(Left::Stopped)),
            Event::Line(line) if slash::split(&line).0 == "/help" => {
                output::note(format_args!("{}", slash::HELP));
            }
            Event::Line(line) if !line.trim().is_empty() => {
                let Some(left) = slash::leaves(slash::split(&line).0) else {
                    return Ok(Rest::Line(line));
                };
                settle(app, options.session, left).await?;
                return Ok(Rest::Over(left));
            }
            Event::Open => view.open(),
            Event::Line(_) | Event::Interrupted | Event::Stop | Event::NextMode => (),
        }
    }
}
