//! What the configuration says that metrics have to know before anything happens.

use evenkeel_core::ModelId;
use std::sync::Arc;
use std::time::Duration;

/// Roles, models and providers as they are configured: the source of every label that
/// names one, of the series that exist before the first request, and of the gauges that
/// only a new configuration changes.
///
/// A name that is not in it never becomes a label ([`Metrics`](super::Metrics)).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    /// The roles, in alphabetical order.
    pub roles: Vec<RoleEntry>,
    /// The models that their rosters name.
    pub models: Vec<ModelEntry>,
    /// The configured names of these models' providers.
    pub providers: Vec<Arc<str>>,
    /// Names of workflows. The run `name`, and every run whose id is that name, one of
    /// `-`, `_`, `.`, `:`, `/`, `#` and more, is one of them.
    pub workflows: Vec<Arc<str>>,
}

/// A role.
#[derive(Debug, Clone, PartialEq)]
pub struct RoleEntry {
    /// Its name.
    pub name: Arc<str>,
    /// The kinds of task that its policy tells apart.
    pub task_types: Vec<Arc<str>>,
    /// Its own roster, then those of tasks that have their own.
    pub rosters: Vec<RosterEntry>,
    /// What its latencies are held against.
    pub limits: Vec<LimitEntry>,
    /// Whether calls that find nothing left are kept.
    pub keeps_tickets: bool,
    /// The candidate that a share of its calls is copied to.
    pub shadow: Option<ModelId>,
}

/// A role's models, or those of one of its tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct RosterEntry {
    /// The task; none for the role's own roster.
    pub task: Option<Arc<str>>,
    /// The models, best first: the first one is the primary.
    pub rungs: Vec<RungEntry>,
}

/// A place in a roster.
#[derive(Debug, Clone, PartialEq)]
pub struct RungEntry {
    /// The model.
    pub model: ModelId,
    /// How well it did when it was qualified, the primary aside; none where it never was.
    pub quality: Option<Quality>,
}

/// A fallback's quality beside its primary's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// Its score over the primary's.
    pub ratio: f64,
    /// Its score less the primary's, -1..=1.
    pub delta: f64,
}

/// A limit on a role's latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitEntry {
    /// Which percentile it is on.
    pub percentile: Percentile,
    /// What is measured.
    pub measure: Measure,
    /// The limit.
    pub limit: Duration,
}

/// A percentile that roles have limits on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Percentile {
    /// The 95th.
    P95,
    /// The 99th.
    P99,
}

impl Percentile {
    /// The name used in labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::P95 => "p95",
            Self::P99 => "p99",
        }
    }
}

/// What of an answer is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The time to its end.
    Total,
    /// The time to its first content.
    FirstToken,
}

impl Measure {
    /// The name used in labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::FirstToken => "first_token",
        }
    }
}

/// A model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelEntry {
    /// Its id in rosters.
    pub id: ModelId,
    /// The end of its last day of service, Unix seconds; none where no date is known.
    pub eol: Option<i64>,
    /// Whether its prices are known.
    pub is_priced: bool,
}

impl RoleEntry {
    /// The rungs of all its rosters; one that stands in several comes several times.
    pub(super) fn rungs(&self) -> impl Iterator<Item = &RungEntry> {
        self.rosters.iter().flat_map(|roster| &roster.rungs)
    }

    /// Its own primary; none of a role without a roster.
    pub(super) fn primary(&self) -> Option<&ModelId> {
        Some(&self.rosters.first()?.rungs.first()?.model)
    }

    /// The kinds of task that `roster` is for. The role's own is also for calls that name
    /// none, and for the kinds that have no roster of their own.
    pub(super) fn tasks_of<'a>(
        &'a self,
        roster: &'a RosterEntry,
    ) -> impl Iterator<Item = Option<&'a str>> {
        let is_apart = |task: &Arc<str>| self.rosters.iter().any(|r| r.task.as_ref() == Some(task));
        let shared = self.task_types.iter().filter(move |task| !is_apart(task));
        let shared = shared.filter(|_| roster.task.is_none());
        std::iter::once(roster.task.as_deref()).chain(shared.map(|task| Some(&**task)))
    }
}

impl RosterEntry {
    /// The primary with each fallback.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&ModelId, &RungEntry)> {
        let primary = self.rungs.first();
        let fallbacks = self.rungs.iter().skip(1);
        fallbacks.filter_map(move |fallback| Some((&primary?.model, fallback)))
    }
}
