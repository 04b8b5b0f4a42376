//! What a judgement says, for people.

use crate::scenario::{Band, Scenario};
use std::fmt;

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What of.
    pub what: String,
    /// What was expected.
    pub expected: String,
    /// What was seen.
    pub seen: String,
    /// Whether the one fits the other.
    pub holds: bool,
}

/// Every check of one run.
#[derive(Debug, Clone)]
pub struct Report {
    name: String,
    why: String,
    /// The checks, in the order of the file.
    pub checks: Vec<Check>,
}

impl Report {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self {
            name: scenario.name.clone(),
            why: scenario.why.clone(),
            checks: Vec::new(),
        }
    }

    /// Whether everything holds.
    pub fn holds(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }

    pub(super) fn check(&mut self, what: String, expected: String, seen: String, holds: bool) {
        self.checks.push(Check {
            what,
            expected,
            seen,
            holds,
        });
    }

    pub(super) fn fail(&mut self, what: String, expected: String, seen: String) {
        self.check(what, expected, seen, false);
    }

    pub(super) fn band(&mut self, what: String, band: Band, seen: f64) {
        let text = format!("{seen:.3}");
        let text = text.trim_end_matches('0').trim_end_matches('.').to_owned();
        self.check(what, band.to_string(), text, band.holds(seen));
    }
}

/// The scenario's name, and below it what does not hold.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.checks.iter().filter(|check| !check.holds).count();
        writeln!(
            f,
            "{}: {failed} of {} checks fail",
            self.name,
            self.checks.len()
        )?;
        writeln!(f, "  ({})", self.why)?;
        for check in self.checks.iter().filter(|check| !check.holds) {
            writeln!(f, "  {}", check.what)?;
            writeln!(f, "    expected: {}", check.expected)?;
            writeln!(f, "    seen:     {}", check.seen)?;
        }
        Ok(())
    }
}
