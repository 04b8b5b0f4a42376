//! Rate limits of one model: what may be sent now, so that its provider need not
//! refuse it.
//!
//! Two things are kept and the stricter holds: configured limits, counted here in
//! buckets ([`bucket`]), and what the provider reports is left ([`reported`]).

mod bucket;
mod reported;

use self::bucket::Bucket;
use self::reported::Reported;
use crate::rung::locked;
use evenkeel_core::{Allowance, RateLimits, Usage};
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The kinds of allowance a request draws on.
const KINDS: usize = 4;

/// What a request draws from each allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Draw {
    /// Input tokens.
    pub(crate) input: u64,
    /// Output tokens, as they are expected.
    pub(crate) output: u64,
}

impl Draw {
    /// Any request draws at least one of each.
    pub(crate) const LEAST: Self = Self {
        input: 0,
        output: 0,
    };

    /// As the tokens of an answer.
    pub(crate) fn usage(self) -> Usage {
        Usage {
            input: self.input,
            output: self.output,
            ..Usage::default()
        }
    }

    /// Requests, tokens, input tokens, output tokens.
    fn counts(self) -> [u64; KINDS] {
        let tokens = self.input.saturating_add(self.output);
        [1, tokens.max(1), self.input.max(1), self.output.max(1)]
    }
}

/// An admitted request, to be corrected when its tokens are known.
#[derive(Debug)]
pub(crate) struct Booking {
    counts: [u64; KINDS],
    /// All that had been sent with it.
    sent: [u64; KINDS],
}

/// The rate limits of one model, shared by all roles. Without any it costs one load.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// Whether any limit has ever been known.
    limited: AtomicBool,
    limits: Mutex<Limits>,
}

#[derive(Debug)]
struct Limits {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    reported: [Option<Reported>; KINDS],
    /// Requests sent with the one that the last report came with.
    reported_at: u64,
    /// Everything sent so far, wrapping.
    sent: [u64; KINDS],
}

impl Throttle {
    /// Limits per minute as they are configured.
    pub(crate) fn new(
        requests_per_minute: Option<NonZeroU32>,
        tokens_per_minute: Option<NonZeroU32>,
        now: Instant,
    ) -> Self {
        let bucket = |limit: NonZeroU32| Bucket::per_minute(limit, now);
        Self {
            limited: AtomicBool::new(requests_per_minute.or(tokens_per_minute).is_some()),
            limits: Mutex::new(Limits {
                requests: requests_per_minute.map(bucket),
                tokens: tokens_per_minute.map(bucket),
                reported: [None; KINDS],
                reported_at: 0,
                sent: [0; KINDS],
            }),
        }
    }

    fn is_limited(&self) -> bool {
        self.limited.load(Ordering::Acquire)
    }

    /// How long until such a request would not go over a limit; none where it would
    /// not now.
    pub(crate) fn lacks(&self, draw: impl FnOnce() -> Draw, now: Instant) -> Option<Duration> {
        if !self.is_limited() {
            return None;
        }
        let counts = draw().counts();
        locked(&self.limits).lacks(&counts, now)
    }

    /// Books a request, if it goes over no limit; `Err` is how long that takes. No
    /// booking is needed where no limit is known.
    pub(crate) fn admit(
        &self,
        draw: impl FnOnce() -> Draw,
        now: Instant,
    ) -> Result<Option<Booking>, Duration> {
        if !self.is_limited() {
            return Ok(None);
        }
        let counts = draw().counts();
        let mut limits = locked(&self.limits);
        match limits.lacks(&counts, now) {
            Some(wait) => Err(wait),
            None => Ok(Some(limits.take(counts, now))),
        }
    }

    /// A booked request used so many tokens.
    pub(crate) fn settle(&self, booking: &Booking, usage: &Usage, now: Instant) {
        let limits = locked(&self.limits);
        if let Some(bucket) = &limits.tokens {
            let used = usage.input.saturating_add(usage.output);
            bucket.correct(booking.counts[1], used, now);
        }
    }

    /// Takes in what came with the answer to a request: the stricter of it and the
    /// own count holds from now on. What was sent after that request is not in it
    /// yet; a report that comes after one of a later request is passed over.
    pub(crate) fn learn(&self, booking: Option<&Booking>, limits: &RateLimits, now: Instant) {
        let mut known = locked(&self.limits);
        let sent_with = booking.map_or(known.sent, |booking| booking.sent);
        if sent_with[0] < known.reported_at {
            return;
        }
        known.reported_at = sent_with[0];
        let reports = [
            &limits.requests,
            &limits.tokens,
            &limits.input_tokens,
            &limits.output_tokens,
        ];
        for (kind, allowance) in reports.into_iter().enumerate() {
            let since = known.sent[kind].saturating_sub(sent_with[kind]);
            if *allowance != Allowance::default() {
                known.reported[kind] = Reported::new(allowance, since, now);
            }
        }
        if known.reported.iter().any(Option::is_some) {
            self.limited.store(true, Ordering::Release);
        }
    }
}

impl Limits {
    /// The longest that any limit asks to wait.
    fn lacks(&mut self, counts: &[u64; KINDS], now: Instant) -> Option<Duration> {
        let buckets = [&self.requests, &self.tokens];
        let counted = buckets.into_iter().zip(counts);
        let counted = counted.filter_map(|(b, count)| b.as_ref()?.lacks(*count, now));
        let reported = self.reported.iter_mut().zip(counts);
        let reported = reported.filter_map(|(r, count)| r.as_mut()?.lacks(*count, now));
        counted.chain(reported).max()
    }

    fn take(&mut self, counts: [u64; KINDS], now: Instant) -> Booking {
        for (bucket, count) in [&self.requests, &self.tokens].into_iter().zip(counts) {
            if let Some(bucket) = bucket {
                bucket.take(count, now);
            }
        }
        for (kind, count) in counts.into_iter().enumerate() {
            if let Some(reported) = &mut self.reported[kind] {
                reported.take(count);
            }
            self.sent[kind] = self.sent[kind].saturating_add(count);
        }
        Booking {
            counts,
            sent: self.sent,
        }
    }
}

#[cfg(test)]
mod tests;
