//! JUnit XML: a suite a role, a case for each model and check, so that a CI system
//! shows a gate as it shows tests.

use super::Report;
use super::columns::notes;
use super::xml;
use crate::{Check, Verdict};
use std::fmt::Write as _;

/// The reports as JUnit XML. "Not enough data" is a failure of that type; a warning is
/// a pass that says why in its output.
pub fn junit(reports: &[Report]) -> String {
    let suites: Vec<Suite<'_>> = reports.iter().map(Suite::of).collect();
    let tests: usize = suites.iter().map(Suite::tests).sum();
    let failures: usize = suites.iter().map(Suite::failures).sum();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let name = "evenkeel qualify";
    let mut write = || -> std::fmt::Result {
        writeln!(
            out,
            "<testsuites name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\">"
        )?;
        for suite in &suites {
            suite.write(&mut out)?;
        }
        writeln!(out, "</testsuites>")
    };
    write().unwrap_or_default(); // a string takes all
    out
}

struct Suite<'r> {
    report: &'r Report,
    cases: Vec<Case<'r>>,
}

struct Case<'r> {
    model: &'r str,
    check: &'r Check,
}

impl<'r> Suite<'r> {
    fn of(report: &'r Report) -> Self {
        let of = |model: &'r str, checks: &'r [Check]| {
            checks.iter().map(move |check| Case { model, check })
        };
        let mut cases: Vec<Case<'r>> = of("", &report.verdict.checks).collect();
        for judged in report.models() {
            cases.extend(of(judged.measures.candidate.as_str(), &judged.checks));
        }
        Self { report, cases }
    }

    /// Its cases, and one more of a run that was stopped.
    fn tests(&self) -> usize {
        self.cases.len() + usize::from(self.report.stopped.is_some())
    }

    /// Those of them that fail.
    fn failures(&self) -> usize {
        let failing = |case: &&Case<'_>| !case.check.verdict.is_pass();
        let stopped = usize::from(self.report.stopped.is_some());
        self.cases.iter().filter(failing).count() + stopped
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let report = self.report;
        let (tests, failures) = (self.tests(), self.failures());
        let role = escaped(&report.role);
        writeln!(
            out,
            "  <testsuite name=\"{role}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\">"
        )?;
        self.properties(out)?;
        for case in &self.cases {
            case.write(out, &role)?;
        }
        if let Some(why) = &report.stopped {
            let why = escaped(why);
            writeln!(
                out,
                "    <testcase classname=\"{role}\" name=\"complete\" time=\"0\"><failure \
                 type=\"not_enough_data\" message=\"{why}\">{why}</failure></testcase>"
            )?;
        }
        let notes = notes(report);
        if !notes.is_empty() {
            writeln!(
                out,
                "    <system-out>{}</system-out>",
                escaped(&notes.join("\n"))
            )?;
        }
        writeln!(out, "  </testsuite>")
    }

    fn properties(&self, out: &mut String) -> std::fmt::Result {
        let report = self.report;
        let own = [
            ("verdict", report.verdict().as_str().to_owned()),
            ("dataset", report.dataset.name.clone()),
            ("dataset_sha256", report.dataset.sha256.clone()),
            ("items", report.dataset.items.to_string()),
            ("threshold", report.limits.quality.to_string()),
            ("seed", report.conditions.resampling.seed().to_string()),
        ];
        let rest = report
            .manifest
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()));
        writeln!(out, "    <properties>")?;
        for (name, value) in own.into_iter().chain(rest) {
            let (name, value) = (escaped(name), escaped(&value));
            writeln!(out, "      <property name=\"{name}\" value=\"{value}\"/>")?;
        }
        writeln!(out, "    </properties>")
    }
}

impl Case<'_> {
    fn write(&self, out: &mut String, role: &str) -> std::fmt::Result {
        let check = self.check;
        let class = match self.model {
            "" => role.to_owned(),
            model => format!("{role}.{}", escaped(model)),
        };
        let (name, words) = (escaped(&check.name.to_string()), escaped(&check.words));
        write!(
            out,
            "    <testcase classname=\"{class}\" name=\"{name}\" time=\"0\">"
        )?;
        match check.verdict {
            Verdict::Pass => write!(out, "<system-out>{words}</system-out>")?,
            Verdict::Warning => write!(out, "<system-out>warning: {words}</system-out>")?,
            Verdict::NotEnoughData | Verdict::Fail => {
                let kind = check.verdict.as_str();
                write!(
                    out,
                    "<failure type=\"{kind}\" message=\"{words}\">{words}</failure>"
                )?;
            }
        }
        writeln!(out, "</testcase>")
    }
}

/// Text for an element or an attribute, where a new line would become a space.
fn escaped(text: &str) -> String {
    xml::escaped(text, |c| match c {
        '\n' => Some("&#10;"),
        '\t' => Some("&#9;"),
        _ => None,
    })
}
