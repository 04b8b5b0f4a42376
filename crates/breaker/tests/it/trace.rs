//! Random operations on a breaker, and what each of them did.

use std::{
    mem,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use evenkeel_breaker::{
    Breaker, BreakerConfig, OwnedPermit, RateRule, RateWindow, Recorded, Refused, SlowRule,
    Snapshot, Transition,
};
use proptest::{option, prelude::*};

/// What a slow-call rule of [`config`] takes for slow.
pub(crate) const SLOW: Duration = Duration::from_millis(50);

/// A reading to start from, with a day before it.
#[expect(
    clippy::disallowed_methods,
    reason = "an origin; tests move time by adding to it"
)]
pub(crate) fn origin() -> Instant {
    Instant::now() + Duration::from_secs(24 * 3600)
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One operation; an index picks one of the permits that are held, if there is any.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Pass(Duration),
    /// The next operation alone sees a reading that is so much earlier.
    Back(Duration),
    /// Time passes until so many nanoseconds before (or after) the breaker says to ask again.
    Await(i64),
    Admit,
    Success(usize),
    Slow(usize),
    Failure(usize, Option<Duration>),
    Drop(usize),
    Ignore(usize),
    Leak(usize),
    Tick,
    Trip,
    ForceOpen,
    Disable,
    Reset,
}

/// What an operation returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Nothing,
    Admitted { generation: u64, trial: bool },
    Refused(Refused),
    Recorded { admitted: u64, recorded: Recorded },
    GivenBack { admitted: u64, trial: bool },
    Changed(Option<Transition>),
}

/// One operation with what came of it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) op: Op,
    pub(crate) now: Instant,
    pub(crate) before: Snapshot,
    pub(crate) answer: Answer,
    pub(crate) events: Vec<Transition>,
    pub(crate) after: Snapshot,
}

/// Runs operations against a new breaker.
pub(crate) fn run(config: BreakerConfig, ops: &[Op]) -> Vec<Step> {
    let mut machine = Machine::new(config);
    ops.iter().map(|op| machine.apply(*op)).collect()
}

/// All events of a run.
pub(crate) fn events(steps: &[Step]) -> Vec<Transition> {
    steps
        .iter()
        .flat_map(|step| step.events.iter().copied())
        .collect()
}

/// A breaker with its clock and the permits that are out.
pub(crate) struct Machine {
    pub(crate) breaker: Arc<Breaker>,
    pub(crate) now: Instant,
    permits: Vec<OwnedPermit>,
    heard: Arc<Mutex<Vec<Transition>>>,
    back: Duration,
}

impl Machine {
    pub(crate) fn new(config: BreakerConfig) -> Self {
        let now = origin();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&heard);
        let breaker = Breaker::new(config, 11, now)
            .expect("valid settings")
            .with_listener(move |transition| {
                ear.lock().expect("nobody panics with it").push(*transition);
            });
        Self {
            breaker: Arc::new(breaker),
            now,
            permits: Vec::new(),
            heard,
            back: Duration::ZERO,
        }
    }

    pub(crate) fn apply(&mut self, op: Op) -> Step {
        let now = match op {
            Op::Pass(_) | Op::Back(_) | Op::Await(_) => self.now,
            _ => {
                let back = mem::take(&mut self.back);
                self.now
                    .checked_sub(back)
                    .expect("a day lies before the origin")
            }
        };
        let before = self.breaker.snapshot(now);
        let answer = self.answer(op, now);
        Step {
            op,
            now,
            before,
            answer,
            events: mem::take(&mut *self.heard.lock().expect("nobody panics with it")),
            after: self.breaker.snapshot(now),
        }
    }

    fn answer(&mut self, op: Op, now: Instant) -> Answer {
        let breaker = Arc::clone(&self.breaker);
        match op {
            Op::Pass(span) => self.now += span,
            Op::Back(span) => self.back = span,
            Op::Await(offset) => {
                if let Some(refused) = breaker.would_refuse(now) {
                    let aim = Duration::from_nanos(offset.unsigned_abs());
                    self.now += if offset < 0 {
                        refused.retry_in.saturating_sub(aim)
                    } else {
                        refused.retry_in + aim
                    };
                }
            }
            Op::Admit => return self.admit(now),
            Op::Success(pick) => return self.verdict(pick, |permit| permit.success(now)),
            Op::Slow(pick) => return self.verdict(pick, |permit| permit.success_in(now, SLOW * 2)),
            Op::Failure(pick, retry_after) => {
                return self.verdict(pick, |permit| permit.failure(now, retry_after));
            }
            Op::Drop(pick) => return self.give_back(pick, drop),
            Op::Ignore(pick) => return self.give_back(pick, OwnedPermit::ignore),
            Op::Leak(pick) => {
                if let Some(permit) = self.take(pick) {
                    mem::forget(permit);
                }
            }
            Op::Tick => return Answer::Changed(breaker.tick(now)),
            Op::Trip => return Answer::Changed(breaker.trip(now)),
            Op::ForceOpen => return Answer::Changed(breaker.force_open(now)),
            Op::Disable => return Answer::Changed(breaker.disable(now)),
            Op::Reset => return Answer::Changed(breaker.reset(now)),
        }
        Answer::Nothing
    }

    fn admit(&mut self, now: Instant) -> Answer {
        match self.breaker.admit_owned(now) {
            Ok(permit) => {
                let answer = Answer::Admitted {
                    generation: permit.generation(),
                    trial: permit.is_trial(),
                };
                self.permits.push(permit);
                answer
            }
            Err(refused) => Answer::Refused(refused),
        }
    }

    fn take(&mut self, pick: usize) -> Option<OwnedPermit> {
        (!self.permits.is_empty()).then(|| self.permits.swap_remove(pick % self.permits.len()))
    }

    fn verdict(&mut self, pick: usize, end: impl FnOnce(OwnedPermit) -> Recorded) -> Answer {
        self.take(pick)
            .map_or(Answer::Nothing, |permit| Answer::Recorded {
                admitted: permit.generation(),
                recorded: end(permit),
            })
    }

    fn give_back(&mut self, pick: usize, end: impl FnOnce(OwnedPermit)) -> Answer {
        self.take(pick).map_or(Answer::Nothing, |permit| {
            let answer = Answer::GivenBack {
                admitted: permit.generation(),
                trial: permit.is_trial(),
            };
            end(permit);
            answer
        })
    }
}

/// Settings small enough for every rule to be met within a few operations.
pub(crate) fn config() -> impl Strategy<Value = BreakerConfig> {
    let thresholds = (1_u32..=5, 1_u32..=3);
    let openings = (
        1_u64..=100,
        1_u64..=10,
        prop_oneof![Just(1.0), Just(2.0), Just(3.7)],
    );
    let spans = (0_u64..=500, 1_u64..=200);
    let jitter = prop_oneof![Just(0.0), Just(0.1), Just(0.9)];
    (
        thresholds,
        openings,
        jitter,
        spans,
        option::weighted(0.7, rate()),
    )
        .prop_map(
            |((failures, successes), (open, cap, growth), jitter, (reset_after, timeout), rate)| {
                BreakerConfig {
                    failure_threshold: failures,
                    success_threshold: successes,
                    open: ms(open),
                    growth,
                    open_cap: ms(open * cap),
                    jitter,
                    reset_after: ms(reset_after),
                    half_open_timeout: ms(timeout),
                    rate,
                }
            },
        )
}

/// A rate rule over a small window of either kind.
pub(crate) fn rate() -> impl Strategy<Value = RateRule> {
    let window = prop_oneof![
        (10_u64..=600).prop_map(|span| RateWindow::Time(ms(span))),
        (6_u32..=20).prop_map(RateWindow::Calls),
    ];
    let slow = option::of((0.001..=1.0_f64).prop_map(|rate| SlowRule {
        longer_than: SLOW,
        rate,
    }));
    (0.001..=1.0_f64, 1_u32..=6, window, slow).prop_map(
        |(failure_rate, min_calls, window, slow)| RateRule {
            failure_rate,
            min_calls,
            window,
            slow,
        },
    )
}

/// Operations of callers: no operator and no clock that runs back.
pub(crate) fn calls(length: usize) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(call(), 0..length)
}

/// Every operation.
pub(crate) fn everything(length: usize) -> impl Strategy<Value = Vec<Op>> {
    let operator = prop_oneof![
        Just(Op::Trip),
        Just(Op::ForceOpen),
        Just(Op::Disable),
        Just(Op::Reset),
        Just(Op::Reset),
        (1_u64..=400).prop_map(|span| Op::Back(ms(span))),
    ];
    prop::collection::vec(prop_oneof![8 => call(), 1 => operator], 0..length)
}

fn call() -> impl Strategy<Value = Op> {
    let retry_after = option::weighted(0.2, (0_u64..=400).prop_map(ms));
    prop_oneof![
        8 => Just(Op::Admit),
        3 => any::<usize>().prop_map(Op::Success),
        1 => any::<usize>().prop_map(Op::Slow),
        5 => (any::<usize>(), retry_after).prop_map(|(pick, after)| Op::Failure(pick, after)),
        1 => any::<usize>().prop_map(Op::Drop),
        1 => any::<usize>().prop_map(Op::Ignore),
        1 => any::<usize>().prop_map(Op::Leak),
        1 => Just(Op::Tick),
        3 => (0_u64..=120).prop_map(|span| Op::Pass(ms(span))),
        3 => prop_oneof![Just(0_i64), Just(-1), Just(1)].prop_map(Op::Await),
    ]
}
