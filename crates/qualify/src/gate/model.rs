//! Checks of what is known of a model, without asking it.

use super::{Check, CheckName, GateLimits, Judged, ModelFacts, Unit};
use crate::CandidateMeasures;
use evenkeel_roster::EolState;

/// A window that is not known is a warning: the router learns it from refusals.
pub(super) fn context_window(
    facts: &ModelFacts,
    primary: &ModelFacts,
    limits: &GateLimits,
) -> Check {
    let (needed, whose) = match limits.context_window {
        Some(needed) => (Some(needed), "that the role needs"),
        None => (primary.context_window, "of the primary"),
    };
    let check = Check::new(CheckName::ContextWindow, Unit::Tokens);
    let Some(needed) = needed else {
        return check.warn("the primary's is not known, so there is nothing to compare with");
    };
    let check = check.with_limit(tokens(needed));
    let Some(window) = facts.context_window else {
        return check.warn(format!("not known; {needed} tokens {whose}"));
    };
    let check = check.with_value(tokens(window));
    if window >= needed {
        check.pass(format!("{window} tokens, at least the {needed} {whose}"))
    } else {
        check.fail(format!("{window} tokens, less than the {needed} {whose}"))
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "windows are far below 2^53 tokens"
)]
fn tokens(count: u64) -> f64 {
    count as f64
}

/// One at the primary's provider is not first; whether somebody else is, is for
/// the role to say.
pub(super) fn provider(
    measures: &CandidateMeasures,
    primary: &Judged,
    limits: &GateLimits,
) -> Check {
    let check = Check::new(CheckName::Provider, Unit::None);
    let (own, other) = (&measures.candidate, &primary.measures.candidate);
    if own.provider() != other.provider() {
        check.pass(format!("`{}`, not `{}`", own.provider(), other.provider()))
    } else if limits.allow_same_provider {
        check.pass(format!(
            "`{}` as the primary, which the role allows",
            own.provider()
        ))
    } else {
        check.warn(format!(
            "`{}` as the primary: it is not the first fallback",
            own.provider()
        ))
    }
}

/// A day that has passed fails; one that is near, or a "not before" date that has
/// passed, warns.
pub(super) fn end_of_life(facts: &ModelFacts) -> Check {
    let check = Check::new(CheckName::EndOfLife, Unit::Days);
    if !facts.is_registered {
        return check.warn("not in the model registry: its end of life is not known");
    }
    let last_day = facts
        .eol_date
        .map(|day| day.to_string())
        .unwrap_or_default();
    match facts.eol {
        EolState::Current if facts.eol_date.is_none() => check.pass("none is known".to_owned()),
        EolState::Current => check.pass(format!("not near: {last_day}")),
        EolState::Ending { days } => check
            .with_value(f64::from(days))
            .warn(format!("it ends its life on {last_day}, in {days} days")),
        EolState::Overdue => check.warn(format!("it may go any day: promised until {last_day}")),
        EolState::Past => check.fail(format!("its last day was {last_day}")),
    }
}
