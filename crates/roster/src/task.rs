//! What a role's tasks ask for beside the role itself.

use std::time::Duration;

use evenkeel_core::{Complexity, ModelId};

use crate::faults::{Fault, Faults};
use crate::policy::RolePolicy;

/// The capability that a declared complexity asks of a model (`complexity`), 0 to 1 each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComplexityPolicy {
    /// `low`.
    pub low: f64,
    /// `medium`: by default the default quality budget.
    pub medium: f64,
    /// `high`.
    pub high: f64,
}

impl Default for ComplexityPolicy {
    fn default() -> Self {
        Self {
            low: 0.0,
            medium: 0.85,
            high: 0.95,
        }
    }
}

impl ComplexityPolicy {
    /// The least capability that `complexity` asks for.
    pub const fn least(&self, complexity: Complexity) -> f64 {
        match complexity {
            Complexity::Low => self.low,
            Complexity::Medium => self.medium,
            Complexity::High => self.high,
        }
    }

    pub(crate) fn faults(&self, faults: &mut Faults) {
        faults.share("complexity.low", self.low);
        faults.share("complexity.medium", self.medium);
        faults.share("complexity.high", self.high);
        for (key, value, floor_key, floor) in [
            ("complexity.medium", self.medium, "complexity.low", self.low),
            (
                "complexity.high",
                self.high,
                "complexity.medium",
                self.medium,
            ),
        ] {
            if value < floor {
                faults.0.push(Fault {
                    key,
                    against: Some(floor_key),
                    message: format!("is {value}, below {floor_key} = {floor}"),
                });
            }
        }
    }
}

/// The limits that a task is judged by instead of its role's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// `p95_threshold_ms`.
    pub p95: Duration,
    /// `p99_threshold_ms`; at least `p95`.
    pub p99: Duration,
    /// `first_token_p95_ms`.
    pub first_token_p95: Duration,
    /// `first_token_p99_ms`; at least `first_token_p95`.
    pub first_token_p99: Duration,
}

/// One kind of task of a role (`[agent_roles.R.tasks.T]`).
///
/// A task with an `order` or thresholds of its own is judged apart from its
/// role: its calls have windows, a place in the roster and a way back of their
/// own, because a latency says nothing against another limit, and a move in
/// one order means nothing in another. What is known of the models themselves
/// (breakers, cooldowns, failed validations) is shared. A task that only asks
/// for more capability goes with its role.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskPolicy {
    /// `order`: the models of the role's roster that the task may use, best first;
    /// none: the role's own.
    pub order: Option<Vec<ModelId>>,
    /// The task's thresholds; none: the role's.
    pub thresholds: Option<Thresholds>,
    /// `min_capability_score`: on top of the role's, 0 to 1.
    pub min_capability_score: f64,
    /// `complexity`: how hard the task is.
    pub complexity: Option<Complexity>,
}

impl TaskPolicy {
    /// Whether the task's calls are judged apart from its role's.
    pub fn stands_apart(&self) -> bool {
        self.order.is_some() || self.thresholds.is_some()
    }

    /// The least capability that the task asks for, the role's own included.
    pub fn least_capability(&self, role: &RolePolicy) -> f64 {
        let by_complexity = self.complexity.map(|c| role.complexity.least(c));
        self.min_capability_score
            .max(by_complexity.unwrap_or(0.0))
            .max(role.min_capability_score)
    }

    /// The policy of the task's calls: the role's with what the task says instead.
    pub fn policy(&self, role: &RolePolicy) -> RolePolicy {
        let mut policy = role.clone();
        policy.tasks.clear();
        policy.min_capability_score = self.least_capability(role);
        if let Some(own) = self.thresholds {
            policy.p95 = own.p95;
            policy.p99 = own.p99;
            policy.first_token_p95 = own.first_token_p95;
            policy.first_token_p99 = own.first_token_p99;
        }
        policy
    }

    /// What is wrong with the task on its own; keys are those of its table.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        if let Some(own) = &self.thresholds {
            faults.thresholds(own);
        }
        faults.share("min_capability_score", self.min_capability_score);
        if let Some(order) = &self.order {
            order_faults(order, &mut faults);
        }
        faults.0
    }
}

fn order_faults(order: &[ModelId], faults: &mut Faults) {
    if order.is_empty() {
        faults.add("order", "is empty, expected at least one model".to_owned());
    }
    for (index, model) in order.iter().enumerate() {
        if order[..index].contains(model) {
            faults.add("order", format!("names `{model}` twice"));
        }
    }
}
