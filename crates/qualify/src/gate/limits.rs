//! What a role asks of its fallbacks, and what is known of a model: plain data.

use evenkeel_roster::{EolState, ModelConfig, RolePolicy, Signal};
use jiff::civil::Date;
use std::collections::BTreeMap;
use std::time::Duration;

/// Which latency is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyKind {
    /// To the end of the answer.
    Total,
    /// To its first content.
    FirstToken,
}

impl LatencyKind {
    /// The name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::FirstToken => "first_token",
        }
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Total => "time to the whole answer",
            Self::FirstToken => "time to the first token",
        }
    }
}

/// What a role asks of its fallbacks.
#[derive(Debug, Clone, PartialEq)]
pub struct GateLimits {
    /// Least share of the primary's score, 0..1.
    pub quality: f64,
    /// The same over the items of a tag, by tag.
    pub quality_by_tag: BTreeMap<String, f64>,
    /// Which latency is judged.
    pub latency_kind: LatencyKind,
    /// The median has to be below it.
    pub latency: Duration,
    /// Least share of answers valid for their schema or tools, 0..1.
    pub schema_compliance: f64,
    /// Tokens that the context window has to hold; none: the primary's window.
    pub context_window: Option<u64>,
    /// Whether the first fallback may stand at the primary's provider.
    pub allow_same_provider: bool,
}

impl GateLimits {
    /// What `policy` asks. A role that watches first tokens alone is judged by
    /// them, any other by the whole answer.
    pub fn of(policy: &RolePolicy) -> Self {
        let (latency_kind, latency) = match policy.signal {
            Signal::FirstToken => (LatencyKind::FirstToken, policy.first_token_p95),
            Signal::Auto | Signal::Total => (LatencyKind::Total, policy.p95),
        };
        Self {
            quality: policy.quality_budget,
            quality_by_tag: policy.quality_budget_by_tag.clone(),
            latency_kind,
            latency,
            schema_compliance: policy.min_schema_compliance,
            context_window: policy.min_context_window,
            allow_same_provider: policy.allow_same_provider,
        }
    }
}

/// What is known of a model beside what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelFacts {
    /// Whether the model registry has it; if not, the rest is not known.
    pub is_registered: bool,
    /// Tokens; none: unknown.
    pub context_window: Option<u64>,
    /// Its last day, where it has one.
    pub eol_date: Option<Date>,
    /// Where it stands in its life.
    pub eol: EolState,
}

impl ModelFacts {
    /// What the registry says of `model` on `today`.
    pub fn of(model: &ModelConfig, today: Date) -> Self {
        Self {
            is_registered: model.registered,
            context_window: model.context_window,
            eol_date: model.eol_date,
            eol: model.eol_state(today),
        }
    }

    /// Of a model that the registry does not have.
    pub const fn unknown() -> Self {
        Self {
            is_registered: false,
            context_window: None,
            eol_date: None,
            eol: EolState::Current,
        }
    }
}
