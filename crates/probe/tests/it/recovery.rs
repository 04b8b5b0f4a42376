//! Restoration (invariants 57, 59-64, 66) as timelines; against a model that goes by its history, see
//! `recovery_machine`.

use std::time::Duration;

use evenkeel_probe::{
    LatencyWindow, Recovery, RecoveryConfig, RecoveryStage, RecoveryStep, RoleWord, WindowConfig,
    breach_count, clears,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::recovery_machine::{Op, op, small};
use crate::{at, ms, t0};

pub(crate) const T95: Duration = Duration::from_secs(1);
const FAST: Option<Duration> = Some(Duration::from_millis(799));
const SLOW: Option<Duration> = Some(Duration::from_millis(800));

fn recovery(change: impl FnOnce(&mut RecoveryConfig)) -> Recovery {
    let mut config = RecoveryConfig::default();
    change(&mut config);
    Recovery::new(config).unwrap()
}

fn s(seconds: u64) -> std::time::Instant {
    at(seconds * 1_000)
}

const FIRST_STAGE: Option<RecoveryStep> = Some(RecoveryStep::StartCanary {
    stage: 0,
    share: 0.1,
});
const SECOND_STAGE: Option<RecoveryStep> = Some(RecoveryStep::StartCanary {
    stage: 1,
    share: 0.5,
});
/// A failed canary, the interval doubled once.
const FAILED: Option<RecoveryStep> = Some(RecoveryStep::CanaryFailed {
    interval: Duration::from_secs(60),
});

pub(crate) fn is_share(recovery: &Recovery, share: f64) -> bool {
    (recovery.share() - share).abs() < f64::EPSILON
}

/// Left at 0 s, two fast probes, first canary stage since 30 s.
fn in_first_stage() -> Recovery {
    let recovery = recovery(|_| {});
    recovery.left(t0());
    assert_eq!(recovery.probed(t0(), FAST, T95), None);
    assert_eq!(recovery.probed(s(30), FAST, T95), FIRST_STAGE);
    recovery
}

#[test]
fn a_probe_is_fast_by_a_share_of_the_limit_it_is_given() {
    for (latency, passes) in [(319, true), (320, false), (1_599, false)] {
        let recovery = recovery(|c| c.restore_after = 1);
        recovery.left(t0());
        let step = recovery.probed(s(30), Some(ms(latency)), ms(400));
        assert_eq!(step.is_some(), passes, "{latency} ms");
    }
}

#[test]
fn the_whole_way_back() {
    let recovery = recovery(|_| {});
    assert!(!recovery.benched() && !recovery.probes_wanted());
    recovery.left(s(100));
    assert!(recovery.benched() && recovery.probes_wanted());
    assert_eq!(recovery.interval(s(100)), Duration::from_secs(30));
    assert_eq!(recovery.probed(s(110), FAST, T95), None);
    assert_eq!(recovery.probed(s(139), FAST, T95), None); // 29 s after the last: ignored
    assert_eq!(recovery.probed(s(140), FAST, T95), FIRST_STAGE);
    assert!(is_share(&recovery, 0.1) && recovery.benched() && !recovery.probes_wanted());
    assert_eq!(recovery.canary_seen(s(150), 13, 0), None);
    assert_eq!(recovery.canary_seen(s(151), 14, 0), SECOND_STAGE);
    assert!(is_share(&recovery, 0.5));
    assert_eq!(recovery.canary_seen(s(152), 14, 1), None);
    assert_eq!(recovery.canary_seen(s(153), 21, 1), None);
    assert_eq!(
        recovery.canary_seen(s(154), 22, 1),
        Some(RecoveryStep::Restore)
    );
    assert!(recovery.benched());
    assert_eq!(recovery.restored(s(155)), Duration::from_secs(55));
    assert!(!recovery.benched() && is_share(&recovery, 0.0));
    assert_eq!(recovery.canary_seen(s(156), 30, 0), None);
}

#[test]
fn a_probe_succeeds_strictly_below_its_share_of_the_limit() {
    for (latency, is_success) in [(FAST, true), (SLOW, false), (None, false)] {
        let recovery = recovery(|config| config.restore_after = 1);
        recovery.left(t0());
        assert_eq!(recovery.probed(s(30), latency, T95).is_some(), is_success);
    }
}

#[test]
fn inv60_a_slow_or_failed_probe_breaks_the_run() {
    for breaking in [SLOW, None] {
        let recovery = recovery(|_| {});
        recovery.left(t0());
        for (seconds, latency) in [(0, FAST), (30, breaking), (60, FAST)] {
            assert_eq!(recovery.probed(s(seconds), latency, T95), None);
        }
        assert_eq!(recovery.probed(s(90), FAST, T95), FIRST_STAGE);
    }
}

#[test]
fn inv60_an_early_probe_counts_neither_way_unless_it_fails() {
    let recovery = recovery(|_| {});
    recovery.left(t0());
    assert_eq!(recovery.probed(s(1), FAST, T95), None);
    assert_eq!(recovery.probed(s(10), SLOW, T95), None);
    assert_eq!(recovery.probed(s(31), FAST, T95), FIRST_STAGE);

    let recovery = self::recovery(|_| {});
    recovery.left(t0());
    assert_eq!(recovery.probed(s(1), FAST, T95), None);
    assert_eq!(recovery.probed(s(10), None, T95), None);
    assert_eq!(recovery.probed(s(31), FAST, T95), None);
    assert_eq!(recovery.probed(s(61), FAST, T95), FIRST_STAGE);
}

#[test]
fn inv59_a_probe_begun_before_the_stage_is_no_evidence_of_it() {
    let recovery = recovery(|_| {});
    recovery.left(s(100));
    assert_eq!(recovery.probed(s(99), FAST, T95), None);
    assert_eq!(recovery.probed(s(130), FAST, T95), None);
    assert_eq!(recovery.probed(s(99), None, T95), None);
    assert_eq!(recovery.probed(s(160), FAST, T95), FIRST_STAGE);
}

#[test]
fn inv61_the_plain_rule_waits_out_the_dwell() {
    let recovery = recovery(|config| {
        config.restore_after = 1;
        config.canary = Vec::new();
    });
    recovery.left(t0());
    assert_eq!(recovery.probed(s(1), FAST, T95), None);
    assert_eq!(
        recovery.probed(s(31), FAST, T95),
        Some(RecoveryStep::Restore)
    );
    // Not carried out: it comes again with the next probe that counts.
    assert_eq!(recovery.probed(s(40), FAST, T95), None);
    assert_eq!(
        recovery.probed(s(61), FAST, T95),
        Some(RecoveryStep::Restore)
    );
    assert_eq!(recovery.restored(s(61)), Duration::from_secs(61));
}

#[test]
fn inv60_at_its_end_a_stage_passes_on_any_observations_of_which_none_is_over() {
    let recovery = in_first_stage();
    assert_eq!(recovery.next_due(), Some(s(180)));
    assert_eq!(recovery.tick(s(179), 3, 0), None);
    assert_eq!(recovery.tick(s(180), 3, 0), SECOND_STAGE);
    assert_eq!(recovery.next_due(), Some(s(330)));
}

#[test]
fn inv60_at_its_end_a_stage_with_any_over_fails() {
    let recovery = in_first_stage();
    assert_eq!(recovery.tick(s(100), 21, 1), None);
    assert_eq!(recovery.tick(s(180), 21, 1), FAILED);
    assert!(is_share(&recovery, 0.0) && recovery.benched() && recovery.probes_wanted());
    assert_eq!(recovery.next_due(), None);
}

#[test]
fn inv60_at_its_end_a_stage_without_observations_goes_by_further_probes() {
    let recovery = in_first_stage();
    assert_eq!(recovery.probed(s(100), FAST, T95), None); // not wanted yet
    assert_eq!(recovery.tick(s(180), 0, 0), None);
    assert!(recovery.probes_wanted() && is_share(&recovery, 0.1));
    assert_eq!(recovery.next_due(), None);
    assert_eq!(recovery.probed(s(181), FAST, T95), None);
    assert_eq!(recovery.probed(s(211), SLOW, T95), None);
    assert_eq!(recovery.probed(s(241), FAST, T95), None);
    assert_eq!(recovery.probed(s(271), FAST, T95), SECOND_STAGE);
}

#[test]
fn an_observation_after_the_end_of_an_empty_stage_decides_it() {
    for (over, step) in [(0, SECOND_STAGE), (1, FAILED)] {
        let recovery = in_first_stage();
        assert_eq!(recovery.tick(s(180), 0, 0), None);
        assert_eq!(recovery.canary_seen(s(200), 1, over), step);
    }
}

#[test]
fn it_tells_its_stage_and_since_when() {
    let recovery = recovery(|_| {});
    assert_eq!(recovery.stage(), RecoveryStage::Idle);
    recovery.left(t0());
    assert_eq!(recovery.stage(), RecoveryStage::Probing { since: t0() });
    let recovery = in_first_stage();
    let since = s(30);
    assert_eq!(recovery.stage(), RecoveryStage::Canary { stage: 0, since });
    recovery.forget();
    assert_eq!(recovery.stage(), RecoveryStage::Idle);
}

#[test]
fn a_canary_breach_goes_back_at_once() {
    let recovery = in_first_stage();
    assert_eq!(recovery.canary_breached(s(40)), FAILED);
    assert!(is_share(&recovery, 0.0));
    assert_eq!(recovery.canary_breached(s(41)), None);
    // From here on as after leaving, with the grown interval.
    assert_eq!(recovery.probed(s(90), FAST, T95), None);
    assert_eq!(recovery.probed(s(149), FAST, T95), None);
    assert_eq!(recovery.probed(s(150), FAST, T95), FIRST_STAGE);
}

#[test]
fn a_restore_not_carried_out_is_offered_again_after_an_interval() {
    let recovery = in_first_stage();
    assert_eq!(recovery.canary_seen(s(40), 14, 0), SECOND_STAGE);
    assert_eq!(recovery.tick(s(190), 2, 0), Some(RecoveryStep::Restore));
    assert_eq!(recovery.next_due(), Some(s(220)));
    assert_eq!(recovery.tick(s(220), 2, 0), Some(RecoveryStep::Restore));
    // Evidence that turned meanwhile is heeded.
    assert_eq!(recovery.tick(s(250), 3, 1), FAILED);
}

#[test]
fn forgetting_ends_recovery_and_keeps_a_grown_interval() {
    let recovery = in_first_stage();
    assert_eq!(recovery.canary_breached(s(40)), FAILED);
    recovery.forget();
    assert!(!recovery.benched() && !recovery.probes_wanted() && is_share(&recovery, 0.0));
    assert_eq!(recovery.probed(s(300), FAST, T95), None);
    assert_eq!(recovery.interval(s(300)), Duration::from_secs(60));
    recovery.left(s(400));
    assert_eq!(recovery.interval(s(400)), Duration::from_secs(60));
}

#[test]
fn inv63_each_flap_doubles_the_interval_up_to_the_cap_and_quiet_service_resets_it() {
    let recovery = recovery(|_| {});
    let mut now = 0;
    for expected in [30, 60, 120, 240, 480, 600, 600] {
        recovery.left(s(now));
        assert_eq!(recovery.interval(s(now)), Duration::from_secs(expected));
        now += 1_000;
        let _ = recovery.restored(s(now));
        now += 60; // on the edge of hold_ms
    }
    // A breach after hold, before reset_after: neither grown nor reset.
    recovery.left(s(now + 1_000));
    assert_eq!(recovery.interval(s(now + 1_000)), Duration::from_secs(600));
    let _ = recovery.restored(s(now + 2_000));
    assert_eq!(recovery.interval(s(now + 3_799)), Duration::from_secs(600));
    assert_eq!(recovery.interval(s(now + 3_800)), Duration::from_secs(30));
    recovery.left(s(now + 3_800));
    assert_eq!(recovery.interval(s(now + 3_800)), Duration::from_secs(30));
}

#[test]
fn inv57_of_a_restoration_and_a_substitution_from_one_word_one_wins() {
    for restore_first in [true, false] {
        let word = RoleWord::new(1);
        let seen = word.load();
        let order = if restore_first { [0, 2] } else { [2, 0] };
        let won = order.map(|to| word.try_move(seen, to).is_ok());
        assert_eq!((won, word.load().epoch), ([true, false], 1));
    }
}

#[test]
fn inv59_only_observations_begun_in_the_stage_are_its_evidence() {
    let config = WindowConfig::new(ms(100), ms(200), ms(15_000)).unwrap();
    let window = LatencyWindow::new(config, t0());
    let recovery = recovery(|config| config.restore_after = 1);
    let before: Vec<_> = (0..14).map(|_| window.begin(t0())).collect();
    recovery.left(t0());
    assert_eq!(recovery.probed(s(30), FAST, T95), FIRST_STAGE);
    window.restart(s(30));
    let seen = |now| {
        let counts = window.counts(now);
        recovery.canary_seen(now, counts.n95, counts.over95)
    };
    for obs in before {
        window.finish(obs, s(31));
    }
    assert_eq!(seen(s(31)), None);
    let during: Vec<_> = (0..14).map(|_| window.begin(s(31))).collect();
    for (i, obs) in during.into_iter().enumerate() {
        window.finish(obs, at(31_050));
        assert_eq!(seen(at(31_050)).is_some(), i == 13);
    }
}

#[test]
fn invalid_configs_name_the_field() {
    type Change = fn(&mut RecoveryConfig);
    let cases: [(&str, Change); 17] = [
        ("probe_interval", |c| c.probe_interval = Duration::ZERO),
        ("restore_below", |c| c.restore_below = 0.0),
        ("restore_below", |c| c.restore_below = 1.01),
        ("restore_below", |c| c.restore_below = f64::NAN),
        ("restore_after", |c| c.restore_after = 0),
        ("canary", |c| c.canary = vec![0.0]),
        ("canary", |c| c.canary = vec![0.5, 1.5]),
        ("canary", |c| c.canary = vec![0.5, 0.5]),
        ("canary", |c| c.canary = vec![0.5, 0.1]),
        ("canary", |c| c.canary = vec![f64::NAN]),
        ("canary_samples", |c| c.canary_samples = 0),
        ("canary_max", |c| c.canary_max = Duration::ZERO),
        ("clear_rate", |c| c.clear_rate = 0.0),
        ("clear_rate", |c| c.clear_rate = 1.0),
        ("growth", |c| c.growth = 0.99),
        ("growth", |c| c.growth = f64::INFINITY),
        ("probe_interval_cap", |c| c.probe_interval_cap = ms(29_999)),
    ];
    for (field, change) in cases {
        let mut config = RecoveryConfig::default();
        change(&mut config);
        assert_eq!(config.validate().unwrap_err().field(), field);
        assert_eq!(Recovery::new(config).unwrap_err().field(), field);
    }
    let edges = RecoveryConfig {
        canary: vec![1.0],
        restore_below: 1.0,
        growth: 1.0,
        ..RecoveryConfig::default()
    };
    assert_eq!(edges.validate(), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Invariant 62: whatever happens, and however fast a restored rung breaches again.
    #[test]
    fn inv62_changes_of_the_model_are_bounded_in_every_span(config in small(), ops in vec(op(), 0..150)) {
        let recovery = Recovery::new(config).unwrap();
        let (mut now, mut n, mut over) = (0, 0, 0);
        let mut changes = Vec::new();
        for op in ops {
            let step = match op {
                Op::Pass(millis) => {
                    now += millis;
                    None
                }
                Op::Probe(_) => recovery.probed(at(now), Some(ms(1)), T95),
                Op::Evidence { under, .. } => {
                    n += under;
                    recovery.canary_seen(at(now), n, over)
                }
                Op::Tick => recovery.tick(at(now), n, over),
                Op::CanaryBreach => recovery.canary_breached(at(now)),
                Op::Leave | Op::Forget if !recovery.benched() => {
                    recovery.left(at(now));
                    changes.push(now);
                    None
                }
                Op::Leave | Op::Forget => None,
            };
            match step {
                Some(RecoveryStep::Restore) => {
                    let _ = recovery.restored(at(now));
                    changes.push(now);
                }
                Some(_) => (n, over) = (0, 0),
                None => {}
            }
        }
        for (i, from) in changes.iter().enumerate() {
            for (j, to) in changes.iter().enumerate().skip(i) {
                let bound = 2 * (2 + 2 * (to - from) / 10_000);
                prop_assert!((j - i + 1) as u64 <= bound, "{} in {} ms", j - i + 1, to - from);
            }
        }
    }

    /// Invariant 66: evidence between the clear count and the breach count moves the role neither way.
    #[test]
    fn inv66_between_clearing_and_breaching_nothing_moves(
        picks in vec((14..200_u64, 0.0..1.0_f64), 1..6),
    ) {
        let recovery = in_first_stage();
        for (n, pick) in picks {
            let breach = breach_count(n, 0.95, 0.001);
            let fewest = (0..=n).find(|over| !clears(n, *over, 0.20)).unwrap();
            let span: Vec<_> = (fewest..breach).collect();
            let index = (f64::from(u32::try_from(span.len()).unwrap()) * pick).floor();
            let Some(&over) = (0_u32..).zip(&span).find(|(i, _)| f64::from(*i) >= index).map(|(_, over)| over) else {
                continue;
            };
            prop_assert_eq!(recovery.canary_seen(s(60), n, over), None);

            let config = WindowConfig::new(ms(100), ms(5_000), ms(15_000)).unwrap().spike_detector(false);
            let window = LatencyWindow::new(config, t0());
            for i in 0..n {
                window.record(ms(if i < n - over { 50 } else { 150 }), t0());
            }
            prop_assert!(!window.verdict(t0()).is_breached());
        }
    }
}
