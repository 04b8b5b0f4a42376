//! A table for a terminal.

use super::columns::{Column, Remark, columns, notes, remarks};
use super::{Report, shadows};
use crate::Verdict;
use std::fmt::Write as _;

/// How a table is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableStyle {
    /// Columns of the terminal; what does not fit is left out.
    pub width: usize,
    /// Whether verdicts are coloured: not where the output is no terminal.
    pub is_coloured: bool,
}

/// The longest name of a model that is shown whole where there is no room.
const SHORT_NAME: usize = 16;

/// The reports as tables, one below the other, with a sentence for each check that is
/// no plain pass.
pub fn table(reports: &[Report], style: TableStyle) -> String {
    let mut out = String::new();
    for (nth, report) in reports.iter().enumerate() {
        if nth > 0 {
            out.push('\n');
        }
        one(&mut out, report, style);
    }
    out
}

fn one(out: &mut String, report: &Report, style: TableStyle) {
    line(
        out,
        &plain(&format!("{}: {}", report.role, report.headline())),
    );
    if let Some(golden) = &report.golden {
        line(out, &plain(&golden.circumstances()));
        let columns = fitting(columns(golden), style.width);
        let verdicts: Vec<Verdict> = golden.models().map(crate::Judged::verdict).collect();
        draw(out, &columns, &verdicts, style);
        tell(out, remarks(&report.role, golden), notes(golden), style);
    }
    if let Some(found) = &report.shadows {
        line(out, &plain(&shadows::circumstances(found)));
        let columns = fitting(shadows::columns(found), style.width);
        let verdicts = shadows::verdicts(found);
        if !verdicts.is_empty() {
            draw(out, &columns, &verdicts, style);
        }
        tell(out, shadows::remarks(found), shadows::notes(found), style);
    }
}

fn tell(out: &mut String, remarks: Vec<Remark>, notes: Vec<String>, style: TableStyle) {
    for remark in remarks {
        let verdict = painted(remark.verdict, remark.verdict.words(), style);
        let (whose, check, words) = (&remark.whose, &remark.check, &remark.words);
        line(
            out,
            &format!(
                "  {verdict}: {} {}: {}",
                plain(whose),
                plain(check),
                plain(words)
            ),
        );
    }
    for note in notes {
        line(out, &format!("  note: {}", plain(&note)));
    }
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// The columns that fit: the sparest are left out first, then names are cut short.
fn fitting(mut columns: Vec<Column>, width: usize) -> Vec<Column> {
    for column in &mut columns {
        for cell in &mut column.cells {
            *cell = plain(cell);
        }
    }
    while total(&columns) > width {
        let sparest = columns
            .iter()
            .enumerate()
            .max_by_key(|(_, column)| column.spare);
        match sparest {
            Some((place, column)) if column.spare > 0 => {
                columns.remove(place);
            }
            _ => break,
        }
    }
    let over = total(&columns).saturating_sub(width);
    if let Some(names) = columns.iter_mut().find(|column| column.title == "model") {
        let room = cell_width(names).saturating_sub(over).max(SHORT_NAME);
        for cell in &mut names.cells {
            if length(cell) > room {
                let start: String = cell.chars().take(room - 1).collect();
                *cell = format!("{start}…");
            }
        }
    }
    columns
}

/// Text without what would move the cursor or change colours.
fn plain(text: &str) -> String {
    let shown = |c: char| {
        if c.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    };
    text.chars().map(shown).collect()
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn cell_width(column: &Column) -> usize {
    let cells = column.cells.iter().map(|cell| length(cell));
    cells.max().unwrap_or(0).max(length(column.title))
}

fn total(columns: &[Column]) -> usize {
    let between = 2 * columns.len().saturating_sub(1);
    columns.iter().map(cell_width).sum::<usize>() + between
}

fn draw(out: &mut String, columns: &[Column], verdicts: &[Verdict], style: TableStyle) {
    let heads: Vec<&str> = columns.iter().map(|column| column.title).collect();
    row(out, columns, &heads, None, style);
    let rules: Vec<String> = columns.iter().map(|c| "─".repeat(cell_width(c))).collect();
    line(out, &rules.join("  "));
    for (nth, verdict) in verdicts.iter().enumerate() {
        let cells: Vec<&str> = columns.iter().map(|c| c.cells[nth].as_str()).collect();
        row(out, columns, &cells, Some(*verdict), style);
    }
}

fn row(
    out: &mut String,
    columns: &[Column],
    cells: &[&str],
    verdict: Option<Verdict>,
    style: TableStyle,
) {
    let mut text = String::new();
    for (nth, (column, cell)) in columns.iter().zip(cells).enumerate() {
        let room = " ".repeat(cell_width(column).saturating_sub(length(cell)));
        let shown = match verdict {
            Some(verdict) if column.title == "verdict" => painted(verdict, cell, style),
            _ => (*cell).to_owned(),
        };
        let gap = if nth == 0 { "" } else { "  " };
        let written = if column.is_number {
            write!(text, "{gap}{room}{shown}")
        } else {
            write!(text, "{gap}{shown}{room}")
        };
        written.expect("a string takes what is written");
    }
    line(out, text.trim_end());
}

fn painted(verdict: Verdict, text: &str, style: TableStyle) -> String {
    let colour = match verdict {
        Verdict::Pass => 32,
        Verdict::Warning | Verdict::NotEnoughData => 33,
        Verdict::Fail => 31,
    };
    if style.is_coloured {
        format!("\u{1b}[{colour}m{text}\u{1b}[0m")
    } else {
        text.to_owned()
    }
}
