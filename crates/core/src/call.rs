//! What accompanies one call.

use crate::{Baggage, Complexity, DegradationContext, ModelId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The four clocks of a call. Patience (when a hedge starts) is none of them:
/// it never ends an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// `connect_ms`: until the connection stands.
    pub connect: Duration,
    /// `first_token_ms`: until the first content token of an upstream stream.
    pub first_token: Duration,
    /// `stall_ms`: between two content events of an upstream stream.
    pub stall: Duration,
    /// `deadline_ms`: the whole call, all attempts.
    pub deadline: Duration,
}

/// What a caller asks of the clocks. It may only shorten them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockOverrides {
    /// Shorter `connect_ms`.
    pub connect: Option<Duration>,
    /// Shorter `first_token_ms`.
    pub first_token: Option<Duration>,
    /// Shorter `stall_ms`.
    pub stall: Option<Duration>,
    /// Shorter `deadline_ms`.
    pub deadline: Option<Duration>,
}

impl Clocks {
    /// These clocks, shortened where `asked` is shorter.
    #[must_use]
    pub fn shortened(self, asked: ClockOverrides) -> Self {
        let shorter = |own: Duration, asked: Option<Duration>| asked.map_or(own, |a| a.min(own));
        Self {
            connect: shorter(self.connect, asked.connect),
            first_token: shorter(self.first_token, asked.first_token),
            stall: shorter(self.stall, asked.stall),
            deadline: shorter(self.deadline, asked.deadline),
        }
    }
}

/// A W3C trace context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// `traceparent` header value.
    pub traceparent: Arc<str>,
    /// `tracestate` header value, possibly empty.
    pub tracestate: Arc<str>,
}

/// What a caller says beside the request itself.
#[derive(Debug, Clone, Default)]
pub struct CallContext {
    /// The caller's own id of the request, for logs and headers.
    pub request_id: Option<Arc<str>>,
    /// The caller's name for this request and its repetitions: a ticket is made of it
    /// once, however often it comes.
    pub idempotency_key: Option<Arc<str>>,
    /// The conversation, so that it stays on one model during a restoration.
    pub session: Option<Arc<str>>,
    /// The workflow run this call belongs to.
    pub workflow: Option<Arc<str>>,
    /// Who calls, as an opaque id: never a key. What is remembered of a call is
    /// shown to its caller alone.
    pub caller: Option<Arc<str>>,
    /// What the answers that this call builds on have lost.
    pub degradation: DegradationContext,
    /// The baggage it came with, of which others' members go on as they came to providers
    /// that propagate; empty unless its sender is trusted. What evenkeel's own members say
    /// is in `degradation`.
    pub baggage: Baggage,
    /// The kind of task, where the role's policy tells some apart. A name that
    /// it does not know changes nothing.
    pub task: Option<Arc<str>>,
    /// How hard the request is; the role's policy says what that asks of a model.
    pub complexity: Option<Complexity>,
    /// The least capability of the model that may answer, 0 to 1, the primary
    /// being 1. It can only raise what role, task and complexity ask.
    pub min_capability: Option<f64>,
    /// Only these models of the role's roster may answer, in this order, where
    /// the role's policy allows that (`allow_pinned_roster`).
    pub pinned_roster: Option<Vec<ModelId>>,
    /// Values for the variables of the role's prompt, before those of its files.
    pub prompt_variables: BTreeMap<String, String>,
    /// Shorter clocks.
    pub clocks: ClockOverrides,
    /// The trace the call came in on; for an attempt, that attempt's own.
    pub trace: Option<TraceContext>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_may_only_shorten_a_clock() {
        let own = Clocks {
            connect: Duration::from_secs(3),
            first_token: Duration::from_secs(30),
            stall: Duration::from_secs(15),
            deadline: Duration::from_secs(120),
        };
        let asked = ClockOverrides {
            deadline: Some(Duration::from_secs(5)),
            stall: Some(Duration::from_secs(600)),
            ..ClockOverrides::default()
        };
        let got = own.shortened(asked);
        assert_eq!(got.deadline, Duration::from_secs(5));
        assert_eq!(got.stall, own.stall);
    }
}
