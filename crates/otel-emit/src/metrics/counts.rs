//! A counter that others hold: what became of telemetry itself.

use super::labels::{self, label};
use opentelemetry::metrics::Counter;

/// What of telemetry can be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// A span.
    Span,
    /// A span event, or the log record in its place.
    Event,
    /// A log line.
    Log,
}

impl Signal {
    /// Every signal.
    pub const ALL: [Self; 3] = [Self::Span, Self::Event, Self::Log];

    /// The name used in labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Span => "span",
            Self::Event => "event",
            Self::Log => "log",
        }
    }
}

/// Counts telemetry that was dropped (`evenkeel_telemetry_dropped_total`). Cheap to clone.
#[derive(Debug, Clone)]
pub struct Losses(pub(crate) Counter<u64>);

impl Losses {
    /// `count` items of `signal` are lost.
    pub fn lost(&self, signal: Signal, count: u64) {
        self.0.add(count, &[label(labels::SIGNAL, signal.as_str())]);
    }
}
