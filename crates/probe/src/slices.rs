//! How time is cut: into slices, 16 to a window.

use std::time::{Duration, Instant};

/// Slices of a window (DESIGN: window / 16); under loom the fewest that can pass each other.
pub(crate) const SLOTS: usize = if cfg!(evenkeel_loom) { 2 } else { 16 };
/// The same, to count time with.
pub(crate) const SLICES: u64 = SLOTS as u64;

/// Turns instants into slice numbers. All whole nanoseconds; an instant before the origin is slice 0, and
/// what exceeds 2^64 ns (584 years) counts as that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slices {
    origin: Instant,
    slice: u64,
    live: u64,
}

impl Slices {
    /// Slices are rounded up to a whole nanosecond, and only as many count as fill the window: below 16 ns
    /// a window has fewer slices, of 1 ns each.
    pub(crate) fn new(window: Duration, origin: Instant) -> Self {
        let window = nanos(window).max(1);
        let slice = window.div_ceil(SLICES);
        Self {
            origin,
            slice,
            live: window.div_ceil(slice),
        }
    }

    /// How many slices count, the current one among them: 1 to 16.
    pub(crate) const fn live(&self) -> u64 {
        self.live
    }

    /// Number of the slice `now` lies in.
    pub(crate) fn at(&self, now: Instant) -> u64 {
        self.since_origin(now) / self.slice
    }

    /// Nanoseconds since the origin.
    pub(crate) fn since_origin(&self, now: Instant) -> u64 {
        nanos(now.saturating_duration_since(self.origin))
    }
}

/// Whole nanoseconds, at most `u64::MAX`.
pub(crate) fn nanos(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1_000_000_000);
    seconds.saturating_add(duration.subsec_nanos().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test needs some origin")]
    fn slices_fill_any_window_by_less_than_one_slice_too_much() {
        let origin = Instant::now();
        for window in (1..300).chain([15_000_000_000, u64::MAX - 3, u64::MAX]) {
            let slices = Slices::new(Duration::from_nanos(window), origin);
            let covered = u128::from(slices.live) * u128::from(slices.slice);
            assert!((1..=16).contains(&slices.live));
            assert!(covered >= u128::from(window));
            assert!(covered < u128::from(window) + u128::from(slices.slice));
        }
    }
}
