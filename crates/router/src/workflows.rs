//! What became of the steps of each workflow run.

use crate::recent::{Key, Recent};
use crate::rung::locked;
use evenkeel_core::{
    DegradationContext, DegradationLevel, EventKind, Meta, ModelId, WorkflowOutcome,
};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A run is degraded seriously where the least capability of its answers is below
/// this: the default of `quality_budget`, below which no fallback is used unless a
/// role says otherwise.
const MAJOR_BELOW: f64 = 0.85;

/// A workflow run, as far as its steps went through this router.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    /// Steps that ended, answered or not.
    pub calls: u64,
    /// Steps that a fallback answered.
    pub degraded_calls: u64,
    /// Steps that no model answered; a request's own fault, and a role's refusal
    /// of degraded input, are none.
    pub unanswered_calls: u64,
    /// Who answered in a primary's place, in the order it first happened.
    pub degraded_roles: Vec<DegradedRole>,
    /// Least capability score of the answers and of what they were built on, share 0..1.
    pub min_capability_score: f64,
    /// Most degraded steps one after the other.
    pub depth: u8,
    /// Expected quality along the worst path, share 0..1.
    pub expected_quality: f64,
    /// What the caller reported.
    pub outcome: Option<WorkflowOutcome>,
}

/// A role of a run, and who answered in its primary's place.
#[derive(Debug, Clone, PartialEq)]
pub struct DegradedRole {
    /// The role.
    pub role: Arc<str>,
    /// Who answered.
    pub model: ModelId,
    /// Why, the last time.
    pub reason: Option<&'static str>,
    /// How often.
    pub calls: u64,
}

/// Why a run cannot be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkflowError {
    /// This caller has made no call in a run of that id, or too long ago.
    #[error(
        "no run of that id is known: it had no call of this caller, or its last one is too long ago"
    )]
    Unknown,
    /// It has ended with another outcome.
    #[error("the run has ended as `{}` already", .0.as_str())]
    Ended(WorkflowOutcome),
}

impl Default for Workflow {
    fn default() -> Self {
        Self {
            calls: 0,
            degraded_calls: 0,
            unanswered_calls: 0,
            degraded_roles: Vec::new(),
            min_capability_score: 1.0,
            depth: 0,
            expected_quality: 1.0,
            outcome: None,
        }
    }
}

impl Workflow {
    /// How degraded it is; none where every step was answered by its primary.
    /// `failed`: a step got no answer; `major`: the least capability is below
    /// 0.85; `minor`: everything else. It never falls.
    pub fn level(&self) -> Option<DegradationLevel> {
        if self.unanswered_calls > 0 {
            Some(DegradationLevel::Failed)
        } else if self.degraded_calls == 0 {
            None
        } else if self.min_capability_score < MAJOR_BELOW {
            Some(DegradationLevel::Major)
        } else {
            Some(DegradationLevel::Minor)
        }
    }

    fn answered(&mut self, role: &Arc<str>, meta: &Meta, context: &DegradationContext) {
        if !meta.degraded {
            return;
        }
        self.degraded_calls += 1;
        let capability = context.min_capability_score();
        self.min_capability_score = self.min_capability_score.min(capability);
        self.expected_quality = self.expected_quality.min(context.quality());
        self.depth = self.depth.max(context.depth());
        let mut known = self.degraded_roles.iter_mut();
        match known.find(|d| d.role == *role && d.model == meta.model_id) {
            Some(known) => {
                known.calls += 1;
                known.reason = meta.fallback_reason;
            }
            None => self.degraded_roles.push(DegradedRole {
                role: role.clone(),
                model: meta.model_id.clone(),
                reason: meta.fallback_reason,
                calls: 1,
            }),
        }
    }

    /// The event of its level.
    fn degraded(&self, workflow: &Arc<str>, level: DegradationLevel) -> EventKind {
        let mut roles: Vec<Arc<str>> = Vec::new();
        for degraded in &self.degraded_roles {
            if !roles.contains(&degraded.role) {
                roles.push(degraded.role.clone());
            }
        }
        EventKind::WorkflowDegraded {
            workflow: workflow.clone(),
            level,
            depth: self.depth,
            roles,
            expected_quality: self.expected_quality,
        }
    }

    /// The event of its end.
    fn ended(&self, workflow: &Arc<str>) -> EventKind {
        EventKind::WorkflowEnded {
            workflow: workflow.clone(),
            outcome: self.outcome,
            level: self.level(),
        }
    }
}

/// A step of a run that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) role: &'a Arc<str>,
    /// The answer, where there is one, and what it hands on.
    pub(crate) answer: Option<(&'a Meta, &'a DegradationContext)>,
    /// Whether no model answered, or not to the end.
    pub(crate) is_unanswered: bool,
}

/// The runs of the last day, at most 10,000.
#[derive(Debug, Default)]
pub(crate) struct Workflows(Mutex<Recent<Workflow>>);

impl Workflows {
    /// Takes in a step; what is to be told of it. A step after the end begins a
    /// new run of the same id.
    pub(crate) fn note(&self, key: &Key, step: Step<'_>, now: Instant) -> Vec<EventKind> {
        let mut runs = locked(&self.0);
        let run = runs.touch(key, now, Workflow::default);
        if run.outcome.is_some() {
            *run = Workflow::default();
        }
        let before = run.level();
        run.calls += 1;
        if let Some((meta, context)) = step.answer {
            run.answered(step.role, meta, context);
        }
        run.unanswered_calls += u64::from(step.is_unanswered);
        let rose = run.level().filter(|level| Some(*level) > before);
        let mut events: Vec<EventKind> = rose
            .map(|level| run.degraded(&key.id, level))
            .into_iter()
            .collect();
        // Runs whose end nobody reported.
        let gone = runs.expire(now).into_iter();
        let unreported = gone.filter(|(_, run)| run.outcome.is_none());
        events.extend(unreported.map(|(key, run)| run.ended(&key.id)));
        events
    }

    pub(crate) fn get(&self, key: &Key, now: Instant) -> Option<Workflow> {
        locked(&self.0).get_mut(key, now).cloned()
    }

    /// Ends a run; the event is there the first time.
    pub(crate) fn end(
        &self,
        key: &Key,
        outcome: WorkflowOutcome,
        now: Instant,
    ) -> Result<(Workflow, Option<EventKind>), WorkflowError> {
        let mut runs = locked(&self.0);
        let run = runs.get_mut(key, now).ok_or(WorkflowError::Unknown)?;
        match run.outcome {
            Some(known) if known == outcome => Ok((run.clone(), None)),
            Some(known) => Err(WorkflowError::Ended(known)),
            None => {
                run.outcome = Some(outcome);
                Ok((run.clone(), Some(run.ended(&key.id))))
            }
        }
    }
}
