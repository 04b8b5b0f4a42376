#![doc = include_str!("../README.md")]

mod endpoints;
mod error;
mod files;
mod key;
mod settings;

pub use evenkeel_breaker as breaker;
pub use evenkeel_chaos as chaos;
pub use evenkeel_core as core;
pub use evenkeel_probe as probe;
pub use evenkeel_prompts as prompts;
pub use evenkeel_providers as providers;
pub use evenkeel_roster as roster;
pub use evenkeel_router as router;
pub use evenkeel_schema_adapter as schema_adapter;

pub use crate::error::{RouterError, SettingsError};
pub use crate::settings::Settings;
pub use evenkeel_core::{
    CallContext, ChatRequest, ChatResponse, Event, Meta, Observer, StreamEvent,
};
pub use evenkeel_roster::{Problem, Problems, report};
pub use evenkeel_router::{Answer, AnswerStream, CallError, Replaced, Router};
