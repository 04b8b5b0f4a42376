//! What came of the roles, on standard output and in the folders of the report.

use super::args::Format;
use anyhow::Context as _;
use evenkeel_qualify::LockedFolder;
use evenkeel_qualify::report::{Report, TableStyle, html, json, junit, markdown, table};
use std::io::{self, IsTerminal, Write, stdout};

/// Columns of a table where nobody says how many there are.
const COLUMNS: usize = 120;

/// Prints the reports of all roles.
pub(super) fn reports(reports: &[Report], format: Format) -> io::Result<()> {
    let text = match format {
        Format::Table => table(reports, style()),
        Format::Markdown => markdown(reports),
        Format::Json => json(reports),
        Format::Junit => junit(reports),
    };
    stdout().write_all(text.as_bytes())
}

/// Puts a role's report beside its journal, in every form.
pub(super) fn files(report: &Report, folder: &LockedFolder) -> anyhow::Result<()> {
    let one = std::slice::from_ref(report);
    for (name, text) in [
        ("report.html", html(one)),
        ("report.json", json(one)),
        ("report.md", markdown(one)),
        ("report.xml", junit(one)),
    ] {
        let path = folder.folder().path().join(name);
        let written = std::fs::write(&path, text);
        written.with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    Ok(())
}

fn style() -> TableStyle {
    let columns = std::env::var_os("COLUMNS").and_then(|n| n.into_string().ok()?.parse().ok());
    let is_terminal = stdout().is_terminal();
    TableStyle {
        width: columns.unwrap_or(COLUMNS),
        is_coloured: is_terminal && std::env::var_os("NO_COLOR").is_none(),
    }
}
