//! What a configuration knows before anything happens.

use evenkeel_core::ModelId;
use evenkeel_otel_emit::metrics::{
    Catalogue, LimitEntry, Measure, ModelEntry, Percentile, Quality, RoleEntry, RosterEntry,
    RungEntry,
};
use evenkeel_roster::{
    Config, ModelConfig, OnExhausted, RoleConfig, RolePolicy, RungConfig, Signal,
};
use jiff::civil::Date;
use jiff::tz::Offset;
use std::sync::Arc;

pub(super) fn catalogue(config: &Config) -> Catalogue {
    let mut providers: Vec<Arc<str>> = Vec::new();
    for model in config.models.values() {
        let name = model.id.provider();
        if providers.iter().all(|known| **known != *name) {
            providers.push(name.into());
        }
    }
    Catalogue {
        roles: config.roles.values().map(role_entry).collect(),
        models: config.models.values().map(model_entry).collect(),
        providers,
        workflows: config
            .server
            .workflows
            .iter()
            .map(|name| name.as_str().into())
            .collect(),
    }
}

fn role_entry(role: &RoleConfig) -> RoleEntry {
    let policy = &role.policy;
    let own = RosterEntry {
        task: None,
        rungs: role.rungs.iter().map(rung_entry).collect(),
    };
    let of_tasks = policy.tasks.iter().filter_map(|(task, asks)| {
        let order = asks.order.as_ref()?;
        let find = |model: &ModelId| role.rungs.iter().find(|rung| rung.model == *model);
        Some(RosterEntry {
            task: Some(task.as_str().into()),
            rungs: order.iter().filter_map(find).map(rung_entry).collect(),
        })
    });
    RoleEntry {
        name: role.name.as_str().into(),
        task_types: policy
            .tasks
            .keys()
            .map(|task| task.as_str().into())
            .collect(),
        rosters: std::iter::once(own).chain(of_tasks).collect(),
        limits: limits(policy),
        keeps_tickets: policy.on_exhausted != OnExhausted::Error,
        shadow: policy.shadow.model.clone(),
    }
}

/// Rosters give scores in any unit, so the difference is told in shares of the primary's.
fn rung_entry(rung: &RungConfig) -> RungEntry {
    let quality = |ratio: f64| Quality {
        ratio,
        delta: (ratio - 1.0).clamp(-1.0, 1.0),
    };
    RungEntry {
        model: rung.model.clone(),
        quality: rung.quality_score.map(quality),
    }
}

/// The limits that the role is judged by.
fn limits(policy: &RolePolicy) -> Vec<LimitEntry> {
    let both = |measure, p95, p99| {
        let limit = |percentile, limit| LimitEntry {
            percentile,
            measure,
            limit,
        };
        [limit(Percentile::P95, p95), limit(Percentile::P99, p99)]
    };
    let total = both(Measure::Total, policy.p95, policy.p99);
    let first = both(
        Measure::FirstToken,
        policy.first_token_p95,
        policy.first_token_p99,
    );
    match policy.signal {
        Signal::Auto => [total, first].concat(),
        Signal::Total => total.to_vec(),
        Signal::FirstToken => first.to_vec(),
    }
}

fn model_entry(model: &ModelConfig) -> ModelEntry {
    let end = |day: Date| {
        let next = day.tomorrow().unwrap_or(day);
        let midnight = Offset::UTC.to_timestamp(next.at(0, 0, 0, 0)).ok()?;
        Some(midnight.as_second())
    };
    ModelEntry {
        id: model.id.clone(),
        eol: model.eol_date.and_then(end),
        is_priced: model.input_usd_per_mtok.is_some() && model.output_usd_per_mtok.is_some(),
    }
}
