//! How each model fares over time.

use super::{fault, latency};
use evenkeel_chaos::{Behaviour, Quota};
use evenkeel_core::ModelId;
use evenkeel_document::{Place, Scope, TableReader, assign, nearest};
use evenkeel_roster::Config;
use std::sync::Arc;
use std::time::Duration;

/// How one model fares.
#[derive(Debug, Clone)]
pub struct ModelPlan {
    /// The model.
    pub model: ModelId,
    /// From the first moment, and whenever nothing else is said.
    pub usual: Behaviour,
    /// What comes later, in the order of time.
    pub changes: Vec<Change>,
}

/// From a moment on a model behaves so.
#[derive(Debug, Clone)]
pub struct Change {
    /// Since the beginning.
    pub at: Duration,
    /// How.
    pub behaviour: Behaviour,
}

/// Reads `upstream`: a table for each model.
pub(super) fn read(table: &mut TableReader<'_, '_>) -> Vec<ModelPlan> {
    let mut plans = Vec::new();
    for (name, scope) in table.named_tables("upstream") {
        match ModelId::new(name) {
            Ok(model) => plans.push(read_model(model, scope, table)),
            Err(error) => table.findings.error(&scope.place, error.to_string(), None),
        }
    }
    plans
}

fn read_model(model: ModelId, scope: Scope<'_>, outer: &mut TableReader<'_, '_>) -> ModelPlan {
    let mut table = TableReader::new(scope, outer.findings);
    let usual = read_behaviour(&mut table, &Behaviour::default());
    let mut changes = Vec::new();
    let mut free = Some(Duration::ZERO);
    for scope in table.listed_tables("then").unwrap_or_default() {
        let place = scope.place.clone();
        let mut own = TableReader::new(scope, table.findings);
        let from = own.ms("from_ms").unwrap_or_default();
        let lasts = own.ms("for_ms");
        let behaviour = read_behaviour(&mut own, &usual);
        own.finish();
        if free.is_none_or(|free| from < free) {
            complain_of_order(&mut table, &place, free);
        }
        changes.push(Change {
            at: from,
            behaviour,
        });
        free = lasts.map(|lasts| from + lasts);
        if let Some(at) = free {
            changes.push(Change {
                at,
                behaviour: usual.clone(),
            });
        }
    }
    table.finish();
    ModelPlan {
        model,
        usual,
        changes,
    }
}

fn complain_of_order(table: &mut TableReader<'_, '_>, at: &Place, free: Option<Duration>) {
    let message = match free {
        Some(free) => format!(
            "begins before the change above it is over, at {} ms",
            free.as_millis()
        ),
        None => "comes after a change that has no for_ms and so lasts for good".to_owned(),
    };
    table.findings.error(at, message, None);
}

/// The behaviour that `table` describes on top of `base`.
fn read_behaviour(table: &mut TableReader<'_, '_>, base: &Behaviour) -> Behaviour {
    let mut behaviour = base.clone();
    assign(&mut behaviour.first_token, latency::read(table));
    assign(
        &mut behaviour.per_input_token,
        table.ms("per_input_token_ms"),
    );
    assign(&mut behaviour.tokens, table.count("tokens"));
    assign(&mut behaviour.inter_token, table.ms("inter_token_ms"));
    assign(&mut behaviour.late_open, table.flag("late_open"));
    assign(
        &mut behaviour.reasoning_tokens,
        table.count("reasoning_tokens"),
    );
    assign(&mut behaviour.cached_tokens, table.count("cached_tokens"));
    assign(&mut behaviour.calls, table.count("calls"));
    assign(&mut behaviour.continues, table.flag("continues"));
    if let Some(text) = table.text("text") {
        behaviour.text = Some(Arc::from(text));
    }
    if let Some(quota) = table.within("quota", read_quota) {
        behaviour.quota = quota;
    }
    fault::read(table, &mut behaviour);
    behaviour
}

/// Reads `quota = { requests, per_ms }`.
fn read_quota(table: &mut TableReader<'_, '_>) -> Option<Quota> {
    let requests = table.large_count("requests");
    let per = table.ms("per_ms");
    if requests.is_none() || per.is_none_or(|per| per.is_zero()) {
        let at = table.scope().place.clone();
        let message = "needs both requests and a per_ms above 0".to_owned();
        table.findings.error(&at, message, None);
    }
    Some(Quota {
        requests: requests?,
        per: per?,
    })
}

/// Every model of a roster has a plan, and every plan a model.
pub(super) fn check_models(plans: &[ModelPlan], config: &Config, table: &mut TableReader<'_, '_>) {
    let at = table.place("upstream");
    for plan in plans {
        if !config.models.contains_key(&plan.model) {
            let known = config.models.keys().map(ModelId::as_str);
            let how = nearest(plan.model.as_str(), known).map(|m| format!("did you mean `{m}`?"));
            let message = format!("`{}` is in no roster", plan.model);
            table.findings.error(&at, message, how);
        }
    }
    for model in config.models.keys() {
        if !plans.iter().any(|plan| plan.model == *model) {
            let message = format!("nothing says how `{model}` fares");
            let how = format!("write [upstream.\"{model}\"]");
            table.findings.error(&at, message, Some(how));
        }
    }
}
