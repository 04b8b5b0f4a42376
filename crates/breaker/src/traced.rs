//! Changes of state as tracing events.

use std::{borrow::Cow, time::Duration};

use tracing::{info, warn};

use crate::{breaker::Breaker, event::Transition, state::State};

impl Breaker {
    /// Adds a listener that emits one [tracing] event for each change of state (feature `tracing`).
    ///
    /// At `WARN` if calls are refused from then on, else at `INFO`, with target `evenkeel_breaker` and the fields
    /// `breaker` (`name`), `from`, `to`, `cause` (in `snake_case`), `generation`, and for an opening
    /// `retry_in_ms` (whole milliseconds, rounded down). The message says it in words.
    #[must_use]
    pub fn with_tracing(self, name: impl Into<Cow<'static, str>>) -> Self {
        let name = name.into();
        self.with_listener(move |transition| emit(&name, transition))
    }
}

fn emit(name: &str, transition: &Transition) {
    let (from, to) = (transition.from.as_str(), transition.to.as_str());
    let (cause, generation) = (transition.cause.as_str(), transition.generation);
    let retry_in_ms = transition.retry_in.map(whole_ms);
    match transition.to {
        State::Open | State::ForcedOpen => {
            warn!(target: "evenkeel_breaker", breaker = name, from, to, cause, generation, retry_in_ms, "breaker {transition}");
        }
        State::Closed | State::HalfOpen | State::Disabled => {
            info!(target: "evenkeel_breaker", breaker = name, from, to, cause, generation, "breaker {transition}");
        }
    }
}

/// An open time is a year and some jitter at most.
fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
