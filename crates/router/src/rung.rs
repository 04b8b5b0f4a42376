//! One place in a role's roster: its windows, and its way back.

use crate::drift::DriftWatch;
use crate::health::ModelHealth;
use crate::mean::Mean;
use evenkeel_breaker::Breaker;
use evenkeel_core::{CallId, Refusal, SubstitutionReason};
use evenkeel_probe::{LatencyWindow, Recovery, RecoveryStep};
use evenkeel_roster::{RolePolicy, RungConfig, Signal};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a call's latency is measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Until the whole answer.
    Total,
    /// Until the first content token.
    FirstToken,
}

impl Measure {
    pub(crate) const BOTH: [Self; 2] = [Self::Total, Self::FirstToken];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::FirstToken => "first_token",
        }
    }

    /// The measure of a call under `signal`.
    pub(crate) const fn of(signal: Signal, stream: bool) -> Self {
        match (signal, stream) {
            (Signal::FirstToken, _) | (Signal::Auto, true) => Self::FirstToken,
            (Signal::Total, _) | (Signal::Auto, false) => Self::Total,
        }
    }
}

/// A role's p95 and p99 limits by one measure.
pub(crate) fn limits(policy: &RolePolicy, measure: Measure) -> (Duration, Duration) {
    match measure {
        Measure::Total => (policy.p95, policy.p99),
        Measure::FirstToken => (policy.first_token_p95, policy.first_token_p99),
    }
}

/// Where an attempt is observed: its rung, its call's measure, its call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    pub(crate) rung: usize,
    pub(crate) measure: Measure,
    pub(crate) call: Option<CallId>,
}

/// One place in a role's roster.
#[derive(Debug)]
pub(crate) struct Rung {
    pub(crate) model: Arc<ModelHealth>,
    pub(crate) capability_score: f64,
    /// Expected quality relative to the primary, share 0..1.
    pub(crate) quality_ratio: f64,
    pub(crate) median_latency: Option<Duration>,
    /// Whether its answers come from what was measured; none where nobody knows what was.
    pub(crate) drift: Option<Arc<DriftWatch>>,
    total: Arc<LatencyWindow>,
    first_token: Arc<LatencyWindow>,
    /// Output tokens of its answers to this role.
    pub(crate) output: Arc<Mean>,
    /// Useless answers of this model to this role.
    pub(crate) semantic: Arc<Breaker>,
    pub(crate) recovery: Arc<Recovery>,
    canary: Arc<Mutex<CanaryAccount>>,
    /// How the role's traffic last left this rung.
    pub(crate) left: Arc<Mutex<Option<Leaving>>>,
}

/// A move of a role's traffic off a rung.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaving {
    pub(crate) reason: SubstitutionReason,
    /// By which measure it was too slow, if it was.
    pub(crate) measure: Measure,
    pub(crate) at: Instant,
}

/// The evidence of a canary stage: attempts begun since it began, both
/// measures together, each by its own limit.
#[derive(Debug, Default)]
struct CanaryAccount {
    since: Option<Instant>,
    observed: u64,
    over: u64,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rung {
    pub(crate) fn new(
        model: Arc<ModelHealth>,
        config: &RungConfig,
        windows: (LatencyWindow, LatencyWindow),
        semantic: Arc<Breaker>,
        recovery: Recovery,
    ) -> Self {
        Self {
            model,
            capability_score: config.capability_score,
            quality_ratio: config
                .quality_score
                .map_or(config.capability_score, |score| score.clamp(0.0, 1.0)),
            median_latency: config.median_latency,
            drift: config
                .measured
                .hashes
                .as_ref()
                .and_then(DriftWatch::of)
                .map(Arc::new),
            total: Arc::new(windows.0),
            first_token: Arc::new(windows.1),
            output: Arc::default(),
            semantic,
            recovery: Arc::new(recovery),
            canary: Arc::default(),
            left: Arc::default(),
        }
    }

    /// Goes on with what a rung of the same model has seen, where it was measured alike.
    pub(crate) fn take_drift(&mut self, before: &Self) {
        if let (Some(watch), Some(old)) = (&mut self.drift, &before.drift)
            && watch.expects_as(old)
        {
            *watch = old.clone();
        }
    }

    /// Goes on with the windows of a rung of the same model and limits.
    pub(crate) fn take_windows(&mut self, before: &Self) {
        self.total = before.total.clone();
        self.first_token = before.first_token.clone();
    }

    /// Goes on where the same rung of the same roster is on its way back.
    pub(crate) fn take_recovery(&mut self, before: &Self) {
        self.recovery = before.recovery.clone();
        self.canary = before.canary.clone();
        self.left = before.left.clone();
    }

    pub(crate) fn window(&self, measure: Measure) -> &LatencyWindow {
        match measure {
            Measure::Total => &self.total,
            Measure::FirstToken => &self.first_token,
        }
    }

    /// How long an answer is expected to take: the window's median, else the
    /// roster's, else nothing is known.
    pub(crate) fn expected(&self, measure: Measure, now: Instant) -> Duration {
        let median = self.window(measure).median_at(now).or(self.median_latency);
        median.unwrap_or(Duration::ZERO)
    }

    /// Time a hedge to this rung needs before the deadline to be of use: the
    /// window's p95, else twice the roster's median, else nothing is known.
    pub(crate) fn need(&self, measure: Measure, now: Instant) -> Duration {
        let twice = self.median_latency.map(|m| m.saturating_mul(2));
        let p95 = self.window(measure).p95_at(now).or(twice);
        p95.unwrap_or(Duration::ZERO)
    }

    pub(crate) fn quality_refusal(&self, now: Instant) -> Option<Refusal> {
        let refused = self.semantic.would_refuse(now)?;
        Some(Refusal::SemanticBreakerOpen(refused.retry_in))
    }

    /// One observation of an attempt begun at `began`, if a canary stage runs.
    pub(crate) fn canary_observed(
        &self,
        began: Instant,
        over: bool,
        now: Instant,
    ) -> Option<RecoveryStep> {
        // Held over the recovery's answer, so that no observation of one stage
        // is taken for the next.
        let mut account = locked(&self.canary);
        if account.since.is_none_or(|since| began < since) {
            return None;
        }
        account.observed += 1;
        account.over += u64::from(over);
        let step = self
            .recovery
            .canary_seen(now, account.observed, account.over);
        account.follow(step, now)
    }

    pub(crate) fn canary_tick(&self, now: Instant) -> Option<RecoveryStep> {
        let mut account = locked(&self.canary);
        let step = self.recovery.tick(now, account.observed, account.over);
        account.follow(step, now)
    }

    /// A probe begun at `began` ended.
    pub(crate) fn probed(
        &self,
        began: Instant,
        latency: Option<Duration>,
        t95: Duration,
        now: Instant,
    ) -> Option<RecoveryStep> {
        let mut account = locked(&self.canary);
        let step = self.recovery.probed(began, latency, t95);
        account.follow(step, now)
    }

    /// Starts the evidence anew. An episode of breach ends with that, and the
    /// move that it led to tells of it: the rung itself may be as slow as before.
    pub(crate) fn restart_evidence(&self, now: Instant) {
        for window in [&self.total, &self.first_token] {
            window.restart(now);
            let _ = window.judge(now);
        }
    }
}

impl CanaryAccount {
    /// Starts anew with the stage that `step` begins, ends with the one it fails.
    fn follow(&mut self, step: Option<RecoveryStep>, now: Instant) -> Option<RecoveryStep> {
        let since = match step {
            Some(RecoveryStep::StartCanary { .. }) => Some(now),
            Some(RecoveryStep::CanaryFailed { .. }) => None,
            Some(RecoveryStep::Restore) | None => return step,
        };
        *self = Self {
            since,
            ..Self::default()
        };
        step
    }
}
