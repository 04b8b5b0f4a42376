//! Whether a call may be made.

use std::time::{Duration, Instant};

use crate::{
    breaker::Breaker,
    event::Cause,
    ledger::Ledger,
    permit::Refused,
    state::{State, Word},
    sync::{Ordering, lock},
};

/// How soon a call that a half-open breaker refuses should ask again at the latest: trial calls are ordinary
/// calls, and their permits come back when they end.
const TRIAL_RETRY: Duration = Duration::from_secs(1);

/// Shortest wait ever told, so that no caller spins.
const SHORTEST_RETRY: Duration = Duration::from_nanos(1);

impl Breaker {
    /// Admits a call to the state that is returned, or refuses it.
    #[inline]
    pub(crate) fn enter(&self, now: Instant) -> Result<Word, Refused> {
        let word = self.current();
        match word.state() {
            State::Closed | State::Disabled => Ok(word),
            State::Open | State::HalfOpen | State::ForcedOpen => self.enter_unless_refused(now),
        }
    }

    /// Whether calls are admitted at any time.
    #[cfg(feature = "tower")]
    pub(crate) fn flows(&self) -> bool {
        matches!(self.current().state(), State::Closed | State::Disabled)
    }

    #[cold]
    fn enter_unless_refused(&self, now: Instant) -> Result<Word, Refused> {
        loop {
            let word = self.current();
            match word.state() {
                State::Closed | State::Disabled => return Ok(word),
                State::ForcedOpen => return Err(self.forced()),
                State::Open => match self.open_for(word, now) {
                    Some(Duration::ZERO) => {}
                    Some(retry_in) => {
                        return Err(Refused {
                            state: State::Open,
                            retry_in,
                        });
                    }
                    None => continue,
                },
                State::HalfOpen => {}
            }
            if let Some(answer) = self.enter_trial(word, now) {
                return answer;
            }
        }
    }

    /// Admits a trial call, moving to half-open first if need be; `None` if the state is not `seen` any more.
    fn enter_trial(&self, seen: Word, now: Instant) -> Option<Result<Word, Refused>> {
        let mut answer = None;
        self.change(|breaker, ledger| {
            if breaker.current() != seen {
                return None;
            }
            let mut transition = None;
            if seen.state() == State::Open {
                transition =
                    Some(breaker.shift(ledger, State::HalfOpen, Cause::OpenElapsed, now, None));
            } else if let Some(refused) = breaker.trial_refusal(seen, ledger, now) {
                answer = Some(Err(refused));
                return breaker.time_out(ledger, now);
            }
            ledger.trials.begin(now);
            answer = Some(Ok(breaker.current()));
            transition
        });
        answer
    }

    /// What an admission at `now` would meet and answer.
    pub(crate) fn outlook(&self, now: Instant) -> (State, Option<Refused>) {
        loop {
            let word = self.current();
            match word.state() {
                state @ (State::Closed | State::Disabled) => return (state, None),
                State::ForcedOpen => return (State::ForcedOpen, Some(self.forced())),
                State::Open => match self.open_for(word, now) {
                    Some(Duration::ZERO) => return (State::HalfOpen, None),
                    Some(retry_in) => {
                        let state = State::Open;
                        return (state, Some(Refused { state, retry_in }));
                    }
                    None => {}
                },
                State::HalfOpen => {
                    let ledger = lock(&self.ledger);
                    if self.current() == word {
                        let refused = self.trial_refusal(word, &ledger, now);
                        return (
                            refused.map_or(State::HalfOpen, |refused| refused.state),
                            refused,
                        );
                    }
                }
            }
        }
    }

    /// What is left of the open time of `open`; `None` if that is not the state any more.
    fn open_for(&self, open: Word, now: Instant) -> Option<Duration> {
        let deadline = self.deadline.load(Ordering::Acquire);
        // Unchanged: then the deadline is that of this generation, for a later one is stored
        // after the state has moved on.
        (self.current() == open).then(|| self.timeline.until(deadline, now))
    }

    /// Why a half-open breaker admits no further trial call now, if so. Trial calls that have timed out
    /// refuse as the opening they lead to.
    fn trial_refusal(&self, word: Word, ledger: &Ledger, now: Instant) -> Option<Refused> {
        if !ledger.trials.are_full(self.config.success_threshold) {
            return None;
        }
        let patience = ledger.trials.patience(now, self.config.half_open_timeout);
        Some(if patience.is_zero() {
            Refused {
                state: State::Open,
                retry_in: self.period(ledger.openings.saturating_add(1), word.generation() + 1),
            }
        } else {
            Refused {
                state: State::HalfOpen,
                retry_in: patience.min(TRIAL_RETRY),
            }
        })
    }

    fn forced(&self) -> Refused {
        Refused {
            state: State::ForcedOpen,
            retry_in: self.config.open.max(SHORTEST_RETRY),
        }
    }
}
