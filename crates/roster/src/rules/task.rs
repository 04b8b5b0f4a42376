//! Rules about a role's tasks: their own order, and what they ask of a model.

use super::role::RoleCheck;
use super::waivers::Waivers;
use crate::config::RungConfig;
use crate::policy::RolePolicy;
use crate::task::TaskPolicy;
use crate::written::WrittenTask;
use evenkeel_document::{Place, nearest};

/// One task of a role, as written and as read.
struct TaskCheck<'t, 'w> {
    name: &'t str,
    task: &'t TaskPolicy,
    written: &'t WrittenTask<'w>,
    /// The rungs that the task may use, best first, each with where it is named.
    rungs: Vec<(&'t RungConfig, Place)>,
}

impl<'c, 'w> RoleCheck<'c, 'w> {
    /// Checks every task against the role's roster.
    pub(super) fn check_tasks(&mut self, waived: &mut Waivers) {
        if !self.roster.complete {
            return;
        }
        let role = self.role;
        for (name, task) in &role.policy.tasks {
            let Some(written) = self.written.task(name) else {
                continue;
            };
            let rungs = self.rungs_of(name, written);
            let check = TaskCheck {
                name,
                task,
                written,
                rungs,
            };
            self.check_order(&check, waived);
            self.check_task_capability(&check);
            self.check_task_limits(&check);
        }
    }

    /// The task's rungs; a model that the roster does not have is an error.
    fn rungs_of(
        &mut self,
        task: &str,
        written: &'c WrittenTask<'w>,
    ) -> Vec<(&'c RungConfig, Place)> {
        let role = self.role;
        let Some(order) = &written.order else {
            let at = written.entry().unwrap_or(&self.roster.role);
            return role.rungs.iter().map(|rung| (rung, at.clone())).collect();
        };
        let mut rungs = Vec::with_capacity(order.len());
        for (id, place) in order {
            if let Some(rung) = role.rungs.iter().find(|rung| rung.model == *id) {
                rungs.push((rung, place.clone()));
                continue;
            }
            let message = format!(
                "`{id}` is not in the roster of `{}`, so task `{task}` cannot use it",
                role.name
            );
            let known = role.rungs.iter().map(|rung| rung.model.as_str());
            let how = nearest(id.as_str(), known).map_or_else(
                || "a task orders the models that its role is qualified for".to_owned(),
                |meant| format!("did you mean `{meant}`?"),
            );
            self.findings.error(place, message, Some(how));
        }
        rungs
    }

    fn check_order(&mut self, check: &TaskCheck<'_, '_>, waived: &mut Waivers) {
        let [(first, _), (second, at), ..] = check.rungs.as_slice() else {
            return;
        };
        let provider = first.model.provider();
        if check.task.order.is_none() || second.model.provider() != provider {
            return;
        }
        if self.role.policy.allow_same_provider {
            let covered = format!("{}, task {}", self.role.name, check.name);
            let at = self.setting("allow_same_provider");
            waived.add("allow_same_provider", at, covered);
            return;
        }
        let message = format!(
            "second model `{}` stands at the first one's provider, `{provider}`",
            second.model
        );
        let how =
            "put a model of another provider second, or say allow_same_provider = true".to_owned();
        self.findings.error(at, message, Some(how));
    }

    /// A rung that the task names and may never use is a mistake; one that it
    /// merely inherits is passed over.
    fn check_task_capability(&mut self, check: &TaskCheck<'_, '_>) {
        let least = check.task.least_capability(&self.role.policy);
        let able = |rung: &RungConfig| rung.capability_score >= least;
        for (rung, at) in &check.rungs {
            if check.task.order.is_some() && !able(rung) {
                let message = format!(
                    "`{}` has capability {}, below the {least} that task `{}` asks for: it would never be used",
                    rung.model, rung.capability_score, check.name
                );
                let how = "take it out of the order, or lower what the task asks for".to_owned();
                self.findings.error(at, message, Some(how));
            }
        }
        if check.rungs.len() > 1
            && least <= 1.0
            && check.rungs.iter().filter(|(rung, _)| able(rung)).count() < 2
            && let Some(at) = check.written.entry()
        {
            let message = format!(
                "only one model has the capability of {least} that the task asks for: when it fails, so do its calls"
            );
            self.findings.warning(at, message, None);
        }
    }

    fn check_task_limits(&mut self, check: &TaskCheck<'_, '_>) {
        if !check.task.stands_apart() {
            return;
        }
        let policy: RolePolicy = check.task.policy(&self.role.policy);
        for (rung, at) in check.rungs.iter().skip(1) {
            let Some(median) = rung.median_latency.filter(|median| *median >= policy.p95) else {
                continue;
            };
            let message = format!(
                "`{}` has median_latency_ms = {}, not below the {} ms of the task's p95_threshold_ms: it would move to a rung in breach",
                rung.model,
                median.as_millis(),
                policy.p95.as_millis()
            );
            self.findings.error(at, message, None);
        }
        if policy.clocks.deadline <= policy.p95
            && check.task.thresholds.is_some()
            && let Some(at) = check.written.place("p95_threshold_ms")
        {
            let message = format!(
                "is {} ms, not below deadline_ms = {} ms: the deadline runs out before a hedge can start",
                policy.p95.as_millis(),
                policy.clocks.deadline.as_millis()
            );
            self.findings.warning(&at, message, None);
        }
    }
}
