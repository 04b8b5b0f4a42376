//! The spans that are open.

use super::{Anchor, Known};
use evenkeel_core::CallId;
use opentelemetry::Context;
use opentelemetry::trace::{Span, SpanContext, TraceContextExt};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Calls are spread over so many locks, by their number.
const SHARDS: usize = 64;

/// An attempt, by its call and its index there.
pub(super) type AttemptKey = (CallId, usize);

/// Open spans: those of calls, and those of attempts, which may outlive their call's.
/// A lock is held for a look-up only.
#[derive(Debug)]
pub(super) struct Held<S> {
    calls: Vec<Mutex<HashMap<CallId, OpenCall<S>>>>,
    attempts: Vec<Mutex<HashMap<AttemptKey, OpenAttempt<S>>>>,
}

impl<S> Default for Held<S> {
    fn default() -> Self {
        Self {
            calls: (0..SHARDS).map(|_| Mutex::default()).collect(),
            attempts: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }
}

/// The span of a call that has begun and not ended.
#[derive(Debug)]
pub(super) struct OpenCall<S> {
    /// Several attempts of the call put events on it.
    pub(super) span: Arc<Mutex<S>>,
    pub(super) context: SpanContext,
    pub(super) anchor: Anchor,
    /// Whether the caller wants a stream.
    pub(super) streams: bool,
    /// The conversation, which its attempts name.
    session: Option<Arc<str>>,
}

impl<S> Clone for OpenCall<S> {
    fn clone(&self) -> Self {
        Self {
            span: self.span.clone(),
            context: self.context.clone(),
            anchor: self.anchor,
            streams: self.streams,
            session: self.session.clone(),
        }
    }
}

impl<S: Span> OpenCall<S> {
    pub(super) fn new(span: S, anchor: Anchor, streams: bool, session: Option<Arc<str>>) -> Self {
        Self {
            context: span.span_context().clone(),
            span: Arc::new(Mutex::new(span)),
            anchor,
            streams,
            session,
        }
    }
}

/// The span of an attempt that has begun and not ended.
#[derive(Debug)]
pub(super) struct OpenAttempt<S> {
    pub(super) span: S,
    pub(super) anchor: Anchor,
}

impl<S> OpenAttempt<S> {
    pub(super) fn new(span: S, anchor: Anchor) -> Self {
        Self { span, anchor }
    }
}

impl<S: Span> Held<S> {
    pub(super) fn open(&self, id: CallId, call: OpenCall<S>) {
        locked(shard(&self.calls, id)).insert(id, call);
    }

    /// What a span below the call's needs of it, and the conversation.
    pub(super) fn call(&self, id: CallId) -> Option<(Known, Option<Arc<str>>)> {
        let calls = locked(shard(&self.calls, id));
        let open = calls.get(&id)?;
        let known = Known {
            context: open.context.clone(),
            anchor: open.anchor,
        };
        Some((known, open.session.clone()))
    }

    pub(super) fn span(&self, id: CallId) -> Option<OpenCall<S>> {
        locked(shard(&self.calls, id)).get(&id).cloned()
    }

    pub(super) fn close(&self, id: CallId) -> Option<OpenCall<S>> {
        locked(shard(&self.calls, id)).remove(&id)
    }

    pub(super) fn open_attempt(&self, key: AttemptKey, attempt: OpenAttempt<S>) {
        locked(shard(&self.attempts, key.0)).insert(key, attempt);
    }

    pub(super) fn attempt(&self, key: AttemptKey) -> Option<SpanContext> {
        let attempts = locked(shard(&self.attempts, key.0));
        Some(attempts.get(&key)?.span.span_context().clone())
    }

    pub(super) fn take_attempt(&self, key: AttemptKey) -> Option<OpenAttempt<S>> {
        locked(shard(&self.attempts, key.0)).remove(&key)
    }
}

impl<S> Held<S> {
    pub(super) fn len(&self) -> usize {
        count(&self.calls) + count(&self.attempts)
    }
}

fn count<K: Eq + Hash, V>(shards: &[Mutex<HashMap<K, V>>]) -> usize {
    shards.iter().map(|shard| locked(shard).len()).sum()
}

fn shard<V>(shards: &[V], id: CallId) -> &V {
    let count = u64::try_from(shards.len()).unwrap_or(1);
    let at = usize::try_from(id.get() % count).unwrap_or(0);
    &shards[at]
}

/// A lock on what a panic cannot leave half done.
pub(super) fn locked<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The context below a span, or that of a trace of its own.
pub(super) fn below(parent: Option<SpanContext>) -> Context {
    match parent {
        Some(parent) => Context::new().with_remote_span_context(parent),
        None => Context::new(),
    }
}
