//! An operator's hold on a role's word.

use crate::role::Role;
use crate::rung::{Measure, Rung, locked};
use evenkeel_core::{RestorationReason, SubstitutionReason};
use evenkeel_probe::Word;
use jiff::civil::Date;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// No rung is held.
const FREE: usize = usize::MAX;

/// The rung that an operator holds a role's word on. While it is set nothing
/// but an operator moves the word.
///
/// Reading it is one load. Moves of the word are made under its lock, so that
/// none slips between an operator's look at the word and the hold.
#[derive(Debug)]
pub(crate) struct Pin {
    rung: AtomicUsize,
    moves: Mutex<()>,
}

impl Default for Pin {
    fn default() -> Self {
        Self {
            rung: AtomicUsize::new(FREE),
            moves: Mutex::new(()),
        }
    }
}

impl Pin {
    pub(crate) fn is_set(&self) -> bool {
        self.rung.load(Ordering::Acquire) != FREE
    }

    pub(crate) fn rung(&self) -> Option<usize> {
        Some(self.rung.load(Ordering::Acquire)).filter(|rung| *rung != FREE)
    }

    /// Holds the word where it stands, for good: of a role that is replaced
    /// nothing is moved any more. Also how a role begins that is held.
    pub(crate) fn close(&self, rung: usize) {
        let _moves = locked(&self.moves);
        self.rung.store(rung, Ordering::Release);
    }

    /// Makes a move that is nobody's order, unless the word is held.
    pub(crate) fn unless_set<T>(&self, moves: impl FnOnce() -> Option<T>) -> Option<T> {
        let _moves = locked(&self.moves);
        if self.is_set() { None } else { moves() }
    }
}

impl Role {
    /// Puts the word on `to` and holds it there.
    pub(crate) fn hold_on(&self, to: usize, now: Instant) {
        let seen = {
            let _moves = locked(&self.pin.moves);
            self.pin.rung.store(to, Ordering::Release);
            let seen = self.word.load();
            let moved = self.word.try_move(seen, to).ok();
            moved.map(|new| (seen, new))
        };
        // What serves by order is on no way back, and nor is what lies below it.
        for rung in &self.rungs[to..] {
            rung.recovery.forget();
        }
        match seen {
            Some((seen, new)) if to > seen.rung => {
                let reason = SubstitutionReason::Manual;
                self.left(seen, new, reason, Measure::Total, now, None);
            }
            Some((seen, new)) => self.returned(seen, new, RestorationReason::Manual, now),
            None => {}
        }
    }

    /// Lets go of the word, if it is held. It goes back to the best rung that is
    /// neither too slow nor retired.
    pub(crate) fn let_go(&self, now: Instant, today: Date) {
        let was_held = {
            let _moves = locked(&self.pin.moves);
            self.pin.rung.swap(FREE, Ordering::AcqRel) != FREE
        };
        if was_held {
            self.come_back(RestorationReason::Manual, now, today);
            self.around.wake_prober.notify_one();
        }
    }

    /// Comes back if a rung above was left because its model was at the end of
    /// its life, and it is not any more.
    pub(crate) fn return_from_eol(&self, now: Instant, today: Date) {
        let above = &self.rungs[..self.word.load().rung];
        let left = |rung: &Rung| {
            let left = *locked(&rung.left);
            left.is_some_and(|left| left.reason == SubstitutionReason::Eol)
                && rung.model.retired(now, today).is_none()
        };
        if above.iter().any(left) {
            self.come_back(RestorationReason::Eol, now, today);
        }
    }

    /// Moves the word up to the best rung that it was not left for slowness,
    /// if there is one above: nothing has to be proved of such a rung.
    pub(crate) fn come_back(&self, reason: RestorationReason, now: Instant, today: Date) {
        let fit = |rung: &usize| {
            let rung = &self.rungs[*rung];
            !rung.recovery.benched() && rung.model.retired(now, today).is_none()
        };
        let moved = self.pin.unless_set(|| {
            let seen: Word = self.word.load();
            let to = (0..seen.rung).find(fit)?;
            let new = self.word.try_move(seen, to).ok()?;
            Some((seen, new))
        });
        if let Some((seen, new)) = moved {
            for below in &self.rungs[new.rung + 1..] {
                below.recovery.forget();
            }
            self.returned(seen, new, reason, now);
        }
    }
}
