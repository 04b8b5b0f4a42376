#![doc = include_str!("../README.md")]

mod answer;
mod behaviour;
mod dialect;
mod document;
mod events;
mod fault;
mod faulty;
mod latency;
mod model;
mod script;
mod shelf;
mod simulated;
mod stats;
mod trace;
mod upstream;

pub use crate::answer::{WrongAnswer, check_answer};
pub use crate::behaviour::{Behaviour, Quota};
pub use crate::dialect::Dialect;
pub use crate::fault::Fault;
pub use crate::faulty::{Faulty, Injection};
pub use crate::latency::Latency;
pub use crate::shelf::{Shelf, ShelvedCall};
pub use crate::simulated::Simulated;
pub use crate::stats::Stats;
pub use crate::trace::{InvalidTrace, TraceRow, read_trace};
pub use crate::upstream::{SeenRequest, Upstream, UpstreamConfig};
