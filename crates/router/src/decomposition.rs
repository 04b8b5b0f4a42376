//! Requests broken into simpler ones for models of little capability.

use crate::attempt::{Upstream, UpstreamEvents};
use evenkeel_core::{
    ChatRequest, ChatResponse, Class, Failure, Provider, ProviderCall, StreamEvent, Usage,
    events_of,
};
use futures_util::StreamExt;
use futures_util::stream;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Breaks a request into simpler ones, and puts their answers together.
///
/// Registered for a role ([`RouterBuilder::decomposition`]), it is used at rungs
/// whose capability is below the role's `simplify_below`. The parts are asked one
/// after the other within one attempt, so that they hold one place at the model
/// and share the call's deadline; an attempt in parts is not measured and not
/// hedged, for it lasts longer than others do. A part that fails fails the attempt.
///
/// [`RouterBuilder::decomposition`]: crate::RouterBuilder::decomposition
pub trait Decomposition: Send + Sync + fmt::Debug {
    /// The simpler requests, in the order they are asked in. Fewer than two, or a
    /// panic: the request is asked as it is.
    ///
    /// It gets the request as the rung would be asked it: in the rung's prompt and
    /// schema dialect, cut to its window.
    fn split(&self, request: &ChatRequest) -> Vec<ChatRequest>;

    /// One answer of those to the parts, in their order. Its usage is replaced by
    /// the sum of theirs. What the caller asked for is checked on it.
    fn join(&self, request: &ChatRequest, answers: Vec<ChatResponse>) -> ChatResponse;
}

/// A request in parts.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    requests: Vec<Arc<ChatRequest>>,
    decomposition: Arc<dyn Decomposition>,
}

impl Parts {
    /// The parts of `request`; none where it is to be asked as it is.
    pub(crate) fn of(
        decomposition: &Arc<dyn Decomposition>,
        request: &ChatRequest,
    ) -> Option<Self> {
        let split = catch_unwind(AssertUnwindSafe(|| decomposition.split(request)));
        let requests: Vec<_> = split
            .unwrap_or_default()
            .into_iter()
            .map(Arc::new)
            .collect();
        (requests.len() > 1).then(|| Self {
            requests,
            decomposition: decomposition.clone(),
        })
    }

    /// Asks for the parts of `call`, one after the other, and gives their joined
    /// answer; as a stream's events where the caller wants a stream.
    pub(crate) fn ask(
        &self,
        provider: Arc<dyn Provider>,
        call: ProviderCall,
        as_stream: bool,
    ) -> UpstreamEvents {
        let parts = self.clone();
        stream::once(async move { parts.answers(provider, call).await })
            .flat_map(move |joined| {
                let upstream = match joined {
                    Err(failure) => vec![Upstream::Failed(failure)],
                    Ok(response) if as_stream => events_of(&response)
                        .into_iter()
                        .chain([StreamEvent::End])
                        .map(Upstream::Event)
                        .collect(),
                    Ok(response) => vec![Upstream::Whole(Box::new(response))],
                };
                stream::iter(upstream)
            })
            .boxed()
    }

    async fn answers(
        &self,
        provider: Arc<dyn Provider>,
        call: ProviderCall,
    ) -> Result<ChatResponse, Failure> {
        let mut answers = Vec::with_capacity(self.requests.len());
        for request in &self.requests {
            let part = ProviderCall {
                request: request.clone(),
                ..call.clone()
            };
            let answer = provider.complete(part).await?;
            answer.verify()?;
            answers.push(answer);
        }
        let usage = answers.iter().filter_map(|a| a.usage).reduce(sum);
        let joined = catch_unwind(AssertUnwindSafe(|| {
            self.decomposition.join(&call.request, answers)
        }));
        let mut joined = joined.map_err(|_| {
            let message = "the answers to the request's parts could not be joined";
            Failure::new(Class::Semantic, message)
        })?;
        joined.usage = usage;
        Ok(joined)
    }
}

fn sum(a: Usage, b: Usage) -> Usage {
    let either = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
    };
    Usage {
        input: a.input.saturating_add(b.input),
        output: a.output.saturating_add(b.output),
        cached: either(a.cached, b.cached),
        cache_write: either(a.cache_write, b.cache_write),
        reasoning: either(a.reasoning, b.reasoning),
    }
}
