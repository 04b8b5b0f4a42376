//! What pairs of shadowed calls come to, as text: what all forms show alike.

use super::columns::{Column, Remark};
use super::json::{interval, quantiles};
use super::words;
use crate::{LatencyMeasures, ShadowComparison, ShadowReport, ShadowVerdict, Verdict};
use serde_json::{Map, Value, json};

/// Faulty lines that are told in a text; programs read all of them.
const MOST_LINES: usize = 20;

/// One sentence that says what was found.
pub(super) fn headline(report: &ShadowReport) -> String {
    let of = report.comparisons.len();
    let verdicts = report.comparisons.iter().map(|found| found.verdict);
    let good = verdicts.filter(|verdict| verdict.may_cut_over()).count();
    match of {
        0 => "no shadow pair of the role was found".to_owned(),
        _ => format!("{good} of {of} shadowed candidates may be cut over to"),
    }
}

/// How pairs were compared, in a sentence.
pub(super) fn circumstances(report: &ShadowReport) -> String {
    let pairs: usize = report.comparisons.iter().map(|found| found.pairs).sum();
    format!(
        "{pairs} shadow pairs, the candidate less the model that answered; as good within {}, intervals at {:.0}%",
        report.margin,
        report.confidence * 100.0
    )
}

pub(super) fn verdicts(report: &ShadowReport) -> Vec<Verdict> {
    let found = report.comparisons.iter();
    found.map(|found| found.verdict.gate()).collect()
}

pub(super) fn columns(report: &ShadowReport) -> Vec<Column> {
    type Cell<'c> = &'c dyn Fn(&ShadowComparison) -> String;
    let column = |title, is_number, spare, cell: Cell<'_>| Column {
        title,
        is_number,
        spare,
        cells: report.comparisons.iter().map(cell).collect(),
    };
    vec![
        column("model", false, 0, &|found| found.candidate.clone()),
        column("beside", false, 1, &|found| found.live.clone()),
        column("verdict", false, 0, &|found| {
            found.verdict.words().to_owned()
        }),
        column("pairs", true, 2, &|found| found.pairs.to_string()),
        column("quality", true, 0, &|found| {
            words::difference(found.quality)
        }),
        column("valid", true, 4, &|found| {
            words::difference(found.compliance)
        }),
        column("answered", true, 5, &|found| {
            words::difference(found.answered)
        }),
        column("agreement", true, 3, &|found| {
            words::interval(found.agreement)
        }),
        column("p50", true, 6, &|found| median(&found.candidate_latency)),
        column("its p50", true, 7, &|found| median(&found.live_latency)),
        column("cost", true, 8, &|found| {
            words::dollars(found.candidate_usd)
        }),
        column("its cost", true, 9, &|found| words::dollars(found.live_usd)),
    ]
}

fn median(latency: &LatencyMeasures) -> String {
    words::time(latency.total.map(|total| total.p50))
}

/// What to do about each candidate.
pub(super) fn remarks(report: &ShadowReport) -> Vec<Remark> {
    let conclusion = |found: &ShadowComparison| {
        let (live, pairs) = (&found.live, found.pairs);
        match found.verdict {
            ShadowVerdict::Better => format!("better than `{live}` over {pairs} pairs: cut over"),
            ShadowVerdict::Equivalent => format!(
                "as good as `{live}` within {} over {pairs} pairs: cut over if you like",
                report.margin
            ),
            ShadowVerdict::Worse => {
                format!("worse than `{live}` over {pairs} pairs: do not cut over")
            }
            ShadowVerdict::NotEnoughData => format!(
                "{pairs} pairs do not tell whether it is as good as `{live}`: do not cut over yet"
            ),
        }
    };
    let remark = |found: &ShadowComparison| Remark {
        whose: found.candidate.clone(),
        verdict: found.verdict.gate(),
        check: "shadow".to_owned(),
        words: conclusion(found),
    };
    report.comparisons.iter().map(remark).collect()
}

/// What the table does not say: what was passed over, and what could not be read.
pub(super) fn notes(report: &ShadowReport) -> Vec<String> {
    let mut notes = Vec::new();
    for found in &report.comparisons {
        let candidate = &found.candidate;
        if found.unmeasured > 0 {
            notes.push(format!(
                "{candidate}: nothing was learnt from {} more pairs (rate limits, quota, cancelled copies)",
                found.unmeasured
            ));
        }
        if let Some(why) = &found.first_unscored {
            notes.push(format!(
                "{candidate}: {} pairs could not be scored, the first: {why}",
                found.unscored
            ));
        }
        if found.agreement.is_none() {
            notes.push(format!(
                "{candidate}: no texts were kept (shadow.capture), so it can be told to be worse and never to be good enough"
            ));
        }
    }
    for file in &report.faults {
        let all = file.to_string();
        let mut lines = all.lines();
        notes.extend(lines.by_ref().take(MOST_LINES).map(str::to_owned));
        let more = lines.count();
        if more > 0 {
            notes.push(format!("and {more} more lines that are no pairs"));
        }
    }
    notes
}

/// The same for programs.
pub(super) fn json(report: &ShadowReport) -> Value {
    let faults = report.faults.iter().map(|file| {
        let lines = file.faults().iter();
        json!({
            "file": file.path().display().to_string(),
            "lines": lines.map(|fault| json!({ "line": fault.line, "what": fault.what })).collect::<Vec<_>>(),
            "more": file.more(),
        })
    });
    json!({
        "verdict": report.verdict().as_str(),
        "may_cut_over": report.verdict().is_pass(),
        "margin": report.margin,
        "confidence": report.confidence,
        "comparisons": report.comparisons.iter().map(comparison).collect::<Vec<_>>(),
        "faults": faults.collect::<Vec<_>>(),
    })
}

fn comparison(found: &ShadowComparison) -> Value {
    let counts: Map<String, Value> = ShadowVerdict::ALL
        .into_iter()
        .map(|verdict| (verdict.as_str().to_owned(), found.counts.of(verdict).into()))
        .collect();
    json!({
        "candidate": found.candidate,
        "live": found.live,
        "verdict": found.verdict.as_str(),
        "may_cut_over": found.verdict.may_cut_over(),
        "pairs": found.pairs,
        "unmeasured": found.unmeasured,
        "unscored": found.unscored,
        "first_unscored": found.first_unscored,
        "answered": found.answered.map(interval),
        "quality": found.quality.map(interval),
        "schema_compliance": found.compliance.map(interval),
        "agreement": found.agreement.map(interval),
        "candidate_latency_ms": latency(&found.candidate_latency),
        "live_latency_ms": latency(&found.live_latency),
        "candidate_usd": found.candidate_usd,
        "live_usd": found.live_usd,
        "verdicts_after_pairs": counts,
    })
}

fn latency(found: &LatencyMeasures) -> Value {
    json!({
        "total": found.total.map(quantiles),
        "first_token": found.first_token.map(quantiles),
    })
}
