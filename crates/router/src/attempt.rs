//! The upstream side of attempts: what comes back, as one stream of events each.

use crate::validation::Judgement;
use crate::withheld::Withheld;
use evenkeel_core::{
    Accumulator, ChatResponse, Class, Failure, Provider, ProviderCall, StreamEvent,
};
use futures_core::Stream;
use futures_util::StreamExt;
use futures_util::future::poll_fn;
use futures_util::stream::{self, BoxStream};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

/// What an attempt's provider gives back.
#[derive(Debug)]
pub(crate) enum Upstream {
    /// The next event of a stream.
    Event(StreamEvent),
    /// The whole answer.
    Whole(Box<ChatResponse>),
    /// What the role's validators made of the whole answer.
    Validated(Arc<ChatResponse>, Judgement),
    /// The end of it.
    Failed(Failure),
}

/// The events of one attempt. Dropping it closes its connection.
pub(crate) type UpstreamEvents = BoxStream<'static, Upstream>;

/// Asks a provider. Nothing is sent before the first poll.
pub(crate) fn ask(
    provider: Arc<dyn Provider>,
    call: ProviderCall,
    streaming: bool,
) -> UpstreamEvents {
    if streaming {
        return stream::once(async move { provider.stream(call).await })
            .flat_map(|opened| match opened {
                Ok(events) => events
                    .map(|item| item.map_or_else(Upstream::Failed, Upstream::Event))
                    .boxed(),
                Err(failure) => stream::once(async { Upstream::Failed(failure) }).boxed(),
            })
            .boxed();
    }
    stream::once(async move {
        match provider.complete(call).await {
            Ok(response) => Upstream::Whole(Box::new(response)),
            Err(failure) => Upstream::Failed(failure),
        }
    })
    .boxed()
}

/// The next event of a stream; a stream that just ends was broken off.
pub(crate) fn or_broken(event: Option<Upstream>) -> Upstream {
    event.unwrap_or_else(|| {
        Upstream::Failed(Failure::new(
            Class::Transient,
            "the stream was broken off before the answer was complete",
        ))
    })
}

/// One attempt's upstream and what it has given so far.
pub(crate) struct Slot {
    pub(crate) index: usize,
    pub(crate) events: UpstreamEvents,
    /// Adds the events up, to judge and to deliver the whole answer.
    pub(crate) sum: Accumulator,
    /// The events themselves, where the caller is to have them.
    pub(crate) held: Vec<StreamEvent>,
    /// Keeps tool calls back until they parse, where the caller is to have only such.
    withheld: Option<Withheld>,
}

impl Slot {
    pub(crate) fn new(index: usize, events: UpstreamEvents, withholds: bool) -> Self {
        Self {
            index,
            events,
            sum: Accumulator::default(),
            held: Vec::new(),
            withheld: withholds.then(Withheld::default),
        }
    }

    /// An attempt whose whole answer is there and is judged by `judgement`; `held`
    /// are the events it came as.
    pub(crate) fn judging(
        index: usize,
        judgement: impl Future<Output = Upstream> + Send + 'static,
        held: Vec<StreamEvent>,
    ) -> Self {
        let mut slot = Self::new(index, stream::once(judgement).boxed(), false);
        slot.held = held;
        slot
    }

    /// What the caller may have of the stream after `event`, added to `out`.
    ///
    /// # Errors
    /// Where a tool call in it does not parse.
    pub(crate) fn pass(
        &mut self,
        event: StreamEvent,
        out: &mut impl Extend<StreamEvent>,
    ) -> Result<(), Failure> {
        if let Some(withheld) = &mut self.withheld {
            return withheld.push(event, out);
        }
        out.extend([event]);
        Ok(())
    }
}

/// The upstreams of a call that are open.
#[derive(Default)]
pub(crate) struct Open(Vec<Slot>);

impl Open {
    pub(crate) fn add(&mut self, slot: Slot) {
        self.0.push(slot);
    }

    /// Takes an attempt's upstream out, to go on with it or to drop it.
    pub(crate) fn take(&mut self, index: usize) -> Option<Slot> {
        let at = self.0.iter().position(|s| s.index == index)?;
        Some(self.0.remove(at))
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Slot> {
        self.0.iter_mut().find(|s| s.index == index)
    }

    /// The next event of any attempt, the oldest attempt's first. Pends for
    /// ever while none is open. Cancel safe: an event is taken only when returned.
    pub(crate) async fn next(&mut self) -> (usize, Upstream) {
        poll_fn(|cx| {
            for slot in &mut self.0 {
                if let Poll::Ready(event) = Pin::new(&mut slot.events).poll_next(cx) {
                    return Poll::Ready((slot.index, or_broken(event)));
                }
            }
            Poll::Pending
        })
        .await
    }
}
