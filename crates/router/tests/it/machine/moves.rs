//! Rules of the role's word: which moves there are, what causes them, where new calls go.

use super::history::{History, Told, between};
use super::roster::RUNGS;
use super::{Machine, Rule, config};
use evenkeel_core::{AttemptKind, SubstitutionReason};
use proptest_state_machine::prop_state_machine;
use std::time::Duration;

/// Moves are one chain: each epoch one higher, each start where the last one ended.
struct Chain;

impl Rule for Chain {
    fn check(history: &History) {
        let (mut active, mut epoch) = (0, 0);
        let mut moves = Vec::new();
        for (at, told) in &history.told {
            let (from, to, next) = match told {
                Told::Left(from, to, next, _) => (*from, *to, *next),
                Told::Restored(from, to, next, _) => {
                    assert!(to < from, "restored from {from} to {to}");
                    (*from, *to, *next)
                }
                _ => continue,
            };
            assert_eq!((from, next), (active, epoch + 1), "at {at:?}");
            assert!(to != from && to < RUNGS);
            (active, epoch) = (to, next);
            moves.push(*at);
        }
        assert_eq!(
            history.explained,
            (active, epoch),
            "what the router says itself"
        );
        let dwell = Duration::from_secs(5).as_nanos();
        for (nth, from) in moves.iter().enumerate() {
            for (more, to) in moves[nth..].iter().enumerate() {
                let span = between(*from, *to);
                let most = RUNGS as u128 * (2 + 2 * span.as_nanos() / dwell);
                assert!((more as u128) < most, "{} moves within {span:?}", more + 1);
            }
        }
    }
}

/// A move has one cause: late attempts that began since the evidence of the rung last started anew. Failures,
/// however many, are none.
struct Causes;

/// A window and the slice it may be longer by.
const WINDOW: Duration = Duration::from_millis(21_250);

impl Rule for Causes {
    fn check(history: &History) {
        for (place, (at, told)) in history.told.iter().enumerate() {
            let Told::Left(from, to, _, reason) = *told else {
                continue;
            };
            let anew = history.anew_before(place, from);
            let edge = history.told[..place]
                .iter()
                .rev()
                .any(|(when, told)| *told == Told::Breached(from) && *when >= anew);
            assert!(
                edge,
                "{from} was left at {at:?} without a breach since {anew:?}"
            );
            let (needed, since) = match reason {
                SubstitutionReason::LatencySpike => (5, Duration::ZERO),
                SubstitutionReason::LatencyP95Breach => (4, at.saturating_sub(WINDOW)),
                SubstitutionReason::LatencyP99Breach => (3, at.saturating_sub(WINDOW)),
                other => panic!("{other:?} is no cause here"),
            };
            let over = [false, true].map(|streams| {
                let seen = history.seen(from, anew, false, Some(streams));
                let over =
                    |seen: &&super::history::Seen| seen.over && (since..=*at).contains(&seen.at);
                seen.iter().filter(over).count()
            });
            assert!(
                over.iter().any(|n| *n >= needed),
                "{reason:?} at {at:?} on {over:?}"
            );
            for better in (0..to).filter(|better| *better != from) {
                let seen = history.seen(better, Duration::ZERO, false, None);
                let late = seen.iter().any(|seen| seen.over && seen.at <= *at);
                assert!(
                    late || history.benched_before(place, better)
                        || history.may_refuse(place, better),
                    "{better} was passed over at {at:?} for {to}"
                );
            }
        }
    }
}

/// Five late attempts in a row (or as many as make up for those in time between them) move the role at once,
/// where a rung is left that is well.
struct Promptness;

impl Rule for Promptness {
    fn check(history: &History) {
        if !history.safe {
            return;
        }
        let mut stays: Vec<(Duration, usize, usize)> = vec![(Duration::ZERO, 0, 0)];
        for (place, (at, told)) in history.told.iter().enumerate() {
            if let Told::Left(_, to, ..) | Told::Restored(_, to, ..) = told {
                stays.push((*at, place, *to));
            }
        }
        for (nth, (from, _, rung)) in stays.iter().enumerate() {
            let until = stays.get(nth + 1).map_or(Duration::MAX, |(at, ..)| *at);
            if *rung == RUNGS - 1 {
                continue;
            }
            for streams in [false, true] {
                let mut score = 0.0_f64;
                let seen = history.seen(*rung, *from, true, Some(streams));
                for group in seen.chunk_by(|a, b| a.at == b.at) {
                    for seen in group {
                        score = if seen.over {
                            (score + 10.0_f64.ln()).min(6.0 * 10.0_f64.ln())
                        } else {
                            (score - 1.9_f64.ln()).max(0.0)
                        };
                    }
                    let at = group[0].at;
                    assert!(
                        until <= at || score < 11.5,
                        "{rung} serves on at {at:?} with a score of {score}"
                    );
                }
            }
        }
    }
}

/// A call begins at the active rung, or, if its session falls in the share, at a canary above it. It goes on
/// to a benched rung only when nothing else is left, and says so.
struct Assignment;

impl Rule for Assignment {
    fn check(history: &History) {
        for (place, (at, told)) in history.told.iter().enumerate() {
            let Told::AttemptBegan(attempt) = told else {
                continue;
            };
            let index = *attempt;
            let attempt = &history.attempts[index];
            let benched = history.benched_before(place, attempt.rung);
            match attempt.kind {
                AttemptKind::First => {}
                AttemptKind::LastResort => {
                    assert!(benched, "rung {} is in service at {at:?}", attempt.rung);
                    let tried = |rung| {
                        let own = &history.calls[attempt.call].attempts;
                        let mut own = own.iter().filter(|own| **own < index);
                        own.any(|own| history.attempts[*own].rung == rung)
                    };
                    for rung in 0..RUNGS {
                        assert!(
                            tried(rung)
                                || history.benched_before(place, rung)
                                || history.may_refuse(place, rung),
                            "rung {rung} was left at {at:?}"
                        );
                    }
                    continue;
                }
                kind => {
                    assert!(!benched || kind == AttemptKind::Retry, "{attempt:?}");
                    continue;
                }
            }
            let (active, epoch) = history.active_before(place);
            let session = &history.calls[attempt.call].goes.session;
            let point = evenkeel_probe::session_point(session, epoch);
            let canaries = (0..active).filter(|rung| point < history.share_before(place, *rung));
            // The best canary that takes it, else the active rung.
            let mut allowed = Vec::new();
            let mut sure = false;
            for rung in canaries.chain([active]) {
                if !sure {
                    allowed.push(rung);
                    sure = !history.may_refuse(place, rung);
                }
            }
            assert!(
                allowed.contains(&attempt.rung),
                "a call began at {} at {at:?}, not at one of {allowed:?}",
                attempt.rung
            );
        }
    }
}

prop_state_machine! {
    #![proptest_config(config(37))]

    #[test]
    fn inv37_and_62_moves_are_one_chain_of_epochs_and_bounded_in_number(
        sequential 1..24 => Machine<Chain>
    );
}

prop_state_machine! {
    #![proptest_config(config(46))]

    #[test]
    fn inv26b_40_41_and_46_only_late_attempts_begun_since_the_last_move_move_the_role(
        sequential 1..24 => Machine<Causes>
    );
}

prop_state_machine! {
    #![proptest_config(config(26))]

    #[test]
    fn inv26a_and_29_five_late_attempts_in_a_row_move_the_role_at_once(
        sequential 1..24 => Machine<Promptness>
    );
}

prop_state_machine! {
    #![proptest_config(config(64))]

    #[test]
    fn inv64_and_67_calls_begin_where_the_word_or_their_canary_says_and_end_at_benched_rungs_last(
        sequential 1..24 => Machine<Assignment>
    );
}
