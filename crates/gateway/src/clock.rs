//! The time of day.

use evenkeel_core::{Clock, SystemClock};
use std::time::UNIX_EPOCH;

/// Unix time in seconds.
pub(crate) fn unix_seconds() -> u64 {
    SystemClock
        .now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
