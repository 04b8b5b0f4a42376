//! Changes of state; all of them under the lock.

use std::time::{Duration, Instant};

use crate::{
    breaker::Breaker,
    event::{Cause, Transition},
    ledger::{Ledger, Trials},
    period::{grown, spread, unit},
    state::State,
    sync::Ordering,
    timeline::nanos,
};

impl Breaker {
    /// Opens a closed or half-open breaker for as long as this opening lasts, or as a server asked.
    pub(crate) fn open(
        &self,
        ledger: &mut Ledger,
        cause: Cause,
        now: Instant,
        retry_after: Option<Duration>,
    ) -> Transition {
        let word = self.current();
        let calm = word.state() == State::Closed
            && now.saturating_duration_since(ledger.since) >= self.config.reset_after;
        ledger.openings = if calm {
            1
        } else {
            ledger.openings.saturating_add(1)
        };
        let asked = retry_after.unwrap_or_default().min(self.config.open_cap);
        let lasts = self
            .period(ledger.openings, word.generation() + 1)
            .max(asked);
        self.shift(ledger, State::Open, cause, now, Some(lasts))
    }

    /// How long the opening that begins `generation` lasts if it is the `nth` in a row.
    pub(crate) fn period(&self, nth: u32, generation: u64) -> Duration {
        let config = &self.config;
        let whole = grown(config.open, config.growth, config.open_cap, nth);
        spread(whole, config.jitter, unit(self.seed, generation))
    }

    /// Reopens a half-open breaker if its trial calls have timed out.
    pub(crate) fn time_out(&self, ledger: &mut Ledger, now: Instant) -> Option<Transition> {
        let over = self.current().state() == State::HalfOpen
            && ledger.trials.are_full(self.config.success_threshold)
            && ledger
                .trials
                .patience(now, self.config.half_open_timeout)
                .is_zero();
        over.then(|| self.open(ledger, Cause::TrialsTimedOut, now, None))
    }

    /// An operator's change: no opening before it counts.
    pub(crate) fn operate(&self, to: State, cause: Cause, now: Instant) -> Option<Transition> {
        self.change(|breaker, ledger| {
            ledger.openings = 0;
            let word = breaker.current();
            if word.state() != to {
                return Some(breaker.shift(ledger, to, cause, now, None));
            }
            if to == State::Closed {
                breaker.run.end(word.generation());
                if let Some(gate) = &breaker.gate {
                    gate.wipe(word.generation(), now);
                }
            }
            None
        })
    }

    /// Begins the next generation in state `to`; everything it needs is in place before it can be seen.
    pub(crate) fn shift(
        &self,
        ledger: &mut Ledger,
        to: State,
        cause: Cause,
        now: Instant,
        retry_in: Option<Duration>,
    ) -> Transition {
        let before = self.current();
        let word = before.then(to);
        let at = now.max(ledger.since);
        if let Some(lasts) = retry_in {
            let deadline = self.timeline.nanos(at).saturating_add(nanos(lasts));
            self.deadline.store(deadline, Ordering::Release);
        }
        if to == State::Closed {
            self.run.restart(word.generation());
            if let Some(gate) = &self.gate {
                gate.restart(word.generation(), at);
            }
        }
        ledger.trials = Trials::none(at);
        ledger.since = at;
        ledger.cause = Some(cause);
        self.word.store(word.bits(), Ordering::Release);
        Transition {
            from: before.state(),
            to,
            cause,
            generation: word.generation(),
            at,
            retry_in,
        }
    }
}
