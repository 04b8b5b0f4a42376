//! One page that needs nothing beside it: no script, nothing from elsewhere, readable
//! dark and light. It is well-formed XML too.

mod intervals;
mod latency;
mod plot;
mod tags;
mod text;
mod worst;

use super::columns::{Column, Remark, columns, notes, remarks};
use super::{GoldenReport, Report, shadows};
use crate::Verdict;
use std::fmt::{Result, Write as _};
use text::escaped;

/// Allows the page's own style and nothing else, whatever is in an answer.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The reports as one HTML page.
pub fn html(reports: &[Report]) -> String {
    let mut out = String::new();
    page(&mut out, reports).unwrap_or_default(); // a string takes all
    out
}

fn page(out: &mut String, reports: &[Report]) -> Result {
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>"
    )?;
    writeln!(
        out,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>"
    )?;
    writeln!(
        out,
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>"
    )?;
    writeln!(out, "<title>Qualification</title>")?;
    writeln!(
        out,
        "<style>\n{}</style>\n</head>\n<body>",
        include_str!("page.css")
    )?;
    writeln!(out, "<h1>Qualification</h1>")?;
    for report in reports {
        section(out, report)?;
    }
    writeln!(out, "</body>\n</html>")
}

fn section(out: &mut String, report: &Report) -> Result {
    let verdict = report.verdict();
    writeln!(out, "<section>\n<h2>{}</h2>", escaped(&report.role))?;
    writeln!(
        out,
        "<p><b class=\"{}\">{}</b>.</p>",
        verdict.as_str(),
        escaped(&report.headline())
    )?;
    if let Some(golden) = &report.golden {
        measured(out, &report.role, golden)?;
    }
    if let Some(found) = &report.shadows {
        writeln!(out, "<h3>Shadow pairs</h3>")?;
        let soft = escaped(&shadows::circumstances(found));
        writeln!(out, "<p class=\"soft\">{soft}.</p>")?;
        for note in shadows::notes(found) {
            writeln!(out, "<p>{}.</p>", escaped(&note))?;
        }
        if !found.comparisons.is_empty() {
            overview(out, &shadows::columns(found), &shadows::verdicts(found))?;
        }
        list(out, shadows::remarks(found))?;
    }
    writeln!(out, "</section>")
}

fn measured(out: &mut String, role: &str, golden: &GoldenReport) -> Result {
    let soft = escaped(&golden.circumstances());
    writeln!(out, "<p class=\"soft\">{soft}.</p>")?;
    for note in notes(golden) {
        writeln!(out, "<p>{}.</p>", escaped(&note))?;
    }
    let verdicts: Vec<Verdict> = golden.models().map(crate::Judged::verdict).collect();
    overview(out, &columns(golden), &verdicts)?;
    list(out, remarks(role, golden))?;
    intervals::figure(out, golden)?;
    latency::figure(out, golden)?;
    tags::figure(out, golden)?;
    worst::side_by_side(out, golden)?;
    manifest(out, golden)
}

fn overview(out: &mut String, columns: &[Column], verdicts: &[Verdict]) -> Result {
    let class = |is_number: bool| if is_number { " class=\"number\"" } else { "" };
    writeln!(out, "<div class=\"wide\"><table>\n<tr>")?;
    for column in columns {
        writeln!(out, "<th{}>{}</th>", class(column.is_number), column.title)?;
    }
    writeln!(out, "</tr>")?;
    for (nth, verdict) in verdicts.iter().enumerate() {
        writeln!(out, "<tr>")?;
        for column in columns {
            let cell = escaped(&column.cells[nth]);
            if column.title == "verdict" {
                let verdict = verdict.as_str();
                writeln!(out, "<td><b class=\"{verdict}\">{cell}</b></td>")?;
            } else {
                writeln!(out, "<td{}>{cell}</td>", class(column.is_number))?;
            }
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</table></div>")
}

fn list(out: &mut String, remarks: Vec<Remark>) -> Result {
    if remarks.is_empty() {
        return Ok(());
    }
    writeln!(out, "<ul>")?;
    for remark in remarks {
        writeln!(
            out,
            "<li><b class=\"{}\">{}</b>: {} {}: {}</li>",
            remark.verdict.as_str(),
            remark.verdict.words(),
            escaped(&remark.whose),
            escaped(&remark.check),
            escaped(&remark.words)
        )?;
    }
    writeln!(out, "</ul>")
}

/// What the run is repeated from.
fn manifest(out: &mut String, report: &GoldenReport) -> Result {
    writeln!(
        out,
        "<details><summary>What it was measured on</summary>\n<table>"
    )?;
    let own = [("dataset sha256", report.dataset.sha256.as_str())];
    let rest = report.manifest.iter();
    let rest = rest.map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in own.into_iter().chain(rest) {
        writeln!(
            out,
            "<tr><th>{}</th><td>{}</td></tr>",
            escaped(name),
            escaped(value)
        )?;
    }
    writeln!(out, "</table></details>")
}
