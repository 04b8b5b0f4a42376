//! How everything is as of one moment: what gauges show.

use super::catalogue::Quality;
use crate::audit::AuditStatus;
use evenkeel_core::{ModelId, TicketState};
use std::sync::Arc;
use std::time::Duration;

/// The state of a router as of one moment, taken by whoever runs it and shown to
/// [`Metrics::show`](super::Metrics::show) before metrics are read.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Each role, and each task that stands on a rung of its own.
    pub roles: Vec<RoleNow>,
    /// Each model once.
    pub models: Vec<ModelNow>,
    /// Each provider once.
    pub providers: Vec<ProviderNow>,
    /// What callers say of fallbacks beside the primary, where they have said enough.
    pub qualities: Vec<QualityNow>,
    /// Tickets in the store, by role and state: what is not listed is zero. None where
    /// there is no store, or it could not be asked.
    pub tickets: Option<Vec<TicketsNow>>,
    /// What the audit log has written; none where there is no log.
    pub audit: Option<AuditStatus>,
}

/// A role, or a task of it that stands on a rung of its own.
#[derive(Debug, Clone)]
pub struct RoleNow {
    /// The role.
    pub role: Arc<str>,
    /// The task; none for the role itself.
    pub task: Option<Arc<str>>,
    /// The rung that its traffic stands on.
    pub active: usize,
    /// Its calls under way.
    pub in_flight: u64,
    /// Its rungs, best first.
    pub rungs: Vec<RungNow>,
}

/// A rung of a role.
#[derive(Debug, Clone)]
pub struct RungNow {
    /// Its model.
    pub model: ModelId,
    /// Of its total times.
    pub total: PercentilesNow,
    /// Of its times to the first token.
    pub first_token: PercentilesNow,
}

/// Percentiles of a latency window; none without samples.
#[derive(Debug, Clone, Copy, Default)]
pub struct PercentilesNow {
    /// The median.
    pub p50: Option<Duration>,
    /// The 95th percentile.
    pub p95: Option<Duration>,
    /// The 99th percentile.
    pub p99: Option<Duration>,
}

/// A model, which roles share.
#[derive(Debug, Clone)]
pub struct ModelNow {
    /// Which.
    pub model: ModelId,
    /// Its breaker's state, one of [`BREAKER_STATES`](super::BREAKER_STATES).
    pub breaker: &'static str,
    /// Whether it rests after a rate limit.
    pub cools_down: bool,
    /// Whether it or its provider is set aside for quota, credential or absence.
    pub is_held: bool,
}

/// A provider.
#[derive(Debug, Clone)]
pub struct ProviderNow {
    /// Its name.
    pub provider: Arc<str>,
    /// Its own breaker's state, one of [`BREAKER_STATES`](super::BREAKER_STATES).
    pub breaker: &'static str,
}

/// What callers say of a fallback beside its primary.
#[derive(Debug, Clone)]
pub struct QualityNow {
    /// The role.
    pub role: Arc<str>,
    /// Its primary.
    pub primary: ModelId,
    /// The fallback.
    pub fallback: ModelId,
    /// How they compare.
    pub quality: Quality,
}

/// Tickets of a role in one state.
#[derive(Debug, Clone)]
pub struct TicketsNow {
    /// The role.
    pub role: Arc<str>,
    /// The state.
    pub state: TicketState,
    /// How many.
    pub count: u64,
}
