//! The crate as its users see it.

mod agreement;
mod client;
mod dialect_faults;
mod dialects;
mod faulty;
mod simulated;
mod spoken;
mod upstream;

use evenkeel_core::{CallContext, ChatRequest, ProviderCall};
use std::sync::Arc;
use std::time::Duration;

/// A call for model `m`.
fn call(prompt: &str) -> ProviderCall {
    ProviderCall {
        model: Arc::from("m"),
        request: Arc::new(ChatRequest::user(prompt)),
        connect: Duration::from_secs(3),
        context: CallContext::default(),
    }
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
