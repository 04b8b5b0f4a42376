//! Until when no reading moves a window: so that most calls need not work out which slice they are in.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use crate::sync::per_thread;

/// How many windows a thread remembers the end of a slice of, at 24 bytes each. Windows are numbered as they
/// are made; two whose numbers are the same modulo this push each other out.
const REMEMBERED: usize = 64;
/// As many, as a count of numbers.
const TURN: u64 = REMEMBERED as u64;

/// What this thread knows of one window.
struct Horizon {
    /// The window; 0 is none.
    window: Cell<u64>,
    /// End of a slice that the window has reached or passed: an earlier reading does not move it.
    until: Cell<Option<Instant>>,
}

per_thread! {
    static HORIZONS: [Horizon; REMEMBERED] = const {
        [const { Horizon { window: Cell::new(0), until: Cell::new(None) } }; REMEMBERED]
    };
}

/// A number no other window has.
pub(super) fn window() -> u64 {
    // Not loom's: which number it is matters to nothing.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Whether this thread knows that a reading of `now` does not move the window.
#[inline]
pub(super) fn is_ahead(window: u64, now: Instant) -> bool {
    HORIZONS.with(|horizons| {
        let known = slot(horizons, window);
        known.window.get() == window && Some(now) < known.until.get()
    })
}

/// Has this thread remember that the window has reached the slice that ends at `until`.
pub(super) fn reached(window: u64, until: Option<Instant>) {
    HORIZONS.with(|horizons| {
        let known = slot(horizons, window);
        known.window.set(window);
        known.until.set(until);
    });
}

#[inline]
fn slot(horizons: &[Horizon; REMEMBERED], window: u64) -> &Horizon {
    &horizons[(window % TURN) as usize]
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use std::time::{Duration, Instant};

    use super::{is_ahead, reached, window};

    #[test]
    fn a_reading_before_the_end_that_is_remembered_does_not_move_a_window() {
        #[expect(clippy::disallowed_methods, reason = "a test needs some origin")]
        let end = Instant::now();
        let before = end.checked_sub(Duration::from_nanos(1)).unwrap();
        for window in [1, 63, 64, 65, 4097, u64::MAX] {
            assert!(!is_ahead(window, before));
            reached(window, Some(end));
            assert!(is_ahead(window, before));
            assert!(!is_ahead(window, end));
        }
        // The same place as that of 1 and of 4097, and the last to have come.
        reached(65, Some(end));
        assert_eq!(
            [1, 65, 4097].map(|window| is_ahead(window, before)),
            [false, true, false]
        );
        reached(65, None);
        assert!(!is_ahead(65, before));
    }

    #[test]
    fn no_window_has_the_number_of_another_or_of_none() {
        let (one, other) = (window(), window());
        assert!(0 < one && one < other);
    }
}
