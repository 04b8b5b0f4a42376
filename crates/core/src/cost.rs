//! What calls cost.

/// What money was spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpentOn {
    /// The attempt that answered. Of a call whose caller left it is every attempt
    /// that was no hedge.
    Answer,
    /// An attempt of a race that did not answer.
    Hedge,
    /// An attempt that failed before another one was made, a retry or the next rung.
    Failover,
    /// A probe of a model that was left.
    Probe,
    /// A copy of a call, sent to a candidate.
    Shadow,
}

impl SpentOn {
    /// The name used outside Rust.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Hedge => "hedge",
            Self::Failover => "failover",
            Self::Probe => "probe",
            Self::Shadow => "shadow",
        }
    }
}

/// What one attempt, probe or shadow costs, by the prices of the model registry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// US dollars.
    pub usd: f64,
    /// Whether its tokens were estimated, not reported: a loser's provider bills
    /// what it has read and written, and is gone before it could say how much.
    pub is_estimate: bool,
    /// What it was spent on.
    pub spent_on: SpentOn,
}
