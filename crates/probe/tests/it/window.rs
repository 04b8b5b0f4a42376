//! The window (invariants 24-35), one rule at a time; against the list that keeps everything, see
//! `window_machine`.

use std::time::Duration;

use evenkeel_probe::{Counts, Edge, LatencyWindow, Verdict, WindowConfig};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::window_machine::{Op, T95, T99, WINDOW, Window, config, op};
use crate::{at, ms, t0};

fn window() -> LatencyWindow {
    LatencyWindow::new(config(), t0())
}

proptest! {
    /// Invariant 24, for windows that 16 does not divide as well.
    #[test]
    fn inv24_an_observation_leaves_between_one_slice_before_and_one_after_the_window(
        window in 1..40_000_u64, recorded in 0..1_000_000_u64, later in 0..100_000_u64,
    ) {
        let config = WindowConfig::new(ms(1), ms(1), Duration::from_nanos(window)).unwrap();
        let probe = LatencyWindow::new(config, t0());
        let recorded = t0() + Duration::from_nanos(recorded);
        probe.record(ms(0), recorded);
        let n = probe.counts(recorded + Duration::from_nanos(later)).n95;
        let slice = window.div_ceil(16);
        if later < window - slice {
            prop_assert_eq!(n, 1);
        }
        if later >= window + slice {
            prop_assert_eq!(n, 0);
        }
    }

    /// Invariant 27; only the minimum of samples can be reached by an observation under the limit.
    #[test]
    fn inv27_an_exceedance_never_clears_and_an_observation_under_the_limit_never_raises(
        confidence in prop_oneof![Just(0.0), Just(0.95), Just(0.999)],
        latencies in vec(prop_oneof![Just(50_u64), Just(150), Just(300)], 1..150),
    ) {
        let config = config().confidence(confidence).unwrap().min_samples(0);
        let probe = LatencyWindow::new(config, t0());
        for latency in latencies {
            let before = probe.verdict(t0()).is_breached();
            probe.record(ms(latency), t0());
            let after = probe.verdict(t0()).is_breached();
            if latency > T99 {
                prop_assert!(after || !before);
            }
            if latency < T95 {
                prop_assert!(before || !after);
            }
        }
    }

    /// Invariant 32.
    #[test]
    fn inv32_recording_in_one_window_changes_no_other(ops in vec(op(), 0..100)) {
        let other = window();
        other.record(ms(300), t0());
        let before = (other.counts(t0()), other.verdict(t0()), other.report(t0()));
        let mut one = Window::new(LatencyWindow::new(config(), t0()));
        let mut now = 0;
        for op in ops {
            if let Op::Pass(millis) = op {
                now += millis;
            }
            one.apply(&op, now);
        }
        prop_assert_eq!(before, (other.counts(t0()), other.verdict(t0()), other.report(t0())));
    }

    /// Invariant 26b, however the attempts begun before end.
    #[test]
    fn inv26b_no_attempt_begun_before_a_restart_counts(
        ages in vec((0..600_u64, 0..3_u8), 1..20), after in vec(0..90_u64, 0..4),
    ) {
        let probe = window();
        let open: Vec<_> = ages.iter().map(|_| probe.begin(t0())).collect();
        probe.restart(at(1));
        for latency in &after {
            probe.record(ms(*latency), at(600));
        }
        for (mut obs, (age, how)) in open.into_iter().zip(ages) {
            match how {
                0 => probe.overdue(&mut obs, at(age)),
                1 => probe.finish(obs, at(age)),
                _ => probe.cancel(obs, at(age)),
            }
        }
        let n = after.len() as u64;
        let expected = Counts { n95: n, over95: 0, n99: n, over99: 0 };
        prop_assert_eq!(probe.counts(at(600)), expected);
        prop_assert_eq!(probe.verdict(at(600)), Verdict::Unknown);
        prop_assert_eq!(probe.p95_since_run(at(600)), None);
    }
}

#[test]
fn inv25_below_the_floors_it_is_never_healthy() {
    let probe = window();
    for n in 1..=100 {
        probe.record(ms(10), t0());
        let expected = if n < 100 {
            Verdict::Unknown
        } else {
            Verdict::Healthy
        };
        assert_eq!(probe.verdict(t0()), expected, "{n}");
        let report = probe.report(t0());
        assert_eq!(report.p95_indicative, n < 20);
        assert_eq!(report.p99_indicative, n < 100);
    }
}

#[test]
fn inv25_a_minimum_above_the_floors_is_one_for_healthy_too() {
    let probe = LatencyWindow::new(config().min_samples(120), t0());
    for _ in 0..119 {
        probe.record(ms(10), t0());
    }
    assert_eq!(probe.verdict(t0()), Verdict::Unknown);
    probe.record(ms(10), t0());
    assert_eq!(probe.verdict(t0()), Verdict::Healthy);
}

#[test]
fn inv26_one_slow_call_of_five_never_breaches_and_four_of_five_do() {
    let config = config().spike_detector(false);
    let probe = LatencyWindow::new(config, t0());
    for latency in [50, 9_000, 150, 150] {
        probe.record(ms(latency), t0());
        assert!(!probe.verdict(t0()).is_breached());
    }
    probe.record(ms(150), t0());
    let Verdict::Breached(breach) = probe.verdict(t0()) else {
        panic!("4 over in 5 is a breach")
    };
    assert_eq!((breach.detector.as_str(), breach.limit), ("p95", ms(T95)));
    assert_eq!((breach.samples, breach.exceedances), (5, 4));
}

#[test]
fn inv26_a_p99_breach_names_its_own_limit_and_numbers() {
    let probe = window();
    for i in 0..60 {
        // Slow calls far apart, too few for p95; each of them far over T99.
        probe.record(ms(if i % 12 == 11 { 900 } else { 10 }), t0());
        // K(60, 0.99, 0.001) is 5, as K(48 ..) is; K(60, 0.95, 0.001) is 10.
        assert_eq!(probe.verdict(t0()).is_breached(), i == 59, "{i}");
    }
    let Verdict::Breached(breach) = probe.verdict(t0()) else {
        panic!("5 over in 60 is a breach of p99")
    };
    assert_eq!((breach.detector.as_str(), breach.limit), ("p99", ms(T99)));
    assert_eq!((breach.samples, breach.exceedances), (60, 5));
}

#[test]
fn inv28_an_open_attempt_counts_at_the_instant_its_age_reaches_the_limit_and_once() {
    let probe = window();
    let mut obs = probe.begin(at(40));
    assert_eq!((obs.began(), obs.age(at(50))), (at(40), ms(10)));
    assert_eq!(probe.next_due(&obs), Some(at(140)));
    probe.overdue(&mut obs, at(139) + Duration::from_nanos(999_999));
    assert_eq!(probe.counts(at(140)), Counts::default());

    assert!(!obs.exceeds(at(140)) && obs.exceeds(at(141)) && !obs.is_over());
    probe.overdue(&mut obs, at(140));
    probe.overdue(&mut obs, at(141));
    assert!(obs.is_over() && obs.exceeds(at(140)));
    let at_t95 = Counts {
        n95: 1,
        over95: 1,
        ..Counts::default()
    };
    assert_eq!(probe.counts(at(141)), at_t95);

    assert_eq!(probe.next_due(&obs), Some(at(290)));
    probe.overdue(&mut obs, at(290));
    let at_both = Counts {
        n99: 1,
        over99: 1,
        ..at_t95
    };
    assert_eq!(probe.counts(at(290)), at_both);
    assert_eq!(probe.next_due(&obs), None);

    probe.finish(obs, at(400));
    assert_eq!(probe.counts(at(400)), at_both);
}

#[test]
fn inv28_an_attempt_overdue_at_t95_that_answers_before_t99_is_under_it() {
    let probe = window();
    let mut obs = probe.begin(t0());
    probe.overdue(&mut obs, at(T95));
    probe.finish(obs, at(T99));
    let expected = Counts {
        n95: 1,
        over95: 1,
        n99: 1,
        over99: 0,
    };
    assert_eq!(probe.counts(at(T99)), expected);
}

#[test]
fn an_attempt_that_passed_t95_long_ago_and_t99_lately_is_shown_at_both() {
    let config = WindowConfig::new(ms(T95), ms(60_000), ms(10_000)).unwrap();
    let probe = LatencyWindow::new(config, t0());
    let mut obs = probe.begin(t0());
    probe.overdue(&mut obs, at(T95));
    assert_eq!(probe.counts(at(30_000)), Counts::default());
    probe.overdue(&mut obs, at(60_000));
    let expected = Counts {
        n95: 1,
        over95: 1,
        n99: 1,
        over99: 1,
    };
    assert_eq!(probe.counts(at(60_000)), expected);
    probe.cancel(obs, at(60_000));
}

#[test]
fn an_answer_at_exactly_the_limit_is_not_above_it() {
    let probe = window();
    let obs = probe.begin(t0());
    probe.finish(obs, at(T95));
    assert_eq!(probe.counts(at(T95)).over95, 0);
}

#[test]
fn inv29_stalled_attempts_alone_are_a_breach_though_nothing_has_answered() {
    let probe = LatencyWindow::new(config().spike_detector(false), t0());
    let mut stalled: Vec<_> = (0..5).map(|i| probe.begin(at(i))).collect();
    for (i, obs) in (0_u64..).zip(&mut stalled) {
        assert!(!probe.verdict(at(T95 + i)).is_breached());
        probe.overdue(obs, at(T95 + i));
    }
    assert!(probe.verdict(at(T95 + 4)).is_breached());
}

#[test]
fn inv30_a_cancelled_attempt_is_what_its_age_had_reached() {
    for (age, n95, n99) in [(99, 0, 0), (100, 1, 0), (249, 1, 0), (250, 1, 1)] {
        let probe = window();
        let obs = probe.begin(t0());
        probe.cancel(obs, at(age));
        let expected = Counts {
            n95,
            over95: n95,
            n99,
            over99: n99,
        };
        assert_eq!(probe.counts(at(age)), expected, "{age}");
        assert_eq!(probe.report(at(age)).samples, n95, "{age}");
    }
}

#[test]
fn inv31_an_error_before_the_limit_adds_nothing_and_a_timeout_past_it_one_exceedance() {
    let probe = window();
    let error = probe.begin(t0());
    probe.cancel(error, at(20));
    assert_eq!(probe.counts(at(20)), Counts::default());

    let mut timed_out = probe.begin(t0());
    probe.overdue(&mut timed_out, at(T95));
    probe.cancel(timed_out, at(200));
    let counts = probe.counts(at(200));
    assert_eq!((counts.n95, counts.over95, counts.n99), (1, 1, 0));
}

#[test]
fn inv35_after_a_window_without_records_it_is_unknown_but_a_spike_breach_stays() {
    let probe = window();
    for _ in 0..200 {
        probe.record(ms(10), t0());
    }
    assert_eq!(probe.verdict(t0()), Verdict::Healthy);
    assert_eq!(probe.verdict(at(WINDOW + 100)), Verdict::Unknown);
    assert_eq!(probe.counts(at(WINDOW + 100)), Counts::default());

    for _ in 0..5 {
        probe.record(ms(150), at(WINDOW + 100));
    }
    let long_after = at(100 * WINDOW);
    let Verdict::Breached(breach) = probe.verdict(long_after) else {
        panic!("a spike breach does not end by itself")
    };
    assert_eq!(
        (breach.detector.to_string().as_str(), breach.samples),
        ("spike", 0)
    );
    probe.restart(long_after);
    assert_eq!(probe.verdict(long_after), Verdict::Unknown);
}

#[test]
fn inv33_a_restart_ends_the_episode_with_an_edge() {
    let probe = window();
    (0..5).for_each(|_| probe.record(ms(300), t0()));
    assert!(matches!(probe.judge(t0()), (_, Some(Edge::Breached(_)))));
    probe.restart(t0());
    assert_eq!(probe.judge(t0()), (Verdict::Unknown, Some(Edge::Cleared)));
    assert_eq!(probe.judge(t0()), (Verdict::Unknown, None));
}

#[test]
fn inv26b_an_attempt_begun_any_number_of_restarts_ago_does_not_count() {
    // Words keep 8 bits of the generation; these are at and around its wrap and its half.
    let probe = window();
    let attempts: Vec<_> = (0..600)
        .map(|_| {
            let obs = probe.begin(t0());
            probe.restart(t0());
            obs
        })
        .collect();
    probe.record(ms(10), t0());
    for obs in attempts {
        probe.finish(obs, at(900));
    }
    assert_eq!(
        (probe.counts(at(900)).n95, probe.counts(at(900)).over95),
        (1, 0)
    );
    assert!(!probe.verdict(at(900)).is_breached());
}

#[test]
fn an_observation_dropped_unfinished_counts_only_what_was_overdue() {
    let probe = window();
    let mut obs = probe.begin(t0());
    probe.overdue(&mut obs, at(T95));
    drop(obs);
    drop(probe.begin(t0()));
    assert_eq!(probe.counts(at(1_000)).n95, 1);
}
