//! Gauges: read from the catalogue and the last snapshot whenever metrics are collected.

use super::catalogue::{Catalogue, Measure, Percentile, Quality};
use super::labels::{self, Labels, label};
use super::snapshot::{PercentilesNow, RoleNow, RungNow, Snapshot};
use crate::audit::RecordKind;
use arc_swap::ArcSwap;
use evenkeel_core::{ModelId, TicketState};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The states of a breaker: exactly one of them is 1.
pub const BREAKER_STATES: [&str; 5] = ["closed", "open", "half_open", "forced_open", "disabled"];

/// What gauges are read from; each part is replaced whole.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) catalogue: ArcSwap<Catalogue>,
    pub(super) labels: ArcSwap<Labels>,
    pub(super) snapshot: ArcSwap<Snapshot>,
}

/// One gauge's view of it.
struct View<'a> {
    catalogue: &'a Catalogue,
    labels: &'a Labels,
    snapshot: &'a Snapshot,
}

/// Values by their labels, brought together where several share them: what is over a
/// limit of labels, and tasks that stand apart from their role.
#[derive(Default)]
struct Values(HashMap<Vec<KeyValue>, f64>);

impl Values {
    fn set(&mut self, labels: Vec<KeyValue>, value: f64) {
        self.0.insert(labels, value);
    }

    fn add(&mut self, labels: Vec<KeyValue>, value: f64) {
        *self.0.entry(labels).or_default() += value;
    }

    fn most(&mut self, labels: Vec<KeyValue>, value: f64) {
        let shown = self.0.entry(labels).or_insert(value);
        *shown = shown.max(value);
    }
}

/// Makes the gauges of `shown`; they live as long as the meter.
pub(super) fn register(meter: &Meter, shown: &Arc<Shown>, build: Vec<KeyValue>) {
    let gauge = |name, unit, what, read| gauge(meter, shown, name, unit, what, read);
    gauge(
        "evenkeel.substitution.active",
        "",
        "1 while the role runs without its primary.",
        substitutions,
    );
    gauge(
        "evenkeel.latency.p50",
        "s",
        "Rolling p50 latency, as the role's windows see it.",
        |view, values| latencies(view, values, |window| window.p50),
    );
    gauge(
        "evenkeel.latency.p95",
        "s",
        "Rolling p95 latency, as the role's windows see it.",
        |view, values| latencies(view, values, |window| window.p95),
    );
    gauge(
        "evenkeel.latency.p99",
        "s",
        "Rolling p99 latency, as the role's windows see it.",
        |view, values| latencies(view, values, |window| window.p99),
    );
    gauge(
        "evenkeel.latency.slo",
        "s",
        "The role's limit on a percentile of its latency.",
        limits,
    );
    gauge(
        "evenkeel.quality.ratio",
        "",
        "Fallback score divided by primary score.",
        |view, values| qualities(view, values, |quality| quality.ratio),
    );
    gauge(
        "evenkeel.quality.delta",
        "",
        "Fallback score minus primary score.",
        |view, values| qualities(view, values, |quality| quality.delta),
    );
    gauge(
        "evenkeel.breaker.state",
        "",
        "1 for the state the breaker is in.",
        breakers,
    );
    gauge(
        "evenkeel.cooldown.active",
        "",
        "1 while calls skip the model for a rate limit, quota, credential or missing model.",
        cooldowns,
    );
    gauge("evenkeel.tickets", "", "Tickets in the store.", tickets);
    gauge(
        "evenkeel.model.eol.timestamp",
        "s",
        "End of the model's last day of service, Unix time.",
        ends_of_life,
    );
    gauge(
        "evenkeel.inflight.requests",
        "",
        "Logical requests under way.",
        in_flight,
    );
    audited(meter, shown);
    let observe = move |gauge: &dyn AsyncInstrument<f64>| gauge.observe(1.0, &build);
    meter
        .f64_observable_gauge("evenkeel.build.info")
        .with_description("Build of the running program.")
        .with_callback(observe)
        .build();
}

/// What the audit log has counted, in its own numbers.
fn audited(meter: &Meter, shown: &Arc<Shown>) {
    let read = shown.clone();
    let records = move |counter: &dyn AsyncInstrument<u64>| {
        let snapshot = read.snapshot.load();
        let written = snapshot.audit.iter().flat_map(|log| &log.written_by_kind);
        let written: HashMap<RecordKind, u64> = written.copied().collect();
        for kind in RecordKind::ALL {
            let count = written.get(&kind).copied().unwrap_or_default();
            counter.observe(count, &[label(labels::KIND, kind.as_str())]);
        }
    };
    meter
        .u64_observable_counter("evenkeel.audit.records")
        .with_description("Audit records written.")
        .with_callback(records)
        .build();
    let read = shown.clone();
    let failures = move |counter: &dyn AsyncInstrument<u64>| {
        let snapshot = read.snapshot.load();
        let failed = snapshot.audit.as_ref().map_or(0, |log| log.write_failures);
        counter.observe(failed, &[]);
    };
    meter
        .u64_observable_counter("evenkeel.audit.write.failures")
        .with_description("Attempts to write audit records that failed, and records lost.")
        .with_callback(failures)
        .build();
}

fn gauge(
    meter: &Meter,
    shown: &Arc<Shown>,
    name: &'static str,
    unit: &'static str,
    what: &'static str,
    read: fn(&View<'_>, &mut Values),
) {
    let shown = shown.clone();
    let observe = move |gauge: &dyn AsyncInstrument<f64>| {
        let (catalogue, labels) = (shown.catalogue.load(), shown.labels.load());
        let snapshot = shown.snapshot.load();
        let mut values = Values::default();
        let view = View {
            catalogue: &catalogue,
            labels: &labels,
            snapshot: &snapshot,
        };
        read(&view, &mut values);
        for (labels, value) in &values.0 {
            gauge.observe(*value, labels);
        }
    };
    let gauge = meter.f64_observable_gauge(name).with_description(what);
    gauge.with_unit(unit).with_callback(observe).build();
}

const fn one_if(yes: bool) -> f64 {
    if yes { 1.0 } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^52")]
const fn count(count: u64) -> f64 {
    count as f64
}

fn substitutions(view: &View<'_>, values: &mut Values) {
    for role in &view.snapshot.roles {
        for (index, rung) in role.rungs.iter().enumerate().skip(1) {
            let labels = vec![
                label(labels::ROLE, view.labels.role(&role.role)),
                label(labels::PRIMARY, primary(view, role)),
                label(labels::FALLBACK, view.labels.id(&rung.model)),
            ];
            values.most(labels, one_if(role.active == index));
        }
    }
}

fn primary(view: &View<'_>, role: &RoleNow) -> opentelemetry::StringValue {
    view.labels.primary(&role.role, role.task.as_deref())
}

fn latencies(view: &View<'_>, values: &mut Values, read: fn(&PercentilesNow) -> Option<Duration>) {
    // Those of a task that stands apart would share the role's labels and not its limits.
    for role in view
        .snapshot
        .roles
        .iter()
        .filter(|role| role.task.is_none())
    {
        for rung in &role.rungs {
            for (measure, window) in windows(rung) {
                let Some(latency) = read(window) else {
                    continue;
                };
                let model = view.labels.model(&rung.model);
                let labels = vec![
                    label(labels::ROLE, view.labels.role(&role.role)),
                    label(labels::PROVIDER, model.provider),
                    label(labels::MODEL, model.name),
                    label(labels::MEASURE, measure.as_str()),
                ];
                values.most(labels, latency.as_secs_f64());
            }
        }
    }
}

fn windows(rung: &RungNow) -> [(Measure, &PercentilesNow); 2] {
    [
        (Measure::Total, &rung.total),
        (Measure::FirstToken, &rung.first_token),
    ]
}

fn limits(view: &View<'_>, values: &mut Values) {
    for role in &view.catalogue.roles {
        for limit in &role.limits {
            let labels = vec![
                label(labels::ROLE, view.labels.role(&role.name)),
                label(labels::PERCENTILE, Percentile::as_str(limit.percentile)),
                label(labels::MEASURE, limit.measure.as_str()),
            ];
            values.set(labels, limit.limit.as_secs_f64());
        }
    }
}

fn qualities(view: &View<'_>, values: &mut Values, read: fn(&Quality) -> f64) {
    let mut set = |role: &str, primary: &ModelId, fallback: &ModelId, source, quality| {
        let labels = vec![
            label(labels::ROLE, view.labels.role(role)),
            label(labels::PRIMARY, view.labels.id(primary)),
            label(labels::FALLBACK, view.labels.id(fallback)),
            label(labels::SOURCE, source),
        ];
        values.set(labels, read(quality));
    };
    for role in &view.catalogue.roles {
        // The scores of a roster hold for its tasks too.
        let own = role.rosters.iter().filter(|roster| roster.task.is_none());
        for (primary, fallback) in own.flat_map(super::catalogue::RosterEntry::pairs) {
            if let Some(quality) = &fallback.quality {
                set(&role.name, primary, &fallback.model, "qualify", quality);
            }
        }
    }
    for now in &view.snapshot.qualities {
        set(
            &now.role,
            &now.primary,
            &now.fallback,
            "online",
            &now.quality,
        );
    }
}

fn breakers(view: &View<'_>, values: &mut Values) {
    let mut set = |provider: opentelemetry::StringValue, model: opentelemetry::StringValue, now| {
        for state in BREAKER_STATES {
            let labels = vec![
                label(labels::PROVIDER, provider.clone()),
                label(labels::MODEL, model.clone()),
                label(labels::STATE, state),
            ];
            values.set(labels, one_if(state == now));
        }
    };
    for model in &view.snapshot.models {
        let labels = view.labels.model(&model.model);
        set(labels.provider, labels.name, model.breaker);
    }
    for provider in &view.snapshot.providers {
        let name = view.labels.provider(&provider.provider);
        set(name, "".into(), provider.breaker);
    }
}

fn cooldowns(view: &View<'_>, values: &mut Values) {
    for model in &view.snapshot.models {
        let named = view.labels.model(&model.model);
        for (kind, is_active) in [("cooldown", model.cools_down), ("hold", model.is_held)] {
            let labels = vec![
                label(labels::PROVIDER, named.provider.clone()),
                label(labels::MODEL, named.name.clone()),
                label(labels::KIND, kind),
            ];
            values.most(labels, one_if(is_active));
        }
    }
}

fn tickets(view: &View<'_>, values: &mut Values) {
    let Some(tickets) = &view.snapshot.tickets else {
        return;
    };
    let mut add = |role: &str, state: TicketState, tickets| {
        let labels = vec![
            label(labels::ROLE, view.labels.role(role)),
            label(labels::STATE, state.as_str()),
        ];
        values.add(labels, count(tickets));
    };
    for role in view.catalogue.roles.iter().filter(|r| r.keeps_tickets) {
        for state in TicketState::ALL {
            add(&role.name, state, 0);
        }
    }
    for now in tickets {
        add(&now.role, now.state, now.count);
    }
}

fn ends_of_life(view: &View<'_>, values: &mut Values) {
    for model in &view.catalogue.models {
        let Some(eol) = model.eol else {
            continue;
        };
        let named = view.labels.model(&model.id);
        let labels = vec![
            label(labels::PROVIDER, named.provider),
            label(labels::MODEL, named.name),
        ];
        #[expect(
            clippy::cast_precision_loss,
            reason = "seconds of a calendar stay below 2^52"
        )]
        values.set(labels, eol as f64);
    }
}

fn in_flight(view: &View<'_>, values: &mut Values) {
    for role in &view.snapshot.roles {
        let labels = vec![label(labels::ROLE, view.labels.role(&role.role))];
        values.add(labels, count(role.in_flight));
    }
}
