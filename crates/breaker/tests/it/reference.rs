//! Invariant 19: a breaker that keeps every outcome in a list answers the same.

use std::time::{Duration, Instant};

use evenkeel_breaker::{BreakerConfig, Cause, RateRule, RateWindow, State};
use proptest::prelude::*;

use crate::trace::{Answer, Machine, Op, Step, config, everything};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Good,
    Slow,
    Failure,
}

/// The slow, obvious breaker. Jitter is an input to it: how long an opening lasts is read off the breaker
/// under test (and checked elsewhere).
#[derive(Debug)]
struct Reference {
    config: BreakerConfig,
    origin: Instant,
    state: State,
    generation: u64,
    since: Instant,
    deadline: Instant,
    openings: u32,
    /// Outcomes of this closed generation, with the time slice each lies in.
    outcomes: Vec<(u64, Kind)>,
    newest_slice: u64,
    trials_out: u32,
    trials_succeeded: u32,
    stirred: Instant,
}

impl Reference {
    fn new(config: BreakerConfig, now: Instant) -> Self {
        Self {
            config,
            origin: now,
            state: State::Closed,
            generation: 0,
            since: now,
            deadline: now,
            openings: 0,
            outcomes: Vec::new(),
            newest_slice: 0,
            trials_out: 0,
            trials_succeeded: 0,
            stirred: now,
        }
    }

    fn slice(&self, now: Instant) -> u64 {
        let Some(RateRule {
            window: RateWindow::Time(span),
            ..
        }) = self.config.rate
        else {
            return 0;
        };
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).expect("a short span");
        nanos(now.saturating_duration_since(self.origin)) / nanos(span).div_ceil(16)
    }

    fn shift(&mut self, to: State, now: Instant) -> State {
        self.generation += 1;
        self.since = self.since.max(now);
        self.state = to;
        self.outcomes.clear();
        self.trials_out = 0;
        self.trials_succeeded = 0;
        self.stirred = self.since;
        if to == State::Closed {
            self.newest_slice = self.newest_slice.max(self.slice(self.since));
        }
        to
    }

    fn open(&mut self, now: Instant, lasts: Option<Duration>) -> State {
        let calm = self.state == State::Closed
            && now.saturating_duration_since(self.since) >= self.config.reset_after;
        self.openings = if calm { 1 } else { self.openings + 1 };
        self.shift(State::Open, now);
        self.deadline = self.since + lasts.expect("the breaker under test opens too");
        State::Open
    }

    fn trials_full(&self) -> bool {
        self.trials_out + self.trials_succeeded >= self.config.success_threshold
    }

    fn timed_out(&self, now: Instant) -> bool {
        self.state == State::HalfOpen
            && self.trials_full()
            && now.saturating_duration_since(self.stirred) >= self.config.half_open_timeout
    }

    /// Whether a call is admitted, and the state that is entered, if any.
    fn admit(&mut self, now: Instant, lasts: Option<Duration>) -> (bool, Option<State>) {
        match self.state {
            State::Closed | State::Disabled => (true, None),
            State::ForcedOpen => (false, None),
            State::Open if now < self.deadline => (false, None),
            State::Open => {
                let entered = self.shift(State::HalfOpen, now);
                self.begin_trial(now);
                (true, Some(entered))
            }
            State::HalfOpen if self.timed_out(now) => (false, Some(self.open(now, lasts))),
            State::HalfOpen if self.trials_full() => (false, None),
            State::HalfOpen => {
                self.begin_trial(now);
                (true, None)
            }
        }
    }

    fn begin_trial(&mut self, now: Instant) {
        self.trials_out += 1;
        self.stirred = self.stirred.max(now);
    }

    fn record(&mut self, kind: Kind, now: Instant, lasts: Option<Duration>) -> Option<State> {
        match self.state {
            State::Closed => {
                self.newest_slice = self.newest_slice.max(self.slice(now));
                self.outcomes.push((self.newest_slice, kind));
                (self.run() >= self.config.failure_threshold || self.rate_holds())
                    .then(|| self.open(now, lasts))
            }
            State::HalfOpen => {
                self.trials_out -= 1;
                self.stirred = self.stirred.max(now);
                if kind != Kind::Good {
                    return Some(self.open(now, lasts));
                }
                self.trials_succeeded += 1;
                (self.trials_succeeded == self.config.success_threshold)
                    .then(|| self.shift(State::Closed, now))
            }
            State::Open | State::ForcedOpen | State::Disabled => None,
        }
    }

    fn run(&self) -> u32 {
        let run = self
            .outcomes
            .iter()
            .rev()
            .take_while(|(_, kind)| *kind == Kind::Failure);
        u32::try_from(run.count()).expect("a short run")
    }

    fn window(&self) -> Vec<Kind> {
        let Some(rule) = self.config.rate else {
            return Vec::new();
        };
        let kinds = self.outcomes.iter();
        match rule.window {
            RateWindow::Time(_) => kinds
                .filter(|(slice, _)| slice + 16 > self.newest_slice)
                .map(|(_, kind)| *kind)
                .collect(),
            RateWindow::Calls(calls) => {
                let surplus = self.outcomes.len().saturating_sub(calls as usize);
                kinds.skip(surplus).map(|(_, kind)| *kind).collect()
            }
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a thousand"
    )]
    fn rate_holds(&self) -> bool {
        let Some(rule) = self.config.rate else {
            return false;
        };
        let window = self.window();
        let holds = |kind, share: f64| {
            let count = window.iter().filter(|seen| **seen == kind).count();
            count * 1000 >= (share * 1000.0).round() as usize * window.len()
        };
        window.len() >= rule.min_calls as usize
            && (holds(Kind::Failure, rule.failure_rate)
                || rule.slow.is_some_and(|slow| holds(Kind::Slow, slow.rate)))
    }

    /// Applies one operation that the breaker under test has seen too.
    fn apply(&mut self, step: &Step) -> Result<Option<State>, TestCaseError> {
        let now = step.now;
        let lasts = step.events.iter().find_map(|event| event.retry_in);
        Ok(match (step.op, step.answer) {
            (Op::Admit, answer) => {
                let (admitted, entered) = self.admit(now, lasts);
                prop_assert_eq!(matches!(answer, Answer::Admitted { .. }), admitted);
                entered
            }
            (op, Answer::Recorded { admitted, recorded }) => {
                prop_assert_eq!(recorded.stale, admitted != self.generation);
                let judges_slow = self.config.rate.is_some_and(|rule| rule.slow.is_some());
                let kind = match op {
                    Op::Failure(..) => Kind::Failure,
                    Op::Slow(_) if judges_slow => Kind::Slow,
                    _ => Kind::Good,
                };
                if recorded.stale {
                    None
                } else {
                    self.record(kind, now, lasts)
                }
            }
            (_, Answer::GivenBack { admitted, trial }) => {
                if trial && admitted == self.generation {
                    self.trials_out -= 1;
                }
                None
            }
            (Op::Tick, _) => self.timed_out(now).then(|| self.open(now, lasts)),
            (Op::Trip, _) => {
                let trips = matches!(self.state, State::Closed | State::HalfOpen);
                trips.then(|| self.open(now, lasts))
            }
            (Op::ForceOpen, _) => self.operate(State::ForcedOpen, now),
            (Op::Disable, _) => self.operate(State::Disabled, now),
            (Op::Reset, _) => self.operate(State::Closed, now),
            _ => None,
        })
    }

    fn operate(&mut self, to: State, now: Instant) -> Option<State> {
        self.openings = 0;
        if self.state == to {
            self.outcomes.clear();
            if to == State::Closed {
                self.newest_slice = self.newest_slice.max(self.slice(now));
            }
            return None;
        }
        Some(self.shift(to, now))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2 * ProptestConfig::default().cases, ..ProptestConfig::default() })]

    #[test]
    fn inv19_any_sequence_of_operations_gives_what_a_list_of_all_outcomes_gives(
        config in config(),
        ops in everything(120),
    ) {
        let mut machine = Machine::new(config);
        let mut reference = Reference::new(config, machine.now);
        for op in ops {
            let step = machine.apply(op);
            let entered = reference.apply(&step)?;
            let events: Vec<State> = step.events.iter().map(|event| event.to).collect();
            prop_assert_eq!(events, Vec::from_iter(entered), "{:?}", step);
            let seen = step.after;
            prop_assert_eq!(seen.generation, reference.generation, "{:?}", step);
            prop_assert_eq!(seen.since, reference.since, "{:?}", step);
            prop_assert_eq!(seen.openings_in_a_row, reference.openings, "{:?}", step);
            prop_assert_eq!(seen.trials_out, reference.trials_out, "{:?}", step);
            prop_assert_eq!(seen.trials_succeeded, reference.trials_succeeded, "{:?}", step);
            prop_assert_eq!(seen.failures_in_a_row, reference.run(), "{:?}", step);
            let expected = match reference.state {
                State::Open if step.now >= reference.deadline => State::HalfOpen,
                State::HalfOpen if reference.timed_out(step.now) => State::Open,
                state => state,
            };
            prop_assert_eq!(seen.state, expected, "{:?}", step);
            let counted = matches!(step.answer, Answer::Recorded { recorded, .. } if !recorded.stale);
            if counted {
                let window = reference.window();
                let failures = window.iter().filter(|kind| **kind == Kind::Failure).count();
                prop_assert_eq!(seen.window_calls, window.len() as u64, "{:?}", step);
                prop_assert_eq!(seen.window_failures, failures as u64, "{:?}", step);
            }
            if let (Some(Cause::FailureRate { failures, calls }), Some(rule)) =
                (step.events.first().map(|event| event.cause), config.rate)
            {
                prop_assert!(calls >= rule.min_calls.into() && failures <= calls, "{:?}", step);
            }
        }
    }
}
