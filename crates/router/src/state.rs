//! The router as of one moment, for people and dashboards: who serves, how
//! well, and what keeps the others away. Ages and remaining times count from
//! the moment the state was read.

use crate::demand::Demand;
use crate::health::{Held, Hold, ModelHealth, ProviderHealth};
use crate::role::Role;
use crate::rung::{Measure, Rung};
use evenkeel_breaker::Breaker;
use evenkeel_core::{Class, DrillKind, ModelId, Refusal, Snapshot};
use evenkeel_probe::{LatencyWindow, RecoveryStage, Verdict};
use jiff::civil::Date;
use std::time::{Duration, Instant};

/// Everything that a router runs on, role by role.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RouterState {
    /// The roles, in alphabetical order, each followed by those of its tasks that
    /// stand on rungs of their own.
    pub roles: Vec<RoleState>,
    /// The drills that run, oldest first.
    pub drills: Vec<DrillState>,
}

/// A drill that runs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DrillState {
    /// Its number.
    pub id: u64,
    /// What it plays.
    pub kind: DrillKind,
    /// The model it takes away.
    pub model: ModelId,
    /// For how long it has run.
    pub age: Duration,
    /// For how much longer it runs.
    pub remaining: Duration,
    /// From its beginning to the first answer that a lower rung gave in the
    /// model's place.
    pub first_fallback: Option<Duration>,
    /// Calls that lower rungs answered in its place.
    pub answered: u64,
    /// Calls of roles with that model that nobody answered.
    pub failed: u64,
}

/// A role: where its traffic stands, and its rungs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RoleState {
    /// The role.
    pub role: String,
    /// The task, where this is one that stands on a rung of its own.
    pub task: Option<String>,
    /// The least capability that is asked for, 0..1.
    pub least_capability: f64,
    /// The rung its traffic stands on.
    pub active: usize,
    /// How often its traffic has been moved.
    pub epoch: u64,
    /// For how long it has stood there.
    pub standing: Duration,
    /// The rung that an operator holds it on.
    pub forced: Option<usize>,
    /// Its calls under way.
    pub in_flight: usize,
    /// Its rungs, best first.
    pub rungs: Vec<RungState>,
    /// The rungs in the order in which they are asked.
    pub(crate) order: Vec<usize>,
    /// The rung that the caller has pinned first, whatever the active one.
    pub(crate) wanted: Option<usize>,
}

/// One rung of a role.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RungState {
    /// Its model.
    pub model: ModelId,
    /// Its capability relative to the primary, share 0..1.
    pub capability_score: f64,
    /// Why it can't be asked; none where it can.
    pub refusal: Option<Refusal>,
    /// The window over total times.
    pub total: WindowState,
    /// The window over times to the first token.
    pub first_token: WindowState,
    /// Where it is on its way back.
    pub recovery: RecoveryState,
    /// The count of useless answers of this model to this role.
    pub semantic: BreakerState,
    /// The build it was measured on, and those that answer instead; none where the
    /// roster does not say what was measured.
    pub drift: Option<DriftState>,
    /// The model, which other roles share.
    pub health: ModelState,
}

/// Whether a rung's answers come from the build that was measured.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DriftState {
    /// The build that was measured; several fingerprints are joined by commas.
    pub expected: Snapshot,
    /// The others that have answered, in the order of their first answers.
    pub reported: Vec<Snapshot>,
}

/// A latency window.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct WindowState {
    /// Answers that the percentiles are of.
    pub samples: u64,
    /// The median; none without samples.
    pub p50: Option<Duration>,
    /// The 95th percentile; none without samples.
    pub p95: Option<Duration>,
    /// The 99th percentile; none without samples.
    pub p99: Option<Duration>,
    /// The role's limit on the p95.
    pub p95_limit: Duration,
    /// The role's limit on the p99.
    pub p99_limit: Duration,
    /// `healthy`, `breached` or `unknown`.
    pub verdict: &'static str,
    /// The detector that says `breached`: `p95`, `p99` or `spike`.
    pub detector: Option<&'static str>,
}

/// A rung's way back after a breach.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RecoveryState {
    /// `serving`, `probing` or `canary`.
    pub stage: &'static str,
    /// For how long it has been in this stage; none while it serves.
    pub stage_age: Option<Duration>,
    /// Share of sessions it takes as a canary, 0..1.
    pub share: f64,
    /// Least time between two probes that count.
    pub probe_interval: Duration,
}

/// A circuit breaker.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct BreakerState {
    /// `closed`, `open`, `half_open`, `forced_open` or `disabled`.
    pub state: &'static str,
    /// For how long it has been so.
    pub age: Duration,
    /// What caused the last change; none before the first.
    pub cause: Option<&'static str>,
    /// How much longer it refuses calls; none where it takes them, or refuses
    /// them until an operator says otherwise.
    pub retry_in: Option<Duration>,
    /// Failures in a row.
    pub failures_in_a_row: u32,
    /// Calls in the window of the failure rate.
    pub calls: u64,
    /// Failures among them.
    pub failures: u64,
}

/// A model or provider set aside for quota, credential or absence.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct HoldState {
    /// The class of the failure it is for.
    pub class: Class,
    /// For how long it has held.
    pub age: Duration,
    /// For how much longer it holds.
    pub remaining: Duration,
}

/// A rest after a rate limit.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct CooldownState {
    /// For how long it has lasted.
    pub age: Duration,
    /// For how much longer it lasts.
    pub remaining: Duration,
}

/// A model, shared by all roles.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ModelState {
    /// Its breaker.
    pub breaker: BreakerState,
    /// Its rest after a rate limit, while it lasts.
    pub cooldown: Option<CooldownState>,
    /// What sets it aside.
    pub hold: Option<HoldState>,
    /// Calls it serves now.
    pub in_use: usize,
    /// Calls it may serve at a time.
    pub max_concurrency: usize,
    /// Its last day of service, where the registry knows one.
    pub eol_date: Option<Date>,
    /// Whether that day has passed and its provider takes it away then.
    pub past_eol: bool,
    /// Its provider, which its other models share.
    pub provider: ProviderState,
}

/// A configured provider.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProviderState {
    /// Its name.
    pub name: String,
    /// Its breaker.
    pub breaker: BreakerState,
    /// What sets all its models aside.
    pub hold: Option<HoldState>,
}

impl RoleState {
    pub(crate) fn of(role: &Role, demand: &Demand, now: Instant) -> Self {
        let word = role.word.load();
        let today = role.around.today();
        let rung = |(index, rung)| {
            let state = RungState::of(role, index, rung, now, today);
            let refusal = demand.refusal(role, index).or(state.refusal);
            RungState { refusal, ..state }
        };
        Self {
            role: role.name.to_string(),
            task: role.task.as_deref().map(str::to_owned),
            least_capability: demand.least,
            active: word.rung,
            epoch: word.epoch,
            standing: role.stood_for(now),
            forced: role.pin.rung(),
            in_flight: role.calls_in_flight(),
            rungs: role.rungs.iter().enumerate().map(rung).collect(),
            order: (0..role.rungs.len()).map(|p| demand.rung(p)).collect(),
            wanted: demand.first(),
        }
    }
}

impl RungState {
    fn of(role: &Role, index: usize, rung: &Rung, now: Instant, today: Date) -> Self {
        Self {
            model: rung.model.id.clone(),
            capability_score: rung.capability_score,
            refusal: role.refusal(index, now, today),
            total: WindowState::of(rung.window(Measure::Total), now),
            first_token: WindowState::of(rung.window(Measure::FirstToken), now),
            recovery: RecoveryState::of(rung, now),
            semantic: BreakerState::of(&rung.semantic, now),
            drift: rung.drift.as_deref().map(|watch| DriftState {
                expected: watch.expected(),
                reported: watch.others(),
            }),
            health: ModelState::of(&rung.model, now, today),
        }
    }

    /// Whether it was left because it breached, and is not back yet.
    pub fn is_benched(&self) -> bool {
        self.recovery.stage != SERVING
    }
}

impl WindowState {
    fn of(window: &LatencyWindow, now: Instant) -> Self {
        let report = window.report(now);
        let (p95_limit, p99_limit) = window.thresholds();
        let (verdict, detector) = match window.verdict(now) {
            Verdict::Healthy => ("healthy", None),
            Verdict::Breached(breach) => ("breached", Some(breach.detector.as_str())),
            Verdict::Unknown => ("unknown", None),
        };
        Self {
            samples: report.samples,
            p50: report.p50,
            p95: report.p95,
            p99: report.p99,
            p95_limit,
            p99_limit,
            verdict,
            detector,
        }
    }
}

const SERVING: &str = "serving";

impl RecoveryState {
    fn of(rung: &Rung, now: Instant) -> Self {
        let age = |since: Instant| Some(now.saturating_duration_since(since));
        let (stage, stage_age) = match rung.recovery.stage() {
            RecoveryStage::Idle => (SERVING, None),
            RecoveryStage::Probing { since } => ("probing", age(since)),
            RecoveryStage::Canary { since, .. } => ("canary", age(since)),
        };
        Self {
            stage,
            stage_age,
            share: rung.recovery.share(),
            probe_interval: rung.recovery.interval(now),
        }
    }
}

impl BreakerState {
    fn of(breaker: &Breaker, now: Instant) -> Self {
        let seen = breaker.snapshot(now);
        let by_itself = seen.state != evenkeel_breaker::State::ForcedOpen;
        Self {
            state: seen.state.as_str(),
            age: now.saturating_duration_since(seen.since),
            cause: seen.cause.map(evenkeel_breaker::Cause::as_str),
            retry_in: seen.retry_in.filter(|_| by_itself),
            failures_in_a_row: seen.failures_in_a_row,
            calls: seen.window_calls,
            failures: seen.window_failures,
        }
    }
}

impl HoldState {
    fn of(hold: &Hold, now: Instant) -> Option<Self> {
        let Held {
            class,
            since,
            until,
        } = hold.current(now)?;
        Some(Self {
            class,
            age: now.saturating_duration_since(since),
            remaining: until.saturating_duration_since(now),
        })
    }
}

impl ModelState {
    fn of(model: &ModelHealth, now: Instant, today: Date) -> Self {
        let cooldown = model.cooldown.remaining(now).map(|remaining| {
            let age = model.cooldown.running_for(now).unwrap_or_default();
            CooldownState { age, remaining }
        });
        let max_concurrency = model.config.max_concurrency;
        Self {
            breaker: BreakerState::of(&model.breaker, now),
            cooldown,
            hold: HoldState::of(&model.hold, now),
            in_use: max_concurrency.saturating_sub(model.capacity.available_permits()),
            max_concurrency,
            eol_date: model.config.eol_date,
            past_eol: model.config.is_past_eol(today),
            provider: ProviderState::of(&model.provider, now),
        }
    }
}

impl ProviderState {
    fn of(provider: &ProviderHealth, now: Instant) -> Self {
        Self {
            name: provider.name.to_string(),
            breaker: BreakerState::of(&provider.breaker, now),
            hold: HoldState::of(&provider.hold, now),
        }
    }
}
