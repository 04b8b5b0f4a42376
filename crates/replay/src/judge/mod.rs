//! Holds what happened against what was expected.

mod always;
mod report;

pub use self::report::{Check, Report};

use crate::event_line::event_line;
use crate::record::{Record, RequestRecord};
use crate::scenario::{
    EventExpectation, PhaseExpectation, Scenario, TrailExpectation, pattern_written,
};
use std::time::Duration;

/// Judges `record` by what `scenario` expects, and by what must hold of every run.
pub fn judge(scenario: &Scenario, record: &Record) -> Report {
    let mut report = Report::new(scenario);
    always::judge(scenario, record, &mut report);
    for (model, band) in &scenario.expect.calls {
        let counted = record.upstream.iter();
        let counted = counted.filter(|(id, _)| model == "total" || id.as_str() == model);
        let started: u64 = counted.map(|(_, stats)| stats.started).sum();
        report.band(format!("upstream calls, {model}"), *band, count(started));
    }
    for phase in &scenario.expect.phases {
        judge_phase(phase, record, &mut report);
    }
    for event in &scenario.expect.events {
        judge_event(event, record, &mut report);
    }
    for trail in &scenario.expect.trails {
        judge_trail(trail, record, &mut report);
    }
    report
}

#[expect(clippy::cast_precision_loss, reason = "no run has 2^53 of anything")]
fn count(n: u64) -> f64 {
    n as f64
}

fn share(part: usize, of: usize) -> f64 {
    if of == 0 {
        return 0.0;
    }
    count(part as u64) / count(of as u64)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn judge_phase(phase: &PhaseExpectation, record: &Record, report: &mut Report) {
    let from = phase.from.as_millis();
    let until = phase
        .until
        .map_or_else(|| "the end".to_owned(), |u| u.as_millis().to_string());
    let what = |part: &str| format!("from {from} ms to {until}, {part}");
    let within = |r: &&RequestRecord| {
        r.began >= phase.from && phase.until.is_none_or(|until| r.began < until)
    };
    let requests: Vec<&RequestRecord> = record.requests.iter().filter(within).collect();
    if requests.is_empty() {
        report.fail(
            what("requests"),
            "at least one".to_owned(),
            "none".to_owned(),
        );
        return;
    }
    for (name, band) in &phase.outcomes {
        let n = requests.iter().filter(|r| r.end.is_named(name)).count();
        report.band(
            what(&format!("share of `{name}`")),
            *band,
            share(n, requests.len()),
        );
    }
    let answered: Vec<&&RequestRecord> = requests.iter().filter(|r| r.end.is_named("ok")).collect();
    for (model, band) in &phase.answered_by {
        let by = |r: &&&&RequestRecord| {
            r.meta
                .as_ref()
                .is_some_and(|m| m.model_id.as_str() == model)
        };
        let n = answered.iter().filter(by).count();
        report.band(
            what(&format!("answered by {model}")),
            *band,
            share(n, answered.len()),
        );
    }
    let totals = answered.iter().map(|r| r.ended).collect();
    judge_quantiles(&phase.total, totals, &what("total"), report);
    let firsts = answered.iter().filter_map(|r| r.first_token).collect();
    judge_quantiles(&phase.first_token, firsts, &what("first token"), report);
    if let Some(band) = phase.longest {
        let longest = requests.iter().map(|r| r.ended).max().unwrap_or_default();
        report.band(what("longest, ms"), band, ms(longest));
    }
    if let Some(band) = phase.attempts {
        let attempts: usize = requests.iter().map(|r| r.trail.attempts().count()).sum();
        report.band(
            what("attempts per request"),
            band,
            share(attempts, requests.len()),
        );
    }
}

/// The share of samples that a quantile's name stands for.
pub(crate) fn quantile_named(name: &str) -> Option<f64> {
    Some(match name {
        "p50" => 0.50,
        "p95" => 0.95,
        "p99" => 0.99,
        "max" => 1.0,
        _ => return None,
    })
}

fn judge_quantiles(
    bands: &[(String, crate::scenario::Band)],
    mut samples: Vec<Duration>,
    what: &str,
    report: &mut Report,
) {
    samples.sort_unstable();
    for (name, band) in bands {
        let what = format!("{what} {name}, ms");
        let at = quantile_named(name).and_then(|q| nearest_rank(&samples, q));
        match at {
            Some(value) => report.band(what, *band, ms(value)),
            None => report.fail(what, band.to_string(), "no sample".to_owned()),
        }
    }
}

/// The smallest sample that at least `share` of all do not exceed.
fn nearest_rank(sorted: &[Duration], share: f64) -> Option<Duration> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length lies within it"
    )]
    let rank = (count(sorted.len() as u64) * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

fn judge_event(event: &EventExpectation, record: &Record, report: &mut Report) {
    let mut seen = Vec::new();
    for told in &record.events {
        let Some(line) = event_line(&told.kind) else {
            continue;
        };
        let rest = line.strip_prefix(event.line.as_str());
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')) {
            seen.push(told.at);
        }
    }
    report.band(
        format!("events `{}`", event.line),
        event.count,
        count(seen.len() as u64),
    );
    if let Some(band) = event.first {
        let what = format!("first `{}`, ms", event.line);
        match seen.first() {
            Some(at) => report.band(what, band, ms(*at)),
            None => report.fail(what, band.to_string(), "none came".to_owned()),
        }
    }
}

fn judge_trail(expected: &TrailExpectation, record: &Record, report: &mut Report) {
    let nth = expected.request;
    let Some(request) = record.requests.get(nth) else {
        let seen = format!("{} requests", record.requests.len());
        report.fail(format!("request {nth}"), "asked".to_owned(), seen);
        return;
    };
    let mut same = |part: &str, wanted: &Option<String>, seen: String| {
        if let Some(wanted) = wanted {
            report.check(
                format!("request {nth}, {part}"),
                wanted.clone(),
                seen.clone(),
                *wanted == seen,
            );
        }
    };
    let meta = request.meta.as_ref();
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    same("outcome", &expected.outcome, request.end.to_string());
    same(
        "answered by",
        &expected.answered_by,
        text(meta.map(|m| m.model_id.as_str())),
    );
    same(
        "route",
        &expected.route,
        text(meta.map(|m| m.route.as_str())),
    );
    same("reason", &expected.reason, text(reason(request)));
    if let Some(band) = expected.total {
        report.band(format!("request {nth}, total, ms"), band, ms(request.ended));
    }
    if let Some(band) = expected.retry_after {
        let what = format!("request {nth}, retry after, ms");
        match &request.end {
            crate::record::End::Refused {
                retry_after: Some(after),
                ..
            } => report.band(what, band, ms(*after)),
            _ => report.fail(what, band.to_string(), "none stated".to_owned()),
        }
    }
    let Some(patterns) = &expected.steps else {
        return;
    };
    let steps = &request.trail.steps;
    let fits = steps.len() == patterns.len()
        && steps
            .iter()
            .zip(patterns)
            .all(|(step, pattern)| pattern.fits(step));
    let lines = |lines: Vec<String>| format!("\n      {}", lines.join("\n      "));
    report.check(
        format!("request {nth}, trail"),
        lines(patterns.iter().map(ToString::to_string).collect()),
        lines(steps.iter().map(pattern_written).collect()),
        fits,
    );
}

/// Why another than the primary answered, or the class of the failure.
fn reason(request: &RequestRecord) -> Option<&'static str> {
    match &request.end {
        crate::record::End::Refused { class, .. } => class.map(evenkeel_core::Class::as_str),
        _ => request.meta.as_ref()?.fallback_reason,
    }
}
