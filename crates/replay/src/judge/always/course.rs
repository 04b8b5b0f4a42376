//! Rules of a call's course: who may be asked, how often, and after what.

use super::Case;
use crate::judge::Report;
use evenkeel_core::{
    AttemptKind, AttemptOutcome, AttemptRecord, Class, Failure, Phase, Scope, TrailStep,
};
use evenkeel_roster::RetryPolicy;
use jiff::civil::Date;
use std::time::Duration;

/// A trail's attempt and its place among the steps.
type Placed<'a> = (usize, &'a AttemptRecord);

pub(super) fn judge(case: &Case<'_>, report: &mut Report) {
    let steps = &case.request.trail.steps;
    let attempts: Vec<Placed<'_>> = steps
        .iter()
        .enumerate()
        .filter_map(|(place, step)| match step {
            TrailStep::Attempt(record) => Some((place, record)),
            _ => None,
        })
        .collect();
    for (nth, (place, attempt)) in attempts.iter().enumerate() {
        let before = &attempts[..nth];
        allowed(case, attempt, report);
        counted(case, attempt, before, report);
        caused(case, attempt, before, *place, report);
    }
}

/// No rung past its last day, below the least capability, or without what the request needs.
fn allowed(case: &Case<'_>, attempt: &AttemptRecord, report: &mut Report) {
    let Some(rung) = case.rungs.get(attempt.rung) else {
        case.wrong(
            report,
            "rung",
            "one of the roster",
            attempt.rung.to_string(),
        );
        return;
    };
    let model = case.scenario.config.models.get(&rung.model);
    let past = model.is_some_and(|m| m.is_past_eol(today(case, attempt.started)));
    if past {
        let seen = format!("{} after its last day", rung.model);
        case.wrong(report, "models asked", "none past its end of life", seen);
    }
    if rung.capability_score < case.least_capability() {
        let seen = format!("{} of {}", rung.model, rung.capability_score);
        case.wrong(
            report,
            "models asked",
            "none below the least capability",
            seen,
        );
    }
    let lacks = |has: Option<bool>, needed: bool| needed && has == Some(false);
    let incapable = model.is_some_and(|m| {
        lacks(m.tools, case.traffic.tools) || lacks(m.images, case.traffic.images)
    });
    if incapable {
        let seen = rung.model.to_string();
        case.wrong(
            report,
            "models asked",
            "none that lacks what is needed",
            seen,
        );
    }
    let pinned = case.traffic.pinned_roster.as_ref();
    if pinned.is_some_and(|pinned| !pinned.contains(&rung.model)) {
        let seen = rung.model.to_string();
        case.wrong(report, "models asked", "none but those pinned", seen);
    }
    if attempt.started >= case.deadline {
        let seen = format!("one at {} ms", attempt.started.as_millis());
        case.wrong(report, "attempts", "none after the deadline", seen);
    }
}

/// The calendar day of a moment of the call.
fn today(case: &Case<'_>, since: Duration) -> Date {
    let passed = (case.request.began + since).as_secs() / 86_400;
    let days = jiff::Span::new().days(i64::try_from(passed).unwrap_or(0));
    case.scenario.today.saturating_add(days)
}

/// Each rung is asked once, and again only as often as the class of its failure allows.
fn counted(case: &Case<'_>, attempt: &AttemptRecord, before: &[Placed<'_>], report: &mut Report) {
    let of_rung = || before.iter().filter(|(_, a)| a.rung == attempt.rung);
    if attempt.kind != AttemptKind::Retry {
        // A stream that stalled may be gone on with where it stalled, once.
        let stalled = |(_, a): &Placed<'_>| {
            a.kind != AttemptKind::Resume
                && failed(a).is_some_and(|f| f.phase == Some(Phase::Stall))
        };
        let in_place = attempt.kind == AttemptKind::Resume && of_rung().all(stalled);
        if of_rung().next().is_some() && !in_place {
            let seen = format!("rung {} twice", attempt.rung);
            case.wrong(
                report,
                "attempts",
                "each rung once beside its retries",
                seen,
            );
        }
        return;
    }
    let Some(failure) = of_rung().next_back().and_then(|(_, a)| failed(a)) else {
        let seen = format!("of rung {}, which has not failed", attempt.rung);
        case.wrong(report, "retries", "of what failed", seen);
        return;
    };
    let most = retries_after(&case.role.policy.retry, failure);
    // Asking again with more left out, or in other words, is a count of its own.
    let own_count = |class| matches!(class, Class::ContextWindow | Class::BadRequest);
    let mut made = 1;
    for pair in of_rung().collect::<Vec<_>>().windows(2) {
        let class = failed(pair[0].1).map(|f| f.class);
        made += u32::from(class.is_some_and(|class| own_count(class) == own_count(failure.class)));
    }
    if made > most {
        let expected = format!("at most {most} after {}", failure.class);
        case.wrong(report, "retries", &expected, made.to_string());
    }
}

fn failed(attempt: &AttemptRecord) -> Option<&Failure> {
    match &attempt.outcome {
        AttemptOutcome::Failed(failure) => Some(failure),
        _ => None,
    }
}

/// How often a rung may be asked again after a failure.
fn retries_after(policy: &RetryPolicy, failure: &Failure) -> u32 {
    match failure.class {
        Class::Transient => policy.transient,
        Class::RateLimited => policy.rate_limited,
        Class::Overloaded => policy.overloaded,
        Class::Malformed => policy.malformed,
        Class::Semantic => policy.semantic,
        // Cut further; in the words of the core of the format.
        Class::ContextWindow => 1,
        Class::BadRequest => u32::from(failure.own_words),
        Class::QuotaExhausted
        | Class::Unreachable
        | Class::Timeout
        | Class::ContentFilter
        | Class::Auth
        | Class::ModelGone
        | Class::Cancelled => 0,
    }
}

/// Each attempt follows from what came before it, and none goes to a provider whose
/// failure is that of all its models.
fn caused(
    case: &Case<'_>,
    attempt: &AttemptRecord,
    before: &[Placed<'_>],
    place: usize,
    report: &mut Report,
) {
    let attempts = || before.iter().map(|(_, a)| *a);
    let ended = |a: &AttemptRecord| a.ended.is_some_and(|at| at <= attempt.started);
    let fell = || attempts().any(|a| failed(a).is_some() && ended(a));
    let runs = || attempts().any(|a| a.ended.is_none_or(|at| at >= attempt.started));
    let steps = &case.request.trail.steps[..place];
    let skipped = || steps.iter().any(|s| matches!(s, TrailStep::Skipped { .. }));
    let sound = match attempt.kind {
        AttemptKind::First => before.is_empty(),
        AttemptKind::Retry => true,
        AttemptKind::Failover => fell() || skipped(),
        AttemptKind::Hedge => runs(),
        AttemptKind::LastResort => runs() || fell() || skipped(),
        _ => fell() || runs(),
    };
    if !sound {
        let seen = format!("{} of rung {}", attempt.kind.as_str(), attempt.rung);
        case.wrong(report, "attempts", "each has its cause", seen);
    }
    let provider = attempt.model.provider();
    let shared = attempts().find(|a| {
        let wide = failed(a).is_some_and(|f| f.scope == Scope::Provider);
        wide && a.model.provider() == provider && ended(a)
    });
    if let Some(shared) = shared {
        let seen = format!(
            "{} after {} at {}",
            attempt.model, shared.outcome, shared.model
        );
        case.wrong(
            report,
            "providers",
            "none asked on after a failure of all it has",
            seen,
        );
    }
}
