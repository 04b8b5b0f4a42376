use super::*;
use proptest::prelude::*;

fn start() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn draw(tokens: u64) -> Draw {
    Draw {
        input: tokens,
        output: 0,
    }
}

fn throttle(requests: u32, tokens: u32, now: Instant) -> Throttle {
    Throttle::new(NonZeroU32::new(requests), NonZeroU32::new(tokens), now)
}

fn of_requests(limit: Option<u64>, remaining: u64, reset: Option<Duration>) -> RateLimits {
    RateLimits {
        requests: Allowance {
            limit,
            remaining: Some(remaining),
            reset,
        },
        ..RateLimits::default()
    }
}

fn admit(throttle: &Throttle, tokens: u64, now: Instant) -> Result<Booking, Duration> {
    let booking = throttle.admit(|| draw(tokens), now)?;
    Ok(booking.expect("a limit is known"))
}

#[test]
fn without_limits_nothing_is_reckoned() {
    let t0 = start();
    let throttle = throttle(0, 0, t0);
    let never = || -> Draw { panic!("asked for nothing") };
    assert_eq!(throttle.lacks(never, t0), None);
    assert!(throttle.admit(never, t0).unwrap().is_none());
}

#[test]
fn a_minutes_requests_are_there_at_once_and_come_back_evenly() {
    let t0 = start();
    let throttle = throttle(3, 0, t0);
    for _ in 0..3 {
        admit(&throttle, 10, t0).unwrap();
    }
    assert_eq!(admit(&throttle, 10, t0).unwrap_err(), ms(20_000));
    assert_eq!(
        throttle.lacks(|| draw(10), t0 + ms(5_000)),
        Some(ms(15_000))
    );
    assert_eq!(throttle.lacks(|| draw(10), t0 + ms(20_000)), None);
    admit(&throttle, 10, t0 + ms(20_000)).unwrap();
    assert!(admit(&throttle, 10, t0 + ms(20_000)).is_err());
}

#[test]
fn the_limit_that_asks_for_the_longest_wait_decides() {
    let t0 = start();
    let throttle = throttle(60, 600, t0);
    admit(&throttle, 600, t0).unwrap();
    // Requests are left; a hundred tokens take ten seconds.
    assert_eq!(admit(&throttle, 100, t0).unwrap_err(), ms(10_000));
}

#[test]
fn a_request_of_more_than_a_minutes_tokens_waits_for_a_full_bucket() {
    let t0 = start();
    let throttle = throttle(0, 600, t0);
    admit(&throttle, 10_000, t0).unwrap();
    assert_eq!(admit(&throttle, 10_000, t0).unwrap_err(), ms(60_000));
}

#[test]
fn what_was_booked_is_corrected_by_what_was_used() {
    let t0 = start();
    let usage = |input| Usage {
        input,
        ..Usage::default()
    };
    let throttle = throttle(0, 600, t0);
    let booking = admit(&throttle, 500, t0).unwrap();
    throttle.settle(&booking, &usage(100), t0);
    assert_eq!(throttle.lacks(|| draw(500), t0), None);
    let booking = admit(&throttle, 100, t0).unwrap();
    throttle.settle(&booking, &usage(400), t0);
    assert_eq!(throttle.lacks(|| draw(100), t0), None);
    assert_eq!(throttle.lacks(|| draw(110), t0), Some(ms(1_000)));
    // However much a call used: the bucket is empty, and no more than that.
    let booking = admit(&throttle, 100, t0).unwrap();
    throttle.settle(&booking, &usage(1_000_000), t0);
    assert_eq!(throttle.lacks(|| draw(600), t0), Some(ms(60_000)));
}

#[test]
fn what_is_reported_is_left_holds_and_comes_back_until_the_reset() {
    let t0 = start();
    let throttle = throttle(0, 0, t0);
    throttle.learn(None, &of_requests(Some(10), 0, Some(ms(5_000))), t0);
    // Ten in five seconds: one takes half a second.
    assert_eq!(throttle.lacks(|| draw(1), t0), Some(ms(500)));
    admit(&throttle, 1, t0 + ms(500)).unwrap();
    assert_eq!(throttle.lacks(|| draw(1), t0 + ms(500)), Some(ms(500)));
}

#[test]
fn without_a_limit_what_is_left_comes_back_at_the_reset() {
    let t0 = start();
    for (reset, back) in [(Some(ms(5_000)), 5_000), (None, 60_000)] {
        let throttle = throttle(0, 0, t0);
        throttle.learn(None, &of_requests(None, 1, reset), t0);
        admit(&throttle, 1, t0).unwrap();
        assert_eq!(throttle.lacks(|| draw(1), t0), Some(ms(back)));
        assert_eq!(throttle.lacks(|| draw(1), t0 + ms(back)), None);
    }
}

#[test]
fn what_was_sent_after_a_reports_request_is_not_in_it() {
    let t0 = start();
    let throttle = throttle(1_000, 0, t0);
    let first = admit(&throttle, 1, t0).unwrap();
    for _ in 0..4 {
        admit(&throttle, 1, t0).unwrap();
    }
    // Five are left after the first: four of them are on their way.
    throttle.learn(
        Some(&first),
        &of_requests(Some(10), 5, Some(ms(60_000))),
        t0,
    );
    admit(&throttle, 1, t0).unwrap();
    assert!(admit(&throttle, 1, t0).is_err());
}

#[test]
fn a_report_that_was_overtaken_by_a_later_one_is_passed_over() {
    let t0 = start();
    let throttle = throttle(1_000, 0, t0);
    let first = admit(&throttle, 1, t0).unwrap();
    let second = admit(&throttle, 1, t0).unwrap();
    throttle.learn(Some(&second), &of_requests(None, 0, Some(ms(1_000))), t0);
    throttle.learn(Some(&first), &of_requests(None, 900, Some(ms(1_000))), t0);
    assert!(admit(&throttle, 1, t0).is_err());
}

#[test]
fn limits_shrink_and_grow_as_reported_and_the_stricter_holds() {
    let t0 = start();
    let throttle = throttle(2, 0, t0);
    // The provider has more to give than is configured.
    throttle.learn(None, &of_requests(Some(100), 99, Some(ms(1_000))), t0);
    admit(&throttle, 1, t0).unwrap();
    admit(&throttle, 1, t0).unwrap();
    assert_eq!(admit(&throttle, 1, t0).unwrap_err(), ms(30_000));
    // And then less.
    let later = t0 + ms(60_000);
    throttle.learn(None, &of_requests(Some(1), 0, Some(ms(90_000))), later);
    assert_eq!(admit(&throttle, 1, later).unwrap_err(), ms(90_000));
    throttle.learn(None, &of_requests(Some(100), 100, Some(ms(0))), later);
    admit(&throttle, 1, later).unwrap();
}

#[test]
fn a_report_of_one_kind_leaves_the_others_as_they_are() {
    let t0 = start();
    let throttle = throttle(0, 0, t0);
    throttle.learn(None, &of_requests(None, 0, Some(ms(9_000))), t0);
    let tokens = RateLimits {
        tokens: Allowance {
            remaining: Some(5),
            ..Allowance::default()
        },
        ..RateLimits::default()
    };
    throttle.learn(None, &tokens, t0);
    assert_eq!(throttle.lacks(|| draw(1), t0), Some(ms(9_000)));
    assert_eq!(throttle.lacks(|| draw(6), t0), Some(ms(60_000)));
}

/// A leaky bucket in whole nanoseconds: what a minute's allowance is, told otherwise.
struct Reference {
    limit: u64,
    interval: u64,
    backlog: u64,
    at: Duration,
}

impl Reference {
    fn lacks(&mut self, count: u64, at: Duration) -> Option<Duration> {
        let passed = u64::try_from(at.saturating_sub(self.at).as_nanos()).unwrap();
        self.backlog = self.backlog.saturating_sub(passed);
        self.at = at;
        let over = (self.backlog + count.min(self.limit) * self.interval)
            .saturating_sub(self.limit * self.interval);
        (over > 0).then(|| Duration::from_nanos(over))
    }

    fn take(&mut self, count: u64) {
        self.backlog += count.min(self.limit) * self.interval;
    }
}

/// A provider that fills its allowance up evenly and reports what is left.
struct Upstream {
    limit: f64,
    per_second: f64,
    level: f64,
    at: Duration,
}

impl Upstream {
    /// Takes a request; what its answer reports, if it is not refused.
    fn take(&mut self, at: Duration) -> Option<RateLimits> {
        let passed = at.saturating_sub(self.at).as_secs_f64();
        self.level = (self.level + passed * self.per_second).min(self.limit);
        self.at = at;
        if self.level < 1.0 - 1e-6 {
            return None;
        }
        self.level -= 1.0;
        let missing = (self.limit - self.level) / self.per_second;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "small numbers"
        )]
        let (limit, left) = (self.limit as u64, self.level.max(0.0) as u64);
        let reset = Duration::from_secs_f64(missing);
        Some(of_requests(Some(limit), left, Some(reset)))
    }
}

proptest! {
    #[test]
    fn buckets_agree_with_a_leaky_bucket(
        limit in 1u32..5_000,
        asked in prop::collection::vec((0u64..30_000, 1u64..6_000), 1..200),
    ) {
        let t0 = start();
        let throttle = throttle(0, limit, t0);
        let limit = u64::from(limit);
        let mut reference = Reference {
            limit,
            interval: 60_000_000_000 / limit,
            backlog: 0,
            at: Duration::ZERO,
        };
        let mut at = Duration::ZERO;
        for (pause, tokens) in asked {
            at += ms(pause);
            let expected = reference.lacks(tokens, at);
            prop_assert_eq!(throttle.lacks(|| draw(tokens), t0 + at), expected);
            match admit(&throttle, tokens, t0 + at) {
                Ok(_) => {
                    prop_assert_eq!(expected, None);
                    reference.take(tokens);
                }
                Err(wait) => {
                    prop_assert_eq!(Some(wait), expected);
                    // The wait is exact: enough, and no more than that.
                    let just_before = t0 + at + wait.saturating_sub(Duration::from_nanos(1));
                    prop_assert!(throttle.lacks(|| draw(tokens), just_before).is_some());
                    prop_assert_eq!(throttle.lacks(|| draw(tokens), t0 + at + wait), None);
                }
            }
        }
    }

    /// Whoever heeds what is reported is not refused, however many calls are on
    /// their way, as long as reports come within a second.
    #[test]
    fn who_heeds_the_reports_is_not_refused(
        limit in 2u32..60,
        fills_in in 2u64..90,
        latency in 1u64..1_000,
        pauses in prop::collection::vec(prop_oneof![4 => 0u64..50, 1 => 0u64..20_000], 1..300),
    ) {
        let t0 = start();
        let throttle = throttle(0, 0, t0);
        let limit = f64::from(limit);
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let mut upstream = Upstream {
            limit,
            per_second: limit / fills_in as f64,
            level: limit,
            at: Duration::ZERO,
        };
        let first = upstream.take(Duration::ZERO).unwrap();
        throttle.learn(None, &first, t0);
        let mut on_their_way = std::collections::VecDeque::new();
        let mut at = Duration::ZERO;
        for pause in pauses {
            at += ms(pause);
            while let Some((due, booking, report)) = on_their_way.pop_front() {
                if due > at {
                    on_their_way.push_front((due, booking, report));
                    break;
                }
                throttle.learn(Some(&booking), &report, t0 + due);
            }
            if let Ok(booking) = admit(&throttle, 1, t0 + at) {
                let report = upstream.take(at);
                prop_assert!(report.is_some(), "refused at {:?}", at);
                on_their_way.push_back((at + ms(latency), booking, report.unwrap()));
            }
        }
    }

    /// Nobody is kept waiting for ever: a request that may go at all goes after the
    /// longest wait that is named.
    #[test]
    fn every_wait_ends(
        limit in prop::option::of(0u64..100),
        remaining in 0u64..100,
        reset in prop::option::of(0u64..100_000),
        sent in 0u64..50,
        tokens in 1u64..1_000,
    ) {
        let t0 = start();
        let throttle = throttle(0, 0, t0);
        let of = Allowance { limit, remaining: Some(remaining), reset: reset.map(ms) };
        let limits = RateLimits { requests: of, tokens: of, ..RateLimits::default() };
        throttle.learn(None, &limits, t0);
        for _ in 0..sent {
            let _ = throttle.admit(|| draw(tokens), t0);
        }
        let mut now = t0;
        for _ in 0..20 {
            match throttle.admit(|| draw(tokens), now) {
                Ok(_) => return Ok(()),
                Err(wait) => {
                    prop_assert!(wait >= ms(1) && wait <= ms(100_000), "{:?}", wait);
                    now += wait;
                }
            }
        }
        prop_assert!(false, "still refused after {:?}", now - t0);
    }
}
