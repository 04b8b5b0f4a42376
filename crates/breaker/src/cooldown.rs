//! Staying away after a rate limit.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use crate::{
    error::{ConfigError, LONGEST},
    period::grown,
    sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock},
    timeline::{Timeline, nanos},
};

/// Longest Retry-After that is believed: the longest span over which model providers count requests is a day.
const LONGEST_ASKED: Duration = Duration::from_secs(24 * 3600);

/// How long to keep calls off something that answered with a rate limit.
///
/// With a Retry-After the cooldown is as long as that says (at most a day), else
/// `min(cap, base × growth^(n-1))`, where n counts the rate limits in a row. Those that arrive while a
/// cooldown runs come from calls begun before it: they may lengthen it, never shorten it, and n stays. A
/// success outside of a cooldown puts n back to 0.
///
/// Reading takes no lock.
#[derive(Debug)]
pub struct Cooldown {
    base: Duration,
    growth: f64,
    cap: Duration,
    /// Begins with the first rate limit.
    timeline: OnceLock<Timeline>,
    /// Nanoseconds on the timeline; 0 is no cooldown.
    until: AtomicU64,
    /// When the last cooldown began, on the timeline.
    since: AtomicU64,
    /// Rate limits in a row.
    run: AtomicU32,
    /// Taken to start or clear, so that callers limited together count once.
    changing: Mutex<()>,
}

impl Cooldown {
    /// No cooldown yet.
    ///
    /// # Errors
    /// If `base` is zero, `growth` not between 1 and 1000, or `cap` below `base` or above a year.
    pub fn new(base: Duration, growth: f64, cap: Duration) -> Result<Self, ConfigError> {
        Ok(Self {
            base: ConfigError::unless_in("base", base, Duration::from_nanos(1)..=LONGEST)?,
            growth: ConfigError::unless_in("growth", growth, 1.0..=1000.0)?,
            cap: ConfigError::unless_in("cap", cap, base..=LONGEST)?,
            timeline: OnceLock::new(),
            until: AtomicU64::new(0),
            since: AtomicU64::new(0),
            run: AtomicU32::new(0),
            changing: Mutex::new(()),
        })
    }

    /// Counts a rate limit at `now` and tells how long calls stay away from then on.
    pub fn start(&self, now: Instant, retry_after: Option<Duration>) -> Duration {
        let _changing = lock(&self.changing);
        let timeline = *self.timeline.get_or_init(|| Timeline::from(now));
        let mut run = self.run.load(Ordering::Acquire);
        if self.remaining(now).is_none() {
            run = run.saturating_add(1);
            self.run.store(run, Ordering::Release);
            self.since.store(timeline.nanos(now), Ordering::Release);
        }
        let length = match retry_after {
            Some(asked) => asked.min(LONGEST_ASKED),
            None => grown(self.base, self.growth, self.cap, run),
        };
        let until = timeline.nanos(now).saturating_add(nanos(length));
        self.until.fetch_max(until, Ordering::AcqRel);
        self.remaining(now).unwrap_or_default()
    }

    /// What is left of a running cooldown.
    pub fn remaining(&self, now: Instant) -> Option<Duration> {
        let until = self.until.load(Ordering::Acquire);
        let left = self.timeline.get()?.until(until, now);
        (until > 0 && !left.is_zero()).then_some(left)
    }

    /// For how long a running cooldown has run.
    pub fn running_for(&self, now: Instant) -> Option<Duration> {
        self.remaining(now)?;
        let since = Duration::from_nanos(self.since.load(Ordering::Acquire));
        let at = Duration::from_nanos(self.timeline.get()?.nanos(now));
        Some(at.saturating_sub(since))
    }

    /// Counts a success at `now`: outside of a cooldown the next one is short again. While one runs it
    /// changes nothing, for its call began before.
    pub fn succeeded(&self, now: Instant) {
        if self.run.load(Ordering::Acquire) > 0 && self.remaining(now).is_none() {
            let _changing = lock(&self.changing);
            if self.remaining(now).is_none() {
                self.run.store(0, Ordering::Release);
            }
        }
    }

    /// Ends a running cooldown and forgets the rate limits before it; for operators.
    pub fn clear(&self) {
        let _changing = lock(&self.changing);
        self.until.store(0, Ordering::Release);
        self.run.store(0, Ordering::Release);
    }
}
