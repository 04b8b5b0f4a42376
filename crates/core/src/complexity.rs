//! How hard a caller says its request is.

/// A request's declared complexity. A role's policy says what each asks of the
/// model that answers: `complexity = { low, medium, high }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Complexity {
    /// Any model of the roster may do it.
    Low,
    /// It takes a model not far below the primary.
    Medium,
    /// It takes the primary or its equal.
    High,
}

impl Complexity {
    /// Every complexity, least first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// The name used in config, headers and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// The complexity of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }
}
