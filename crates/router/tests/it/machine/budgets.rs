//! Rules of the budgets: kept in plain numbers, event by event, they are never overspent and never refuse
//! what they hold.

use super::history::{Attempt, History, Told};
use super::roster::RUNGS;
use super::subject::RETRIES;
use super::{Machine, Rule, config};
use crate::world::ms;
use evenkeel_core::{AttemptKind, AttemptOutcome, Trail, TrailStep};
use proptest_state_machine::prop_state_machine;
use std::time::Duration;

/// Budgets are kept to one in a million.
const GRAIN: f64 = 1e-4;

/// Tokens of one provider, by the words of the budget's documentation.
struct Retries {
    balance: f64,
    window: u128,
    added: f64,
}

impl Retries {
    fn turn(&mut self, now: Duration) {
        let window = now.as_nanos() / RETRIES.window.as_nanos();
        if window > self.window {
            let carried = if window == self.window + 1 {
                self.added
            } else {
                0.0
            };
            self.balance = self.balance.min(f64::from(RETRIES.reserve) + carried);
            (self.window, self.added) = (window, 0.0);
        }
    }
}

/// What a failed attempt's trail says came next for its rung.
enum Next {
    Retry,
    Refused,
    Else,
}

fn next(trail: &Trail, index: usize) -> Next {
    let of = |step: &TrailStep| match step {
        TrailStep::Attempt(record) if record.index == index => match &record.outcome {
            AttemptOutcome::Failed(failure) => {
                record.ended.map(|at| (record.rung, at, failure.class))
            }
            _ => None,
        },
        _ => None,
    };
    let Some((rung, ended, class)) = trail.steps.iter().find_map(of) else {
        return Next::Else;
    };
    for step in &trail.steps {
        match *step {
            TrailStep::RetryRefused { rung: r, at } if r == rung && at == ended => {
                return Next::Refused;
            }
            TrailStep::Waited {
                rung: r,
                at,
                reason,
                ..
            } if r == rung && at == ended && reason == class.as_str() => {
                return Next::Retry;
            }
            _ => {}
        }
    }
    Next::Else
}

/// Same-rung retries and only they draw on the provider's budget; every other attempt pays in once.
struct RetryBudgets;

impl Rule for RetryBudgets {
    fn check(history: &History) {
        for rung in 0..RUNGS {
            let mut tokens = Retries {
                balance: f64::from(RETRIES.reserve),
                window: 0,
                added: 0.0,
            };
            let (mut others, mut retries) = (0.0, 0.0);
            for (at, told) in &history.told {
                tokens.turn(*at);
                match told {
                    Told::AttemptBegan(index) if history.attempts[*index].rung == rung => {
                        if history.attempts[*index].kind == AttemptKind::Retry {
                            retries += 1.0;
                        } else {
                            others += 1.0;
                            tokens.balance += RETRIES.ratio;
                            tokens.added += RETRIES.ratio;
                        }
                    }
                    Told::AttemptEnded(index) if history.attempts[*index].rung == rung => {
                        match after(history, *index) {
                            Next::Retry => tokens.balance -= 1.0,
                            Next::Refused => {
                                assert!(
                                    tokens.balance < 1.0 + GRAIN,
                                    "refused one of {}",
                                    tokens.balance
                                );
                            }
                            Next::Else => {}
                        }
                    }
                    _ => {}
                }
                assert!(
                    tokens.balance > -GRAIN,
                    "rung {rung} owes {} at {at:?}",
                    -tokens.balance
                );
                assert!(retries <= f64::from(RETRIES.reserve) + RETRIES.ratio * others + GRAIN);
            }
        }
    }
}

fn after(history: &History, index: usize) -> Next {
    let Attempt { call, .. } = history.attempts[index];
    let call = &history.calls[call];
    let within = call.attempts.iter().position(|a| *a == index).unwrap();
    call.ends
        .first()
        .map_or(Next::Else, |end| next(&end.trail, within))
}

/// Hedges out of breach draw on the role's bucket; others are of a rung that is in breach or benched.
struct HedgeBudget;

const BURST: f64 = 3.0;
const SHARE: f64 = 0.05;

impl Rule for HedgeBudget {
    fn check(history: &History) {
        let mut level = BURST;
        let mut levels = Vec::new();
        for (place, (at, told)) in history.told.iter().enumerate() {
            match told {
                Told::CallBegan(_) => level = (level + SHARE).min(BURST),
                Told::Hedged(_, true) => {
                    level -= 1.0;
                    assert!(
                        level > -GRAIN,
                        "a hedge at {at:?} on a bucket of {}",
                        level + 1.0
                    );
                }
                Told::Hedged(rung, false) => {
                    // No breach rests on fewer than three exceedances of one measure. Nor need it be
                    // told yet: old observations leave a window, and what stays may be one.
                    let anew = history.anew_before(place, *rung);
                    let breached = [false, true].into_iter().any(|streams| {
                        let seen = history.seen(*rung, anew, false, Some(streams));
                        let late = seen.iter().filter(|seen| seen.over && seen.at <= *at);
                        late.count() >= 3
                    });
                    assert!(
                        breached || history.benched_before(place, *rung),
                        "an unbudgeted hedge of rung {rung} at {at:?}"
                    );
                }
                _ => {}
            }
            levels.push((*at, level));
        }
        for call in &history.calls {
            for step in call.ends.iter().flat_map(|end| &end.trail.steps) {
                let TrailStep::HedgeRefused {
                    reason: "budget",
                    at,
                    ..
                } = step
                else {
                    continue;
                };
                let when = call.began + *at;
                let near = levels.iter().filter(|(at, _)| *at <= when);
                let same = near
                    .clone()
                    .filter(|(at, _)| *at == when)
                    .map(|(_, level)| *level);
                let lowest = near
                    .clone()
                    .next_back()
                    .map(|(_, level)| *level)
                    .into_iter()
                    .chain(same);
                let lowest = lowest.fold(f64::MAX, f64::min);
                assert!(
                    lowest < 1.0 + GRAIN,
                    "a hedge was refused at {when:?} with {lowest}"
                );
            }
        }
    }
}

/// A call asks each rung once, and again only by the retries its class allows; and it ends in time.
struct Bounds;

impl Rule for Bounds {
    fn check(history: &History) {
        for call in &history.calls {
            let attempts = || call.attempts.iter().map(|a| &history.attempts[*a]);
            for rung in 0..RUNGS {
                let of = |retry: bool| {
                    let retries = |a: &&Attempt| (a.kind == AttemptKind::Retry) == retry;
                    attempts()
                        .filter(|a| a.rung == rung)
                        .filter(retries)
                        .count()
                };
                assert!(of(false) <= 1 && of(true) <= 1, "rung {rung} of {call:?}");
            }
            let deadline = call.began + Duration::from_secs(60);
            assert!(attempts().all(|a| a.began < deadline), "{call:?}");
            for end in &call.ends {
                // A timer fires up to a millisecond late.
                assert!(end.duration <= Duration::from_secs(60) + ms(1), "{call:?}");
            }
        }
    }
}

prop_state_machine! {
    #![proptest_config(config(51))]

    #[test]
    fn inv51_52_and_55_retries_draw_on_their_providers_budget_and_never_overdraw_it(
        sequential 1..24 => Machine<RetryBudgets>
    );
}

prop_state_machine! {
    #![proptest_config(config(510))]

    #[test]
    fn inv51_and_67_hedges_out_of_breach_draw_on_the_roles_bucket_and_never_overdraw_it(
        sequential 1..24 => Machine<HedgeBudget>
    );
}

prop_state_machine! {
    #![proptest_config(config(53))]

    #[test]
    fn inv44_and_53_a_call_asks_each_rung_once_beside_its_retries_and_ends_in_time(
        sequential 1..24 => Machine<Bounds>
    );
}
