//! `[agent_roles.R.tasks.T]`: what a kind of task asks for instead of its role.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_core::{Complexity, ModelId};

use super::check_name;
use crate::policy::RolePolicy;
use crate::task::{TaskPolicy, Thresholds};
use evenkeel_document::{Findings, Place, Scope, TableReader, assign, locate_any};

/// A task as far as it is written.
#[derive(Clone, Default)]
pub(crate) struct WrittenTask<'a> {
    pub(crate) order: Option<Vec<(ModelId, Place)>>,
    p95: Option<Duration>,
    p99: Option<Duration>,
    first_token_p95: Option<Duration>,
    first_token_p99: Option<Duration>,
    min_capability_score: f64,
    complexity: Option<Complexity>,
    /// Where it was read from, the more general table first.
    layers: Vec<Scope<'a>>,
}

/// What the role itself says of first tokens; none: its thresholds hold for them too.
#[derive(Clone, Copy)]
pub(super) struct FirstToken {
    pub(super) p95: Option<Duration>,
    pub(super) p99: Option<Duration>,
}

/// Reads the tasks of a role's table on top of those that all roles have.
pub(super) fn read_tasks<'a>(
    table: &mut TableReader<'a, '_>,
    tasks: &mut BTreeMap<&'a str, WrittenTask<'a>>,
) {
    for (name, scope) in table.named_tables("tasks") {
        check_name("task", name, &scope.place, table.findings);
        let mut own = TableReader::new(scope, table.findings);
        read_task(&mut own, tasks.entry(name).or_default());
        own.finish();
    }
}

fn read_task<'a>(table: &mut TableReader<'a, '_>, task: &mut WrittenTask<'a>) {
    if let Some(order) = read_order(table) {
        task.order = Some(order);
    }
    task.p95 = table.ms("p95_threshold_ms").or(task.p95);
    task.p99 = table.ms("p99_threshold_ms").or(task.p99);
    task.first_token_p95 = table.ms("first_token_p95_ms").or(task.first_token_p95);
    task.first_token_p99 = table.ms("first_token_p99_ms").or(task.first_token_p99);
    assign(
        &mut task.min_capability_score,
        table.number("min_capability_score"),
    );
    let words = Complexity::ALL.map(|level| (level.as_str(), level));
    task.complexity = table.word("complexity", &words).or(task.complexity);
    task.layers.push(table.scope().clone());
}

fn read_order(table: &mut TableReader<'_, '_>) -> Option<Vec<(ModelId, Place)>> {
    let mut order = Vec::new();
    for item in table.texts("order")? {
        match ModelId::new(item.text) {
            Ok(id) => order.push((id, item.place)),
            Err(error) => table.findings.error(&item.place, error.to_string(), None),
        }
    }
    Some(order)
}

impl WrittenTask<'_> {
    /// Where the task as a whole was written last.
    pub(crate) fn entry(&self) -> Option<&Place> {
        self.layers.last().map(|layer| &layer.place)
    }

    /// Where `key` was set last, else where the task is.
    pub(crate) fn place(&self, key: &str) -> Option<Place> {
        let set = self.layers.iter().rev().find_map(|l| l.locate(key));
        set.or_else(|| self.entry().cloned())
    }

    /// The task of a role of that policy, with every fault of it reported.
    pub(super) fn finished(
        &self,
        role: &RolePolicy,
        first_token: FirstToken,
        findings: &mut Findings,
    ) -> TaskPolicy {
        let task = TaskPolicy {
            order: self
                .order
                .as_ref()
                .map(|order| order.iter().map(|(id, _)| id.clone()).collect()),
            thresholds: self.thresholds(role, first_token),
            min_capability_score: self.min_capability_score,
            complexity: self.complexity,
        };
        let derived = [self.first_token_p95, self.first_token_p99]
            .into_iter()
            .chain([first_token.p95, first_token.p99])
            .all(|stated| stated.is_none());
        for fault in task.faults() {
            if derived && fault.key.starts_with("first_token_p9") {
                continue; // said of the thresholds they are derived from
            }
            let keys: Vec<&str> = [fault.key].into_iter().chain(fault.against).collect();
            self.report(&keys, fault.message, findings);
        }
        task
    }

    fn report(&self, keys: &[&str], message: String, findings: &mut Findings) {
        let layers: Vec<&Scope<'_>> = self.layers.iter().collect();
        match locate_any(&layers, keys) {
            Some((place, key)) if key == keys[0] => findings.error(&place, message, None),
            found => {
                let place = found.map(|(place, _)| place);
                if let Some(place) = place.as_ref().or_else(|| self.entry()) {
                    findings.error(place, format!("{} {message}", keys[0]), None);
                }
            }
        }
    }

    /// The task's limits, where it states any. First tokens are judged by what
    /// the task says of them, else what the role does, else by the task's thresholds.
    fn thresholds(&self, role: &RolePolicy, first_token: FirstToken) -> Option<Thresholds> {
        self.p95
            .or(self.p99)
            .or(self.first_token_p95)
            .or(self.first_token_p99)?;
        let p95 = self.p95.unwrap_or(role.p95);
        let p99 = self.p99.unwrap_or(role.p99);
        let own =
            |task: Option<Duration>, role: Option<Duration>, limit| task.or(role).unwrap_or(limit);
        Some(Thresholds {
            p95,
            p99,
            first_token_p95: own(self.first_token_p95, first_token.p95, p95),
            first_token_p99: own(self.first_token_p99, first_token.p99, p99),
        })
    }
}
