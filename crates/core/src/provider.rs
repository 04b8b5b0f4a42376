//! The seam between the router and whoever serves models.

use crate::{CallContext, ChatRequest, ChatResponse, Failure, StreamEvent};
use futures_core::Stream;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// One attempt as a provider sees it.
#[derive(Debug, Clone)]
pub struct ProviderCall {
    /// The model's name at this provider, without the provider's own.
    pub model: Arc<str>,
    /// The request.
    pub request: Arc<ChatRequest>,
    /// How long the connection may take to stand.
    pub connect: Duration,
    /// The call's context, with this attempt's trace context.
    pub context: CallContext,
}

/// An upstream stream in neutral events.
///
/// It ends with [`StreamEvent::End`] if and only if the answer was complete by
/// its dialect's rules, or with one `Err`. A stream that ends with neither was
/// broken off.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, Failure>> + Send>>;

/// A configured endpoint that serves models.
///
/// Cancelling is dropping: a dropped future or stream closes its connection
/// and starts nothing further. An implementation makes exactly one upstream
/// request per call (a reset on a reused connection before any byte may be
/// tried again at once on a fresh one); retries are the router's.
#[async_trait::async_trait]
pub trait Provider: Send + Sync + fmt::Debug {
    /// Asks for a whole answer.
    ///
    /// # Errors
    /// A classified [`Failure`].
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure>;

    /// Asks for a stream; returns once the provider has accepted the request.
    ///
    /// # Errors
    /// A classified [`Failure`], here or as the stream's last item.
    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure>;
}

/// A shared provider is a provider, so that a wrapper takes one as it takes any other.
#[async_trait::async_trait]
impl<P: Provider + ?Sized> Provider for Arc<P> {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        (**self).complete(call).await
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        (**self).stream(call).await
    }
}
