//! Restoration as a state machine against a model that goes by its history (invariants 60, 61, 63).

use evenkeel_probe::{Recovery, RecoveryConfig, RecoveryStep, breach_count};
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use std::time::Duration;

use crate::model::obvious_lower_tail;
use crate::recovery::{T95, is_share};
use crate::{at, ms};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Pass(u64),
    Probe(Option<u64>),
    Evidence {
        under: u64,
        over: u64,
    },
    Tick,
    CanaryBreach,
    /// The role leaves the rung, if it is there.
    Leave,
    Forget,
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => prop_oneof![0..12_000_u64, Just(30_000), 0..200_000_u64].prop_map(Op::Pass),
        6 => prop_oneof![4 => Just(Some(100)), 1 => Just(Some(900)), 1 => Just(None)].prop_map(Op::Probe),
        4 => (0..16_u64, prop::bool::weighted(0.1))
            .prop_map(|(under, over)| Op::Evidence { under, over: over.into() }),
        2 => Just(Op::Tick),
        1 => Just(Op::CanaryBreach),
        4 => Just(Op::Leave),
        1 => Just(Op::Forget),
    ]
}

/// A small config, so that runs reach every stage: interval 10 s, cap 35 s, stages of 60 s.
pub(crate) fn small() -> impl Strategy<Value = RecoveryConfig> {
    let canary = prop_oneof![Just(vec![]), Just(vec![0.5]), Just(vec![0.1, 0.5])];
    (1..3_u32, canary).prop_map(|(restore_after, canary)| RecoveryConfig {
        probe_interval: ms(10_000),
        probe_interval_cap: ms(35_000),
        canary_max: ms(60_000),
        hold: ms(20_000),
        reset_after: ms(100_000),
        restore_after,
        canary,
        ..RecoveryConfig::default()
    })
}

/// Restoration as a list of what happened, read anew at each question. Times in ms.
#[derive(Clone, Debug)]
struct Model {
    config: RecoveryConfig,
    /// Growths of the interval since it last was the base.
    growths: u32,
    left_at: Option<u64>,
    restored_at: Option<u64>,
    /// Stages begun since the rung was left or a canary failed: 0 is stage 1.
    stages: Vec<u64>,
    /// Probes since the rung was left: when, whether answered fast (None: unanswered), in which turn.
    probes: Vec<(u64, Option<bool>, Turn)>,
    failures: u32,
    n: u64,
    over: u64,
    by_probes: bool,
}

/// What a probe was for: a canary failure or a new stage begins a new turn; None: not wanted.
type Turn = Option<(u32, usize)>;

impl Model {
    fn new(config: RecoveryConfig) -> Self {
        Self {
            config,
            growths: 0,
            left_at: None,
            restored_at: None,
            stages: Vec::new(),
            probes: Vec::new(),
            failures: 0,
            n: 0,
            over: 0,
            by_probes: false,
        }
    }

    fn interval(&self, now: u64) -> u64 {
        let is_reset = self.restored_at.is_some_and(|at| now - at >= 100_000);
        let growths = if is_reset { 0 } else { self.growths };
        (10_000 << growths.min(8)).min(35_000)
    }

    fn leave(&mut self, now: u64) {
        if self.interval(now) == 10_000 {
            self.growths = 0;
        }
        if self.restored_at.is_some_and(|at| now - at <= 20_000) {
            self.growths += 1;
        }
        *self = Self {
            left_at: Some(now),
            restored_at: None,
            stages: vec![now],
            probes: Vec::new(),
            failures: 0,
            ..Self::with(self.config.clone(), self.growths)
        };
    }

    fn with(config: RecoveryConfig, growths: u32) -> Self {
        Self {
            growths,
            ..Self::new(config)
        }
    }

    fn stage(&self) -> Option<usize> {
        self.stages.len().checked_sub(1)
    }

    fn turn(&self) -> Turn {
        let stage = self.stage()?;
        (stage == 0 || self.by_probes).then_some((self.failures, stage))
    }

    /// Counted successes in a row in this turn, and whether the last probe was counted.
    fn run(&self) -> (u32, bool) {
        let (mut run, mut last, mut is_counted) = (0, None, false);
        let mut turn = None;
        for &(when, outcome, of) in &self.probes {
            let Some((failures, _)) = of else {
                is_counted = false;
                continue;
            };
            let growths = self.growths - self.failures + failures;
            if of != turn {
                (run, turn) = (0, of);
            }
            let interval = (10_000_u64 << growths.min(8)).min(35_000);
            is_counted = last.is_none_or(|last| when - last >= interval);
            if outcome.is_none() {
                run = 0;
            }
            if is_counted {
                last = Some(when);
                run = if outcome == Some(true) { run + 1 } else { 0 };
            }
        }
        (if self.turn() == turn { run } else { 0 }, is_counted)
    }

    fn probed(&mut self, now: u64, latency: Option<u64>) -> Option<RecoveryStep> {
        self.stage()?;
        let outcome = latency.map(|latency| latency < 800);
        let turn = self.turn();
        self.probes.push((now, outcome, turn));
        let (run, is_counted) = self.run();
        let begun = *self.stages.last()?;
        let is_dwelt = self.stage() != Some(0) || now - begun >= self.interval(now);
        let is_enough = is_counted && run >= self.config.restore_after && outcome == Some(true);
        (is_enough && is_dwelt && self.n == 0).then(|| self.next_stage(now))
    }

    fn next_stage(&mut self, now: u64) -> RecoveryStep {
        let stage = self.stages.len() - 1;
        let Some(&share) = self.config.canary.get(stage) else {
            return RecoveryStep::Restore;
        };
        self.stages.push(now);
        (self.n, self.over, self.by_probes) = (0, 0, false);
        RecoveryStep::StartCanary { stage, share }
    }

    fn fail(&mut self, now: u64) -> RecoveryStep {
        self.growths += 1;
        self.failures += 1;
        self.stages = vec![now];
        (self.n, self.over, self.by_probes) = (0, 0, false);
        RecoveryStep::CanaryFailed {
            interval: ms(self.interval(now)),
        }
    }

    fn evidence(&mut self, now: u64) -> Option<RecoveryStep> {
        let stage = self.stage().filter(|stage| *stage > 0)?;
        let is_up = now - self.stages[stage] >= 60_000;
        let is_clear = self.n >= 14
            && obvious_lower_tail(self.n, self.over, 0.20) <= 0.05
            && self.over < breach_count(self.n, 0.95, 0.05);
        let by_probes = self.by_probes && self.run().0 >= self.config.restore_after;
        if is_clear || (is_up && self.n > 0 && self.over == 0) || (self.n == 0 && by_probes) {
            return Some(self.next_stage(now));
        }
        if is_up && self.over > 0 {
            return Some(self.fail(now));
        }
        self.by_probes = is_up && self.n == 0;
        None
    }

    fn share(&self) -> f64 {
        match self.stage() {
            None | Some(0) => 0.0,
            Some(stage) => self.config.canary[stage - 1],
        }
    }
}

/// The reference: the model, what time it is, and what the latest operation must have led to.
#[derive(Clone, Debug)]
struct History {
    model: Model,
    now: u64,
    step: Option<RecoveryStep>,
    /// Observations and exceedances of the stage, as they are told with that operation.
    told: (u64, u64),
    /// How long the rung was left for, if the latest operation restored it.
    lasted: Option<Duration>,
}

/// An operation, and whether a restoration that it leads to wins.
type Turned = (Op, bool);

impl ReferenceStateMachine for History {
    type State = Self;
    type Transition = Turned;

    fn init_state() -> BoxedStrategy<Self> {
        small()
            .prop_map(|config| Self {
                model: Model::new(config),
                now: 0,
                step: None,
                told: (0, 0),
                lasted: None,
            })
            .boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Turned> {
        (op(), any::<bool>()).boxed()
    }

    fn apply(mut history: Self, (op, wins): &Turned) -> Self {
        let (model, now) = (&mut history.model, history.now);
        history.step = match *op {
            Op::Pass(millis) => {
                history.now += millis;
                None
            }
            Op::Probe(latency) => model.probed(now, latency),
            Op::Evidence { under, over } => {
                if model.stage() > Some(0) {
                    model.n += under + over;
                    model.over += over;
                }
                history.told = (model.n, model.over);
                model.evidence(now)
            }
            Op::Tick => {
                history.told = (model.n, model.over);
                model.evidence(now)
            }
            Op::CanaryBreach => (model.stage() > Some(0)).then(|| model.fail(now)),
            Op::Leave => {
                model.leave(now);
                None
            }
            Op::Forget => {
                *model = Model::with(model.config.clone(), model.growths);
                None
            }
        };
        history.lasted = None;
        if history.step == Some(RecoveryStep::Restore) {
            let lasted = now - model.left_at.unwrap();
            assert!(lasted >= model.interval(now), "within the dwell");
            if *wins {
                history.lasted = Some(ms(lasted));
                *model = Model::with(model.config.clone(), model.growths);
                model.restored_at = Some(now);
            }
        }
        history
    }

    /// A role leaves the rung it is on.
    fn preconditions(history: &Self, (op, _): &Turned) -> bool {
        !matches!(op, Op::Leave) || history.model.stage().is_none()
    }
}

struct Restoration;

impl StateMachineTest for Restoration {
    type SystemUnderTest = Recovery;
    type Reference = History;

    fn init_test(history: &History) -> Recovery {
        Recovery::new(history.model.config.clone()).unwrap()
    }

    fn apply(recovery: Recovery, history: &History, (op, wins): Turned) -> Recovery {
        let now = at(history.now);
        let step = match op {
            Op::Pass(_) => None,
            Op::Probe(latency) => recovery.probed(now, latency.map(ms), T95),
            Op::Evidence { .. } => recovery.canary_seen(now, history.told.0, history.told.1),
            Op::Tick => recovery.tick(now, history.told.0, history.told.1),
            Op::CanaryBreach => recovery.canary_breached(now),
            Op::Leave => {
                recovery.left(now);
                None
            }
            Op::Forget => {
                recovery.forget();
                None
            }
        };
        assert_eq!(step, history.step);
        if step == Some(RecoveryStep::Restore) && wins {
            assert_eq!(Some(recovery.restored(now)), history.lasted);
        }
        recovery
    }

    fn check_invariants(recovery: &Recovery, history: &History) {
        let History { model, now, .. } = history;
        assert_eq!(recovery.interval(at(*now)), ms(model.interval(*now)));
        assert_eq!(recovery.benched(), model.stage().is_some());
        assert_eq!(recovery.probes_wanted(), model.turn().is_some());
        assert!(is_share(recovery, model.share()));
    }
}

prop_state_machine! {
    #[test]
    fn inv60_61_and_63_every_step_is_what_the_history_asks_for(
        sequential 1..150 => Restoration
    );
}
