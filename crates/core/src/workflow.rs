//! Words for how a workflow run goes, and how it went.

/// How degraded a workflow run is, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DegradationLevel {
    /// A step was answered by a fallback, each by one that can do nearly all of
    /// what its primary can.
    Minor,
    /// A step was answered by one that can do clearly less.
    Major,
    /// A step got no answer.
    Failed,
}

impl DegradationLevel {
    /// The name used outside Rust.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Minor => "minor",
            Self::Major => "major",
            Self::Failed => "failed",
        }
    }
}

/// How a workflow run went, as its caller reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkflowOutcome {
    /// It did what it was to do.
    Success,
    /// It did a part of it.
    Partial,
    /// It did not.
    Failed,
}

impl WorkflowOutcome {
    /// Every outcome.
    pub const ALL: [Self; 3] = [Self::Success, Self::Partial, Self::Failed];

    /// The name used outside Rust.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Partial => "partial",
            Self::Failed => "failed",
        }
    }

    /// The outcome of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }
}
