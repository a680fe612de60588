//! The layout of a plot over time: stacked bars or lines. The template draws it as SVG.

use askama::Template;

use super::scale;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 28.0;
/// How many days are labelled on the axis.
const LABELS: usize = 8;

/// The values of one name, one for each bar; `None` where there is no data.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) values: Vec<Option<f64>>,
}

/// How values are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Bars,
    Lines,
}

/// The data of a plot.
pub(super) struct Figure<'a> {
    pub(super) title: &'static str,
    pub(super) shape: Shape,
    /// The days of each bar.
    pub(super) days: &'a [String],
    pub(super) series: Vec<Series>,
    /// A fixed top of the scale.
    pub(super) top: Option<f64>,
    /// Formats a value.
    pub(super) words: fn(f64) -> String,
}

struct Tick {
    at: String,
    words: String,
}

struct Mark {
    x: String,
    y: String,
    width: String,
    height: String,
    colour: usize,
    words: String,
}

struct Lane {
    points: String,
    colour: usize,
}

/// A plot with all coordinates computed.
#[derive(Template)]
#[template(path = "usage/plot.html")]
pub(super) struct Plot {
    title: &'static str,
    values: Vec<Tick>,
    days: Vec<Tick>,
    bars: Vec<Mark>,
    lanes: Vec<Lane>,
    dots: Vec<Mark>,
    legend: Vec<(usize, String)>,
    right: String,
    base: String,
    is_empty: bool,
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred")]
fn float(number: usize) -> f64 {
    number as f64
}

fn text(at: f64) -> String {
    format!("{at:.1}")
}

/// Maps values to coordinates.
struct Ground {
    top: f64,
    step: f64,
}

impl Ground {
    fn y(&self, value: f64) -> f64 {
        let share = (value / self.top).clamp(0.0, 1.0);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }

    fn x(&self, index: usize) -> f64 {
        LEFT + self.step * float(index)
    }
}

/// The highest value or, for stacked bars, the highest stack.
fn highest(figure: &Figure<'_>) -> f64 {
    let at = |index: usize| {
        figure.series.iter().filter_map(move |one| one.values.get(index).copied().flatten())
    };
    let tops = (0..figure.days.len()).map(|index| match figure.shape {
        Shape::Bars => at(index).sum(),
        Shape::Lines => at(index).fold(0.0, f64::max),
    });
    tops.fold(0.0, f64::max)
}

impl Plot {
    pub(super) fn of(figure: &Figure<'_>) -> Self {
        let highest = highest(figure);
        let ticks = scale::ticks(figure.top.unwrap_or(highest));
        let top = ticks.last().copied().unwrap_or(1.0);
        let step = (WIDTH - LEFT - RIGHT) / float(figure.days.len().max(1));
        let ground = Ground { top, step };
        let every = scale::labelled(figure.days.len(), LABELS);
        let days = figure.days.iter().enumerate().step_by(every).map(|(index, day)| Tick {
            at: text(ground.x(index) + step / 2.0),
            // Labels omit the year: the table and the tooltips have it.
            words: day.get(5..).unwrap_or(day).to_owned(),
        });
        let (bars, lanes, dots) = match figure.shape {
            Shape::Bars => (bars(figure, &ground), Vec::new(), Vec::new()),
            Shape::Lines => (Vec::new(), lanes(figure, &ground), dots(figure, &ground)),
        };
        let legend = figure.series.iter().enumerate();
        Self {
            title: figure.title,
            values: ticks
                .iter()
                .map(|tick| Tick { at: text(ground.y(*tick)), words: (figure.words)(*tick) })
                .collect(),
            days: days.collect(),
            bars,
            lanes,
            dots,
            legend: legend.map(|(index, one)| (index + 1, one.name.clone())).collect(),
            right: text(WIDTH - RIGHT),
            base: text(HEIGHT - BOTTOM),
            is_empty: highest <= 0.0,
        }
    }
}

fn words(figure: &Figure<'_>, series: &Series, index: usize, value: f64) -> String {
    let day = figure.days.get(index).map(String::as_str).unwrap_or_default();
    format!("{day}, {}: {}", series.name, (figure.words)(value))
}

fn bars(figure: &Figure<'_>, ground: &Ground) -> Vec<Mark> {
    let width = (ground.step * 0.78).clamp(1.0, 48.0);
    let mut all = Vec::new();
    for index in 0..figure.days.len() {
        let mut below = 0.0;
        for (number, series) in figure.series.iter().enumerate() {
            let value = series.values.get(index).copied().flatten().unwrap_or(0.0);
            if value <= 0.0 {
                continue;
            }
            let (bottom, top) = (ground.y(below), ground.y(below + value));
            below += value;
            all.push(Mark {
                x: text(ground.x(index) + (ground.step - width) / 2.0),
                y: text(top),
                width: text(width),
                // Small values stay visible.
                height: text((bottom - top).max(0.5)),
                colour: number + 1,
                words: words(figure, series, index, value),
            });
        }
    }
    all
}

fn lanes(figure: &Figure<'_>, ground: &Ground) -> Vec<Lane> {
    let lane = |(number, series): (usize, &Series)| {
        let known = series.values.iter().enumerate();
        let known = known.filter_map(|(index, value)| Some((index, (*value)?)));
        let points = known.map(|(index, value)| {
            format!("{:.1},{:.1}", ground.x(index) + ground.step / 2.0, ground.y(value))
        });
        Lane { points: points.collect::<Vec<_>>().join(" "), colour: number + 1 }
    };
    figure.series.iter().enumerate().map(lane).collect()
}

fn dots(figure: &Figure<'_>, ground: &Ground) -> Vec<Mark> {
    let mut all = Vec::new();
    for (number, series) in figure.series.iter().enumerate() {
        for (index, value) in series.values.iter().enumerate() {
            let Some(value) = *value else { continue };
            all.push(Mark {
                x: text(ground.x(index) + ground.step / 2.0),
                y: text(ground.y(value)),
                width: String::new(),
                height: String::new(),
                colour: number + 1,
                words: words(figure, series, index, value),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(shape: Shape, days: &[String]) -> Figure<'_> {
        let series = |name: &str, values: &[f64]| Series {
            name: name.to_owned(),
            values: values.iter().copied().map(Some).collect(),
        };
        Figure {
            title: "Tokens",
            shape,
            days,
            series: vec![series("a", &[10.0, 0.0]), series("<b>", &[10.0, 20.0])],
            top: None,
            words: |value| format!("{value:.0}"),
        }
    }

    fn days() -> Vec<String> {
        vec!["2026-11-14".to_owned(), "2026-11-15".to_owned()]
    }

    #[test]
    fn bars_stand_on_each_other_and_on_the_ground() {
        let days = days();
        let plot = Plot::of(&figure(Shape::Bars, &days));

        let places: Vec<(&str, &str)> =
            plot.bars.iter().map(|bar| (bar.y.as_str(), bar.height.as_str())).collect();
        assert_eq!(places, [("117.0", "105.0"), ("12.0", "105.0"), ("12.0", "210.0")]);
        assert_eq!(plot.bars[1].words, "2026-11-14, <b>: 10");
        assert_eq!(plot.values.last().unwrap().words, "20");
        assert_eq!(plot.days[0].words, "11-14");
    }

    #[test]
    fn names_stay_text() {
        let days = days();
        let text = Plot::of(&figure(Shape::Bars, &days)).render().unwrap();
        assert!(!text.contains("<b>"));
        assert!(text.contains("<title>"));
    }

    #[test]
    fn lines_leave_out_what_is_not_known() {
        let days = days();
        let mut figure = figure(Shape::Lines, &days);
        figure.series[0].values[0] = None;
        let plot = Plot::of(&figure);

        assert_eq!(plot.dots.len(), 3);
        assert_eq!(plot.lanes[0].points.split(' ').count(), 1);
        assert_eq!(plot.lanes[1].points.split(' ').count(), 2);
    }

    #[test]
    fn nothing_to_draw_is_said() {
        let plot = Plot::of(&Figure { series: Vec::new(), ..figure(Shape::Bars, &[]) });
        assert!(plot.is_empty);
        assert!(plot.render().unwrap().contains("Nothing"));
    }
}
