//! The table of candidates, as text: what terminal, Markdown and HTML show alike.

use super::{GoldenReport, words};
use crate::{Judged, LatencyKind};

/// A column of the table.
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Whether numbers are below it.
    pub(super) is_number: bool,
    /// What is left out first where there is no room: the highest.
    pub(super) spare: u8,
    /// A cell for each model of the report, the primary first.
    pub(super) cells: Vec<String>,
}

/// The columns of `report`.
pub(super) fn columns(report: &GoldenReport) -> Vec<Column> {
    let column = |title, is_number, spare, cell: &dyn Fn(&Judged) -> String| Column {
        title,
        is_number,
        spare,
        cells: report.models().map(cell).collect(),
    };
    let first_token_first = report.limits.latency_kind == LatencyKind::FirstToken;
    let (of_total, of_first) = if first_token_first { (5, 2) } else { (2, 5) };
    vec![
        column("rank", true, 0, &|judged| place(report, judged)),
        column("model", false, 0, &|judged| {
            judged.measures.candidate.to_string()
        }),
        column("verdict", false, 0, &|judged| {
            judged.verdict().words().to_owned()
        }),
        column("of primary", true, 0, &|judged| {
            words::interval(judged.measures.ratio)
        }),
        column("quality", true, 1, &|judged| {
            words::interval(judged.measures.quality)
        }),
        column("valid", true, 3, &|judged| {
            let compliance = judged.measures.compliance;
            compliance.map_or(words::NONE.to_owned(), |found| words::share(found.estimate))
        }),
        column("p50", true, of_total, &|judged| {
            words::time(judged.measures.latency.total.map(|total| total.p50))
        }),
        column("p95", true, 6, &|judged| {
            words::time(judged.measures.latency.total.map(|total| total.p95))
        }),
        column("p99", true, 8, &|judged| {
            words::time(judged.measures.latency.total.map(|total| total.p99))
        }),
        column("first token", true, of_first, &|judged| {
            words::time(judged.measures.latency.first_token.map(|first| first.p50))
        }),
        column("errors", true, 4, &|judged| {
            words::share(judged.measures.error_share)
        }),
        column("refusals", true, 9, &|judged| {
            words::share(judged.measures.refusal_share)
        }),
        column("items", true, 7, &|judged| {
            judged.measures.items.to_string()
        }),
        column("cost", true, 10, &|judged| {
            words::dollars(judged.measures.cost_usd)
        }),
    ]
}

fn place(report: &GoldenReport, judged: &Judged) -> String {
    if std::ptr::eq(judged, &raw const report.verdict.primary) {
        return "primary".to_owned();
    }
    judged
        .rank
        .map_or_else(|| words::NONE.to_owned(), |rank| rank.rank.to_string())
}

/// Everything that is not a plain pass, in sentences: of the role, then of each model.
pub(super) fn remarks(role: &str, report: &GoldenReport) -> Vec<Remark> {
    let of = |whose: &str, checks: &[crate::Check]| -> Vec<Remark> {
        let told = checks
            .iter()
            .filter(|check| check.verdict != crate::Verdict::Pass);
        told.map(|check| Remark {
            whose: whose.to_owned(),
            verdict: check.verdict,
            check: check.name.to_string(),
            words: check.words.clone(),
        })
        .collect()
    };
    let mut remarks = of(role, &report.verdict.checks);
    for judged in report.models() {
        remarks.extend(of(judged.measures.candidate.as_str(), &judged.checks));
    }
    remarks
}

/// A check that somebody has to look at.
pub(super) struct Remark {
    pub(super) whose: String,
    pub(super) verdict: crate::Verdict,
    pub(super) check: String,
    pub(super) words: String,
}

/// What the whole table does not say: what was not asked, not measured, or left out.
pub(super) fn notes(report: &GoldenReport) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = &report.stopped {
        notes.push(format!("not everything was asked: {why}"));
    }
    for judged in report.models() {
        let measures = &judged.measures;
        if measures.unmeasured > 0 {
            notes.push(format!(
                "{}: nothing was learnt from {} questions (rate limits, quota)",
                measures.candidate, measures.unmeasured
            ));
        }
        if measures.unreached > 0 {
            notes.push(format!(
                "{}: {} questions could not be put to it, and their items are left out; --resume asks again",
                measures.candidate, measures.unreached
            ));
        }
        if measures.judged > 0 {
            notes.push(format!(
                "{}: both judgements agree on {} of {} answers that models judged",
                measures.candidate, measures.judges_agree, measures.judged
            ));
        }
        if measures.unscored > 0 {
            notes.push(format!(
                "{}: {} answers could not be scored: their judges or commands failed; --resume asks again",
                measures.candidate, measures.unscored
            ));
        }
        if !measures.errors.is_empty() {
            let of = |(class, count): (&evenkeel_core::Class, &usize)| {
                format!("{count} {}", class.as_str())
            };
            let errors: Vec<String> = measures.errors.iter().map(of).collect();
            notes.push(format!(
                "{}: errors: {}",
                measures.candidate,
                errors.join(", ")
            ));
        }
    }
    if report.tags_left_out > 0 {
        notes.push(format!(
            "more than 256 tags: {} are not told apart",
            report.tags_left_out
        ));
    }
    notes
}
