//! Models that an operator takes away for a while.

use evenkeel_core::{DrillKind, ModelId};
use evenkeel_document::{Scope, TableReader, nearest};
use evenkeel_roster::Config;
use std::time::Duration;

/// A drill: a model that is well is taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drill {
    /// `kind`: what it plays.
    pub kind: DrillKind,
    /// `model` that is taken away.
    pub model: ModelId,
    /// `from_ms`: when it begins.
    pub from: Duration,
    /// `for_ms`: how long it lasts.
    pub lasts: Duration,
}

/// Reads `drill`, a list of tables.
pub(super) fn read(table: &mut TableReader<'_, '_>) -> Vec<Drill> {
    if !table.has("drill") {
        table.know("drill");
        return Vec::new();
    }
    let scopes = table.listed_tables("drill").unwrap_or_default();
    scopes
        .into_iter()
        .filter_map(|scope| read_one(scope, table))
        .collect()
}

fn read_one(scope: Scope<'_>, outer: &mut TableReader<'_, '_>) -> Option<Drill> {
    let mut table = TableReader::new(scope, outer.findings);
    let kinds = [DrillKind::KillSwitch, DrillKind::Eol].map(|kind| (kind.as_str(), kind));
    let kind = table.word("kind", &kinds);
    let model = table.text("model").map(str::to_owned);
    let from = table.ms("from_ms").unwrap_or_default();
    let lasts = table.ms("for_ms");
    for key in ["kind", "model", "for_ms"] {
        if !table.has(key) {
            let at = table.scope().place.clone();
            let message = format!("{key} is missing: every drill has a kind, a model and a length");
            table.findings.error(&at, message, None);
        }
    }
    let model = model.and_then(|model| match ModelId::new(&model) {
        Ok(model) => Some(model),
        Err(error) => {
            let at = table.place("model");
            table.findings.error(&at, error.to_string(), None);
            None
        }
    });
    table.finish();
    Some(Drill {
        kind: kind?,
        model: model?,
        from,
        lasts: lasts?,
    })
}

/// Every model that is taken away is one that is asked.
pub(super) fn check_models(drills: &[Drill], config: &Config, table: &mut TableReader<'_, '_>) {
    let at = table.place("drill");
    for drill in drills {
        if !config.models.contains_key(&drill.model) {
            let known = config.models.keys().map(ModelId::as_str);
            let how = nearest(drill.model.as_str(), known);
            let how = how.map(|model| format!("did you mean `{model}`?"));
            let message = format!("`{}` is in no roster", drill.model);
            table.findings.error(&at, message, how);
        }
    }
}
