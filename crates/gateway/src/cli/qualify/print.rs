//! What came of a role, on standard output.

use evenkeel_qualify::{Finished, Judged};
use std::io::{self, Write, stdout};

/// A line for each model, and one for each condition that does not hold.
pub(super) fn finished(role: &str, finished: &Finished) -> io::Result<()> {
    let mut out = stdout().lock();
    let found = &finished.verdict;
    writeln!(out, "{role}: {}", finished.verdict().words())?;
    for check in &found.checks {
        writeln!(
            out,
            "  {} {}: {}",
            check.name,
            check.verdict.words(),
            check.words
        )?;
    }
    for judged in std::iter::once(&found.primary).chain(&found.candidates) {
        line(&mut out, judged)?;
    }
    Ok(())
}

fn line(out: &mut impl Write, judged: &Judged) -> io::Result<()> {
    let measures = &judged.measures;
    writeln!(
        out,
        "  {}: {}",
        measures.candidate,
        judged.verdict().words()
    )?;
    for check in &judged.checks {
        writeln!(
            out,
            "    {} {}: {}",
            check.name,
            check.verdict.words(),
            check.words
        )?;
    }
    Ok(())
}
