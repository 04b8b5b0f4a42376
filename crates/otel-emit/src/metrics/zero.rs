//! The series that exist before anything has happened: `increase()` does not see the
//! first value of a series, so one that begins with 1 hides the first of each kind.

use super::Metrics;
use super::catalogue::{Catalogue, ModelEntry, RoleEntry, RosterEntry, RungEntry};
use super::counts::Signal;
use super::labels::{self, Labels, label};
use super::record::request;
use super::shadow::ShadowVerdict;
use evenkeel_core::{DegradationLevel, ModelId, Route, SpentOn, WorkflowOutcome};
use opentelemetry::{KeyValue, StringValue};

/// The commonest reasons of substitutions.
const MOVED: [&str; 3] = ["latency_p95_breach", "latency_p99_breach", "latency_spike"];
/// The commonest reasons of fallbacks.
const FELL_BACK: [&str; 3] = ["overloaded", "timeout", "rate_limited"];
/// How hedges end.
const HEDGED: [&str; 3] = ["won", "lost", "refused"];
/// Which detectors find breaches.
const DETECTORS: [&str; 3] = ["p95", "p99", "spike"];
/// How degraded a workflow can be.
const LEVELS: [DegradationLevel; 3] = [
    DegradationLevel::Minor,
    DegradationLevel::Major,
    DegradationLevel::Failed,
];
/// How a breaker goes from state to state by itself.
const TRANSITIONS: [(&str, &str); 4] = [
    ("closed", "open"),
    ("open", "half_open"),
    ("half_open", "closed"),
    ("half_open", "open"),
];

impl Metrics {
    /// Makes the series of `catalogue`; what has been counted stays.
    pub(super) fn begin(&self, catalogue: &Catalogue, labels: &Labels) {
        for signal in Signal::ALL {
            self.losses().lost(signal, 0);
        }
        for provider in &catalogue.providers {
            self.begin_breaker(&labels.provider(provider), &"".into());
        }
        for model in &catalogue.models {
            let named = labels.model(&model.id);
            self.begin_breaker(&named.provider, &named.name);
        }
        for role in &catalogue.roles {
            self.begin_role(role, catalogue, labels);
        }
        for workflow in &catalogue.workflows {
            self.begin_workflow(&labels.workflow(workflow));
        }
    }

    fn begin_breaker(&self, provider: &StringValue, model: &StringValue) {
        for (from, to) in TRANSITIONS {
            let labels = [
                label(labels::PROVIDER, provider.clone()),
                label(labels::MODEL, model.clone()),
                label(labels::FROM, from),
                label(labels::TO, to),
            ];
            self.instruments.breaker_transitions.add(0, &labels);
        }
    }

    fn begin_role(&self, role: &RoleEntry, catalogue: &Catalogue, labels: &Labels) {
        let name = labels.role(&role.name);
        let begin = |model: &ModelId, route, outcome| {
            let labels = request(&name, labels.model(model), route, outcome);
            self.instruments.requests.add(0, &labels);
        };
        if let Some(primary) = role.primary() {
            begin(primary, Route::Primary, "ok");
        }
        for rung in role.rungs() {
            // A call that nobody answers counts on whoever was tried last.
            begin(&rung.model, Route::None, "error");
        }
        for roster in &role.rosters {
            self.begin_roster(&name, roster, labels);
            for task in role.tasks_of(roster) {
                self.begin_fallbacks(&name, task, roster, labels);
            }
        }
        for rung in role.rungs() {
            self.begin_rung(&name, rung, catalogue, labels);
        }
        if let Some(candidate) = &role.shadow {
            for verdict in ShadowVerdict::ALL {
                let labels = [
                    label(labels::ROLE, name.clone()),
                    label(labels::MODEL, labels.id(candidate)),
                    label(labels::VERDICT, verdict.as_str()),
                ];
                self.instruments.shadow.add(0, &labels);
            }
        }
    }

    fn begin_roster(&self, role: &StringValue, roster: &RosterEntry, known: &Labels) {
        let made = &self.instruments;
        for (primary, fallback) in roster.pairs() {
            for route in [Route::Substitute, Route::Hedge, Route::Fallback] {
                let model = known.model(&fallback.model);
                made.requests.add(0, &request(role, model, route, "ok"));
            }
            let pair = |more: Option<KeyValue>| {
                let pair = [
                    label(labels::ROLE, role.clone()),
                    label(labels::PRIMARY, known.id(primary)),
                    label(labels::FALLBACK, known.id(&fallback.model)),
                ];
                pair.into_iter().chain(more).collect::<Vec<_>>()
            };
            for reason in MOVED {
                let labels = pair(Some(label(labels::REASON, reason)));
                made.substitutions.add(0, &labels);
            }
            for result in HEDGED {
                let labels = pair(Some(label(labels::RESULT, result)));
                made.hedges.add(0, &labels);
            }
            made.restorations.add(0, &pair(None));
            let labels = [
                label(labels::ROLE, role.clone()),
                label(labels::FALLBACK, known.id(&fallback.model)),
            ];
            made.quality_rejections.add(0, &labels);
        }
    }

    fn begin_fallbacks(
        &self,
        role: &StringValue,
        task: Option<&str>,
        roster: &RosterEntry,
        known: &Labels,
    ) {
        for (primary, fallback) in roster.pairs() {
            for reason in FELL_BACK {
                let labels = [
                    label(labels::ROLE, role.clone()),
                    label(labels::TASK_TYPE, known.task_type(task)),
                    label(labels::PRIMARY, known.id(primary)),
                    label(labels::FALLBACK, known.id(&fallback.model)),
                    label(labels::REASON, reason),
                ];
                self.instruments.fallbacks.add(0, &labels);
            }
        }
    }

    fn begin_rung(
        &self,
        role: &StringValue,
        rung: &RungEntry,
        catalogue: &Catalogue,
        labels: &Labels,
    ) {
        let made = &self.instruments;
        let model = labels.model(&rung.model);
        let of_model = |more: [KeyValue; 1]| {
            let [more] = more;
            [
                label(labels::ROLE, role.clone()),
                label(labels::MODEL, model.name.clone()),
                label(labels::PROVIDER, model.provider.clone()),
                more,
            ]
        };
        for detector in DETECTORS {
            let labels = [
                label(labels::ROLE, role.clone()),
                label(labels::MODEL, model.id.clone()),
                label(labels::DETECTOR, detector),
            ];
            made.latency_breaches.add(0, &labels);
        }
        for resumed in ["true", "false"] {
            let labels = of_model([label(labels::RESUMED, resumed)]);
            made.stream_interruptions.add(0, &labels);
        }
        let is_priced = |known: &&ModelEntry| known.id == rung.model;
        if catalogue
            .models
            .iter()
            .find(is_priced)
            .is_some_and(|m| m.is_priced)
        {
            let labels = of_model([label(labels::KIND, SpentOn::Answer.as_str())]);
            made.cost_usd.add(0.0, &labels);
        }
    }

    fn begin_workflow(&self, workflow: &StringValue) {
        for outcome in WorkflowOutcome::ALL {
            let labels = [
                label(labels::WORKFLOW, workflow.clone()),
                label(labels::OUTCOME, outcome.as_str()),
            ];
            self.instruments.workflows.add(0, &labels);
        }
        for level in LEVELS {
            let labels = [
                label(labels::WORKFLOW, workflow.clone()),
                label(labels::LEVEL, level.as_str()),
            ];
            self.instruments.degraded_workflows.add(0, &labels);
        }
    }
}
