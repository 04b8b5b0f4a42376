//! The clocks of an upstream stream: first token, stall, least pace.

use evenkeel_core::{Clocks, Failure, Phase};
use std::time::{Duration, Instant};

/// Watches how an upstream stream comes along. Content alone is progress:
/// headers, role-only deltas, comments and pings stop no clock.
#[derive(Debug)]
pub(crate) struct Pace {
    first_token: Duration,
    stall: Duration,
    min_tokens_per_s: f64,
    began: Instant,
    last_content: Option<Instant>,
    /// Start of the stretch of `stall` over which the pace is judged now.
    stretch_began: Instant,
    stretch_tokens: f64,
}

/// Characters a token stands for when only text is seen (as in core's estimate).
const CHARS_PER_TOKEN: f64 = 4.0;

impl Pace {
    pub(crate) fn new(clocks: Clocks, min_tokens_per_s: f64, now: Instant) -> Self {
        Self {
            first_token: clocks.first_token,
            stall: clocks.stall,
            min_tokens_per_s,
            began: now,
            last_content: None,
            stretch_began: now,
            stretch_tokens: 0.0,
        }
    }

    /// Content of `chars` characters came.
    pub(crate) fn content(&mut self, chars: usize, now: Instant) {
        if self.last_content.replace(now).is_none() {
            self.stretch_began = now;
        }
        #[expect(clippy::cast_precision_loss, reason = "an estimate of tokens")]
        let tokens = (chars as f64 / CHARS_PER_TOKEN).max(1.0);
        self.stretch_tokens += tokens;
    }

    /// Nobody has read for so long: it is no part of the upstream's silence.
    pub(crate) fn skip(&mut self, away: Duration) {
        if let Some(last) = self.last_content.as_mut() {
            *last += away;
            self.stretch_began += away;
        }
    }

    /// When the next clock runs out.
    pub(crate) fn due(&self) -> Option<Instant> {
        let Some(last) = self.last_content else {
            return self.began.checked_add(self.first_token);
        };
        let stalled = last.checked_add(self.stall);
        if self.min_tokens_per_s > 0.0 {
            return stalled.min(self.stretch_began.checked_add(self.stall));
        }
        stalled
    }

    /// The failure of the clock that has run out at `now`, if one has.
    pub(crate) fn check(&mut self, now: Instant) -> Option<Failure> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        let Some(last) = self.last_content else {
            return Some(Failure::timeout(
                Phase::FirstToken,
                format!("no content within {} ms", self.first_token.as_millis()),
            ));
        };
        if now.saturating_duration_since(last) >= self.stall {
            return Some(Failure::timeout(
                Phase::Stall,
                format!("no content for {} ms", self.stall.as_millis()),
            ));
        }
        let seconds = now
            .saturating_duration_since(self.stretch_began)
            .as_secs_f64();
        let pace = self.stretch_tokens / seconds;
        self.stretch_began = now;
        self.stretch_tokens = 0.0;
        (pace < self.min_tokens_per_s).then(|| {
            Failure::timeout(
                Phase::Stall,
                format!(
                    "{pace:.2} tokens per second, less than the least of {}",
                    self.min_tokens_per_s
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks() -> Clocks {
        Clocks {
            connect: Duration::from_secs(3),
            first_token: Duration::from_secs(2),
            stall: Duration::from_secs(1),
            deadline: Duration::from_secs(60),
        }
    }

    fn start() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    #[test]
    fn silence_before_content_ends_at_the_first_token_clock() {
        let t0 = start();
        let mut pace = Pace::new(clocks(), 0.0, t0);
        assert!(pace.check(t0 + Duration::from_millis(1_999)).is_none());
        let failure = pace.check(t0 + Duration::from_secs(2)).unwrap();
        assert_eq!(failure.phase, Some(Phase::FirstToken));
    }

    #[test]
    fn silence_after_content_ends_at_the_stall_clock() {
        let t0 = start();
        let mut pace = Pace::new(clocks(), 0.0, t0);
        pace.content(4, t0 + Duration::from_millis(1_500));
        assert!(pace.check(t0 + Duration::from_millis(2_400)).is_none());
        let failure = pace.check(t0 + Duration::from_millis(2_500)).unwrap();
        assert_eq!(failure.phase, Some(Phase::Stall));
    }

    #[test]
    fn a_drip_below_the_least_pace_is_a_stall() {
        let t0 = start();
        let at = |ms| t0 + Duration::from_millis(ms);
        let drip = |least: f64| {
            let mut pace = Pace::new(clocks(), least, t0);
            for ms in [0, 400, 800] {
                pace.content(4, at(ms));
            }
            pace.check(at(1_000))
        };
        assert!(drip(2.0).is_none());
        assert_eq!(drip(5.0).unwrap().phase, Some(Phase::Stall));
        assert!(drip(0.0).is_none());
    }
}
