//! The usage page: tokens, cost and context use over time, as plots and as a table.

mod plot;
mod scale;

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use jiff::ToSpan;
use jiff::civil::Date;
use serde::Deserialize;

use super::frame::{self, Frame, Nav};
use super::humanize::{self, some};
use crate::access::{Caller, READ, Routes};
use crate::extract::QueryParams;
use crate::problem::Problem;
use crate::routes::agents::{UsageDay, UsageParams, UsageView, known, used};
use crate::state::App;
use plot::{Figure, Plot, Series, Shape};

pub(super) fn router() -> Routes {
    Routes::default().get(READ, "/usage", page).get(READ, "/usage/part", part)
}

/// How many names get a colour of their own; the rest are summed up.
const NAMES: usize = 7;
/// The most rows of the table.
const ROWS: usize = 500;

/// The fields of the form; an empty field means no filter.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Fields {
    from: String,
    to: String,
    agent: String,
    project: String,
}

impl Fields {
    fn params(&self) -> UsageParams {
        UsageParams {
            from: some(&self.from),
            to: some(&self.to),
            agent: some(&self.agent),
            project: some(&self.project),
        }
    }

    fn query(&self) -> String {
        humanize::query(&[
            ("from", &self.from),
            ("to", &self.to),
            ("agent", &self.agent),
            ("project", &self.project),
        ])
    }
}

struct Row {
    day: String,
    agent: String,
    project: String,
    project_name: String,
    messages: String,
    tokens: String,
    input: String,
    output: String,
    cost: String,
    context: String,
}

impl Row {
    fn of(day: &UsageDay) -> Self {
        Self {
            day: day.day.clone(),
            agent: named(&day.agent),
            project: day.project.clone(),
            project_name: humanize::last_part(&day.project).to_owned(),
            messages: humanize::grouped(day.messages),
            tokens: humanize::grouped(day.tokens),
            input: humanize::grouped(day.input_tokens),
            output: humanize::grouped(day.output_tokens),
            cost: humanize::dollars(day.cost_usd),
            context: day.context_use.map_or_else(|| "–".to_owned(), percent),
        }
    }
}

#[derive(Template)]
#[template(path = "usage/page.html")]
struct Usage {
    frame: Frame,
    fields: Fields,
    /// The filters as a query string.
    query: String,
    agents: Vec<String>,
    part: Part,
}

/// The part of the page that is updated live.
#[derive(Template)]
#[template(path = "usage/part.html")]
struct Part {
    from: String,
    to: String,
    tokens: String,
    input: String,
    output: String,
    messages: String,
    cost: String,
    fullest: String,
    plots: Vec<Plot>,
    /// How many days a bar stands for.
    each: usize,
    rows: Vec<Row>,
    left_out: usize,
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn named(agent: &str) -> String {
    if agent.is_empty() { "unknown".to_owned() } else { agent.to_owned() }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a label")]
fn many(value: f64) -> String {
    humanize::short(value.round().max(0.0) as u64)
}

/// The days of the period, several of which may share a bar.
struct Calendar {
    from: Date,
    each: usize,
    bars: Vec<String>,
}

impl Calendar {
    fn of(view: &UsageView) -> Option<Self> {
        let (from, to): (Date, Date) = (view.from.parse().ok()?, view.to.parse().ok()?);
        let days = usize::try_from((to - from).get_days()).ok()? + 1;
        let each = scale::days_each(days);
        let bars = (0..days).step_by(each).filter_map(|day| {
            let day = from.checked_add(i64::try_from(day).ok()?.days()).ok()?;
            Some(day.to_string())
        });
        Some(Self { from, each, bars: bars.collect() })
    }

    /// The bar of a day.
    fn bar(&self, day: &str) -> Option<usize> {
        let day: Date = day.parse().ok()?;
        Some(usize::try_from((day - self.from).get_days()).ok()? / self.each)
    }
}

/// Values by name and bar; the largest come first, the rest are summed up.
fn series(
    calendar: &Calendar,
    days: &[UsageDay],
    name: impl Fn(&UsageDay) -> String,
    value: impl Fn(&UsageDay) -> Option<f64>,
    join: fn(f64, f64) -> f64,
) -> Vec<Series> {
    let mut by_name: BTreeMap<String, Vec<Option<f64>>> = BTreeMap::new();
    for day in days {
        let Some(bar) = calendar.bar(&day.day) else { continue };
        let values = by_name.entry(name(day)).or_insert_with(|| vec![None; calendar.bars.len()]);
        if let (Some(place), Some(value)) = (values.get_mut(bar), value(day)) {
            *place = Some(place.map_or(value, |before| join(before, value)));
        }
    }
    let mut all: Vec<(f64, Series)> = by_name
        .into_iter()
        .map(|(name, values)| (values.iter().flatten().sum(), Series { name, values }))
        .filter(|(total, _)| *total > 0.0)
        .collect();
    all.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let mut all: Vec<Series> = all.into_iter().map(|(_, series)| series).collect();
    let rest = all.split_off(all.len().min(NAMES));
    all.extend(together(rest, join));
    all
}

fn together(rest: Vec<Series>, join: fn(f64, f64) -> f64) -> Option<Series> {
    let name = format!("{} others", rest.len());
    let values = rest.into_iter().map(|series| series.values).reduce(|mut all, values| {
        for (place, value) in all.iter_mut().zip(values) {
            *place = match (*place, value) {
                (Some(a), Some(b)) => Some(join(a, b)),
                (a, b) => a.or(b),
            };
        }
        all
    })?;
    Some(Series { name, values })
}

/// What a plot shows.
struct About {
    titles: [&'static str; 2],
    shape: Shape,
    top: Option<f64>,
    value: fn(&UsageDay) -> Option<f64>,
    join: fn(f64, f64) -> f64,
    words: fn(f64) -> String,
}

#[expect(clippy::cast_precision_loss, reason = "drawn, not counted")]
fn tokens(day: &UsageDay) -> f64 {
    day.tokens as f64
}

const ABOUT: &[About] = &[
    About {
        titles: ["Tokens said, by agent", "Tokens said, by project"],
        shape: Shape::Bars,
        top: None,
        value: |day| Some(tokens(day)),
        join: |a, b| a + b,
        words: many,
    },
    About {
        titles: ["Cost by agent", "Cost by project"],
        shape: Shape::Bars,
        top: None,
        value: |day| Some(day.cost_usd),
        join: |a, b| a + b,
        words: humanize::dollars,
    },
    About {
        titles: ["Fullest context by agent", "Fullest context by project"],
        shape: Shape::Lines,
        top: Some(1.0),
        value: |day| day.context_use,
        join: f64::max,
        words: percent,
    },
];

fn plots(view: &UsageView) -> (Vec<Plot>, usize) {
    let Some(calendar) = Calendar::of(view) else { return (Vec::new(), 1) };
    let mut all = Vec::new();
    for about in ABOUT {
        let by: [fn(&UsageDay) -> String; 2] =
            [|day| named(&day.agent), |day| humanize::last_part(&day.project).to_owned()];
        for (title, name) in about.titles.into_iter().zip(by) {
            all.push(Plot::of(&Figure {
                title,
                shape: about.shape,
                days: &calendar.bars,
                series: series(&calendar, &view.days, name, about.value, about.join),
                top: about.top,
                words: about.words,
            }));
        }
    }
    (all, calendar.each)
}

impl Part {
    async fn of(app: &App, caller: &Caller, fields: &Fields) -> Result<Self, Problem> {
        let mut view = used(app, caller, fields.params()).await?;
        let (plots, each) = plots(&view);
        let newest_first = |a: &UsageDay, b: &UsageDay| {
            (&b.day, &a.agent, &a.project).cmp(&(&a.day, &b.agent, &b.project))
        };
        view.days.sort_by(newest_first);
        let sum = |of: fn(&UsageDay) -> u64| view.days.iter().map(of).sum::<u64>();
        let fullest = view.days.iter().filter_map(|day| day.context_use).reduce(f64::max);
        Ok(Self {
            tokens: humanize::grouped(sum(|day| day.tokens)),
            input: humanize::short(sum(|day| day.input_tokens)),
            output: humanize::short(sum(|day| day.output_tokens)),
            messages: humanize::grouped(sum(|day| day.messages)),
            cost: humanize::dollars(view.days.iter().map(|day| day.cost_usd).sum()),
            fullest: fullest.map_or_else(|| "–".to_owned(), percent),
            plots,
            each,
            rows: view.days.iter().take(ROWS).map(Row::of).collect(),
            left_out: view.days.len().saturating_sub(ROWS),
            from: view.from,
            to: view.to,
        })
    }
}

async fn page(
    State(app): State<App>,
    caller: Caller,
    QueryParams(fields): QueryParams<Fields>,
) -> Result<Response, Problem> {
    let after = app.engine.feed_head().await?;
    frame::page(&Usage {
        frame: Frame::new("Usage", Nav::Usage, &caller).live(after),
        agents: known(&app)?.into_iter().map(|agent| agent.name).collect(),
        part: Part::of(&app, &caller, &fields).await?,
        query: fields.query(),
        fields,
    })
}

/// The live part alone, for the script.
async fn part(
    State(app): State<App>,
    caller: Caller,
    QueryParams(fields): QueryParams<Fields>,
) -> Result<Response, Problem> {
    frame::page(&Part::of(&app, &caller, &fields).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(day: &str, agent: &str, tokens: u64) -> UsageDay {
        UsageDay {
            day: day.to_owned(),
            project: "/p".to_owned(),
            agent: agent.to_owned(),
            sessions: 1,
            messages: 1,
            tokens,
            input_tokens: 0,
            output_tokens: 0,
            cost_usd: 0.0,
            context_use: None,
        }
    }

    fn calendar(from: &str, to: &str) -> Calendar {
        let view = UsageView { from: from.to_owned(), to: to.to_owned(), days: Vec::new() };
        Calendar::of(&view).unwrap()
    }

    #[test]
    fn days_become_bars() {
        let short = calendar("2026-11-01", "2026-11-30");
        assert_eq!((short.bars.len(), short.bar("2026-11-30")), (30, Some(29)));
        let long = calendar("2026-01-01", "2026-12-31");
        assert_eq!((long.each, long.bar("2026-01-08")), (7, Some(1)));
        assert_eq!(calendar("2026-01-01", "2026-01-01").bars, ["2026-01-01"]);
    }

    #[test]
    fn many_names_share_the_last_colour() {
        let calendar = calendar("2026-11-01", "2026-11-02");
        let days: Vec<UsageDay> =
            (1..=10).map(|n| day("2026-11-02", &format!("agent{n}"), n)).collect();
        let all = series(
            &calendar,
            &days,
            |day| day.agent.clone(),
            |day| Some(tokens(day)),
            |a, b| a + b,
        );

        assert_eq!(all.len(), NAMES + 1);
        assert_eq!(all[0].name, "agent10");
        assert_eq!(all[NAMES].name, "3 others");
        assert_eq!(all[NAMES].values, [None, Some(6.0)]);
    }
}
