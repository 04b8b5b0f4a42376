//! Faults in front of any provider.

use evenkeel_core::{
    ChatResponse, Class, EventStream, Failure, Provider, ProviderCall, StreamEvent,
};
use futures_util::{StreamExt, stream};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is done to one call. Positions count content events.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Injection {
    /// Nothing.
    Pass,
    /// The call fails with this; the provider is not asked.
    Fail(Failure),
    /// The provider is asked after this long.
    Delay(Duration),
    /// The call never ends; the provider is not asked.
    Hang,
    /// The connection is lost after so much content ([`Class::Transient`]). A
    /// whole answer is lost when it comes.
    CutAfter(u32),
    /// Nothing more after so much content. A whole answer never comes.
    StallAfter(u32),
    /// The stream ends after so much content, without an error and without
    /// being complete. A whole answer is lost when it comes.
    EndAfter(u32),
    /// This failure after so much content, or instead of a whole answer when it comes.
    FailAfter(u32, Failure),
}

/// A provider with faults in front of it.
///
/// Each call takes the next injection of the script; when the script is empty
/// calls get the standing injection, at first [`Injection::Pass`]. A clone
/// shares the script.
#[derive(Debug, Clone)]
pub struct Faulty<P> {
    inner: P,
    script: Arc<Mutex<Script>>,
}

#[derive(Debug)]
struct Script {
    next: VecDeque<Injection>,
    standing: Injection,
    calls: u64,
}

impl<P> Faulty<P> {
    /// `inner` without any fault yet.
    pub fn new(inner: P) -> Self {
        Self {
            inner,
            script: Arc::new(Mutex::new(Script {
                next: VecDeque::new(),
                standing: Injection::Pass,
                calls: 0,
            })),
        }
    }

    /// With `injections` for the next calls, one each, after those already there.
    #[must_use]
    pub fn with(self, injections: impl IntoIterator<Item = Injection>) -> Self {
        self.inject(injections);
        self
    }

    /// Adds `injections` for the next calls, one each, after those already there.
    pub fn inject(&self, injections: impl IntoIterator<Item = Injection>) {
        self.lock().next.extend(injections);
    }

    /// Sets what calls get that find the script empty.
    pub fn set_standing(&self, injection: Injection) {
        self.lock().standing = injection;
    }

    /// Calls that came so far.
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    fn take(&self) -> Injection {
        let mut script = self.lock();
        script.calls += 1;
        match script.next.pop_front() {
            Some(injection) => injection,
            None => script.standing.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait::async_trait]
impl<P: Provider> Provider for Faulty<P> {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        let injection = self.take();
        before(&injection).await?;
        let answer = self.inner.complete(call).await?;
        match injection {
            Injection::CutAfter(_) | Injection::EndAfter(_) => Err(lost()),
            Injection::FailAfter(_, failure) => Err(failure),
            Injection::StallAfter(_) => std::future::pending().await,
            Injection::Pass | Injection::Delay(_) | Injection::Fail(_) | Injection::Hang => {
                Ok(answer)
            }
        }
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        let injection = self.take();
        before(&injection).await?;
        let inner = self.inner.stream(call).await?;
        let (left, end) = match injection {
            Injection::CutAfter(n) => (n, Break::Fail(lost())),
            Injection::FailAfter(n, failure) => (n, Break::Fail(failure)),
            Injection::StallAfter(n) => (n, Break::Stall),
            Injection::EndAfter(n) => (n, Break::End),
            Injection::Pass | Injection::Delay(_) | Injection::Fail(_) | Injection::Hang => {
                return Ok(inner);
            }
        };
        let broken = Broken { inner, left, end };
        Ok(Box::pin(stream::unfold(Some(broken), Broken::advance)))
    }
}

/// What an injection does before the provider is asked.
async fn before(injection: &Injection) -> Result<(), Failure> {
    match injection {
        Injection::Fail(failure) => Err(failure.clone()),
        Injection::Hang => std::future::pending().await,
        Injection::Delay(delay) => {
            tokio::time::sleep(*delay).await;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn lost() -> Failure {
    Failure::new(
        Class::Transient,
        "the connection was lost within the answer",
    )
}

/// How a stream is broken off.
enum Break {
    Fail(Failure),
    Stall,
    End,
}

/// A stream that is broken off after `left` more content events.
struct Broken {
    inner: EventStream,
    left: u32,
    end: Break,
}

type Item = Result<StreamEvent, Failure>;

impl Broken {
    /// The next item, and what is left of the stream. The break comes as soon
    /// as its content is out, before whatever the provider says next.
    async fn advance(state: Option<Self>) -> Option<(Item, Option<Self>)> {
        let mut state = state?;
        if state.left == 0 {
            return match state.end {
                Break::Fail(failure) => Some((Err(failure), None)),
                Break::End => None,
                // The provider's stream stays open meanwhile.
                Break::Stall => std::future::pending().await,
            };
        }
        let item = state.inner.next().await?;
        if item.as_ref().is_ok_and(StreamEvent::is_content) {
            state.left -= 1;
        }
        Some((item, Some(state)))
    }
}
