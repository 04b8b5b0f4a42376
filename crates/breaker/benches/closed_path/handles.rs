//! Breakers behind one interface, each used as its own documentation does.

use std::{
    fmt,
    future::{Ready, ready},
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use evenkeel_breaker::{Breaker, tower::Verdict};
use failsafe::{
    CircuitBreaker, Config, FailurePolicy, StateMachine, backoff,
    failure_policy::consecutive_failures,
};
use tower::{Layer, Service, service_fn, util::ServiceFn};
use tower_resilience_circuitbreaker::CircuitBreakerLayer;

/// A breaker; clones share it.
pub(crate) trait Handle: Clone + Send {
    /// Asks to make a call, which then succeeds or fails, and tells the breaker. Says whether all went well.
    fn pass(&mut self, works: bool) -> bool;
}

/// The floor.
impl Handle for Arc<Mutex<u64>> {
    #[inline]
    fn pass(&mut self, works: bool) -> bool {
        *self.lock().expect("not poisoned") += 1;
        works
    }
}

/// Ours, told the time that `clock` gives.
#[derive(Clone)]
pub(crate) struct Evenkeel<C> {
    breaker: Arc<Breaker>,
    clock: C,
}

impl<C> Evenkeel<C> {
    pub(crate) fn new(breaker: Arc<Breaker>, clock: C) -> Self {
        Self { breaker, clock }
    }
}

impl<C: Fn() -> Instant + Clone + Send> Handle for Evenkeel<C> {
    #[inline]
    fn pass(&mut self, works: bool) -> bool {
        let Ok(permit) = self.breaker.admit((self.clock)()) else {
            return false;
        };
        let now = (self.clock)();
        if works {
            permit.success(now);
        } else {
            permit.failure(now, None);
        }
        works
    }
}

#[derive(Clone)]
pub(crate) struct Recloser(Arc<recloser::Recloser>);

impl Recloser {
    /// The default: half of the last 100 calls.
    pub(crate) fn new() -> Self {
        Self(Arc::new(recloser::Recloser::custom().build()))
    }
}

impl Handle for Recloser {
    #[inline]
    fn pass(&mut self, works: bool) -> bool {
        self.0.call(|| outcome(works)).is_ok()
    }
}

pub(crate) struct Failsafe<P>(StateMachine<P, ()>);

impl<P> Clone for Failsafe<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Only what can be named of the policies' types.
pub(crate) trait Policy: FailurePolicy + Send {}
impl<P: FailurePolicy + Send> Policy for P {}

impl Failsafe<()> {
    /// Five failures in a row.
    pub(crate) fn in_a_row() -> Failsafe<impl Policy> {
        let open = backoff::constant(Duration::from_secs(60));
        let policy = consecutive_failures(5, open);
        Failsafe(Config::new().failure_policy(policy).build())
    }

    /// Five failures in a row, or less than 80% successes in 30 s.
    pub(crate) fn by_default() -> Failsafe<impl Policy> {
        Failsafe(Config::new().build())
    }
}

impl<P: Policy> Handle for Failsafe<P> {
    #[inline]
    fn pass(&mut self, works: bool) -> bool {
        self.0.call(|| outcome(works)).is_ok()
    }
}

/// A tower service, polled as an executor would until it is done.
#[derive(Clone)]
pub(crate) struct Stack<S>(pub(crate) S);

impl<S: Service<bool> + Clone + Send> Handle for Stack<S> {
    #[inline]
    fn pass(&mut self, works: bool) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let ready = until_done(|| self.0.poll_ready(&mut context));
        let mut call = pin!(self.0.call(works));
        ready.is_ok() && until_done(|| call.as_mut().poll(&mut context)).is_ok()
    }
}

fn until_done<T>(mut poll: impl FnMut() -> Poll<T>) -> T {
    loop {
        if let Poll::Ready(done) = poll() {
            return done;
        }
        std::hint::spin_loop();
    }
}

type Upstream = ServiceFn<fn(bool) -> Ready<Result<(), fmt::Error>>>;

/// The service inside of a stack: done at once.
pub(crate) fn upstream() -> Upstream {
    service_fn(|works| ready(outcome(works)))
}

/// The default: half of the last 100 calls.
pub(crate) fn tower_resilience() -> impl Service<bool> + Clone + Send {
    let layer = CircuitBreakerLayer::builder().build();
    layer.expect("valid settings").layer(upstream())
}

pub(crate) fn judge<T, E>(outcome: &Result<T, E>) -> Verdict {
    match outcome {
        Ok(_) => Verdict::Success,
        Err(_) => Verdict::Failure { retry_after: None },
    }
}

fn outcome(works: bool) -> Result<(), fmt::Error> {
    if works { Ok(()) } else { Err(fmt::Error) }
}
