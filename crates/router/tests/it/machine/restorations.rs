//! Rules of the way back: no step of it comes earlier than its evidence.

use super::history::{History, Told, between};
use super::roster::RUNGS;
use super::{Machine, Rule, config};
use evenkeel_probe::clears;
use proptest_state_machine::prop_state_machine;
use std::time::Duration;

const INTERVAL: u32 = 5;
const CAP: u32 = 20;
const SHARES: [f64; 2] = [0.3, 0.6];
const STAGE: Duration = Duration::from_secs(30);
const HOLD: Duration = Duration::from_secs(20);
const RESET: Duration = Duration::from_secs(120);
/// Fast is below 0.8 of T95.
const FAST: Duration = Duration::from_millis(800);

/// One rung's way back, as far as it was told.
#[derive(Default)]
struct Way {
    growths: u32,
    left: Option<Duration>,
    restored: Option<Duration>,
    /// Since when the present stage lasts, and which it is; 0 is that of probes alone.
    since: Duration,
    stage: Option<usize>,
    /// When its time began: with the beginning of the probe that led to it, if one did.
    clock: Duration,
    /// Probes in this stage that were fast, in a row, each an interval after the one before; and when the
    /// last that counted began.
    run: u32,
    counted: Option<Duration>,
    /// When the last probe began and ended.
    probe: (Duration, Duration),
}

impl Way {
    fn interval(&self) -> Duration {
        let seconds = INTERVAL << self.growths.min(8);
        Duration::from_secs(seconds.min(CAP).into())
    }

    fn begin(&mut self, stage: usize, at: Duration) {
        (self.since, self.stage, self.run) = (at, Some(stage), 0);
        self.clock = if self.probe.1 == at { self.probe.0 } else { at };
    }

    fn is_up(&self, at: Duration) -> bool {
        at >= self.clock + STAGE
    }

    fn leave(&mut self, at: Duration) {
        if self
            .restored
            .is_some_and(|restored| between(restored, at) >= RESET)
        {
            self.growths = 0;
        }
        if self
            .restored
            .is_some_and(|restored| between(restored, at) <= HOLD)
        {
            self.growths += 1;
        }
        (self.left, self.restored, self.counted) = (Some(at), None, None);
        self.begin(0, at);
    }

    /// A probe ended at `at`. When a failed one began is not told: it counts as begun when it ended. Probes
    /// come one at a time, so where that was in an earlier stage there is no run yet that it could break.
    fn probed(&mut self, at: Duration, latency: Option<Duration>) {
        let began = between(latency.unwrap_or_default(), at);
        assert!(
            began >= self.probe.1,
            "two probes of a model at once, at {at:?}"
        );
        self.probe = (began, at);
        let wanted = match self.stage {
            None => false,
            Some(0) => began >= self.since,
            Some(_) => self.is_up(began),
        };
        if !wanted {
            return;
        }
        if latency.is_none() {
            // It broke the run; whether it counted is not told. Left out, the next may count too soon only
            // here, never in the router.
            self.run = 0;
            return;
        }
        if self
            .counted
            .is_none_or(|last| between(last, began) >= self.interval())
        {
            self.counted = Some(began);
            self.run = if latency < Some(FAST) {
                self.run + 1
            } else {
                0
            };
        }
    }
}

/// Fewest and most observations that may have been counted by an instant, and how many of them over.
struct Evidence {
    seen: [usize; 2],
    over: [usize; 2],
}

impl Evidence {
    /// Of attempts at a rung begun since `since`, seen by `at`; at either instant itself the order is not
    /// told.
    fn of(history: &History, rung: usize, since: Duration, at: Duration) -> Self {
        let count = |surely: bool, over: bool| {
            let seen = history.seen(rung, since, surely, None);
            let by = seen
                .iter()
                .filter(|seen| seen.at < at || (!surely && seen.at == at));
            by.filter(|seen| seen.over || !over).count()
        };
        Self {
            seen: [count(true, false), count(false, false)],
            over: [count(true, true), count(false, true)],
        }
    }

    fn any(&self, is: impl Fn(u64, u64) -> bool) -> bool {
        let [least, most] = self.seen;
        let [least_over, most_over] = self.over;
        (least..=most)
            .any(|n| (least_over..=most_over.min(n)).any(|over| is(n as u64, over as u64)))
    }
}

/// Whether a stage may end well at `at`.
fn passes(history: &History, rung: usize, way: &Way, at: Duration) -> bool {
    if way.stage == Some(0) {
        return way.run >= 2 && at >= way.since + way.interval();
    }
    let is_up = way.is_up(at);
    Evidence::of(history, rung, way.since, at).any(|n, over| {
        (n >= 14 && clears(n, over, 0.20))
            || (is_up && n > 0 && over == 0)
            || (is_up && n == 0 && way.run >= 2)
    })
}

struct WayBack;

impl Rule for WayBack {
    fn check(history: &History) {
        let mut ways: [Way; RUNGS] = Default::default();
        for (place, (at, told)) in history.told.iter().enumerate() {
            let at = *at;
            match *told {
                Told::Left(from, ..) => ways[from].leave(at),
                Told::Probed(rung, latency) => ways[rung].probed(at, latency),
                Told::CanaryBegan(rung, share) => {
                    let way = &mut ways[rung];
                    let stage = way.stage.expect("a benched rung");
                    assert!(
                        passes(history, rung, way, at),
                        "stage {stage} of {rung} ended at {at:?}"
                    );
                    assert!(
                        (share - SHARES[stage]).abs() < f64::EPSILON,
                        "{share} after {stage}"
                    );
                    way.begin(stage + 1, at);
                }
                Told::CanaryFailed(rung, interval) => {
                    let way = &mut ways[rung];
                    assert!(way.stage > Some(0), "no canary of {rung} at {at:?}");
                    let breached = history.told[..place]
                        .iter()
                        .rev()
                        .any(|(when, told)| *told == Told::Breached(rung) && *when >= way.since);
                    let is_up = way.is_up(at);
                    let late = Evidence::of(history, rung, way.since, at).any(|_, over| over > 0);
                    assert!(
                        breached || (is_up && late),
                        "the canary of {rung} failed at {at:?}"
                    );
                    way.growths += 1;
                    assert_eq!(
                        interval,
                        way.interval(),
                        "after the canary of {rung} failed"
                    );
                    way.begin(0, at);
                }
                Told::Restored(_, to, _, lasted) => {
                    let way = &ways[to];
                    assert_eq!(way.stage, Some(SHARES.len()), "restored {to} at {at:?}");
                    assert!(passes(history, to, way, at), "restored {to} at {at:?}");
                    let left = way.left.expect("it was left");
                    assert_eq!(lasted, between(left, at));
                    assert!(lasted >= way.interval(), "within the dwell");
                    for (rung, way) in ways.iter_mut().enumerate().skip(to) {
                        way.stage = None;
                        way.restored = (rung == to).then_some(at);
                    }
                }
                _ => {}
            }
        }
    }
}

prop_state_machine! {
    #![proptest_config(config(60))]

    #[test]
    fn inv59_to_61_63_and_64_no_step_of_the_way_back_comes_before_its_evidence(
        sequential 1..24 => Machine<WayBack>
    );
}
