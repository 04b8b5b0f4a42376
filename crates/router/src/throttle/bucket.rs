//! A configured limit per minute, counted here.

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{NotKeyed, StateStore};
use governor::{Quota, RateLimiter};
use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// A minute's allowance, there at once and refilled evenly.
///
/// The reckoning is governor's (GCRA). Its state and its clock are ours: time is an
/// argument, a decision can be looked at before it is taken, and what was booked too
/// high can be given back; its own stores allow none of the three.
#[derive(Debug)]
pub(super) struct Bucket {
    quota: Quota,
    /// When the bucket is full again, nanoseconds since `born`.
    full_at: Cell<u64>,
    born: Instant,
}

impl Bucket {
    pub(super) fn per_minute(limit: NonZeroU32, now: Instant) -> Self {
        Self {
            quota: Quota::per_minute(limit),
            full_at: Cell::new(0),
            born: now,
        }
    }

    /// How long until `count` would be there; none where they are.
    pub(super) fn lacks(&self, count: u64, now: Instant) -> Option<Duration> {
        self.ask(count, false, now)
    }

    /// Takes `count`, if they are there: check with [`lacks`](Self::lacks) before.
    /// More than a minute's allowance is as much as that.
    pub(super) fn take(&self, count: u64, now: Instant) {
        let lacking = self.ask(count, true, now);
        debug_assert_eq!(lacking, None, "checked before");
    }

    /// Of `booked`, `used` were used.
    pub(super) fn correct(&self, booked: u64, used: u64, now: Instant) {
        let booked = u64::from(self.at_most(booked));
        let interval = nanos(self.quota.replenish_interval());
        let full_at = self.full_at.get();
        self.full_at.set(if used < booked {
            full_at.saturating_sub((booked - used).saturating_mul(interval))
        } else {
            // No emptier than empty: what a call took beyond that is past.
            let now = self.since_born(now);
            let empty = now.saturating_add(nanos(self.quota.burst_size_replenished_in()));
            let more = (used - booked).saturating_mul(interval);
            full_at
                .max(now)
                .saturating_add(more)
                .min(empty.max(full_at))
        });
    }

    fn at_most(&self, count: u64) -> u32 {
        let most = self.quota.burst_size().get();
        u32::try_from(count).unwrap_or(most).min(most)
    }

    fn ask(&self, count: u64, keeps: bool, now: Instant) -> Option<Duration> {
        let count = NonZeroU32::new(self.at_most(count))?;
        let view = View {
            full_at: &self.full_at,
            keeps,
        };
        let limiter: RateLimiter<NotKeyed, View<'_>, Hands, NoOpMiddleware<Nanos>> =
            RateLimiter::new(self.quota, view, Hands(Cell::new(0)));
        let now = self.since_born(now);
        limiter.clock().0.set(now);
        let decided = limiter.check_n(count);
        let decided = decided.expect("no more are asked for than the bucket holds");
        decided
            .err()
            .map(|until| until.wait_time_from(Nanos::from(now)))
    }

    fn since_born(&self, now: Instant) -> u64 {
        nanos(now.saturating_duration_since(self.born))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The bucket as governor sees it, to be looked at only or also changed.
struct View<'a> {
    full_at: &'a Cell<u64>,
    keeps: bool,
}

impl StateStore for View<'_> {
    type Key = NotKeyed;

    fn measure_and_replace<T, F, E>(&self, _: &NotKeyed, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let (decided, full_at) = decide(Some(Nanos::from(self.full_at.get())))?;
        if self.keeps {
            self.full_at.set(full_at.into());
        }
        Ok(decided)
    }
}

/// A clock that is set: nanoseconds since the bucket was made.
struct Hands(Cell<u64>);

impl Clock for Hands {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(self.0.get())
    }
}
