//! JUnit XML: a suite a role, a case for each model and check, so that a CI system
//! shows a gate as it shows tests.

use super::columns::{Remark, notes};
use super::{Report, shadows, xml};
use crate::{Check, ShadowComparison, ShadowReport, Takeover, Verdict};
use std::fmt::Write as _;

/// The reports as JUnit XML. "Not enough data" is a failure of that type; a warning is
/// a pass that says why in its output.
pub fn junit(reports: &[Report]) -> String {
    let suites: Vec<Suite<'_>> = reports.iter().map(Suite::of).collect();
    let tests: usize = suites.iter().map(|suite| suite.cases.len()).sum();
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
    name: String,
    verdict: Verdict,
    words: String,
}

impl<'r> Suite<'r> {
    fn of(report: &'r Report) -> Self {
        let mut cases = Vec::new();
        if let Some(drill) = &report.drill {
            cases.push(Case::drill(report, drill));
        }
        if let Some(golden) = &report.golden {
            let of = |model: &'r str, checks: &'r [Check]| {
                checks.iter().map(move |check| Case::check(model, check))
            };
            cases.extend(of("", &golden.verdict.checks));
            for judged in golden.models() {
                cases.extend(of(judged.measures.candidate.as_str(), &judged.checks));
            }
            cases.extend(golden.stopped.as_deref().map(Case::stopped));
        }
        if let Some(found) = &report.shadows {
            let decides = report.golden.is_none();
            let judged = found.comparisons.iter().zip(shadows::remarks(found));
            cases.extend(judged.map(|(pairs, told)| Case::pairs(pairs, told, decides)));
            if found.comparisons.is_empty() {
                cases.push(Case::no_pair(found, decides));
            }
        }
        Self { report, cases }
    }

    /// Those of its cases that fail.
    fn failures(&self) -> usize {
        let failing = |case: &&Case<'_>| !case.verdict.is_pass();
        self.cases.iter().filter(failing).count()
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let report = self.report;
        let (tests, failures) = (self.cases.len(), self.failures());
        let role = escaped(&report.role);
        writeln!(
            out,
            "  <testsuite name=\"{role}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\">"
        )?;
        self.properties(out)?;
        for case in &self.cases {
            case.write(out, &role)?;
        }
        let golden = report.golden.iter().flat_map(notes);
        let pairs = report.shadows.iter().flat_map(shadows::notes);
        let notes: Vec<String> = golden.chain(pairs).collect();
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
        let mut own = vec![("verdict", report.verdict().as_str().to_owned())];
        if let Some(golden) = &report.golden {
            own.extend([
                ("dataset", golden.dataset.name.clone()),
                ("dataset_sha256", golden.dataset.sha256.clone()),
                ("items", golden.dataset.items.to_string()),
                ("threshold", golden.limits.quality.to_string()),
                ("seed", golden.conditions.resampling.seed().to_string()),
            ]);
        }
        let rest = report.golden.iter().flat_map(|golden| &golden.manifest);
        let rest = rest.map(|(name, value)| (name.as_str(), value.clone()));
        writeln!(out, "    <properties>")?;
        for (name, value) in own.into_iter().chain(rest) {
            let (name, value) = (escaped(name), escaped(&value));
            writeln!(out, "      <property name=\"{name}\" value=\"{value}\"/>")?;
        }
        writeln!(out, "    </properties>")
    }
}

impl<'r> Case<'r> {
    fn check(model: &'r str, check: &Check) -> Self {
        Self {
            model,
            name: check.name.to_string(),
            verdict: check.verdict,
            words: check.words.clone(),
        }
    }

    fn stopped(why: &str) -> Self {
        Self {
            model: "",
            name: "complete".to_owned(),
            verdict: Verdict::NotEnoughData,
            words: why.to_owned(),
        }
    }

    fn drill(report: &Report, drill: &'r Takeover) -> Self {
        Self {
            model: drill.gone.as_str(),
            name: "takeover".to_owned(),
            verdict: report.verdict(),
            words: report.headline(),
        }
    }

    fn pairs(pairs: &'r ShadowComparison, told: Remark, decides: bool) -> Self {
        Self {
            model: &pairs.candidate,
            name: format!("shadow[{}]", pairs.live),
            verdict: deciding(told.verdict, decides),
            words: told.words,
        }
    }

    fn no_pair(found: &ShadowReport, decides: bool) -> Self {
        Self {
            model: "",
            name: "shadow".to_owned(),
            verdict: deciding(found.verdict(), decides),
            words: shadows::headline(found),
        }
    }

    fn write(&self, out: &mut String, role: &str) -> std::fmt::Result {
        let class = match self.model {
            "" => role.to_owned(),
            model => format!("{role}.{}", escaped(model)),
        };
        let (name, words) = (escaped(&self.name), escaped(&self.words));
        write!(
            out,
            "    <testcase classname=\"{class}\" name=\"{name}\" time=\"0\">"
        )?;
        match self.verdict {
            Verdict::Pass => write!(out, "<system-out>{words}</system-out>")?,
            Verdict::Warning => write!(out, "<system-out>warning: {words}</system-out>")?,
            Verdict::NotEnoughData | Verdict::Fail => {
                let kind = self.verdict.as_str();
                write!(
                    out,
                    "<failure type=\"{kind}\" message=\"{words}\">{words}</failure>"
                )?;
            }
        }
        writeln!(out, "</testcase>")
    }
}

/// What decides fails; what stands beside a golden dataset is a warning at most.
fn deciding(verdict: Verdict, decides: bool) -> Verdict {
    if decides || verdict.is_pass() {
        verdict
    } else {
        Verdict::Warning
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
