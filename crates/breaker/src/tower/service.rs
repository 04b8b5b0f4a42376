//! The service, and the future of one of its calls.

use std::{
    error::Error,
    fmt::{self, Debug, Formatter},
    ops::Deref,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use pin_project_lite::pin_project;
use tower_service::Service;

use super::Verdict;
use crate::{
    breaker::Breaker,
    permit::{OwnedPermit, Permit, Refused},
};

type BoxError = Box<dyn Error + Send + Sync>;

/// A service that calls its inner one only if the breaker admits the call.
///
/// `poll_ready` reports the inner service's readiness, unless the breaker refuses calls: then it is ready at
/// once, whatever the inner service is, and `call` hands the refusal out. A permit is taken in `call` alone,
/// so a service that is ready and never called occupies no trial; it is ended by the response, or by the
/// future being dropped, which counts as nothing. An error of the inner `poll_ready` is judged like one of a
/// call.
///
/// There is no timer: who waits for the inner service to become ready is not woken by the breaker's opening.
/// A response counts when it is there; what its body does later is not seen.
#[derive(Clone)]
pub struct BreakerService<S, C, J> {
    inner: S,
    breaker: Arc<Breaker>,
    clock: C,
    judge: J,
    /// What the last `poll_ready` was told; the inner service is not ready then and must not be called.
    refused: Option<Refused>,
}

impl<S, C, J> BreakerService<S, C, J> {
    pub(super) const fn new(inner: S, breaker: Arc<Breaker>, clock: C, judge: J) -> Self {
        Self {
            inner,
            breaker,
            clock,
            judge,
            refused: None,
        }
    }

    /// The breaker, to look at or to operate.
    pub const fn breaker(&self) -> &Arc<Breaker> {
        &self.breaker
    }

    /// The service inside.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The service inside; what is called on it directly is not counted.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Takes the service out.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, R, C, J> Service<R> for BreakerService<S, C, J>
where
    S: Service<R>,
    S::Error: Into<BoxError>,
    C: Fn() -> Instant + Clone,
    J: Fn(&Result<S::Response, S::Error>) -> Verdict + Clone,
{
    type Response = S::Response;
    /// A [`Refused`], or the inner service's error.
    type Error = BoxError;
    type Future = ResponseFuture<S::Future, C, J>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // While calls flow the clock need not be read to know that none is refused.
        self.refused = if self.breaker.flows() {
            None
        } else {
            self.breaker.would_refuse((self.clock)())
        };
        if self.refused.is_some() {
            return Poll::Ready(Ok(()));
        }
        let outcome = match ready!(self.inner.poll_ready(cx)) {
            Ok(()) => return Poll::Ready(Ok(())),
            Err(error) => Err(error),
        };
        let now = (self.clock)();
        if let Ok(permit) = self.breaker.admit(now) {
            settle(permit, (self.judge)(&outcome), now, now);
        }
        Poll::Ready(outcome.map(drop).map_err(Into::into))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let begun = (self.clock)();
        let admitted = match self.refused.take() {
            Some(refused) => Err(refused),
            None => self.breaker.admit_owned(begun),
        };
        let state = match admitted {
            Err(refused) => Progress::Refused { refused },
            Ok(permit) => Progress::Running {
                call: self.inner.call(request),
                permit: Some(permit),
                begun,
                clock: self.clock.clone(),
                judge: self.judge.clone(),
            },
        };
        ResponseFuture { state }
    }
}

impl<S: Debug, C, J> Debug for BreakerService<S, C, J> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerService")
            .field("inner", &self.inner)
            .field("breaker", &self.breaker)
            .finish_non_exhaustive()
    }
}

pin_project! {
    /// A call that the breaker has admitted or refused.
    ///
    /// Cancel safe: dropped before the response it gives its permit back, and counts as nothing.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F, C, J> {
        #[pin]
        state: Progress<F, C, J>,
    }
}

pin_project! {
    #[project = Projected]
    enum Progress<F, C, J> {
        Refused {
            refused: Refused,
        },
        Running {
            #[pin]
            call: F,
            permit: Option<OwnedPermit>,
            begun: Instant,
            clock: C,
            judge: J,
        },
    }
}

impl<F, T, E, C, J> Future for ResponseFuture<F, C, J>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
    C: Fn() -> Instant,
    J: Fn(&Result<T, E>) -> Verdict,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            Projected::Refused { refused } => Poll::Ready(Err((*refused).into())),
            Projected::Running {
                call,
                permit,
                begun,
                clock,
                judge,
            } => {
                let outcome = ready!(call.poll(cx));
                if let Some(permit) = permit.take() {
                    settle(permit, judge(&outcome), *begun, clock());
                }
                Poll::Ready(outcome.map_err(Into::into))
            }
        }
    }
}

impl<F, C, J> Debug for ResponseFuture<F, C, J> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let refused = match &self.state {
            Progress::Refused { refused } => Some(refused),
            Progress::Running { .. } => None,
        };
        f.debug_struct("ResponseFuture")
            .field("refused", &refused)
            .finish_non_exhaustive()
    }
}

/// Ends a permit with a verdict; listeners hear of what it changes.
fn settle<B: Deref<Target = Breaker>>(
    permit: Permit<B>,
    verdict: Verdict,
    begun: Instant,
    now: Instant,
) {
    match verdict {
        Verdict::Success => {
            permit.success_in(now, now.saturating_duration_since(begun));
        }
        Verdict::Failure { retry_after } => {
            permit.failure(now, retry_after);
        }
        Verdict::Ignored => permit.ignore(),
    }
}
