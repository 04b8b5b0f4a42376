//! Which ends of a call time may mend.

use crate::error::{CallErrorKind, RungEndKind};
use evenkeel_core::{Class, Refusal, TicketCause};

/// Whether the same request may be answered later. Not so where it is the
/// request that cannot be answered: by its form, its content or its size.
pub(super) fn may_mend(kind: &CallErrorKind) -> bool {
    match kind {
        CallErrorKind::Failed(failure) => class_may_mend(failure.class),
        CallErrorKind::Exhausted(rungs) => rungs.iter().any(|rung| match rung.end {
            RungEndKind::Failed(class) => class_may_mend(class),
            RungEndKind::Refused(refusal) => refusal_may_mend(refusal),
        }),
        CallErrorKind::UnknownRole(_)
        | CallErrorKind::DegradedInput { .. }
        | CallErrorKind::Queued { .. }
        | CallErrorKind::NotKept { .. } => false,
    }
}

const fn class_may_mend(class: Class) -> bool {
    match class {
        Class::Transient
        | Class::RateLimited
        | Class::Overloaded
        | Class::QuotaExhausted
        | Class::Unreachable
        | Class::Timeout
        | Class::Auth
        | Class::ModelGone
        | Class::Malformed
        | Class::Semantic => true,
        Class::ContextWindow | Class::ContentFilter | Class::BadRequest | Class::Cancelled => false,
    }
}

const fn refusal_may_mend(refusal: Refusal) -> bool {
    match refusal {
        Refusal::BreakerOpen(_)
        | Refusal::BreakerTrial(_)
        | Refusal::SemanticBreakerOpen(_)
        | Refusal::Cooldown(_)
        | Refusal::Hold { .. }
        | Refusal::AtCapacity
        | Refusal::Benched
        | Refusal::Worse => true,
        Refusal::ProviderFailed(class) => class_may_mend(class),
        // What the request lacks today it lacks tomorrow.
        _ => false,
    }
}

/// Why the call got no answer, as its ticket keeps it.
pub(super) fn cause(kind: &CallErrorKind) -> TicketCause {
    let (word, message) = match kind {
        CallErrorKind::Failed(failure) => (failure.class.as_str(), failure.message.clone()),
        other => ("roster_exhausted", other.to_string()),
    };
    TicketCause { word, message }
}
