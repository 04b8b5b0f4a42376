//! When a stream commits: what is held back of it before.

use super::{Call, Mode};
use evenkeel_core::StreamEvent;
use evenkeel_roster::{Commit, StreamValidation};
use std::time::Instant;

impl Call {
    /// Whether the attempt's tool calls are kept back until they parse.
    pub(crate) fn withholds(&self, index: usize) -> bool {
        self.mode == Mode::Stream
            && self.role.policy.stream_validation == StreamValidation::Hold
            && !self.request.tools.is_empty()
            && !self.holds_answer(index)
    }

    /// Whether the attempt's answer has to be whole before the caller gets any of
    /// it: because the role says so, or because it has to be valid.
    fn holds_answer(&self, index: usize) -> bool {
        let policy = &self.role.policy;
        let tailored = &self.attempts[index].tailored;
        policy.commit == Commit::Full
            || tailored.turns_answer
            || ((tailored.must_be_valid || self.validation().is_some())
                && policy.stream_validation == StreamValidation::Hold)
    }

    /// The attempt has an event ready for the caller. True where it commits with that.
    pub(crate) fn holds(&mut self, index: usize, event: &StreamEvent, now: Instant) -> bool {
        if !event.is_content() || self.holds_answer(index) {
            return false;
        }
        let window = self.role.policy.commit_window;
        let attempt = &mut self.attempts[index];
        attempt.ready.add(event);
        if self.role.policy.commit == Commit::FirstToken {
            return true;
        }
        if attempt.window_ends.is_none() {
            attempt.window_ends = now.checked_add(window.time);
        }
        attempt.ready.tokens() >= u64::from(window.tokens)
    }

    /// The attempt whose window is over as of `now`, the oldest if several are.
    pub(super) fn window_over(&self, now: Instant) -> Option<usize> {
        let over = |end: Instant| end <= now;
        self.attempts
            .iter()
            .position(|a| a.running && a.window_ends.is_some_and(over))
    }
}
