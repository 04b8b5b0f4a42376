//! The breaker and the retry budget as state machines beside plain references (invariants 1 to 4, 7 to 9, 12,
//! 16, 19; 49, 51, 52, 54). There is no jitter here, so the reference knows how long each opening lasts
//! without asking. Times in whole milliseconds since the origin.

use std::{
    mem,
    sync::{Arc, Mutex},
    time::Instant,
};

use evenkeel_breaker::{
    Breaker, BreakerConfig, OwnedPermit, RateRule, RateWindow, RetryBudget, State,
};
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

use crate::trace::{ms, origin};

const OPEN: u64 = 100;
const OPEN_CAP: u64 = 700;
const RESET_AFTER: u64 = 300;
const HALF_OPEN_TIMEOUT: u64 = 250;
/// Sixteen slices of 10 ms.
const WINDOW: u64 = 160;

/// One operation; an index picks one of the permits that are out.
#[derive(Clone, Copy, Debug)]
enum Op {
    Pass(u64),
    Admit,
    Success(usize),
    Failure(usize, Option<u64>),
    GiveBack(usize),
    Ignore(usize),
    Tick,
    Trip,
    ForceOpen,
    Disable,
    Reset,
}

/// The breaker that keeps every outcome in a list.
#[derive(Clone, Debug)]
struct Plain {
    config: BreakerConfig,
    now: u64,
    state: State,
    generation: u64,
    since: u64,
    deadline: u64,
    openings: u32,
    /// Outcomes of this closed generation: in which slice, and whether it failed.
    outcomes: Vec<(u64, bool)>,
    newest: u64,
    trials_out: u32,
    trials_succeeded: u32,
    stirred: u64,
    /// The generation of each permit that is out, and whether it is a trial.
    permits: Vec<(u64, bool)>,
    /// What the latest operation led to.
    admitted: Option<bool>,
    stale: Option<bool>,
    entered: Option<State>,
}

impl Plain {
    fn new(config: BreakerConfig) -> Self {
        Self {
            config,
            now: 0,
            state: State::Closed,
            generation: 0,
            since: 0,
            deadline: 0,
            openings: 0,
            outcomes: Vec::new(),
            newest: 0,
            trials_out: 0,
            trials_succeeded: 0,
            stirred: 0,
            permits: Vec::new(),
            admitted: None,
            stale: None,
            entered: None,
        }
    }

    fn enter(&mut self, state: State) {
        self.generation += 1;
        (self.state, self.since, self.stirred) = (state, self.now, self.now);
        self.outcomes.clear();
        (self.trials_out, self.trials_succeeded) = (0, 0);
        if state == State::Closed {
            self.newest = self.newest.max(self.now / 10);
        }
        self.entered = Some(state);
    }

    fn open(&mut self, retry_after: Option<u64>) {
        let calm = self.state == State::Closed && self.now - self.since >= RESET_AFTER;
        self.openings = if calm { 1 } else { self.openings + 1 };
        let lasts = (OPEN << (self.openings - 1).min(8)).min(OPEN_CAP);
        let asked = retry_after.unwrap_or(0).min(OPEN_CAP);
        self.enter(State::Open);
        self.deadline = self.now + lasts.max(asked);
    }

    fn is_full(&self) -> bool {
        self.trials_out + self.trials_succeeded >= self.config.success_threshold
    }

    fn has_timed_out(&self) -> bool {
        self.state == State::HalfOpen
            && self.is_full()
            && self.now - self.stirred >= HALF_OPEN_TIMEOUT
    }

    fn admit(&mut self) {
        let admitted = match self.state {
            State::Closed | State::Disabled => true,
            State::ForcedOpen => false,
            State::Open => {
                let is_over = self.now >= self.deadline;
                if is_over {
                    self.enter(State::HalfOpen);
                }
                is_over
            }
            State::HalfOpen if self.has_timed_out() => {
                self.open(None);
                false
            }
            State::HalfOpen => !self.is_full(),
        };
        let trial = admitted && self.state == State::HalfOpen;
        if trial {
            self.trials_out += 1;
            self.stirred = self.now;
        }
        if admitted {
            self.permits.push((self.generation, trial));
        }
        self.admitted = Some(admitted);
    }

    fn record(&mut self, permit: usize, failed: bool, retry_after: Option<u64>) {
        let (generation, _) = self.permits.swap_remove(permit);
        let stale = generation != self.generation;
        self.stale = Some(stale);
        match self.state {
            _ if stale => {}
            State::Closed => {
                self.newest = self.newest.max(self.now / 10);
                self.outcomes.push((self.newest, failed));
                if self.run() >= self.config.failure_threshold || self.rate_holds() {
                    self.open(retry_after);
                }
            }
            State::HalfOpen => {
                self.trials_out -= 1;
                self.stirred = self.now;
                if failed {
                    self.open(retry_after);
                    return;
                }
                self.trials_succeeded += 1;
                if self.trials_succeeded == self.config.success_threshold {
                    self.enter(State::Closed);
                }
            }
            State::Open | State::ForcedOpen | State::Disabled => {}
        }
    }

    fn run(&self) -> u32 {
        let run = self.outcomes.iter().rev().take_while(|(_, failed)| *failed);
        u32::try_from(run.count()).expect("a short run")
    }

    /// Calls and failures in the window as of the newest slice.
    fn window(&self) -> (u64, u64) {
        let Some(rule) = self.config.rate else {
            return (0, 0);
        };
        let calls = self.outcomes.iter().rev();
        let inside: Vec<bool> = match rule.window {
            RateWindow::Time(_) => calls
                .filter(|(slice, _)| slice + 16 > self.newest)
                .map(|(_, failed)| *failed)
                .collect(),
            RateWindow::Calls(n) => calls.take(n as usize).map(|(_, failed)| *failed).collect(),
        };
        let failures = inside.iter().filter(|failed| **failed).count();
        (inside.len() as u64, failures as u64)
    }

    fn rate_holds(&self) -> bool {
        let Some(rule) = self.config.rate else {
            return false;
        };
        let (calls, failures) = self.window();
        calls >= u64::from(rule.min_calls) && failures * 1_000 >= 500 * calls
    }

    fn give_back(&mut self, permit: usize) {
        let (generation, trial) = self.permits.swap_remove(permit);
        if trial && generation == self.generation {
            self.trials_out -= 1;
        }
    }

    fn order(&mut self, state: State) {
        self.openings = 0;
        if self.state == state {
            self.outcomes.clear();
        } else {
            self.enter(state);
        }
    }
}

fn config() -> impl Strategy<Value = BreakerConfig> {
    let window = prop_oneof![
        Just(RateWindow::Time(ms(WINDOW))),
        Just(RateWindow::Calls(6))
    ];
    let rate = prop::option::of(window.prop_map(|window| RateRule {
        failure_rate: 0.5,
        min_calls: 4,
        window,
        slow: None,
    }));
    (1..5_u32, 1..4_u32, rate).prop_map(|(failure_threshold, success_threshold, rate)| {
        BreakerConfig {
            failure_threshold,
            success_threshold,
            open: ms(OPEN),
            growth: 2.0,
            open_cap: ms(OPEN_CAP),
            jitter: 0.0,
            reset_after: ms(RESET_AFTER),
            half_open_timeout: ms(HALF_OPEN_TIMEOUT),
            rate,
        }
    })
}

impl ReferenceStateMachine for Plain {
    type State = Self;
    type Transition = Op;

    fn init_state() -> BoxedStrategy<Self> {
        config().prop_map(Self::new).boxed()
    }

    fn transitions(plain: &Self) -> BoxedStrategy<Op> {
        let permit = 0..plain.permits.len().max(1);
        // To the end of an opening and a millisecond beside it; else some time, or a long one.
        let left = plain.deadline.saturating_sub(plain.now);
        let to_the_end = (0..3_u64).prop_map(move |ms| (left + ms).saturating_sub(1));
        let pass = prop_oneof![3 => 0..30_u64, 3 => to_the_end, 1 => 100..700_u64];
        let asked = prop::option::weighted(0.2, 1..1_000_u64);
        prop_oneof![
            4 => pass.prop_map(Op::Pass),
            8 => Just(Op::Admit),
            4 => permit.clone().prop_map(Op::Success),
            6 => (permit.clone(), asked).prop_map(|(permit, asked)| Op::Failure(permit, asked)),
            1 => permit.clone().prop_map(Op::GiveBack),
            1 => permit.prop_map(Op::Ignore),
            1 => Just(Op::Tick),
            1 => prop_oneof![
                3 => Just(Op::Trip),
                1 => Just(Op::ForceOpen),
                1 => Just(Op::Disable),
                4 => Just(Op::Reset),
            ],
        ]
        .boxed()
    }

    fn apply(mut plain: Self, op: &Op) -> Self {
        (plain.admitted, plain.stale, plain.entered) = (None, None, None);
        match *op {
            Op::Pass(millis) => plain.now += millis,
            Op::Admit => plain.admit(),
            Op::Success(permit) => plain.record(permit, false, None),
            Op::Failure(permit, asked) => plain.record(permit, true, asked),
            Op::GiveBack(permit) | Op::Ignore(permit) => plain.give_back(permit),
            Op::Tick if plain.has_timed_out() => plain.open(None),
            Op::Trip if matches!(plain.state, State::Closed | State::HalfOpen) => plain.open(None),
            Op::Tick | Op::Trip => {}
            Op::ForceOpen => plain.order(State::ForcedOpen),
            Op::Disable => plain.order(State::Disabled),
            Op::Reset => plain.order(State::Closed),
        }
        plain
    }

    fn preconditions(plain: &Self, op: &Op) -> bool {
        match *op {
            Op::Success(i) | Op::Failure(i, _) | Op::GiveBack(i) | Op::Ignore(i) => {
                i < plain.permits.len()
            }
            _ => true,
        }
    }
}

/// The breaker under test.
struct Real {
    breaker: Arc<Breaker>,
    origin: Instant,
    permits: Vec<OwnedPermit>,
    heard: Arc<Mutex<Vec<State>>>,
}

impl Real {
    fn apply(&mut self, plain: &Plain, op: Op) {
        let now = self.origin + ms(plain.now);
        let (mut admitted, mut stale) = (None, None);
        match op {
            Op::Pass(_) => {}
            Op::Admit => {
                let answer = self.breaker.admit_owned(now);
                admitted = Some(answer.is_ok());
                self.permits.extend(answer);
            }
            Op::Success(i) => stale = Some(self.permits.swap_remove(i).success(now).stale),
            Op::Failure(i, asked) => {
                let permit = self.permits.swap_remove(i);
                stale = Some(permit.failure(now, asked.map(ms)).stale);
            }
            Op::GiveBack(i) => drop(self.permits.swap_remove(i)),
            Op::Ignore(i) => self.permits.swap_remove(i).ignore(),
            Op::Tick => drop(self.breaker.tick(now)),
            Op::Trip => drop(self.breaker.trip(now)),
            Op::ForceOpen => drop(self.breaker.force_open(now)),
            Op::Disable => drop(self.breaker.disable(now)),
            Op::Reset => drop(self.breaker.reset(now)),
        }
        assert_eq!((admitted, stale), (plain.admitted, plain.stale));
        let heard = mem::take(&mut *self.heard.lock().expect("nobody panics with it"));
        assert_eq!(heard, Vec::from_iter(plain.entered));
    }
}

struct BreakerMachine;

impl StateMachineTest for BreakerMachine {
    type SystemUnderTest = Real;
    type Reference = Plain;

    fn init_test(plain: &Plain) -> Real {
        let origin = origin();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&heard);
        let breaker = Breaker::new(plain.config, 11, origin)
            .expect("valid settings")
            .with_listener(move |change| {
                ear.lock().expect("nobody panics with it").push(change.to);
            });
        Real {
            breaker: Arc::new(breaker),
            origin,
            permits: Vec::new(),
            heard,
        }
    }

    fn apply(mut real: Real, plain: &Plain, op: Op) -> Real {
        real.apply(plain, op);
        real
    }

    fn check_invariants(real: &Real, plain: &Plain) {
        let now = real.origin + ms(plain.now);
        let seen = real.breaker.snapshot(now);
        let state = match plain.state {
            State::Open if plain.now >= plain.deadline => State::HalfOpen,
            State::HalfOpen if plain.has_timed_out() => State::Open,
            state => state,
        };
        assert_eq!((seen.state, seen.generation), (state, plain.generation));
        assert_eq!(seen.since, real.origin + ms(plain.since));
        assert_eq!(seen.openings_in_a_row, plain.openings);
        assert_eq!(
            (seen.trials_out, seen.trials_succeeded),
            (plain.trials_out, plain.trials_succeeded)
        );
        assert_eq!(seen.failures_in_a_row, plain.run());
        if plain.state == State::Open && plain.now < plain.deadline {
            let refused = real.breaker.would_refuse(now).expect("it is open");
            assert_eq!(refused.retry_in, ms(plain.deadline - plain.now));
        }
        if plain.stale == Some(false) {
            assert_eq!((seen.window_calls, seen.window_failures), plain.window());
        }
    }
}

/// Thousandths of a token: shares are whole thousandths here.
const TOKEN: u64 = 1_000;
const PERIOD: u64 = 1_000;

#[derive(Clone, Copy, Debug)]
enum Use {
    First,
    Retry,
    Pass(u64),
}

/// The budget kept in plain numbers.
#[derive(Clone, Debug)]
struct Purse {
    share: u64,
    reserve: u64,
    balance: u64,
    /// What this window and the one before it added.
    added: u64,
    window: u64,
    now: u64,
    granted: bool,
    first: u64,
    retries: u64,
}

impl ReferenceStateMachine for Purse {
    type State = Self;
    type Transition = Use;

    fn init_state() -> BoxedStrategy<Self> {
        (0..=TOKEN, 0..5_u64)
            .prop_map(|(share, reserve)| Self {
                share,
                reserve,
                balance: reserve * TOKEN,
                added: 0,
                window: 0,
                now: 0,
                granted: false,
                first: 0,
                retries: 0,
            })
            .boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Use> {
        prop_oneof![
            4 => Just(Use::First),
            3 => Just(Use::Retry),
            1 => (0..2_500_u64).prop_map(Use::Pass),
        ]
        .boxed()
    }

    fn apply(mut purse: Self, one: &Use) -> Self {
        purse.granted = false;
        match *one {
            Use::First => {
                purse.balance += purse.share;
                purse.added += purse.share;
                purse.first += 1;
            }
            Use::Retry if purse.balance >= TOKEN => {
                purse.balance -= TOKEN;
                purse.retries += 1;
                purse.granted = true;
            }
            Use::Retry => {}
            Use::Pass(millis) => purse.now += millis,
        }
        let window = purse.now / PERIOD;
        if window > purse.window {
            let carried = if window == purse.window + 1 {
                purse.added
            } else {
                0
            };
            purse.balance = purse.balance.min(purse.reserve * TOKEN + carried);
            (purse.window, purse.added) = (window, 0);
        }
        purse
    }
}

struct BudgetMachine;

impl StateMachineTest for BudgetMachine {
    type SystemUnderTest = (RetryBudget, Instant);
    type Reference = Purse;

    #[expect(clippy::cast_precision_loss, reason = "a share of a thousand")]
    fn init_test(purse: &Purse) -> Self::SystemUnderTest {
        let origin = origin();
        let share = purse.share as f64 / TOKEN as f64;
        let reserve = u32::try_from(purse.reserve).expect("a small reserve");
        let budget = RetryBudget::new(share, reserve, ms(PERIOD), origin).expect("valid settings");
        (budget, origin)
    }

    fn apply(real: Self::SystemUnderTest, purse: &Purse, one: Use) -> Self::SystemUnderTest {
        let (budget, origin) = &real;
        let now = *origin + ms(purse.now);
        match one {
            Use::First => budget.deposit(now),
            Use::Retry => assert_eq!(budget.try_withdraw(now), purse.granted),
            Use::Pass(_) => {}
        }
        real
    }

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn check_invariants((budget, origin): &Self::SystemUnderTest, purse: &Purse) {
        let balance = budget.balance(*origin + ms(purse.now));
        assert!(
            (balance - purse.balance as f64 / TOKEN as f64).abs() < 1e-6,
            "{balance}"
        );
        assert!(purse.retries * TOKEN <= purse.reserve * TOKEN + purse.share * purse.first);
    }
}

prop_state_machine! {
    #[test]
    fn inv01_to_04_07_to_09_12_16_and_19_it_is_the_breaker_that_keeps_every_outcome_in_a_list(
        sequential 1..150 => BreakerMachine
    );

    #[test]
    fn inv49_51_52_and_54_the_retry_budget_is_the_one_kept_in_plain_numbers(
        sequential 1..200 => BudgetMachine
    );
}
