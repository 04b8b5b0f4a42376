//! The invariants of the latency window, the role word and restoration, one named test each, against slow
//! and obvious reference models.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
mod clock;
mod limits;
mod memory;
mod model;
mod recovery;
mod recovery_machine;
mod reports;
mod role_word;
mod rules;
mod sessions;
mod spike;
mod window;
mod window_machine;
mod written;

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Any instant, the same for the whole run.
fn t0() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "a test needs some origin")]
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    *ORIGIN
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The instant `millis` after the origin.
fn at(millis: u64) -> Instant {
    t0() + ms(millis)
}
