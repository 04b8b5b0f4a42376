//! The worst items, side by side.

use super::text::escaped;
use crate::WorstItem;
use crate::report::{GoldenReport, words};
use std::fmt::{Result, Write as _};

pub(super) fn side_by_side(out: &mut String, report: &GoldenReport) -> Result {
    if report.worst.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h3>Where a candidate loses most</h3>")?;
    for item in &report.worst {
        one(out, item)?;
    }
    Ok(())
}

fn one(out: &mut String, item: &WorstItem) -> Result {
    let tags = match item.tags.join(", ") {
        tags if tags.is_empty() => String::new(),
        tags => format!(" <span class=\"soft\">{}</span>", escaped(&tags)),
    };
    writeln!(
        out,
        "<details open=\"open\"><summary><b>{}</b>{tags}</summary><div class=\"wide\"><table class=\"side\">",
        escaped(&item.item)
    )?;
    for (name, text) in [("asked", &item.question), ("expected", &item.expected)] {
        if let Some(text) = text {
            writeln!(
                out,
                "<tr><th>{name}</th><td colspan=\"{}\">{}</td></tr>",
                item.answers.len().max(1),
                escaped(text)
            )?;
        }
    }
    writeln!(out, "<tr><th></th>")?;
    for answer in &item.answers {
        writeln!(
            out,
            "<th>{}<br/><span class=\"soft\">{}</span></th>",
            escaped(answer.candidate.as_str()),
            words::ending(answer.kind)
        )?;
    }
    writeln!(out, "</tr>\n<tr><th>answered</th>")?;
    for answer in &item.answers {
        let text = answer.answer.as_deref().unwrap_or(words::NONE);
        writeln!(out, "<td>{}</td>", escaped(text))?;
    }
    writeln!(out, "</tr></table></div></details>")
}
