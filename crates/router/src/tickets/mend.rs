//! Which ends of a call time may mend.

use crate::error::{CallErrorKind, RungEndKind};
use evenkeel_core::{Refusal, TicketCause};

/// Whether the same request may be answered later. Not so where it is the
/// request that cannot be answered: by its form, its content or its size.
pub(super) fn may_mend(kind: &CallErrorKind) -> bool {
    match kind {
        CallErrorKind::Failed(failure) => failure.class.is_of_models(),
        CallErrorKind::Exhausted(rungs) => rungs.iter().any(|rung| match rung.end {
            RungEndKind::Failed(class) => class.is_of_models(),
            RungEndKind::Refused(refusal) => refusal_may_mend(refusal),
        }),
        CallErrorKind::UnknownRole(_)
        | CallErrorKind::DegradedInput { .. }
        | CallErrorKind::Queued { .. }
        | CallErrorKind::NotKept { .. } => false,
    }
}

fn refusal_may_mend(refusal: Refusal) -> bool {
    match refusal {
        Refusal::AtCapacity | Refusal::Benched | Refusal::Worse => true,
        Refusal::ProviderFailed(class) => class.is_of_models(),
        // What the request lacks today it lacks tomorrow; what ends by itself mends.
        _ => refusal.retry_in().is_some(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::Class;
    use std::time::Duration;

    #[test]
    fn what_ends_by_itself_mends_and_what_the_request_lacks_does_not() {
        let soon = Duration::from_secs(1);
        for refusal in [
            Refusal::BreakerOpen(soon),
            Refusal::Cooldown(soon),
            Refusal::RateLimitNear(soon),
            Refusal::Drill(soon),
            Refusal::AtCapacity,
            Refusal::ProviderFailed(Class::Unreachable),
        ] {
            assert!(refusal_may_mend(refusal), "{refusal:?}");
        }
        for refusal in [
            Refusal::EndOfLife,
            Refusal::Lacks("tools"),
            Refusal::NotPinned,
            Refusal::ProviderFailed(Class::BadRequest),
        ] {
            assert!(!refusal_may_mend(refusal), "{refusal:?}");
        }
    }
}
