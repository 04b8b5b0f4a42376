//! The end of a call, worked out anew from its trail alone.

use super::Case;
use crate::judge::Report;
use crate::record::End;
use evenkeel_core::{
    AttemptOutcome, AttemptRecord, Class, Failure, Phase, Refusal, Trail, TrailStep,
};
use evenkeel_roster::OnContentFilter;
use std::collections::BTreeMap;

pub(super) fn judge(case: &Case<'_>, report: &mut Report) {
    let request = case.request;
    let trail = &request.trail;
    match &request.end {
        End::Answered => answered(case, report),
        End::Broke(class) => {
            let broke = last_failure(trail).is_some_and(|(attempt, failure)| {
                failure.class == *class && attempt.first_token.is_some()
            });
            if !broke {
                let seen = request.end.to_string();
                case.wrong(
                    report,
                    "end",
                    "the failure of an attempt that had begun to answer",
                    seen,
                );
            }
        }
        End::Left => {
            let by_itself = |a: &AttemptRecord| matches!(a.outcome, AttemptOutcome::Won);
            if trail.attempts().any(by_itself) {
                case.wrong(
                    report,
                    "end",
                    "no winner of a call that was left",
                    "one".to_owned(),
                );
            }
        }
        End::Refused { kind, class, .. } if matches!(*kind, "failed" | "exhausted") => {
            let told = match kind {
                &"failed" => Derived::Failed(class.unwrap_or(Class::Cancelled)),
                _ => Derived::Exhausted,
            };
            let derived = Derived::of(case);
            if derived != told {
                case.wrong(report, "end", &format!("{derived:?}"), format!("{told:?}"));
            }
        }
        End::Refused { .. } => {}
    }
}

/// Meta says what the trail does.
fn answered(case: &Case<'_>, report: &mut Report) {
    let trail = &case.request.trail;
    let won = |a: &&AttemptRecord| matches!(a.outcome, AttemptOutcome::Won);
    let (Some(winner), Some(meta)) = (trail.attempts().find(won), &case.request.meta) else {
        return; // said of its ends
    };
    // A stream's meta is of its commit, and what went on from a joint came after it.
    let committed = trail
        .attempts()
        .filter(|a| a.started <= meta.latency_added)
        .count();
    let resumed = case.traffic.stream && winner.model != meta.model_id;
    let sound = resumed
        || (winner.rung == meta.rung
            && winner.model == meta.model_id
            && winner.started == meta.latency_added
            && meta.attempts >= committed
            && meta.attempts <= trail.attempts().count()
            && meta.degraded == (meta.rung > 0)
            && meta.fallback_reason.is_some() == (meta.rung > 0));
    if !sound {
        case.wrong(
            report,
            "meta",
            "what the trail says of its winner",
            format!("{meta:?}"),
        );
    }
}

/// The last attempt that failed, and how.
fn last_failure(trail: &Trail) -> Option<(&AttemptRecord, &Failure)> {
    let failed = trail.attempts().filter_map(|a| match &a.outcome {
        AttemptOutcome::Failed(failure) => Some((a, failure)),
        _ => None,
    });
    failed.max_by_key(|(a, _)| (a.ended, a.index))
}

/// How a call without an answer must have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Derived {
    /// With one failure that decided.
    Failed(Class),
    /// With nobody left.
    Exhausted,
}

/// The end of one rung for a call.
#[derive(Debug, Clone, Copy)]
enum RungEnd {
    Failed(Class),
    Refused(Refusal),
}

impl Derived {
    /// The deadline, a failure that no other rung can mend, the end of a lone rung, or
    /// the ends of all.
    fn of(case: &Case<'_>) -> Self {
        let trail = &case.request.trail;
        if case.request.ended >= case.deadline {
            return Self::Failed(Class::Timeout);
        }
        let last = last_failure(trail).map(|(_, failure)| failure);
        if let Some(failure) = last
            && !another_may_help(case, failure)
        {
            return Self::Failed(failure.class);
        }
        let ends = ends(trail);
        let one = case.role.rungs.len() == 1;
        match (ends.values().next(), last) {
            (Some(RungEnd::Failed(_)), Some(failure)) if one => Self::Failed(failure.class),
            _ if !ends.is_empty() && ends.values().all(RungEnd::is_below) => {
                Self::Failed(Class::BadRequest)
            }
            (Some(RungEnd::Refused(refusal)), _) if one => Self::Failed(refused(*refusal)),
            _ if ends.len() == case.role.rungs.len() && ends.values().all(RungEnd::is_overflow) => {
                Self::Failed(Class::ContextWindow)
            }
            _ => Self::Exhausted,
        }
    }
}

impl RungEnd {
    fn is_below(&self) -> bool {
        matches!(self, Self::Refused(Refusal::BelowCapability { .. }))
    }

    fn is_overflow(&self) -> bool {
        matches!(
            self,
            Self::Failed(Class::ContextWindow) | Self::Refused(Refusal::ContextWindow { .. })
        )
    }
}

/// How each rung ended: by its last failure, else by the first refusal.
fn ends(trail: &Trail) -> BTreeMap<usize, RungEnd> {
    let mut ends = BTreeMap::new();
    for step in &trail.steps {
        match step {
            TrailStep::Skipped { rung, refusal, .. } if !matches!(refusal, Refusal::Benched) => {
                ends.entry(*rung).or_insert(RungEnd::Refused(*refusal));
            }
            TrailStep::Attempt(attempt) => {
                if let AttemptOutcome::Failed(failure) = &attempt.outcome {
                    ends.insert(attempt.rung, RungEnd::Failed(failure.class));
                }
            }
            _ => {}
        }
    }
    ends
}

/// Whether any further attempt may mend a failure.
fn another_may_help(case: &Case<'_>, failure: &Failure) -> bool {
    let accepted = matches!(
        failure.class,
        Class::Transient | Class::Malformed | Class::Semantic
    ) || (failure.class == Class::Timeout && failure.phase != Some(Phase::Connect));
    if case.traffic.store && accepted {
        return false;
    }
    match failure.class {
        Class::BadRequest => failure.capability_gap || failure.own_words,
        Class::ContentFilter => case.role.policy.on_content_filter == OnContentFilter::Next,
        Class::Cancelled => false,
        _ => true,
    }
}

/// The class that a lone rung's refusal is told as.
fn refused(refusal: Refusal) -> Class {
    match refusal {
        Refusal::Cooldown(_) => Class::RateLimited,
        Refusal::Hold { class, .. } => class,
        Refusal::EndOfLife => Class::ModelGone,
        Refusal::ContextWindow { .. } => Class::ContextWindow,
        Refusal::Lacks(_) => Class::BadRequest,
        _ => Class::Overloaded,
    }
}
