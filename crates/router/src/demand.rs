//! What a call asks of the rungs of its role: told once, at its start.

use crate::role::Role;
use evenkeel_core::{CallContext, Class, Failure, ModelId, Refusal};
use evenkeel_roster::TaskPolicy;
use std::sync::Arc;

/// A kind of task of a role.
#[derive(Debug)]
pub(crate) struct Task {
    /// The task's own rungs, windows and word; none: it goes with its role.
    pub(crate) apart: Option<Arc<Role>>,
    /// What it asks for.
    pub(crate) policy: TaskPolicy,
}

/// What a call asks of a rung before it may answer, and in which order rungs
/// are asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Demand {
    /// Least capability, 0..1.
    pub(crate) least: f64,
    pinned: Option<Pinned>,
}

/// The rungs that the caller named.
#[derive(Debug, Clone)]
struct Pinned {
    /// Every rung of the role: those that may answer first.
    order: Box<[usize]>,
    /// How many may answer.
    count: usize,
}

impl Demand {
    /// What every call of the unit asks.
    pub(crate) fn standing(role: &Role) -> Self {
        Self {
            least: role.policy.min_capability_score,
            pinned: None,
        }
    }

    /// The role, or the task of it, that a call is one of, and what it asks.
    ///
    /// # Errors
    /// What is wrong with the context: [`Class::BadRequest`] with a code and the field.
    pub(crate) fn of(
        role: &Arc<Role>,
        context: &CallContext,
    ) -> Result<(Arc<Role>, Self), Failure> {
        let task = context.task.as_deref().and_then(|t| role.tasks.get(t));
        let unit = task.and_then(|t| t.apart.as_ref()).unwrap_or(role);
        let policy = &role.policy;
        let declared = context.complexity.map(|c| policy.complexity.least(c));
        let least = task
            .map_or(policy.min_capability_score, |t| {
                t.policy.least_capability(policy)
            })
            .max(declared.unwrap_or(0.0))
            .max(min_capability(context)?);
        let pinned = match &context.pinned_roster {
            None => None,
            Some(_) if !policy.allow_pinned_roster => {
                let message = format!(
                    "role `{}` does not let callers name its models (allow_pinned_roster)",
                    role.name
                );
                return Err(bad("pinned_roster_not_allowed", PINNED, message));
            }
            Some(models) => Some(Pinned::of(unit, models)?),
        };
        Ok((unit.clone(), Self { least, pinned }))
    }

    /// The rung that is asked at `place` in the call's order.
    pub(crate) fn rung(&self, place: usize) -> usize {
        self.pinned.as_ref().map_or(place, |p| p.order[place])
    }

    /// The rung that the caller wants first, where it named any.
    pub(crate) fn first(&self) -> Option<usize> {
        self.pinned.as_ref().map(|p| p.order[0])
    }

    /// Why the rung is never used for this call, whatever else fails.
    pub(crate) fn refusal(&self, role: &Role, rung: usize) -> Option<Refusal> {
        if let Some(pinned) = &self.pinned
            && !pinned.order[..pinned.count].contains(&rung)
        {
            return Some(Refusal::NotPinned);
        }
        let capability = role.rungs[rung].capability_score;
        (capability < self.least).then_some(Refusal::BelowCapability {
            capability,
            least: self.least,
        })
    }
}

impl Pinned {
    fn of(role: &Role, models: &[ModelId]) -> Result<Self, Failure> {
        let mut order = Vec::with_capacity(role.rungs.len());
        for model in models {
            let Some(rung) = role.rungs.iter().position(|r| r.model.id == *model) else {
                let known: Vec<_> = role.rungs.iter().map(|r| r.model.id.as_str()).collect();
                let message = format!(
                    "`{model}` is not in the roster of `{}`, which has {}",
                    role.name,
                    known.join(", ")
                );
                return Err(bad("unknown_pinned_model", PINNED, message));
            };
            if order.contains(&rung) {
                let message = format!("`{model}` is named twice");
                return Err(bad("invalid_pinned_roster", PINNED, message));
            }
            order.push(rung);
        }
        let count = order.len();
        if count == 0 {
            let message = "the pinned roster is empty, expected at least one model".to_owned();
            return Err(bad("invalid_pinned_roster", PINNED, message));
        }
        let others = (0..role.rungs.len()).filter(|r| !order.contains(r));
        let others: Vec<usize> = others.collect();
        order.extend(others);
        Ok(Self {
            order: order.into(),
            count,
        })
    }
}

/// The field of the context that an error is about.
const PINNED: &str = "pinned_roster";

fn min_capability(context: &CallContext) -> Result<f64, Failure> {
    match context.min_capability {
        None => Ok(0.0),
        Some(least) if (0.0..=1.0).contains(&least) => Ok(least),
        Some(other) => {
            let message = format!("the least capability is {other}, expected 0 to 1");
            Err(bad("invalid_min_capability", "min_capability", message))
        }
    }
}

fn bad(code: &str, param: &str, message: String) -> Failure {
    let mut failure = Failure::new(Class::BadRequest, message);
    failure.code = Some(code.to_owned());
    failure.param = Some(param.into());
    failure
}

/// The failure of a call that asks for more than any rung it could use can do.
pub(crate) fn below_all(refusals: impl IntoIterator<Item = Refusal>) -> Failure {
    let (mut best, mut asked) = (0.0_f64, 0.0_f64);
    for refusal in refusals {
        if let Refusal::BelowCapability { capability, least } = refusal {
            best = best.max(capability);
            asked = asked.max(least);
        }
    }
    let mut failure = Failure::new(
        Class::BadRequest,
        format!(
            "the call asks for a capability of {asked}, and the best model it may use has {best}"
        ),
    );
    failure.code = Some("below_capability".to_owned());
    failure
}
