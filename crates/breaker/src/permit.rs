//! What admission returns, and what ends it.

use std::{
    error::Error,
    fmt::{self, Debug, Display, Formatter},
    ops::Deref,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    breaker::Breaker,
    event::Transition,
    state::{State, Word},
    verdict::Outcome,
};

/// A permit that borrows nothing: it keeps its breaker alive.
pub type OwnedPermit = Permit<Arc<Breaker>>;

/// Leave to make one call.
///
/// Ended by a verdict, or by being dropped (a cancelled future, `?`, a panic), which is no verdict: it
/// counts as nothing, and a trial permit gives its place back.
#[must_use = "a permit that is dropped gives its place back; hold it for as long as the call lasts"]
pub struct Permit<B: Deref<Target = Breaker>> {
    breaker: B,
    /// State and generation that admitted the call.
    admitted: Word,
    /// Whether a verdict has been given.
    spent: bool,
}

impl<B: Deref<Target = Breaker>> Permit<B> {
    pub(crate) const fn new(breaker: B, admitted: Word) -> Self {
        Self {
            breaker,
            admitted,
            spent: false,
        }
    }

    /// The call succeeded.
    #[expect(
        clippy::inline_always,
        reason = "a call would cost half as much again as what it does"
    )]
    #[inline(always)]
    pub fn success(mut self, now: Instant) -> Recorded {
        self.spent = true;
        self.breaker.succeed(self.admitted, now)
    }

    /// The call succeeded and took so long; a slow-call rule looks at that, without one it is
    /// [`success`](Self::success).
    #[inline]
    pub fn success_in(self, now: Instant, took: Duration) -> Recorded {
        if self.breaker.is_slow(took) {
            self.end(Outcome::Slow, now)
        } else {
            self.success(now)
        }
    }

    /// The call failed. If that opens the breaker, it stays open for at least `retry_after`, as far as the
    /// configured cap allows.
    pub fn failure(self, now: Instant, retry_after: Option<Duration>) -> Recorded {
        self.end(Outcome::Failure { retry_after }, now)
    }

    /// The call says nothing about health (cancelled, a client's error, a rate limit): the same as dropping.
    pub fn ignore(self) {
        drop(self);
    }

    /// Generation of the breaker that admitted the call.
    pub const fn generation(&self) -> u64 {
        self.admitted.generation()
    }

    /// Whether this is one of the trial calls of a half-open breaker.
    pub const fn is_trial(&self) -> bool {
        matches!(self.admitted.state(), State::HalfOpen)
    }

    fn end(mut self, outcome: Outcome, now: Instant) -> Recorded {
        self.spent = true;
        self.breaker.record(self.admitted, outcome, now)
    }
}

impl<B: Deref<Target = Breaker>> Drop for Permit<B> {
    #[inline]
    fn drop(&mut self) {
        if !self.spent && self.is_trial() {
            self.breaker.give_back(self.admitted);
        }
    }
}

impl<B: Deref<Target = Breaker>> Debug for Permit<B> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("admitted_in", &self.admitted.state())
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}

/// What a verdict did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The call was admitted before the last change of state: its outcome has changed nothing.
    pub stale: bool,
    /// The change of state that this verdict, and no other, brought about.
    pub transition: Option<Transition>,
}

impl Recorded {
    pub(crate) const STALE: Self = Self {
        stale: true,
        transition: None,
    };

    pub(crate) const fn counted(transition: Option<Transition>) -> Self {
        Self {
            stale: false,
            transition,
        }
    }
}

/// The call may not be made now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// [`State::Open`], [`State::HalfOpen`] (all trial permits are out) or [`State::ForcedOpen`].
    pub state: State,
    /// When it is worth asking again; above zero. Open: exactly what is left of the open time. Half-open:
    /// until the trial calls time out, at most one second, for a permit may come back at any time. Forced
    /// open: the configured `open`, for only an operator knows.
    pub retry_in: Duration,
}

impl Display for Refused {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "breaker is {}, retry in {:?}", self.state, self.retry_in)
    }
}

impl Error for Refused {}
