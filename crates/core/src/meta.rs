//! What an answer says about how it came to be.

use crate::ModelId;
use std::time::Duration;

/// How the answering model came to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The primary, as planned.
    Primary,
    /// Another model, because the role's traffic was moved.
    Substitute,
    /// A hedge, while the role was not moved.
    Hedge,
    /// Another model, after a failure or a refusal.
    Fallback,
    /// Nothing answered.
    None,
}

impl Route {
    /// The name used outside Rust.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Substitute => "substitute",
            Self::Hedge => "hedge",
            Self::Fallback => "fallback",
            Self::None => "none",
        }
    }
}

/// What each answer carries beside its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Meta {
    /// The role that was asked.
    pub role: String,
    /// Who answered.
    pub model_id: ModelId,
    /// Its place in the roster, 0 = primary.
    pub rung: usize,
    /// How it came to answer.
    pub route: Route,
    /// The role's primary.
    pub primary: ModelId,
    /// Its capability relative to the primary, share 0..1.
    pub capability_score: f64,
    /// Its expected quality relative to the primary, share 0..1: as measured,
    /// else its capability.
    pub quality_ratio: f64,
    /// Whether it is not the primary.
    pub degraded: bool,
    /// Why not the primary: a class, a refusal as it is told ([`Refusal::told`]), or why
    /// the role was moved or the call hedged; none for the primary.
    ///
    /// [`Refusal::told`]: crate::Refusal::told
    pub fallback_reason: Option<&'static str>,
    /// What the role tells of a degraded answer; none for the primary's.
    pub notice: Option<String>,
    /// Attempts made, all rungs.
    pub attempts: usize,
    /// From the start of the call to the start of the answering attempt.
    pub latency_added: Duration,
    /// What the model could not be told as asked.
    pub adapted: Vec<String>,
    /// What the answering attempt cost, US dollars; none before the answer is
    /// complete, and where the model's prices are not known.
    pub cost_usd: Option<f64>,
    /// What hedges, retries and failover added, US dollars; none where that of one
    /// of them is not known.
    pub added_cost_usd: Option<f64>,
    /// Whether any of the tokens behind the two were estimated.
    pub cost_is_estimate: bool,
}

impl Meta {
    /// The configured provider that answered.
    pub fn provider(&self) -> &str {
        self.model_id.provider()
    }
}
