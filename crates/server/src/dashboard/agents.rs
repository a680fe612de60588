//! The page about agents: which are known, and how conversations were opened in them.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::frame::{self, Frame, Nav};
use super::humanize;
use rethread_engine::views::AgentView;

use crate::access::{Caller, READ, Routes};
use crate::problem::Problem;
use crate::routes::agents::{OpeningCount, counted, known};
use crate::state::App;

pub(super) fn router() -> Routes {
    Routes::default().get(READ, "/agents", page).get(READ, "/agents/part", part)
}

/// The ways to open a conversation, best first, with the colour and the meaning of each.
const WAYS: &[(&str, usize, &str)] = &[
    ("resumed", 3, "The agent took up its own session."),
    ("loaded", 1, "The agent read its own session back."),
    ("retold", 2, "A new session of the agent was told the story so far."),
    ("fresh", 7, "Nothing had been said yet."),
    ("untold", 8, "A new session of the agent that was told nothing, as asked."),
    ("failed", 6, "The agent could not be opened."),
];

/// A segment of a stacked bar: the share of one way of opening.
struct Piece {
    colour: usize,
    from: String,
    width: String,
    words: String,
}

struct Count {
    how: String,
    why: String,
    times: String,
    median: String,
    most: String,
}

/// The openings in one agent.
struct Opened {
    agent: String,
    total: String,
    pieces: Vec<Piece>,
    counts: Vec<Count>,
}

#[derive(Template)]
#[template(path = "agents.html")]
struct Agents {
    frame: Frame,
    part: Part,
}

/// The part of the page that is updated live.
#[derive(Template)]
#[template(path = "agents_part.html")]
struct Part {
    installed: Vec<AgentView>,
    others: Vec<AgentView>,
    opened: Vec<Opened>,
    ways: &'static [(&'static str, usize, &'static str)],
}

fn rank(how: &str) -> usize {
    WAYS.iter().position(|(known, ..)| *known == how).unwrap_or(WAYS.len())
}

/// Groups the counts by agent; the agents with the most openings come first.
fn grouped(mut counts: Vec<OpeningCount>) -> Vec<Opened> {
    counts
        .sort_by(|a, b| (&a.agent, rank(&a.how), b.count).cmp(&(&b.agent, rank(&b.how), a.count)));
    let mut all: Vec<(u64, Opened)> = counts
        .chunk_by(|a, b| a.agent == b.agent)
        .filter_map(|own| Some((own.iter().map(|one| one.count).sum(), own.first()?, own)))
        .map(|(total, first, own)| {
            let opened = Opened {
                agent: first.agent.clone(),
                total: humanize::grouped(total),
                pieces: pieces(own, total),
                counts: own.iter().map(count).collect(),
            };
            (total, opened)
        })
        .collect();
    all.sort_by_key(|(total, _)| std::cmp::Reverse(*total));
    all.into_iter().map(|(_, opened)| opened).collect()
}

fn count(one: &OpeningCount) -> Count {
    Count {
        how: one.how.clone(),
        why: one.why.as_deref().unwrap_or("–").replace('_', " "),
        times: humanize::grouped(one.count),
        median: humanize::grouped(one.median_ms),
        most: humanize::grouped(one.most_ms),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shares are drawn, not counted")]
fn pieces(own: &[OpeningCount], total: u64) -> Vec<Piece> {
    let mut from = 0.0;
    let mut all = Vec::new();
    for (how, colour, _) in WAYS {
        let count: u64 = own.iter().filter(|one| one.how == *how).map(|one| one.count).sum();
        if count == 0 {
            continue;
        }
        let share = count as f64 * 100.0 / total.max(1) as f64;
        all.push(Piece {
            colour: *colour,
            from: format!("{from:.2}"),
            width: format!("{share:.2}"),
            words: format!("{how}: {} ({share:.0} %)", humanize::grouped(count)),
        });
        from += share;
    }
    all
}

impl Part {
    async fn of(app: &App, caller: &Caller) -> Result<Self, Problem> {
        let (installed, others) = known(app)?.into_iter().partition(|agent| agent.is_installed);
        let opened = grouped(counted(app, caller).await?);
        Ok(Self { installed, others, opened, ways: WAYS })
    }
}

async fn page(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    let after = app.engine.feed_head().await?;
    let frame = Frame::new("Agents", Nav::Agents, &caller).live(after);
    frame::page(&Agents { frame, part: Part::of(&app, &caller).await? })
}

/// The live part alone, for the script.
async fn part(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    frame::page(&Part::of(&app, &caller).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(agent: &str, how: &str, count: u64) -> OpeningCount {
        let (agent, how) = (agent.to_owned(), how.to_owned());
        OpeningCount { agent, how, why: None, count, median_ms: 1, most_ms: 2 }
    }

    #[test]
    fn shares_fill_the_bar() {
        let counts = vec![
            one("a", "failed", 1),
            one("b", "resumed", 9),
            one("a", "resumed", 2),
            one("a", "retold", 1),
        ];
        let all = grouped(counts);

        assert_eq!(all.iter().map(|one| one.agent.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        let widths: Vec<&str> = all[1].pieces.iter().map(|piece| piece.width.as_str()).collect();
        assert_eq!(widths, ["50.00", "25.00", "25.00"]);
        assert_eq!(all[1].pieces[2].from, "75.00");
        assert_eq!(all[1].counts[0].how, "resumed");
    }
}
