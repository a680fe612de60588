//! Tables for people: aligned, without lines, within the terminal.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

use crate::terminal::text;

/// A column that is cut keeps so many characters, as long as others can be left out.
const READABLE: usize = 20;
/// A column that is cut keeps so many characters in any case.
const LEAST: usize = 8;

/// What may become of the columns of a table that is wider than the terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Narrow<'a> {
    /// Texts that are cut, the first one first.
    pub(crate) cut: &'a [&'a str],
    /// Columns that are left out where that is not enough, the first one first.
    pub(crate) left_out: &'a [&'a str],
}

pub(crate) fn render(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    lines(&mut table(headings, rows))
}

/// A table that fits the terminal, as far as it can. As it is where it goes elsewhere.
pub(crate) fn fitted(headings: &[&str], rows: Vec<Vec<String>>, narrow: Narrow<'_>) -> String {
    match super::columns() {
        Some(columns) => {
            let (headings, rows) = fit(headings, rows, narrow, columns);
            render(&headings, rows)
        }
        None => render(headings, rows),
    }
}

/// A table whose last column is broken into lines where it does not fit the terminal.
pub(crate) fn folded(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = table(headings, rows);
    if let Some(columns) = super::columns() {
        fold(&mut table, headings.len(), columns);
    }
    lines(&mut table)
}

fn fold(table: &mut Table, count: usize, columns: usize) {
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(columns).unwrap_or(u16::MAX));
    for index in 0..count.saturating_sub(1) {
        if let Some(column) = table.column_mut(index) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
}

fn table(headings: &[&str], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(headings);
    for row in rows {
        table.add_row(row);
    }
    if let Some(first) = table.column_mut(0) {
        first.set_padding((0, 1));
    }
    table
}

fn lines(table: &mut Table) -> String {
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// The table within so many columns.
fn fit<'a>(
    headings: &[&'a str],
    mut whole: Vec<Vec<String>>,
    narrow: Narrow<'_>,
    columns: usize,
) -> (Vec<&'a str>, Vec<Vec<String>>) {
    let mut headings = headings.to_vec();
    let mut left_out = narrow.left_out.iter();
    let mut least = READABLE;
    loop {
        let mut rows = whole.clone();
        for name in narrow.cut {
            let Some(index) = headings.iter().position(|heading| heading == name) else { continue };
            let (all, own) = (width(&headings, &rows), width_of(index, &headings, &rows));
            let room = own.saturating_sub(all.saturating_sub(columns));
            let room = room.max(least).max(text::width(name));
            for cell in rows.iter_mut().filter_map(|row| row.get_mut(index)) {
                *cell = text::cut(cell, room);
            }
        }
        if width(&headings, &rows) <= columns {
            return (headings, rows);
        }
        match left_out.next() {
            Some(name) => {
                let Some(index) = headings.iter().position(|heading| heading == name) else {
                    continue;
                };
                headings.remove(index);
                for row in &mut whole {
                    row.remove(index);
                }
            }
            None if least > LEAST => least = LEAST,
            None => return (headings, rows),
        }
    }
}

/// How wide a table becomes, with a space on either side of each column but at its edges.
fn width(headings: &[&str], rows: &[Vec<String>]) -> usize {
    let all: usize = (0..headings.len()).map(|index| width_of(index, headings, rows)).sum();
    all + 2 * headings.len().saturating_sub(1)
}

fn width_of(index: usize, headings: &[&str], rows: &[Vec<String>]) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(index)).map(|cell| text::width(cell));
    let heading = headings.get(index).map_or(0, |heading| text::width(heading));
    cells.fold(heading, usize::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: Narrow<'_> = Narrow { cut: &["TITLE"], left_out: &["TOKENS", "KIND"] };
    const HEADINGS: [&str; 4] = ["ID", "TITLE", "KIND", "TOKENS"];

    fn rows() -> Vec<Vec<String>> {
        let row = |title: &str| ["0190abcd", title, "chat", "12"].map(str::to_owned).to_vec();
        vec![
            row("Why the basket is lost when somebody logs in"),
            row("漢字漢字漢字漢字漢字漢字"),
            row("-"),
        ]
    }

    #[test]
    fn a_table_fits_the_terminal() {
        for columns in 20..100 {
            let (headings, rows) = fit(&HEADINGS, rows(), NARROW, columns);
            let shown = render(&headings, rows);
            for line in shown.lines() {
                assert!(text::width(line) <= columns, "{columns}:\n{shown}");
            }
            assert!(shown.contains("0190abcd") && shown.contains("TITLE"), "{shown}");
        }
    }

    #[test]
    fn the_title_gives_way_first_and_only_as_far_as_it_has_to() {
        let (headings, cut) = fit(&HEADINGS, rows(), NARROW, 50);
        assert_eq!(headings, HEADINGS);
        assert_eq!(width(&headings, &cut), 50);
        assert_eq!(cut[2], rows()[2]);
        let (headings, cut) = fit(&HEADINGS, rows(), NARROW, 40);
        assert_eq!(headings, ["ID", "TITLE", "KIND"]);
        assert_eq!(width(&headings, &cut), 40);
        // Where there is room nothing changes.
        let wide = fit(&HEADINGS, rows(), NARROW, 68);
        assert_eq!(wide, (HEADINGS.to_vec(), rows()));
    }

    #[test]
    fn the_last_column_is_broken_between_words() {
        let rows =
            vec![vec!["gemini".to_owned(), "not installed: npm install -g gemini".to_owned()]];
        let mut table = table(&["AGENT", "CAN"], rows);
        fold(&mut table, 2, 34);
        let shown = lines(&mut table);
        assert!(shown.lines().all(|line| line.len() <= 34), "{shown}");
        for word in ["installed:", "install", "gemini"] {
            assert!(shown.split_whitespace().any(|found| found == word), "{shown}");
        }
    }
}
