//! Scores by tag.

use super::plot::{Scale, begin, end, label, line, vertical_grid};
use super::text::escaped;
use crate::report::{GoldenReport, words};
use std::fmt::{Result, Write as _};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 260.0;
const ROW: f64 = 22.0;
const TOP: f64 = 10.0;

/// Colours of the style sheet; further models begin anew.
const COLOURS: usize = 8;

pub(super) fn figure(out: &mut String, report: &GoldenReport) -> Result {
    let tags = &report.verdict.primary.measures.tags;
    if tags.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h3>Scores by tag</h3>\n<p>")?;
    for (nth, judged) in report.models().enumerate() {
        let name = escaped(judged.measures.candidate.as_str());
        writeln!(
            out,
            "<span class=\"key c{}\">● {name}</span>",
            nth % COLOURS
        )?;
    }
    writeln!(out, "</p>")?;
    let bottom = tags.iter().fold(TOP, |bottom, _| bottom + ROW);
    let scale = Scale::new((0.0, 1.0), (LEFT, WIDTH - 20.0));
    begin(out, (WIDTH, bottom + 26.0), "Scores by tag")?;
    vertical_grid(out, scale, (TOP, bottom), |tick| format!("{tick:.1}"))?;
    let mut y = TOP - ROW / 2.0;
    for (tag, of_primary) in tags {
        y += ROW;
        let shown = format!("{} ({})", escaped(tag), of_primary.items);
        label(out, (LEFT - 10.0, y + 4.0), "end", &shown)?;
        line(out, "grid", (LEFT, y), (WIDTH - 20.0, y))?;
        for (nth, judged) in report.models().enumerate() {
            let found = judged.measures.tags.get(tag);
            let Some(quality) = found.and_then(|found| found.quality) else {
                continue;
            };
            let name = escaped(judged.measures.candidate.as_str());
            writeln!(
                out,
                "<g class=\"c{}\"><title>{name}: {}</title><circle class=\"mark\" cx=\"{:.1}\" \
                 cy=\"{y:.1}\" r=\"4.5\"/></g>",
                nth % COLOURS,
                words::interval(Some(quality)),
                scale.at(quality.estimate)
            )?;
        }
    }
    end(
        out,
        "Mean scores of the items of each tag; their number is in brackets.",
    )?;
    numbers(out, report)
}

/// The same as a table, with what each candidate has of the primary.
fn numbers(out: &mut String, report: &GoldenReport) -> Result {
    writeln!(
        out,
        "<details><summary>As numbers</summary><div class=\"wide\"><table>\n<tr>"
    )?;
    writeln!(out, "<th>tag</th>")?;
    for judged in report.models() {
        let name = escaped(judged.measures.candidate.as_str());
        writeln!(out, "<th class=\"number\">{name}</th>")?;
    }
    writeln!(out, "</tr>")?;
    for tag in report.verdict.primary.measures.tags.keys() {
        writeln!(out, "<tr><th>{}</th>", escaped(tag))?;
        for judged in report.models() {
            let found = judged.measures.tags.get(tag).copied().unwrap_or_default();
            let shown = words::interval(found.ratio.or(found.quality));
            writeln!(out, "<td class=\"number\">{shown}</td>")?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(
        out,
        "</table></div><p class=\"soft\">The primary's scores, and the others relative to it.</p></details>"
    )
}
