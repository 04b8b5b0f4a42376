#![doc = include_str!("../README.md")]

mod breach;
mod content;
#[cfg(feature = "tracing")]
mod current;
mod names;
mod plain;
mod semconv;
mod trace_context;
mod value;

pub mod audit;
pub mod metrics;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod spans;

pub use crate::breach::breached_percentile;
pub use crate::content::{Capture, CaptureContent, Redaction};
#[cfg(feature = "tracing")]
pub use crate::current::TracingContext;
pub use crate::plain::Plain;
pub use crate::trace_context::is_trace_context;
