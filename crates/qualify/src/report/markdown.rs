//! Markdown for a pull request.

use super::columns::{Column, Remark, columns, notes, remarks};
use super::{GoldenReport, Report, shadows, words};
use crate::Verdict;
use std::fmt::Write as _;

/// The reports as Markdown, a section a role.
pub fn markdown(reports: &[Report]) -> String {
    let mut out = String::new();
    for (nth, report) in reports.iter().enumerate() {
        if nth > 0 {
            out.push('\n');
        }
        section(&mut out, report).unwrap_or_default(); // a string takes all
    }
    out
}

fn section(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(
        out,
        "## {} {}\n",
        mark(report.verdict()),
        escaped(&report.role)
    )?;
    writeln!(out, "{}.", escaped(&report.headline()))?;
    if let Some(golden) = &report.golden {
        let verdicts: Vec<Verdict> = golden.models().map(crate::Judged::verdict).collect();
        writeln!(out)?;
        overview(out, &columns(golden), &verdicts)?;
        list(out, remarks(&report.role, golden))?;
        tags(out, golden)?;
        writeln!(out, "\n{}.", escaped(&golden.circumstances()))?;
        for note in notes(golden) {
            writeln!(out, "{}.", escaped(&note))?;
        }
    }
    if let Some(found) = &report.shadows {
        writeln!(out, "\n### Shadow pairs\n")?;
        if !found.comparisons.is_empty() {
            overview(out, &shadows::columns(found), &shadows::verdicts(found))?;
        }
        list(out, shadows::remarks(found))?;
        writeln!(out, "\n{}.", escaped(&shadows::circumstances(found)))?;
        for note in shadows::notes(found) {
            writeln!(out, "{}.", escaped(&note))?;
        }
    }
    Ok(())
}

fn list(out: &mut String, remarks: Vec<Remark>) -> std::fmt::Result {
    if !remarks.is_empty() {
        writeln!(out)?;
    }
    for remark in remarks {
        writeln!(
            out,
            "- {} **{}** {}: {}",
            mark(remark.verdict),
            escaped(&remark.whose),
            escaped(&remark.check),
            escaped(&remark.words)
        )?;
    }
    Ok(())
}

fn overview(out: &mut String, columns: &[Column], verdicts: &[Verdict]) -> std::fmt::Result {
    let heads: Vec<&str> = columns.iter().map(|column| column.title).collect();
    writeln!(out, "| {} |", heads.join(" | "))?;
    let rules = columns
        .iter()
        .map(|c| if c.is_number { "--:" } else { "---" });
    writeln!(out, "| {} |", rules.collect::<Vec<_>>().join(" | "))?;
    for (nth, verdict) in verdicts.iter().enumerate() {
        let cells = columns.iter().map(|column| {
            let cell = escaped(&column.cells[nth]);
            match column.title {
                "verdict" => format!("{} {cell}", mark(*verdict)),
                _ => cell,
            }
        });
        writeln!(out, "| {} |", cells.collect::<Vec<_>>().join(" | "))?;
    }
    Ok(())
}

/// A table of tags, folded away.
fn tags(out: &mut String, report: &GoldenReport) -> std::fmt::Result {
    let primary = &report.verdict.primary.measures;
    if primary.tags.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = report
        .models()
        .map(|judged| escaped(judged.measures.candidate.as_str()))
        .collect();
    writeln!(out, "\n<details><summary>By tag</summary>\n")?;
    writeln!(out, "| tag | items | {} |", names.join(" | "))?;
    writeln!(out, "| --- | --: |{}", " --: |".repeat(names.len()))?;
    for (tag, of_primary) in &primary.tags {
        let cells = report.models().map(|judged| {
            let found = judged.measures.tags.get(tag).copied().unwrap_or_default();
            words::interval(found.ratio.or(found.quality))
        });
        let cells = cells.collect::<Vec<_>>().join(" | ");
        writeln!(out, "| {} | {} | {cells} |", escaped(tag), of_primary.items)?;
    }
    writeln!(
        out,
        "\nThe primary's scores, and the others relative to it.\n</details>"
    )
}

const fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "✅",
        Verdict::Warning => "⚠️",
        Verdict::NotEnoughData => "❔",
        Verdict::Fail => "❌",
    }
}

/// Text that means itself: no markup, no HTML, no mention of a person, no new line.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '@' => out.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
