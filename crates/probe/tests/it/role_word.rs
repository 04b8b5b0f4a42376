//! The role word (invariants 36-39, as far as one thread at a time can show them).

use std::thread;

use evenkeel_probe::{RoleWord, Word};
use proptest::collection::vec;
use proptest::prelude::*;

#[test]
fn inv36_of_many_callers_that_see_one_breach_exactly_one_moves_the_role() {
    for _ in 0..200 {
        let word = RoleWord::new(0);
        let seen = word.load();
        let winners: usize = thread::scope(|scope| {
            let callers: Vec<_> = (1..=4)
                .map(|to| {
                    scope.spawn({
                        let word = &word;
                        move || word.try_move(seen, to)
                    })
                })
                .collect();
            let outcomes: Vec<_> = callers
                .into_iter()
                .map(|caller| caller.join().unwrap())
                .collect();
            for lost in outcomes.iter().filter_map(|outcome| outcome.err()) {
                assert_eq!(lost, word.load());
            }
            outcomes.iter().filter(|outcome| outcome.is_ok()).count()
        });
        assert_eq!((winners, word.load().epoch), (1, 1));
    }
}

#[test]
fn a_move_to_the_same_rung_is_none() {
    let word = RoleWord::new(2);
    let seen = word.load();
    assert_eq!(word.try_move(seen, 2), Err(seen));
    assert_eq!(word.load(), Word { rung: 2, epoch: 0 });
}

#[test]
fn a_rung_or_epoch_no_word_can_hold_changes_nothing() {
    let word = RoleWord::new(RoleWord::MAX_RUNG);
    let seen = word.load();
    assert_eq!(seen.rung, 65_535);
    assert_eq!(word.try_move(seen, 65_536), Err(seen));
    for epoch in [1 << 48, u64::MAX] {
        assert_eq!(word.try_move(Word { epoch, ..seen }, 1), Err(seen));
    }
    assert_eq!(
        word.try_move(
            Word {
                rung: 65_536,
                epoch: 0
            },
            1
        ),
        Err(seen)
    );
    assert_eq!(word.load(), seen);
}

#[test]
#[should_panic(expected = "a rung is at most MAX_RUNG")]
fn a_word_cannot_start_above_the_highest_rung() {
    let _ = RoleWord::new(65_536);
}

proptest! {
    /// Invariants 37, 38: epochs are consecutive, each move starts where the last one ended, and a stale
    /// word moves nothing.
    #[test]
    fn inv37_and_38_moves_form_a_chain_and_stale_words_move_nothing(moves in vec((0..5_usize, 0..4_usize), 0..100)) {
        let word = RoleWord::new(0);
        let mut history = vec![word.load()];
        for (to, back) in moves {
            let seen = history[history.len().saturating_sub(1 + back)];
            let current = *history.last().unwrap();
            match word.try_move(seen, to) {
                Ok(moved) => {
                    prop_assert_eq!(seen, current);
                    prop_assert_ne!(seen.rung, to);
                    prop_assert_eq!(moved, Word { rung: to, epoch: current.epoch + 1 });
                    history.push(moved);
                }
                Err(held) => {
                    prop_assert!(seen != current || to == current.rung);
                    prop_assert_eq!(held, current);
                }
            }
            prop_assert_eq!(word.load(), *history.last().unwrap());
        }
    }
}
