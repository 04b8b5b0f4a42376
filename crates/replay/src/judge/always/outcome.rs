//! The end of a call, worked out anew from its trail alone.

use super::Case;
use crate::judge::Report;
use crate::record::End;
use evenkeel_core::{
    AttemptKind, AttemptOutcome, AttemptRecord, Class, Failure, Phase, Refusal, Trail, TrailStep,
};
use evenkeel_roster::OnContentFilter;
use std::collections::BTreeMap;

pub(super) fn judge(case: &Case<'_>, report: &mut Report) {
    let request = case.request;
    let trail = &request.trail;
    match &request.end {
        End::Answered => answered(case, report),
        End::Broke(class) => {
            if delivered_last(trail).is_none_or(|failure| failure.class != *class) {
                let seen = request.end.to_string();
                case.wrong(
                    report,
                    "end",
                    "the failure of the attempt that the stream was last of",
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
    let resumed = winner.kind == AttemptKind::Resume;
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

/// The failure of the last attempt whose tokens the caller got: one that was to go on
/// with a broken stream gave none before it went on.
fn delivered_last(trail: &Trail) -> Option<&Failure> {
    let joined = |index| {
        let mut steps = trail.steps.iter();
        steps.any(|s| matches!(s, TrailStep::Resumed { attempt, .. } if *attempt == index))
    };
    let delivered = trail.attempts().filter(|a| match a.kind {
        AttemptKind::Resume => joined(a.index),
        _ => a.first_token.is_some(),
    });
    let failed = delivered.filter_map(|a| match &a.outcome {
        AttemptOutcome::Failed(failure) => Some((a.ended, a.index, failure)),
        _ => None,
    });
    let last = failed.max_by_key(|(ended, index, _)| (*ended, *index));
    last.map(|(_, _, failure)| failure)
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
        if case.is_bad_from_the_start() {
            return Self::Failed(Class::BadRequest);
        }
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
        let pinned = case.traffic.pinned_roster.as_ref().map(Vec::len);
        let most = pinned.unwrap_or(case.rungs.len());
        let one = most == 1;
        match (ends.values().next(), last) {
            (Some(RungEnd::Failed(_)), Some(failure)) if one => Self::Failed(failure.class),
            _ if !ends.is_empty() && ends.values().all(RungEnd::is_below) => {
                Self::Failed(Class::BadRequest)
            }
            (Some(RungEnd::Refused(refusal)), _) if one => Self::Failed(refused(*refusal)),
            _ if ends.len() == most && ends.values().all(RungEnd::is_overflow) => {
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

    /// Whether it was passed over only for its price, and is still there.
    fn is_dear(&self) -> bool {
        matches!(self, Self::Refused(Refusal::OverCost { .. }))
    }

    fn is_overflow(&self) -> bool {
        matches!(
            self,
            Self::Failed(Class::ContextWindow) | Self::Refused(Refusal::ContextWindow { .. })
        )
    }
}

/// How each rung that the caller has not left out ended: by its last failure, else by
/// the first refusal.
fn ends(trail: &Trail) -> BTreeMap<usize, RungEnd> {
    let mut ends = BTreeMap::new();
    for step in &trail.steps {
        match step {
            TrailStep::Skipped {
                refusal: Refusal::Benched | Refusal::NotPinned,
                ..
            } => {}
            TrailStep::Skipped { rung, refusal, .. }
                if ends.get(rung).is_none_or(RungEnd::is_dear) =>
            {
                ends.insert(*rung, RungEnd::Refused(*refusal));
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
        Refusal::Cooldown(_) | Refusal::RateLimitNear(_) => Class::RateLimited,
        Refusal::Hold { class, .. } => class,
        Refusal::EndOfLife => Class::ModelGone,
        Refusal::ContextWindow { .. } => Class::ContextWindow,
        Refusal::Lacks(_) => Class::BadRequest,
        _ => Class::Overloaded,
    }
}
