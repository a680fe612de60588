//! Tables within a terminal: columns as wide as they have to be, cells wrapped where they are not.

use anstyle::Style;

use super::super::styled::{BOLD, DIM, Line};

const BETWEEN: &str = " │ ";
/// No column becomes narrower, as long as anything fits at all.
const LEAST: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<Line>>,
    /// Whether cells belong to a row, or to the heading.
    is_in_row: bool,
}

impl Table {
    pub(super) fn row(&mut self) {
        self.is_in_row = true;
        self.rows.push(Vec::new());
    }

    pub(super) fn cell(&mut self) {
        if self.rows.is_empty() {
            self.rows.push(Vec::new());
        }
        if let Some(row) = self.rows.last_mut() {
            row.push(Line::default());
        }
    }

    pub(super) fn text(&mut self, text: &str, style: Style) {
        let style = if self.is_in_row { style } else { style | BOLD.get_effects() };
        if let Some(cell) = self.rows.last_mut().and_then(|row| row.last_mut()) {
            cell.push(text, style);
        }
    }

    pub(super) fn lines(&self, columns: usize) -> Vec<Line> {
        let widths = self.widths(columns);
        let mut lines = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            let cells: Vec<Vec<Line>> = widths
                .iter()
                .enumerate()
                .map(|(column, wide)| {
                    row.get(column)
                        .map(|cell| cell.wrapped(*wide, &Line::default()))
                        .unwrap_or_default()
                })
                .collect();
            let high = cells.iter().map(Vec::len).max().unwrap_or(0);
            for part in 0..high {
                lines.push(line(&cells, &widths, part).cut(columns));
            }
            if at == 0 {
                let rules: Vec<String> = widths.iter().map(|wide| "─".repeat(*wide)).collect();
                lines.push(Line::new(&rules.join("─┼─"), DIM).cut(columns));
            }
        }
        lines
    }

    /// How wide each column is: as its widest cell; where all do not fit, the widest give way.
    fn widths(&self, columns: usize) -> Vec<usize> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(Line::width).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..count).map(|column| widest(column).max(1)).collect();
        let between = BETWEEN.chars().count() * count.saturating_sub(1);
        let room = columns.saturating_sub(between);
        while widths.iter().sum::<usize>() > room {
            let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > LEAST) else {
                break;
            };
            *widest -= 1;
        }
        widths
    }
}

/// One line of a row.
fn line(cells: &[Vec<Line>], widths: &[usize], part: usize) -> Line {
    let mut line = Line::default();
    for (column, (cell, wide)) in cells.iter().zip(widths).enumerate() {
        if column > 0 {
            line.push(BETWEEN, DIM);
        }
        let shown = cell.get(part).cloned().unwrap_or_default();
        let used = shown.width();
        line.0.extend(shown.0);
        if column + 1 < cells.len() {
            line.push(&" ".repeat(wide.saturating_sub(used)), Style::new());
        }
    }
    line
}
