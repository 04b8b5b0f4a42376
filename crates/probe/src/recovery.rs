//! The way back to a rung that was left because it breached.

use std::time::{Duration, Instant};

use crate::binomial::clears;
use crate::error::ConfigError;
use crate::recovery_config::RecoveryConfig;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// What the shell has to do next about a benched rung.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RecoveryStep {
    /// Start the evidence windows of the rung anew, then send it this share of the role's sessions.
    StartCanary {
        /// The stage's place in [`RecoveryConfig::canary`].
        stage: usize,
        /// Its share, 0 to 1.
        share: f64,
    },
    /// Move the role back by compare-and-swap, and call [`Recovery::restored`] if that wins. If it does not
    /// win, or must wait (a breaker, an operator), the step comes again with later evidence.
    Restore,
    /// The rung gets no more sessions; stage 1 begins again.
    CanaryFailed {
        /// The interval between probes from now on.
        interval: Duration,
    },
}

/// Where a rung is on its way back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RecoveryStage {
    /// In service, or never in use.
    Idle,
    /// Probes decide.
    Probing {
        /// When the rung was left or a canary failed.
        since: Instant,
    },
    /// A share of live sessions decides.
    Canary {
        /// The stage's place in [`RecoveryConfig::canary`].
        stage: usize,
        /// When it began.
        since: Instant,
    },
}

/// Restoration of one rung of one role, with hysteresis: probes, then canary shares of live sessions.
///
/// - Stage 1: [`restore_after`](RecoveryConfig::restore_after) probes in a row below
///   [`restore_below`](RecoveryConfig::restore_below) x T95, counted at most once an interval, and one
///   interval since the rung was left (or a canary failed).
/// - Canary stages, in turn: each is passed by [`canary_samples`](RecoveryConfig::canary_samples)
///   observations that [clear](crate::clears); or at [`canary_max`](RecoveryConfig::canary_max) by
///   observations of which none is over, or, if there were none at all, by as many probes in a row as stage
///   1 asks, further ones, counted from then on. One over at that time, or a breach at any, and it is back
///   to stage 1 with the interval grown.
///
/// A mutex is held for some nanoseconds in each method but [`share`](Self::share) and
/// [`benched`](Self::benched), which are lock-free. Time that runs backwards is taken as standing
/// still. A probe or evidence for a rung that is not benched is ignored.
#[derive(Debug)]
pub struct Recovery {
    config: RecoveryConfig,
    /// Bits of an f64.
    share: AtomicU64,
    /// 1 while the stage is not idle.
    benched: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// The dwell: least time between counted probes.
    interval: Duration,
    /// Successful counted probes in a row, in this stage.
    run: u32,
    last_counted: Option<Instant>,
    left_at: Option<Instant>,
    restored_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Not benched: serving, or never in use.
    Idle,
    /// Stage 1; `since` the rung was left or a canary failed.
    Probing {
        since: Instant,
    },
    Canary(Canary),
}

#[derive(Clone, Copy, Debug)]
struct Canary {
    index: usize,
    since: Instant,
    /// Observations last reported.
    seen: u64,
    /// Time was up without an observation: probes decide.
    by_probes: bool,
    /// When a Restore was last given here, and not yet carried out.
    offered_at: Option<Instant>,
}

impl Recovery {
    /// A rung in service, its interval at the base.
    ///
    /// # Errors
    /// What [`RecoveryConfig::validate`] refuses.
    pub fn new(config: RecoveryConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            share: AtomicU64::new(0.0_f64.to_bits()),
            benched: AtomicU64::new(0),
            state: Mutex::new(State {
                stage: Stage::Idle,
                interval: config.probe_interval,
                run: 0,
                last_counted: None,
                left_at: None,
                restored_at: None,
            }),
            config,
        })
    }

    /// The role left this rung because it breached: it is benched from now on. Within
    /// [`hold`](RecoveryConfig::hold) of its restoration that is a flap, and the interval grows; after
    /// [`reset_after`](RecoveryConfig::reset_after) of service it starts from the base.
    pub fn left(&self, now: Instant) {
        let mut state = lock(&self.state);
        state.interval = self.interval_in_service(&state, now);
        let is_flap = state
            .restored_at
            .is_some_and(|at| since(at, now) <= self.config.hold);
        if is_flap {
            state.interval = self.grown(state.interval);
        }
        state.left_at = Some(now);
        state.restored_at = None;
        state.last_counted = None;
        self.begin_probing(&mut state, now);
    }

    /// Whether the role left this rung because it breached and has not been restored to it. Lock-free.
    pub fn benched(&self) -> bool {
        self.benched.load(Ordering::Acquire) == 1
    }

    /// Where the rung is on its way back.
    pub fn stage(&self) -> RecoveryStage {
        match lock(&self.state).stage {
            Stage::Idle => RecoveryStage::Idle,
            Stage::Probing { since } => RecoveryStage::Probing { since },
            Stage::Canary(canary) => RecoveryStage::Canary {
                stage: canary.index,
                since: canary.since,
            },
        }
    }

    /// The dwell at `now`: least time between two probes that count.
    pub fn interval(&self, now: Instant) -> Duration {
        self.interval_in_service(&lock(&self.state), now)
    }

    /// Whether probes of this rung's model would be counted: in stage 1, and in a canary stage that ran out
    /// of time without a single observation.
    pub fn probes_wanted(&self) -> bool {
        match lock(&self.state).stage {
            Stage::Idle => false,
            Stage::Probing { .. } => true,
            Stage::Canary(canary) => canary.by_probes,
        }
    }

    /// A probe of the model that began at `now` has ended: after `latency`, or without an answer. `t95` is
    /// the role's limit by its own measure.
    ///
    /// One begun before the stage is no evidence of it. One nearer than the interval to the last counted is
    /// ignored, except that one without an answer always ends the run of successes.
    pub fn probed(
        &self,
        now: Instant,
        latency: Option<Duration>,
        t95: Duration,
    ) -> Option<RecoveryStep> {
        let mut state = lock(&self.state);
        let stage_began = match state.stage {
            Stage::Probing { since } => since,
            Stage::Canary(canary) if canary.by_probes => canary.since,
            Stage::Idle | Stage::Canary(_) => return None,
        };
        if now < stage_began {
            return None;
        }
        if latency.is_none() {
            state.run = 0;
        }
        let is_early = state
            .last_counted
            .is_some_and(|at| since(at, now) < state.interval);
        if is_early {
            return None;
        }
        state.last_counted = Some(now);
        let is_fast = latency.is_some_and(|latency| self.is_fast(latency, t95));
        state.run = if is_fast {
            state.run.saturating_add(1)
        } else {
            0
        };
        match state.stage {
            _ if state.run < self.config.restore_after => None,
            Stage::Probing { since: from } if since(from, now) >= state.interval => {
                Some(self.advance(&mut state, 0, now))
            }
            Stage::Canary(canary) if canary.seen == 0 => {
                Some(self.advance(&mut state, canary.index + 1, now))
            }
            _ => None,
        }
    }

    /// The share of sessions to send to this rung now, 0 to 1; 0 unless in a canary stage. Lock-free.
    pub fn share(&self) -> f64 {
        f64::from_bits(self.share.load(Ordering::Acquire))
    }

    /// The evidence of the current canary stage at `now`: `n` observations since it began, summed over both
    /// measures, `over` of them exceedances. Nothing outside a canary stage.
    pub fn canary_seen(&self, now: Instant, n: u64, over: u64) -> Option<RecoveryStep> {
        let mut state = lock(&self.state);
        let Stage::Canary(canary) = &mut state.stage else {
            return None;
        };
        canary.seen = n;
        let canary = *canary;
        let is_up = since(canary.since, now) >= self.config.canary_max;
        let is_cleared =
            n >= u64::from(self.config.canary_samples) && clears(n, over, self.config.clear_rate);
        let is_passed = match (n, over) {
            _ if is_cleared => true,
            (0, _) => canary.by_probes && state.run >= self.config.restore_after,
            (_, 0) => is_up,
            _ => false,
        };
        if is_passed {
            return Some(self.advance(&mut state, canary.index + 1, now));
        }
        if is_up && over > 0 {
            return Some(self.fail(&mut state, now));
        }
        if let Stage::Canary(canary) = &mut state.stage {
            canary.by_probes = is_up && n == 0;
        }
        None
    }

    /// The rung breached during the canary: back to stage 1 at once, with the interval grown. Nothing
    /// outside a canary stage.
    pub fn canary_breached(&self, now: Instant) -> Option<RecoveryStep> {
        let mut state = lock(&self.state);
        matches!(state.stage, Stage::Canary(_)).then(|| self.fail(&mut state, now))
    }

    /// To be called at or after [`next_due`](Self::next_due), with the evidence as for
    /// [`canary_seen`](Self::canary_seen).
    pub fn tick(&self, now: Instant, n: u64, over: u64) -> Option<RecoveryStep> {
        self.canary_seen(now, n, over)
    }

    /// When time itself may decide something: the end of the current canary stage, or one interval after a
    /// [`RecoveryStep::Restore`] that was not carried out. None while only probes or evidence can.
    pub fn next_due(&self) -> Option<Instant> {
        let state = lock(&self.state);
        match state.stage {
            Stage::Canary(Canary {
                offered_at: Some(at),
                ..
            }) => at.checked_add(state.interval),
            Stage::Canary(canary) if !canary.by_probes => {
                canary.since.checked_add(self.config.canary_max)
            }
            _ => None,
        }
    }

    /// The role's traffic is back on this rung: the shell's compare-and-swap won. Returns the time since it
    /// was left; zero if it never was.
    pub fn restored(&self, now: Instant) -> Duration {
        let mut state = lock(&self.state);
        state.restored_at = Some(now);
        self.stand_by(&mut state);
        state.left_at.map_or(Duration::ZERO, |at| since(at, now))
    }

    /// The role moved for another reason (to a better rung, end of life, an operator): this rung is not
    /// benched and not being recovered. A grown interval stays.
    pub fn forget(&self) {
        let mut state = lock(&self.state);
        state.restored_at = None;
        self.stand_by(&mut state);
    }

    fn stand_by(&self, state: &mut State) {
        state.stage = Stage::Idle;
        self.benched.store(0, Ordering::Release);
        state.run = 0;
        self.set_share(0.0);
    }

    /// Leads to canary stage `index`, or past the last to restoration.
    fn advance(&self, state: &mut State, index: usize, now: Instant) -> RecoveryStep {
        let Some(&share) = self.config.canary.get(index) else {
            if let Stage::Canary(canary) = &mut state.stage {
                canary.offered_at = Some(now);
            }
            return RecoveryStep::Restore;
        };
        state.run = 0;
        state.stage = Stage::Canary(Canary {
            index,
            since: now,
            seen: 0,
            by_probes: false,
            offered_at: None,
        });
        self.set_share(share);
        RecoveryStep::StartCanary {
            stage: index,
            share,
        }
    }

    fn fail(&self, state: &mut State, now: Instant) -> RecoveryStep {
        state.interval = self.grown(state.interval);
        self.begin_probing(state, now);
        RecoveryStep::CanaryFailed {
            interval: state.interval,
        }
    }

    fn begin_probing(&self, state: &mut State, now: Instant) {
        state.stage = Stage::Probing { since: now };
        self.benched.store(1, Ordering::Release);
        state.run = 0;
        self.set_share(0.0);
    }

    fn set_share(&self, share: f64) {
        self.share.store(share.to_bits(), Ordering::Release);
    }

    fn is_fast(&self, latency: Duration, t95: Duration) -> bool {
        // In whole nanoseconds: as fractions, 320 ms would be less than 0.8 of 400 ms.
        let share = self.config.restore_below * t95.as_secs_f64();
        latency < Duration::try_from_secs_f64(share).unwrap_or(Duration::MAX)
    }

    /// The base after enough service since the last restoration, else what it was.
    fn interval_in_service(&self, state: &State, now: Instant) -> Duration {
        match state.restored_at {
            Some(at) if since(at, now) >= self.config.reset_after => self.config.probe_interval,
            _ => state.interval,
        }
    }

    fn grown(&self, interval: Duration) -> Duration {
        let cap = self.config.probe_interval_cap;
        let seconds = interval.as_secs_f64() * self.config.growth;
        Duration::try_from_secs_f64(seconds).map_or(cap, |grown| grown.min(cap))
    }
}

fn since(at: Instant, now: Instant) -> Duration {
    now.saturating_duration_since(at)
}
