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
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
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
