//! What must hold of every run, whatever its scenario expects.

use super::Report;
use crate::record::{End, Record, RequestRecord};
use crate::scenario::Scenario;
use evenkeel_chaos::check_answer;
use evenkeel_core::{AttemptOutcome, EventKind};
use std::time::Duration;

/// How much later than its deadline a call may end: the grain of timers.
const GRACE: Duration = Duration::from_millis(50);

pub(super) fn judge(scenario: &Scenario, record: &Record, report: &mut Report) {
    one_outcome(record, report);
    in_time(scenario, record, report);
    nothing_left(record, report);
    own_and_whole(scenario, record, report);
    alternating(scenario, record, report);
}

/// Every request has one end, and its trail says how it came to it.
fn one_outcome(record: &Record, report: &mut Report) {
    for request in &record.requests {
        let winners = request
            .trail
            .attempts()
            .filter(|a| matches!(a.outcome, AttemptOutcome::Won))
            .count();
        let running = request
            .trail
            .attempts()
            .any(|a| matches!(a.outcome, AttemptOutcome::Running));
        let wanted = usize::from(request.end == End::Answered);
        let sound = request.ends_told == 1 && winners == wanted && !running;
        if !sound {
            report.fail(
                format!("request {}, ends", request.nth),
                format!("one end told, {wanted} winners, nothing running"),
                format!(
                    "{} ends told, {winners} winners, running: {running}, outcome {}",
                    request.ends_told, request.end
                ),
            );
        }
    }
}

/// No call outlasts its deadline. A caller that reads slowly makes its own time.
fn in_time(scenario: &Scenario, record: &Record, report: &mut Report) {
    let deadlines = scenario.config.roles.values();
    let longest = deadlines.map(|role| role.policy.clocks.deadline).max();
    let unhurried = scenario.traffic.iter().any(|t| !t.read_pause.is_zero());
    let (Some(longest), false) = (longest, unhurried) else {
        return;
    };
    for request in record.requests.iter().filter(|r| r.ended > longest + GRACE) {
        report.fail(
            format!("request {}, total", request.nth),
            format!("at most {} ms", longest.as_millis()),
            format!("{} ms", request.ended.as_millis()),
        );
    }
}

/// Once all is over no call is open anywhere, and what began has ended.
fn nothing_left(record: &Record, report: &mut Report) {
    for (model, stats) in &record.upstream {
        if stats.in_flight > 0 {
            let seen = stats.in_flight.to_string();
            report.fail(format!("open calls at {model}"), "0".to_owned(), seen);
        }
    }
    let count = |is: fn(&EventKind) -> bool| record.events.iter().filter(|t| is(&t.kind)).count();
    let began = count(|k| matches!(k, EventKind::AttemptStarted { .. }));
    let ended = count(|k| matches!(k, EventKind::AttemptEnded { .. }));
    report.check(
        "attempts that ended".to_owned(),
        began.to_string(),
        ended.to_string(),
        began == ended,
    );
}

/// A numbered answer is the caller's own, whole, once and in order.
fn own_and_whole(scenario: &Scenario, record: &Record, report: &mut Report) {
    let numbered = |r: &&RequestRecord| r.end == End::Answered && r.text.starts_with("[[");
    for request in record.requests.iter().filter(numbered) {
        let Some(meta) = &request.meta else {
            continue;
        };
        let plan = scenario.upstream.iter().find(|p| p.model == meta.model_id);
        let tokens = plan.map_or(0, |plan| plan.usual.tokens);
        if let Err(wrong) = check_answer(&request.text, request.nth as u64, tokens) {
            report.fail(
                format!("request {}, text", request.nth),
                "the caller's own, whole and in order".to_owned(),
                wrong.to_string(),
            );
        }
    }
}

/// The moves of a role are one chain: each begins where the one before it ended,
/// and a rung is not left twice without having been taken in between.
fn alternating(scenario: &Scenario, record: &Record, report: &mut Report) {
    for name in scenario.config.roles.keys() {
        let mut active = 0;
        for told in &record.events {
            let (from, to) = match &told.kind {
                EventKind::ModelSubstitution { role, from, to, .. } if **role == **name => {
                    (*from, *to)
                }
                EventKind::ModelRestoration { role, from, to, .. } if **role == **name => {
                    (*from, *to)
                }
                _ => continue,
            };
            if from != active || to == from {
                report.fail(
                    format!("moves of {name}"),
                    format!("the next leaves rung {active}"),
                    format!("{from} -> {to} at {} ms", told.at.as_millis()),
                );
            }
            active = to;
        }
    }
}
