//! Signs of life of a stream whose headers went out before its answer.

use evenkeel_providers::wire::sse;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// Writes a comment when nothing was written for a while; the first one at once.
pub(crate) struct Heartbeat {
    every: Duration,
    due: Pin<Box<Sleep>>,
}

impl fmt::Debug for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heartbeat")
            .field("every", &self.every)
            .finish_non_exhaustive()
    }
}

impl Heartbeat {
    pub(crate) fn new(every: Duration) -> Self {
        Self {
            every,
            due: Box::pin(sleep(Duration::ZERO)),
        }
    }

    /// Adds a comment to `out` if one is due, else wakes the task when one will be.
    pub(crate) fn beat(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<()> {
        let due = self.due.as_mut().poll(cx);
        if due.is_ready() {
            sse::write_comment("keep-alive", out);
        }
        due
    }

    /// Something is written: the next comment is due a while from now.
    pub(crate) fn written(&mut self) {
        self.due.as_mut().reset(Instant::now() + self.every);
    }
}
