//! The seam between what happens and whoever is told of it.

use crate::{CallId, Event, TraceContext};
use std::fmt;
use std::sync::Arc;

/// Hears about everything. Several may be combined by the application.
pub trait Observer: Send + Sync + fmt::Debug {
    /// Takes one event. Must be cheap and must not block: it is called on the
    /// path of a request.
    fn on(&self, event: &Event);

    /// The trace context of an open attempt, to be sent to its provider.
    fn context(&self, call: CallId, attempt: usize) -> Option<TraceContext> {
        let _ = (call, attempt);
        None
    }

    /// The trace context of an open call, to be told to its caller and named in log
    /// lines and records. Asked by the router when the call has begun.
    fn call_context(&self, call: CallId) -> Option<TraceContext> {
        let _ = call;
        None
    }

    /// Whether events are to carry requests and answers. Asked once, when the router
    /// is built; where nobody wants them nothing is copied.
    fn wants_content(&self) -> bool {
        false
    }
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn on(&self, _: &Event) {}
}

/// Several hear the same, in their order. The trace contexts are those of the first
/// that gives one.
impl Observer for Vec<Arc<dyn Observer>> {
    fn on(&self, event: &Event) {
        for observer in self {
            observer.on(event);
        }
    }

    fn context(&self, call: CallId, attempt: usize) -> Option<TraceContext> {
        self.iter().find_map(|o| o.context(call, attempt))
    }

    fn call_context(&self, call: CallId) -> Option<TraceContext> {
        self.iter().find_map(|o| o.call_context(call))
    }

    fn wants_content(&self) -> bool {
        self.iter().any(|o| o.wants_content())
    }
}
