//! What the end of a call changes.

use std::time::{Duration, Instant};

use crate::{
    breaker::Breaker,
    event::Cause,
    permit::Recorded,
    state::{State, Word},
    sync::lock,
    window::{Over, Sample},
};

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Success,
    /// A success slower than the slow-call rule allows.
    Slow,
    Failure {
        retry_after: Option<Duration>,
    },
}

impl Breaker {
    /// Records a success. Most are over with a few loads and a store, which become a part of the caller.
    #[inline]
    pub(crate) fn succeed(&self, admitted: Word, now: Instant) -> Recorded {
        match self.count_success(admitted, now) {
            Some(false) => Recorded::counted(None),
            Some(true) => self.judge(admitted, now),
            None => self.record(admitted, Outcome::Success, now),
        }
    }

    /// Counts a success of a closed breaker if it ends no run and its window takes it at once; says whether
    /// the window is to be judged. `None` if nothing has been counted.
    #[inline]
    fn count_success(&self, admitted: Word, now: Instant) -> Option<bool> {
        let generation = admitted.generation();
        let plain = self.current() == admitted
            && admitted.state() == State::Closed
            && self.run.is_empty(generation);
        match &self.gate {
            _ if !plain => None,
            Some(gate) => gate.record_success(generation, now),
            None => Some(false),
        }
    }

    #[cold]
    fn judge(&self, admitted: Word, now: Instant) -> Recorded {
        let tripped = self
            .gate
            .as_ref()
            .map_or(Ok(None), |gate| gate.judge(admitted.generation()));
        self.conclude(admitted, tripped, now, None)
    }

    /// Records an outcome of any kind in any state.
    #[cold]
    pub(crate) fn record(&self, admitted: Word, outcome: Outcome, now: Instant) -> Recorded {
        if self.current() != admitted {
            return Recorded::STALE;
        }
        match admitted.state() {
            State::Closed => self.record_closed(admitted, outcome, now),
            State::HalfOpen => self.record_trial(admitted, outcome, now),
            State::Open | State::ForcedOpen | State::Disabled => Recorded::counted(None),
        }
    }

    /// Takes a trial permit back without a verdict.
    pub(crate) fn give_back(&self, admitted: Word) {
        let mut ledger = lock(&self.ledger);
        if self.current() == admitted {
            ledger.trials.give_back();
        }
    }

    pub(crate) fn is_slow(&self, took: Duration) -> bool {
        self.gate.as_ref().is_some_and(|gate| gate.is_slow(took))
    }

    fn record_closed(&self, admitted: Word, outcome: Outcome, now: Instant) -> Recorded {
        let (sample, retry_after) = match outcome {
            Outcome::Success => (Sample::Good, None),
            Outcome::Slow => (Sample::Slow, None),
            Outcome::Failure { retry_after } => (Sample::Failure, retry_after),
        };
        let tripped = self.count(admitted.generation(), sample, now);
        self.conclude(admitted, tripped, now, retry_after)
    }

    /// Opens a closed breaker that an outcome has tripped.
    fn conclude(
        &self,
        admitted: Word,
        tripped: Result<Option<Cause>, Over>,
        now: Instant,
        retry_after: Option<Duration>,
    ) -> Recorded {
        let cause = match tripped {
            Ok(Some(cause)) => cause,
            Ok(None) => return Recorded::counted(None),
            Err(Over) => return Recorded::STALE,
        };
        // Counted in its own generation; if another thread has opened the breaker since, that was the change.
        Recorded::counted(self.change(|breaker, ledger| {
            (breaker.current() == admitted).then(|| breaker.open(ledger, cause, now, retry_after))
        }))
    }

    /// Counts an outcome of `generation`, unless that is over, and tells what it trips, if anything.
    fn count(&self, generation: u64, sample: Sample, now: Instant) -> Result<Option<Cause>, Over> {
        if sample == Sample::Failure {
            let failures = self.run.lengthen(generation).ok_or(Over)?;
            if failures >= self.config.failure_threshold {
                return Ok(Some(Cause::ConsecutiveFailures { failures }));
            }
        } else if !self.run.end(generation) {
            return Err(Over);
        }
        match &self.gate {
            Some(gate) => gate.record(generation, sample, now),
            None => Ok(None),
        }
    }

    fn record_trial(&self, admitted: Word, outcome: Outcome, now: Instant) -> Recorded {
        let mut stale = false;
        let transition = self.change(|breaker, ledger| {
            if breaker.current() != admitted {
                stale = true;
                return None;
            }
            match outcome {
                Outcome::Success => {
                    ledger.trials.succeed(now);
                    (ledger.trials.succeeded >= breaker.config.success_threshold).then(|| {
                        breaker.shift(ledger, State::Closed, Cause::TrialsSucceeded, now, None)
                    })
                }
                Outcome::Slow => Some(breaker.open(ledger, Cause::TrialSlow, now, None)),
                Outcome::Failure { retry_after } => {
                    Some(breaker.open(ledger, Cause::TrialFailed, now, retry_after))
                }
            }
        });
        Recorded { stale, transition }
    }
}
