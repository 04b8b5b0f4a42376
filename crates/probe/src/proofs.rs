//! Loom models: the interleavings of two or three threads on the lock-free paths.
//!
//! `RUSTFLAGS="--cfg evenkeel_loom" cargo test --release -p evenkeel-probe --lib proofs`
//!
//! With `LOOM_MAX_PREEMPTIONS` it looks deeper. Under that cfg a ring has two slots instead of 16, the fewest in which slices can pass each other.

use std::time::{Duration, Instant};

use loom::sync::Arc;
use loom::thread;

use crate::evidence::Evidence;
use crate::ring::{Limit, Ring};
use crate::slices::SLICES;
use crate::verdict::{Counts, Edge, Verdict};
use crate::{LatencyWindow, RoleWord, WindowConfig};

fn origin() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "a test needs some origin")]
    Instant::now()
}

/// Every interleaving with at most three preemptions; unbounded, the larger models take hours, and bugs
/// that need more are not known (loom's own advice is two or three).
fn model(f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(f);
}

fn n95(ring: &Ring, slice: u64) -> u64 {
    ring.counts(0, slice, SLICES).n95
}

/// Runs `a` in a thread of its own beside `b`.
fn race<T: Send + Sync + 'static, A: Send + 'static>(
    shared: &Arc<T>,
    a: impl FnOnce(&T) -> A + Send + 'static,
    b: impl FnOnce(&T) -> A,
) -> [A; 2] {
    let other = {
        let shared = Arc::clone(shared);
        thread::spawn(move || a(&shared))
    };
    let mine = b(shared);
    [other.join().expect("no thread panics"), mine]
}

#[test]
fn inv21_a_turned_slice_starts_from_the_counts_after_the_turn() {
    model(|| {
        let ring = Arc::new(Ring::new());
        ring.add(Limit::P95, 0, 0, true);
        // Both turn slot 0, each seeing the old count or the other's new one.
        let add = |ring: &Ring| ring.add(Limit::P95, 0, SLICES, false);
        race(&ring, add, add);
        let counts = ring.counts(0, SLICES, SLICES);
        assert_eq!((counts.n95, counts.over95), (2, 0));
    });
}

#[test]
fn inv21_none_is_lost_from_a_slice_that_is_still_live() {
    model(|| {
        let ring = Arc::new(Ring::new());
        ring.add(Limit::P95, 0, 0, true);
        race(
            &ring,
            |ring| ring.add(Limit::P95, 0, 1, true),
            |ring| ring.add(Limit::P95, 0, SLICES, true),
        );
        assert_eq!(n95(&ring, SLICES), 2);
    });
}

#[test]
fn inv21_a_late_thread_counts_in_the_latest_slice_or_in_a_retired_one_and_never_twice() {
    model(|| {
        let ring = Arc::new(Ring::new());
        race(
            &ring,
            |ring| ring.add(Limit::P95, 0, 0, true),
            |ring| ring.add(Limit::P95, 0, 5 * SLICES, true),
        );
        let live = n95(&ring, 5 * SLICES);
        assert!((1..=2).contains(&live));
        ring.add(Limit::P95, 0, 5 * SLICES + 1, true);
        assert_eq!(n95(&ring, 5 * SLICES + 1), live + 1);
    });
}

#[test]
fn inv21_a_late_thread_never_counts_in_a_slice_that_nobody_recorded_in() {
    model(|| {
        let ring = Arc::new(Ring::new());
        let latest = 5 * SLICES + 1;
        race(
            &ring,
            |ring| ring.add(Limit::P95, 0, 0, true),
            move |ring| ring.add(Limit::P95, 0, latest, true),
        );
        // The slices before the latest are live still, and must be empty.
        assert_eq!(n95(&ring, latest), n95(&ring, latest + SLICES - 1));
    });
}

#[test]
fn inv21_a_reader_sees_no_count_of_a_slice_that_has_left() {
    model(|| {
        let ring = Arc::new(Ring::new());
        ring.add(Limit::P95, 0, 0, true);
        let [_, seen] = race(
            &ring,
            |ring| {
                ring.add(Limit::P95, 0, SLICES, false);
                Counts::default()
            },
            |ring| ring.counts(0, SLICES, SLICES),
        );
        assert!(seen.n95 <= 1 && seen.over95 == 0);
    });
}

#[test]
fn inv26b_nothing_of_an_older_generation_counts_after_a_restart() {
    model(|| {
        let limit = Duration::from_secs(1);
        let evidence = Arc::new(Evidence::new(limit, limit));
        race(
            &evidence,
            |evidence| evidence.count(Limit::P95, 0, 0, true),
            |evidence| {
                evidence.restart();
                evidence.count(Limit::P95, 1, 0, true);
            },
        );
        assert_eq!(evidence.counts(1, 0, SLICES).n95, 1);
        for _ in 0..3 {
            evidence.count(Limit::P95, 1, 0, true);
        }
        assert!(!evidence.has_spike(1), "four exceedances from zero");
        evidence.count(Limit::P95, 1, 0, true);
        assert!(evidence.has_spike(1), "five");
    });
}

#[test]
fn inv26b_a_reader_of_the_new_generation_sees_nothing_of_the_old() {
    model(|| {
        let limit = Duration::from_secs(1);
        let evidence = Arc::new(Evidence::new(limit, limit));
        for _ in 0..5 {
            evidence.count(Limit::P95, 0, 0, true);
        }
        let read = |evidence: &Evidence| {
            let generation = evidence.generation();
            let counts = evidence.counts(generation, 0, SLICES);
            (generation, counts.n95, evidence.has_spike(generation))
        };
        let restart = move |evidence: &Evidence| {
            evidence.restart();
            read(evidence)
        };
        for (generation, n, has_spike) in race(&evidence, restart, read) {
            // Of the old generation less and less is left while it is being freed.
            assert!(generation == 0 || (n == 0 && !has_spike));
        }
    });
}

#[test]
fn restarts_beside_each_other_are_two_and_what_comes_after_both_counts() {
    model(|| {
        let limit = Duration::from_secs(1);
        let evidence = Arc::new(Evidence::new(limit, limit));
        evidence.count(Limit::P95, 0, 0, true);
        let restart_and_count = |evidence: &Evidence| {
            evidence.restart();
            let generation = evidence.generation();
            evidence.count(Limit::P95, generation, 0, true);
            generation
        };
        let generations = race(&evidence, restart_and_count, restart_and_count);
        assert_eq!(evidence.generation(), 2);
        let after_both = generations.iter().filter(|seen| **seen == 2).count();
        assert_eq!(evidence.counts(2, 0, SLICES).n95, after_both as u64);
        for _ in after_both..4 {
            evidence.count(Limit::P95, 2, 0, true);
        }
        assert!(!evidence.has_spike(2), "four exceedances from zero");
        evidence.count(Limit::P95, 2, 0, true);
        assert!(evidence.has_spike(2), "five");
    });
}

#[test]
fn spike_steps_beside_each_other_both_count() {
    model(|| {
        let limit = Duration::from_secs(1);
        let evidence = Arc::new(Evidence::new(limit, limit));
        for _ in 0..3 {
            evidence.count(Limit::P95, 0, 0, true);
        }
        let add = |evidence: &Evidence| evidence.count(Limit::P95, 0, 0, true);
        race(&evidence, add, add);
        assert!(evidence.has_spike(0));
    });
}

/// A window in breach, its episode not begun.
fn breached() -> (Arc<LatencyWindow>, Instant) {
    let limit = Duration::from_millis(100);
    let now = origin();
    let config = WindowConfig::new(limit, 2 * limit, Duration::from_secs(60));
    let window = LatencyWindow::new(config.expect("limits rise"), now);
    for _ in 0..5 {
        window.record(5 * limit, now);
    }
    (Arc::new(window), now)
}

#[test]
fn inv33_of_two_that_judge_one_gets_the_edge() {
    model(|| {
        let (window, now) = breached();
        let judge = move |window: &LatencyWindow| window.judge(now).1;
        let edges = race(&window, judge, judge);
        assert_eq!(edges.iter().flatten().count(), 1);
    });
}

#[test]
fn inv33_beside_a_restart_edges_still_come_in_turn() {
    model(|| {
        let (window, now) = breached();
        let [judged, restarted] = race(
            &window,
            move |window| window.judge(now).1,
            move |window| {
                window.restart(now);
                window.judge(now).1
            },
        );
        let last = window.judge(now);
        assert_eq!(last.0, Verdict::Unknown);
        let edges = [judged, restarted, last.1];
        let began = edges
            .iter()
            .flatten()
            .filter(|edge| matches!(edge, Edge::Breached(_)));
        let ended = edges
            .iter()
            .flatten()
            .filter(|edge| **edge == Edge::Cleared);
        let (began, ended) = (began.count(), ended.count());
        assert!(began == ended && began <= 1, "{edges:?}");
    });
}

#[test]
fn inv36_of_three_callers_that_see_one_breach_exactly_one_moves_the_role() {
    model(|| {
        let word = Arc::new(RoleWord::new(0));
        let seen = word.load();
        let third = {
            let word = Arc::clone(&word);
            thread::spawn(move || word.try_move(seen, 3))
        };
        let [first, second] = race(
            &word,
            move |word| word.try_move(seen, 1),
            move |word| word.try_move(seen, 2),
        );
        let outcomes = [first, second, third.join().expect("no thread panics")];
        let won: Vec<_> = outcomes.iter().flatten().collect();
        assert_eq!((won.len(), won[0].epoch), (1, 1));
        assert_eq!(*won[0], word.load());
    });
}

#[test]
fn inv37_and_38_a_loser_decides_again_from_what_it_sees_and_moves_form_a_chain() {
    model(|| {
        let word = Arc::new(RoleWord::new(0));
        let old = word.load();
        let moves = |to: usize| {
            move |word: &RoleWord| match word.try_move(old, to) {
                Ok(moved) => (old, moved),
                Err(seen) => {
                    assert_eq!(seen.epoch, 1, "the other's move");
                    let moved = word.try_move(seen, to);
                    (seen, moved.expect("the other moves once"))
                }
            }
        };
        let [one, two] = race(&word, moves(1), moves(2));
        let (first, second) = if one.1.epoch < two.1.epoch {
            (one, two)
        } else {
            (two, one)
        };
        assert_eq!((first.0, first.1.epoch), (old, 1));
        assert_eq!((second.0, second.1.epoch), (first.1, 2));
        assert_eq!(word.load(), second.1);
        assert_eq!(word.try_move(old, 3), Err(second.1));
    });
}

#[test]
fn inv39_no_reader_sees_the_epoch_of_one_move_with_the_rung_of_another() {
    model(|| {
        let word = Arc::new(RoleWord::new(0));
        let [_, seen] = race(
            &word,
            |word| {
                // Rung and epoch stay equal: 1 at 1, 2 at 2.
                let first = word.try_move(word.load(), 1).expect("nobody else moves it");
                word.try_move(first, 2).expect("nobody else moves it")
            },
            RoleWord::load,
        );
        assert_eq!(seen.rung as u64, seen.epoch);
    });
}

#[test]
fn inv57_of_a_restoration_and_a_substitution_racing_one_wins() {
    model(|| {
        let word = Arc::new(RoleWord::new(1));
        let seen = word.load();
        let [restore, substitute] = race(
            &word,
            move |word| word.try_move(seen, 0),
            move |word| word.try_move(seen, 2),
        );
        assert!(restore.is_ok() ^ substitute.is_ok());
        assert_eq!(word.load().epoch, 1);
    });
}
