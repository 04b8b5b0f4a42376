//! From events to values.

use super::Metrics;
use super::labels::{self, Labels, ModelLabels, label};
use crate::semconv;
use evenkeel_core::{
    AttemptKind, Class, Cost, DegradationLevel, Event, EventKind, ModelId, Observer, ProbeVerdict,
    Reported, Route, Server, ShadowPair, SpentOn, Trail, Usage, WorkflowOutcome,
};
use opentelemetry::metrics::Counter;
use opentelemetry::{KeyValue, StringValue};
use std::time::Duration;

impl Observer for Metrics {
    fn on(&self, event: &Event) {
        let labels = self.shown.labels.load();
        let made = &self.instruments;
        match &*event.kind.told() {
            EventKind::AttemptStarted {
                role,
                model,
                kind: AttemptKind::Retry,
                after: Some(class),
                ..
            } => {
                let model = labels.model(model);
                let reason = label(labels::REASON, class.as_str());
                let labels = of_model(labels.role(role), model, reason);
                made.retries.add(1, &labels);
            }
            EventKind::AttemptEnded { .. } => self.attempt_ended(&labels, &event.kind),
            EventKind::CallEnded { .. } => self.call_ended(&labels, &event.kind),
            EventKind::HedgeEnded {
                role,
                task,
                to_model,
                result,
                ..
            } => {
                let [role, primary, fallback] = pair(&labels, role, task.as_deref(), to_model);
                let result = label(labels::RESULT, result.as_str());
                made.hedges.add(1, &[role, primary, fallback, result]);
            }
            EventKind::ModelFallback { .. } => self.fell_back(&labels, &event.kind),
            EventKind::ModelSubstitution {
                role,
                task,
                to_model,
                reason,
                ..
            } => {
                let [role, primary, fallback] = pair(&labels, role, task.as_deref(), to_model);
                let reason = label(labels::REASON, reason.as_str());
                made.substitutions
                    .add(1, &[role, primary, fallback, reason]);
            }
            EventKind::ModelRestoration { .. } => self.restored(&labels, &event.kind),
            EventKind::LatencyBreach {
                role,
                model,
                detector,
                ..
            } => made.latency_breaches.add(
                1,
                &[
                    label(labels::ROLE, labels.role(role)),
                    label(labels::MODEL, labels.id(model)),
                    label(labels::DETECTOR, *detector),
                ],
            ),
            EventKind::QualityRejected {
                role, rung, model, ..
            } if *rung > 0 => made.quality_rejections.add(
                1,
                &[
                    label(labels::ROLE, labels.role(role)),
                    label(labels::FALLBACK, labels.id(model)),
                ],
            ),
            EventKind::Probed {
                model,
                cost,
                booked_on,
                verdicts,
                ..
            } => {
                self.probed(&labels, model, verdicts);
                self.spent(labels.role(booked_on), labels.model(model), *cost);
            }
            EventKind::StreamInterrupted {
                role,
                from_model,
                resumed,
                ..
            } => {
                let model = labels.model(from_model);
                let word = if resumed.is_some() { "true" } else { "false" };
                let resumed = label(labels::RESUMED, word);
                let labels = of_model(labels.role(role), model, resumed);
                made.stream_interruptions.add(1, &labels);
            }
            EventKind::BreakerTransition { .. } => self.breaker_changed(&labels, &event.kind),
            EventKind::Shadowed(pair) => self.shadowed(&labels, pair),
            EventKind::WorkflowEnded {
                workflow,
                outcome,
                level,
            } => self.workflow_ended(labels.workflow(workflow), *outcome, *level),
            // Told in the log, in spans and in the audit log, or part of what is counted
            // above when it ends.
            _ => {}
        }
    }
}

/// A role, its primary or that of its task, and a fallback.
fn pair(labels: &Labels, role: &str, task: Option<&str>, fallback: &ModelId) -> [KeyValue; 3] {
    [
        label(labels::ROLE, labels.role(role)),
        label(labels::PRIMARY, labels.primary(role, task)),
        label(labels::FALLBACK, labels.id(fallback)),
    ]
}

/// A role, a model with its provider, and one label more.
fn of_model(role: StringValue, model: ModelLabels, more: KeyValue) -> [KeyValue; 4] {
    [
        label(labels::ROLE, role),
        label(labels::MODEL, model.name),
        label(labels::PROVIDER, model.provider),
        more,
    ]
}

/// The labels of `evenkeel_requests_total`.
pub(super) fn request(
    role: &StringValue,
    model: ModelLabels,
    route: Route,
    outcome: &'static str,
) -> [KeyValue; 5] {
    [
        label(labels::ROLE, role.clone()),
        label(labels::MODEL, model.name),
        label(labels::PROVIDER, model.provider),
        label(labels::ROUTE, route.as_str()),
        label(labels::OUTCOME, outcome),
    ]
}

impl Metrics {
    fn call_ended(&self, labels: &Labels, ended: &EventKind) {
        let EventKind::CallEnded {
            role,
            primary,
            outcome,
            meta,
            route,
            depth,
            duration,
            trail,
            ..
        } = ended
        else {
            return;
        };
        let made = &self.instruments;
        let answered = meta.as_ref().map(|meta| &meta.model_id);
        let model = answered.or_else(|| last_tried(trail)).unwrap_or(primary);
        let role = labels.role(role);
        let request = request(&role, labels.model(model), *route, outcome);
        made.requests.add(1, &request);
        let [role, _, _, route, outcome] = request;
        let waited = [role, route, outcome];
        made.request_duration
            .record(duration.as_secs_f64(), &waited);
        if let Some(meta) = meta {
            let [role, ..] = waited;
            let role = [role];
            made.fallback_depth.record(meta.rung as u64, &role);
            made.degradation_depth.record(u64::from(*depth), &role);
        }
    }

    fn attempt_ended(&self, labels: &Labels, ended: &EventKind) {
        let EventKind::AttemptEnded {
            role,
            model,
            duration,
            first_token,
            streams,
            usage,
            cost,
            outcome,
            class,
            ..
        } = ended
        else {
            return;
        };
        let made = &self.instruments;
        let (role, model) = (labels.role(role), labels.model(model));
        let error_type = class.map_or("", Class::as_str);
        let [of_role, name, provider, outcome_label] = of_model(
            role.clone(),
            model.clone(),
            label(labels::OUTCOME, *outcome),
        );
        let counted = [
            of_role,
            name,
            provider,
            outcome_label,
            label(labels::ERROR_TYPE, error_type),
        ];
        made.attempts.add(1, &counted);
        let [of_role, name, provider, ..] = counted;
        let of_model = [of_role, name, provider];
        let took = if was_left(outcome) {
            &made.abandoned_attempt_duration
        } else {
            &made.attempt_duration
        };
        took.record(duration.as_secs_f64(), &of_model);
        if let Some(first) = first_token.filter(|_| *streams) {
            made.time_to_first_token
                .record(first.as_secs_f64(), &of_model);
        }
        if let Some(usage) = usage {
            let tokens = match *outcome {
                "ok" => &made.tokens,
                _ => &made.wasted_tokens,
            };
            add_tokens(tokens, &role, &model, *usage);
        }
        self.spent(role, model, *cost);
        self.gen_ai(ended);
    }

    /// By the conventions.
    fn gen_ai(&self, ended: &EventKind) {
        let EventKind::AttemptEnded {
            model,
            server,
            streams,
            duration,
            first_token,
            usage,
            usage_estimated,
            outcome,
            class,
            reported,
            ..
        } = ended
        else {
            return;
        };
        let made = &self.instruments.gen_ai;
        let first = first_token.filter(|_| *streams);
        let mut attributes = self.operation(model, server, reported);
        if let Some(first) = first {
            made.time_to_first_chunk
                .record(first.as_secs_f64(), &attributes);
        }
        let left = was_left(outcome);
        if let Some(first) = first.filter(|_| !left)
            && let Some(mean) = mean_chunk(*duration, first, reported.chunks)
        {
            made.time_per_output_chunk.record(mean, &attributes);
        }
        let measured = usage.filter(|_| !usage_estimated);
        if let Some(Usage { input, output, .. }) = measured.map(Usage::believed) {
            for (tokens, kind) in [(input, "input"), (output, "output")] {
                attributes.push(KeyValue::new(semconv::TOKEN_TYPE, kind));
                made.token_usage.record(tokens, &attributes);
                attributes.pop();
            }
        }
        if !left {
            attributes
                .extend(class.map(|class| KeyValue::new(semconv::ERROR_TYPE, class.as_str())));
            made.operation_duration
                .record(duration.as_secs_f64(), &attributes);
        }
    }

    fn operation(&self, id: &ModelId, server: &Server, reported: &Reported) -> Vec<KeyValue> {
        let labels = self.shown.labels.load();
        let known = labels.model(id);
        let mut attributes = Vec::with_capacity(8);
        attributes.push(KeyValue::new(semconv::OPERATION_NAME, semconv::CHAT));
        attributes.push(KeyValue::new(semconv::PROVIDER_NAME, server.system.clone()));
        attributes.push(label(semconv::REQUEST_MODEL, known.name));
        if let Some(model) = &reported.model {
            // Whoever makes up a model may make up what its answers call it.
            let model = if labels.knows(id) {
                self.reported.label(model)
            } else {
                labels::UNKNOWN.into()
            };
            attributes.push(label(semconv::RESPONSE_MODEL, model));
        }
        if let Some(address) = &server.address {
            attributes.push(KeyValue::new(semconv::SERVER_ADDRESS, address.clone()));
            attributes.extend(
                server
                    .port
                    .map(|p| KeyValue::new(semconv::SERVER_PORT, i64::from(p))),
            );
        }
        attributes
    }

    fn spent(&self, role: StringValue, model: ModelLabels, cost: Option<Cost>) {
        let Some(Cost { usd, spent_on, .. }) = cost.filter(|cost| cost.usd.is_finite()) else {
            return;
        };
        let labels = of_model(role, model, label(labels::KIND, SpentOn::as_str(spent_on)));
        self.instruments.cost_usd.add(usd, &labels);
    }

    fn fell_back(&self, labels: &Labels, event: &EventKind) {
        let EventKind::ModelFallback {
            role,
            task,
            primary,
            fallback,
            reason,
            latency_added,
            ..
        } = event
        else {
            return;
        };
        let made = &self.instruments;
        let counted = [
            label(labels::ROLE, labels.role(role)),
            label(labels::TASK_TYPE, labels.task_type(task.as_deref())),
            label(labels::PRIMARY, labels.id(primary)),
            label(labels::FALLBACK, labels.id(fallback)),
            label(labels::REASON, *reason),
        ];
        made.fallbacks.add(1, &counted);
        let [role, ..] = counted;
        made.fallback_added_latency
            .record(latency_added.as_secs_f64(), &[role]);
    }

    fn restored(&self, labels: &Labels, event: &EventKind) {
        let EventKind::ModelRestoration {
            role,
            task,
            from_model,
            duration,
            ..
        } = event
        else {
            return;
        };
        let made = &self.instruments;
        let [role, primary, fallback] = pair(labels, role, task.as_deref(), from_model);
        made.restorations
            .add(1, &[role.clone(), primary.clone(), fallback]);
        made.time_to_restoration
            .record(duration.as_secs_f64(), &[role, primary]);
    }

    fn breaker_changed(&self, labels: &Labels, event: &EventKind) {
        let EventKind::BreakerTransition {
            provider,
            model,
            from,
            to,
            ..
        } = event
        else {
            return;
        };
        let model = model.as_ref();
        let name = model.map_or("".into(), |model| labels.model(model).name);
        let changed = [
            label(labels::PROVIDER, labels.provider(provider)),
            label(labels::MODEL, name),
            label(labels::FROM, *from),
            label(labels::TO, *to),
        ];
        self.instruments.breaker_transitions.add(1, &changed);
    }

    fn workflow_ended(
        &self,
        workflow: StringValue,
        outcome: Option<WorkflowOutcome>,
        level: Option<DegradationLevel>,
    ) {
        let made = &self.instruments;
        let workflow = label(labels::WORKFLOW, workflow);
        if let Some(outcome) = outcome {
            let outcome = label(labels::OUTCOME, outcome.as_str());
            made.workflows.add(1, &[workflow.clone(), outcome]);
        }
        if let Some(level) = level {
            let level = label(labels::LEVEL, level.as_str());
            made.degraded_workflows.add(1, &[workflow, level]);
        }
    }

    /// Counts a probe once for each role, also where tasks of it judge for themselves.
    fn probed(&self, labels: &Labels, model: &ModelId, verdicts: &[ProbeVerdict]) {
        for (index, verdict) in verdicts.iter().enumerate() {
            if verdicts[..index].iter().any(|v| v.role == verdict.role) {
                continue;
            }
            let counted = [
                label(labels::ROLE, labels.role(&verdict.role)),
                label(labels::MODEL, labels.id(model)),
                label(labels::RESULT, verdict.result),
            ];
            self.instruments.probes.add(1, &counted);
        }
    }

    fn shadowed(&self, labels: &Labels, pair: &ShadowPair) {
        let role = labels.role(&pair.role);
        let model = labels.model(&pair.shadow.model);
        let verdict = self.shadows.score(pair);
        let counted = [
            label(labels::ROLE, role.clone()),
            label(labels::MODEL, model.id.clone()),
            label(labels::VERDICT, verdict.as_str()),
        ];
        self.instruments.shadow.add(1, &counted);
        self.spent(role, model, pair.shadow.cost);
    }
}

/// Whether an attempt did not end by itself.
fn was_left(outcome: &str) -> bool {
    matches!(outcome, "abandoned" | "cancelled")
}

fn last_tried(trail: &Trail) -> Option<&ModelId> {
    trail.attempts().last().map(|attempt| &attempt.model)
}

fn add_tokens(counter: &Counter<u64>, role: &StringValue, model: &ModelLabels, usage: Usage) {
    let usage = usage.believed();
    for (tokens, kind) in [(usage.input, "input"), (usage.output, "output")] {
        let kind = label(labels::TYPE, kind);
        counter.add(tokens, &of_model(role.clone(), model.clone(), kind));
    }
}

/// Mean time of the chunks after the first, seconds; none without such.
fn mean_chunk(took: Duration, first: Duration, chunks: u64) -> Option<f64> {
    let after = u32::try_from(chunks.checked_sub(1)?).ok()?;
    (after > 0).then(|| took.saturating_sub(first).as_secs_f64() / f64::from(after))
}
