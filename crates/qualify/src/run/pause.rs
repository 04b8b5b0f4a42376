//! Waiting for a candidate's rate limit.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// A wait where the provider states none: doubled with each limit in a row.
const BASE: Duration = Duration::from_secs(1);
/// No wait that nobody asked for is longer.
const CAP: Duration = Duration::from_secs(60);

/// Until when a candidate is left alone, shared by all its questions.
#[derive(Debug, Default)]
pub(crate) struct Pause(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    until: Option<Instant>,
    /// Limits met in a row, each after the pause before it.
    run: u32,
}

impl Pause {
    /// Whether the candidate is left alone now.
    pub(crate) fn is_on(&self) -> bool {
        self.until(Instant::now()).is_some()
    }

    /// Waits until the candidate may be asked.
    pub(crate) async fn wait(&self) {
        while let Some(until) = self.until(Instant::now()) {
            sleep_until(until).await;
        }
    }

    fn until(&self, now: Instant) -> Option<Instant> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.until.filter(|until| *until > now)
    }

    /// The candidate refused a question for its rate, and asked for this wait; how
    /// long it is left alone from `now`. None, and no wait, where that would end after
    /// `patience_ends`. Those that were under way meanwhile count as one.
    pub(crate) fn limited(
        &self,
        asked: Option<Duration>,
        now: Instant,
        patience_ends: Instant,
    ) -> Option<Duration> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = state.until.is_none_or(|until| until <= now);
        let run = state.run.saturating_add(u32::from(is_over));
        let own = BASE.saturating_mul(1 << (run - 1).min(16)).min(CAP);
        let until = now + asked.unwrap_or(own);
        let until = state.until.map_or(until, |other| other.max(until));
        if until > patience_ends {
            return None;
        }
        *state = State {
            until: Some(until),
            run,
        };
        Some(until.saturating_duration_since(now))
    }

    /// The candidate took a question.
    pub(crate) fn answered(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.run = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(3_600)
    }

    #[tokio::test(start_paused = true)]
    async fn every_question_waits_for_what_was_asked_of_one() {
        let pause = Pause::default();
        assert!(!pause.is_on());
        let began = Instant::now();
        let asked = Duration::from_secs(7);
        assert_eq!(pause.limited(Some(asked), began, far()), Some(asked));
        let shorter = pause.limited(Some(Duration::ZERO), began, far());
        assert_eq!(shorter, Some(asked));
        pause.wait().await;
        assert_eq!(began.elapsed().as_secs(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_without_a_time_doubles_the_wait_until_a_question_is_taken() {
        let pause = Pause::default();
        let limited = || {
            pause
                .limited(None, Instant::now(), far())
                .unwrap()
                .as_secs()
        };
        let mut waits = Vec::new();
        for _ in 0..8 {
            waits.push(limited());
            limited();
            pause.wait().await;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        pause.answered();
        assert_eq!(limited(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_beyond_somebodys_patience_holds_up_nobody() {
        let pause = Pause::default();
        let now = Instant::now();
        let soon = now + Duration::from_secs(5);
        assert_eq!(pause.limited(Some(Duration::from_secs(6)), now, soon), None);
        assert!(!pause.is_on());
        let second = pause.limited(None, now, soon);
        assert_eq!(second, Some(Duration::from_secs(1)), "it was not counted");
    }
}
