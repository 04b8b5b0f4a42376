#![doc = include_str!("../README.md")]

mod answer;
mod call;
mod chat;
mod clock;
mod complexity;
mod cost;
mod degradation;
mod event;
mod exchange;
mod failure;
mod id;
mod key;
mod meta;
mod movement;
mod observer;
mod part;
mod pieces;
mod provider;
mod rate_limits;
mod shadow;
mod snapshot;
mod stream;
mod ticket;
mod tokens;
mod trail;
mod validator;
mod workflow;

pub use crate::answer::{ChatResponse, Finish, Usage};
pub use crate::call::{CallContext, ClockOverrides, Clocks, TraceContext};
pub use crate::chat::{
    ChatRequest, Effort, Message, Output, Reasoning, Role, Sampling, Tool, ToolChoice,
};
pub use crate::clock::{Clock, SystemClock};
pub use crate::complexity::Complexity;
pub use crate::cost::{Cost, SpentOn};
pub use crate::degradation::{Baggage, DegradationContext};
pub use crate::event::{Away, DrillKind, Event, EventKind};
pub use crate::exchange::{Asked, Exchange, PolicyStamp, ProbeVerdict, Reported, Server};
pub use crate::failure::{BoxError, Class, CountsOn, Failure, Phase, Scope};
pub use crate::id::{CallId, InvalidModelId, ModelId};
pub use crate::key::{KeySource, MissingKey};
pub use crate::meta::{Meta, Route};
pub use crate::movement::{HedgeResult, Latency, RestorationReason, SubstitutionReason};
pub use crate::observer::{NoObserver, Observer};
pub use crate::part::{Extra, Image, Part, ReasoningPart, ToolCall, ToolResult};
pub use crate::pieces::{delta_of, events_of};
pub use crate::provider::{EventStream, Provider, ProviderCall};
pub use crate::rate_limits::{Allowance, RateLimits};
pub use crate::shadow::{ShadowAnswer, ShadowPair};
pub use crate::snapshot::Snapshot;
pub use crate::stream::{Accumulator, Delta, StreamEvent};
pub use crate::ticket::{
    Accepted, Claimed, InvalidTicketId, Ticket, TicketCause, TicketDraft, TicketError, TicketId,
    TicketOutcome, TicketState, TicketStore, Wanted,
};
pub use crate::tokens::estimated_tokens;
pub use crate::trail::{
    AttemptKind, AttemptOutcome, AttemptRecord, Refusal, Spent, Trail, TrailStep,
};
pub use crate::validator::{FnValidator, Judged, Validator, ValidatorError, Verdict, validator_fn};
pub use crate::workflow::{DegradationLevel, WorkflowOutcome};

/// Re-export of the JSON types that appear in public signatures.
pub use serde_json::{Map, Value};
