//! What a record tells of, and how many of each there are.

use serde::{Serialize, Serializer};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a record tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKind {
    /// A logical request ended: who answered it, how and why.
    Answer,
    /// A role's traffic was moved off a model.
    Substitution,
    /// A role's traffic went back up to a model.
    Restoration,
    /// A model was found too slow for a role.
    LatencyBreach,
    /// A hedge that was started ended.
    Hedge,
    /// A failure or a refusal moved a request to another model.
    Fallback,
    /// A breaker changed its state.
    Breaker,
    /// A workflow run was degraded, or more so than before.
    DegradedWorkflow,
    /// Another configuration is in force.
    PolicyChange,
    /// An operator did something.
    Operator,
    /// A kept call changed its state.
    Ticket,
    /// A drill began or ended.
    Drill,
    /// Records were lost while the log could not be written.
    Gap,
}

impl RecordKind {
    /// Every kind.
    pub const ALL: [Self; 13] = [
        Self::Answer,
        Self::Substitution,
        Self::Restoration,
        Self::LatencyBreach,
        Self::Hedge,
        Self::Fallback,
        Self::Breaker,
        Self::DegradedWorkflow,
        Self::PolicyChange,
        Self::Operator,
        Self::Ticket,
        Self::Drill,
        Self::Gap,
    ];

    /// The name used outside Rust.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Substitution => "substitution",
            Self::Restoration => "restoration",
            Self::LatencyBreach => "latency_breach",
            Self::Hedge => "hedge",
            Self::Fallback => "fallback",
            Self::Breaker => "breaker",
            Self::DegradedWorkflow => "degraded_workflow",
            Self::PolicyChange => "policy_change",
            Self::Operator => "operator",
            Self::Ticket => "ticket",
            Self::Drill => "drill",
            Self::Gap => "gap",
        }
    }

    /// The kind of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for RecordKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for RecordKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A count of records by kind, which many threads may add to.
#[derive(Debug, Default)]
pub struct KindCounts([AtomicU64; RecordKind::ALL.len()]);

impl KindCounts {
    /// One more of that kind.
    pub fn add(&self, kind: RecordKind) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many there are of it.
    pub fn of(&self, kind: RecordKind) -> u64 {
        self.0[kind as usize].load(Ordering::Relaxed)
    }

    /// How many there are of all kinds together.
    pub fn total(&self) -> u64 {
        RecordKind::ALL.into_iter().map(|kind| self.of(kind)).sum()
    }
}

impl Clone for KindCounts {
    fn clone(&self) -> Self {
        Self(std::array::from_fn(|at| {
            self.0[at].load(Ordering::Relaxed).into()
        }))
    }
}

/// A map of those there are any of.
impl Serialize for KindCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = RecordKind::ALL
            .into_iter()
            .map(|kind| (kind, self.of(kind)));
        serializer.collect_map(counts.filter(|(_, count)| *count > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_name_and_has_its_own_count() {
        let counts = KindCounts::default();
        for kind in RecordKind::ALL {
            assert_eq!(RecordKind::named(kind.as_str()), Some(kind));
            counts.add(kind);
        }
        assert!(RecordKind::ALL.into_iter().all(|kind| counts.of(kind) == 1));
        assert_eq!(counts.total(), RecordKind::ALL.len() as u64);
        assert_eq!(RecordKind::named("answers"), None);
    }
}
