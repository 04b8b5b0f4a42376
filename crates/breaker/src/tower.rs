//! A breaker around a [tower](https://docs.rs/tower) service (feature `tower`).
//!
//! [`BreakerLayer`] wraps a service; calls that the breaker refuses end at once with a boxed
//! [`Refused`](crate::Refused), which a caller finds with `error.downcast_ref::<Refused>()`. What the other
//! calls say about health is for a closure to judge.
//!
//! ```
//! # #[expect(clippy::disallowed_methods, reason = "the clock of the example")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use evenkeel_breaker::{Breaker, BreakerConfig, tower::{BreakerLayer, Verdict}};
//! use std::{io, sync::Arc, time::Instant};
//! use tower::{ServiceBuilder, service_fn};
//!
//! let breaker = Arc::new(Breaker::new(BreakerConfig::default(), 7, Instant::now())?);
//! let layer = BreakerLayer::new(breaker, Instant::now, |outcome: &Result<u16, io::Error>| match outcome {
//!     Ok(500..) | Err(_) => Verdict::Failure { retry_after: None },
//!     Ok(429) => Verdict::Ignored,
//!     Ok(_) => Verdict::Success,
//! });
//! let service = ServiceBuilder::new()
//!     .layer(layer)
//!     .service(service_fn(async |_request: &str| Ok::<u16, io::Error>(200)));
//! # drop(service);
//! # Ok(())
//! # }
//! ```
//!
//! What lies inside the layer is judged, what lies outside is not: put a time-out inside, so that a call that
//! hangs counts as one that failed, and a queue or retries outside, so that they see refusals.

mod service;

use std::{
    fmt::{self, Debug, Formatter},
    sync::Arc,
    time::{Duration, Instant},
};

use tower_layer::Layer;

pub use self::service::{BreakerService, ResponseFuture};
use crate::breaker::Breaker;

/// What the outcome of a call says about the health of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It works; a slow-call rule looks at how long the call took, from `call` to the response.
    Success,
    /// It does not work.
    Failure {
        /// How long the answer asked callers to stay away, see [`Permit::failure`](crate::Permit::failure).
        retry_after: Option<Duration>,
    },
    /// Nothing: a fault of the caller's, a rate limit.
    Ignored,
}

/// Puts one breaker around services.
///
/// All services that a layer makes, and their clones, share its breaker: a layer stands for one upstream.
#[derive(Clone)]
pub struct BreakerLayer<C, J> {
    breaker: Arc<Breaker>,
    clock: C,
    judge: J,
}

impl<C, J> BreakerLayer<C, J> {
    /// A layer that asks `breaker` before each call and tells it what `judge` makes of the outcome.
    ///
    /// `clock` reads the time, on the clock that `breaker` was built with: `Instant::now`, or, for tests
    /// that move time, `|| tokio::time::Instant::now().into_std()`.
    pub fn new<T, E>(breaker: Arc<Breaker>, clock: C, judge: J) -> Self
    where
        C: Fn() -> Instant + Clone,
        J: Fn(&Result<T, E>) -> Verdict + Clone,
    {
        Self {
            breaker,
            clock,
            judge,
        }
    }
}

impl<S, C: Clone, J: Clone> Layer<S> for BreakerLayer<C, J> {
    type Service = BreakerService<S, C, J>;

    fn layer(&self, inner: S) -> Self::Service {
        BreakerService::new(
            inner,
            Arc::clone(&self.breaker),
            self.clock.clone(),
            self.judge.clone(),
        )
    }
}

impl<C, J> Debug for BreakerLayer<C, J> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerLayer")
            .field("breaker", &self.breaker)
            .finish_non_exhaustive()
    }
}
