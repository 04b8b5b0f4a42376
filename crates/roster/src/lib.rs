#![doc = include_str!("../README.md")]

mod alerts;
mod assemble;
mod audit;
mod candidates;
mod config;
mod degraded;
mod faults;
mod guard;
mod load;
mod measured;
mod model;
mod network;
mod policy;
mod price;
mod provider;
mod qualification;
mod queue;
mod redactions;
mod registry;
mod rules;
mod served;
mod stamp;
mod task;
mod telemetry;
mod tickets;
mod validator;
mod written;

pub use crate::alerts::AlertsConfig;
pub use crate::audit::{AuditConfig, Fsync, OnAuditFailure};
pub use crate::candidates::{Candidates, CandidatesByRole};
pub use crate::config::{AdminConfig, Config, MetricsAccess, RoleConfig, RungConfig, ServerConfig};
pub use crate::degraded::{DegradedPolicy, NoticeIn, OnDegradedInput};
pub use crate::guard::{BreakerPolicy, CooldownPolicy, HoldPolicy, RetryBudgetPolicy};
pub use crate::load::{Loaded, load, load_beside, load_to_measure};
pub use crate::measured::{Hashes, Measured};
pub use crate::model::{EolKind, EolState, ModelConfig, SCHEMA_DIALECTS, SimulatedModelConfig};
pub use crate::network::{InvalidNetwork, Network};
pub use crate::policy::{
    Commit, CommitWindow, HedgeMode, HedgePolicy, OnContentFilter, OnStreamBreak, OnValidatorError,
    PolicyError, RestorePolicy, RetryPolicy, RolePolicy, ShadowPolicy, Signal, StreamValidation,
};
pub use crate::provider::{
    ConnectionPolicy, Dialect, ProviderConfig, ReasoningControl, WireConfig,
};
pub use crate::qualification::RankingPolicy;
pub use crate::queue::{OnExhausted, QueuePolicy};
pub use crate::redactions::Redactions;
pub use crate::registry::RegisteredModel;
pub use crate::task::{ComplexityPolicy, TaskPolicy, Thresholds};
pub use crate::telemetry::{CaptureContent, EventsAs, TelemetryConfig};
pub use crate::tickets::{TicketsConfig, WebhookConfig};
pub use crate::validator::{HttpValidatorConfig, ValidatorConfig};
pub use crate::written::preset_servers;
pub use evenkeel_document::{Problem, Problems, Severity, SourceFile, report};
pub use evenkeel_validators::BuiltIn;
