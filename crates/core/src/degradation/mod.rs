//! What a workflow carries from agent to agent about answers that did not come
//! from a primary.

mod baggage;
mod percent;
mod reason;

pub use self::baggage::Baggage;

use crate::{Meta, ModelId};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Degraded steps that are counted at most; the field has two digits.
const DEEPEST: u8 = 99;
/// Degraded agents that are named at most; the oldest make room.
const MOST_AGENTS: usize = 16;

/// What a workflow's answers so far have lost: who answered with less than its
/// primary, how far that goes back, and how much may be left.
///
/// A caller hands in the context it got with the answers it builds on
/// ([`CallContext::degradation`](crate::CallContext::degradation)) and gets it
/// back updated with the next answer. Where branches come together it hands in
/// [`DegradationContext::merged`]. Between processes it travels as
/// [`Baggage`].
///
/// ```
/// use evenkeel_core::{Baggage, DegradationContext};
///
/// let baggage = Baggage::read(["evenkeel.depth=2,evenkeel.min_capability=0.83,vendor=x"]);
/// let context = baggage.degradation();
/// assert!(context.is_degraded());
/// let other = DegradationContext::default();
/// let joined = DegradationContext::merged([&other, &context]);
/// assert_eq!(joined.min_capability_score(), 0.83);
/// assert!(baggage.write(&joined).unwrap().ends_with(",vendor=x"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DegradationContext {
    depth: u8,
    /// By stage, then by name; each name once.
    agents: Vec<DegradedAgent>,
    min_capability_score: f64,
    quality: f64,
    /// Unix seconds.
    since: Option<u64>,
    last: LastStep,
    workflow: Option<Arc<str>>,
}

/// An agent, and at which step of its path it last answered degraded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct DegradedAgent {
    stage: u32,
    name: Arc<str>,
}

/// The last degraded step. The order has no meaning but that it is one.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct LastStep {
    role: Option<Arc<str>>,
    primary: Option<ModelId>,
    active: Option<ModelId>,
    reason: Option<&'static str>,
}

impl Default for DegradationContext {
    fn default() -> Self {
        Self {
            depth: 0,
            agents: Vec::new(),
            min_capability_score: 1.0,
            quality: 1.0,
            since: None,
            last: LastStep::default(),
            workflow: None,
        }
    }
}

impl DegradationContext {
    /// Whether any answer so far was degraded.
    pub fn is_degraded(&self) -> bool {
        self.depth > 0
    }

    /// Degraded steps on the longest path that led here, 0..=99.
    pub fn depth(&self) -> u8 {
        self.depth
    }

    /// The agents that answered degraded, oldest first, each once, the last 16.
    pub fn degraded_agents(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.agents.iter().map(|agent| &*agent.name)
    }

    /// Least capability score of the answers so far, share 0..1; 1 while none
    /// was degraded.
    pub fn min_capability_score(&self) -> f64 {
        self.min_capability_score
    }

    /// Expected quality along the worst path: the product of its degraded
    /// steps' quality ratios, share 0..1.
    pub fn quality(&self) -> f64 {
        self.quality
    }

    /// When the first degraded step ended, Unix seconds.
    pub fn since(&self) -> Option<u64> {
        self.since
    }

    /// Why the last degraded step was not answered by its primary.
    pub fn fallback_reason(&self) -> Option<&'static str> {
        self.last.reason
    }

    /// The role of the last degraded step.
    pub fn role(&self) -> Option<&str> {
        self.last.role.as_deref()
    }

    /// The primary of the last degraded step.
    pub fn primary(&self) -> Option<&ModelId> {
        self.last.primary.as_ref()
    }

    /// Who answered the last degraded step.
    pub fn active(&self) -> Option<&ModelId> {
        self.last.active.as_ref()
    }

    /// The workflow run that all this belongs to.
    pub fn workflow(&self) -> Option<&Arc<str>> {
        self.workflow.as_ref()
    }

    /// Says which workflow run it belongs to.
    pub fn set_workflow(&mut self, workflow: Arc<str>) {
        self.workflow = Some(workflow);
    }

    /// Takes in one answer of `agent`. A degraded one adds a step; one of the
    /// primary passes the context on as it is.
    pub fn update(&mut self, agent: &str, meta: &Meta, now: SystemTime) {
        if !meta.degraded {
            return;
        }
        self.depth = (self.depth + 1).min(DEEPEST);
        self.min_capability_score = self.min_capability_score.min(share(meta.capability_score));
        self.quality *= share(meta.quality_ratio);
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        self.since.get_or_insert(now);
        self.last = LastStep {
            role: Some(Arc::from(meta.role.as_str())),
            primary: Some(meta.primary.clone()),
            active: Some(meta.model_id.clone()),
            reason: meta.fallback_reason,
        };
        self.agents.retain(|known| &*known.name != agent);
        let last = self.agents.last().map_or(0, |known| known.stage);
        self.agents.push(DegradedAgent {
            stage: last.saturating_add(1).max(self.depth.into()),
            name: Arc::from(agent),
        });
        self.drop_oldest();
    }

    /// Takes in a parallel branch of the same workflow.
    ///
    /// The result says what holds of an answer that rests on both: depth is that
    /// of the longer path (steps side by side do not add up), capability and
    /// quality are those of the worse one, `since` is the earlier one, agents are
    /// those of both by how late on their path they degraded, and the last step
    /// is that of the deeper branch. So neither the order of branches matters,
    /// nor how they are grouped, nor that they share a part of their way. Of two
    /// last steps at one depth, and of two workflows, the choice is by name, and
    /// of no meaning.
    pub fn merge(&mut self, branch: &Self) {
        if (self.depth, &self.last) < (branch.depth, &branch.last) {
            self.last = branch.last.clone();
        }
        self.depth = self.depth.max(branch.depth);
        self.min_capability_score = self.min_capability_score.min(branch.min_capability_score);
        self.quality = self.quality.min(branch.quality);
        self.since = earlier(self.since, branch.since);
        self.workflow = earlier(self.workflow.take(), branch.workflow.clone());
        for agent in &branch.agents {
            match self.agents.iter_mut().find(|own| own.name == agent.name) {
                Some(own) => own.stage = own.stage.max(agent.stage),
                None => self.agents.push(agent.clone()),
            }
        }
        self.agents.sort();
        self.drop_oldest();
    }

    /// What an answer that rests on all of these branches begins with; the
    /// healthy context for none. See [`DegradationContext::merge`].
    pub fn merged<'a>(branches: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        for branch in branches {
            all.merge(branch);
        }
        all
    }

    fn drop_oldest(&mut self) {
        let surplus = self.agents.len().saturating_sub(MOST_AGENTS);
        self.agents.drain(..surplus);
    }
}

/// The lesser of two, or the one there is.
fn earlier<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// A share in its range; what is no number is none of it.
fn share(value: f64) -> f64 {
    if value.is_nan() {
        0.0
    } else {
        value.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests;
