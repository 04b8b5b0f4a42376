//! Rules about models: end of life, the registry, and settings for models nobody uses.

use evenkeel_core::ModelId;
use jiff::civil::Date;

use crate::assemble::Draft;
use crate::model::{EolState, ModelConfig};
use crate::written::Written;
use evenkeel_document::{Findings, nearest};

/// Checks every model that a roster or the registry names.
pub(super) fn check(draft: &Draft, written: &Written<'_>, today: Date, findings: &mut Findings) {
    check_models(draft, written, today, findings);
    check_registry(written, findings);
    check_provider_models(written, draft, findings);
}

/// End of life, and models that the registry does not know.
fn check_models(draft: &Draft, written: &Written<'_>, today: Date, findings: &mut Findings) {
    for (id, model) in &draft.config.models {
        let Some(named) = draft.named.get(id) else {
            continue;
        };
        let Some(registered) = written.registry.get(id) else {
            let meant = nearest(id.as_str(), written.registry.keys().map(ModelId::as_str));
            let how = meant.map_or_else(
                || "add it to models.toml".to_owned(),
                |meant| format!("did you mean `{meant}`? Else add it to models.toml"),
            );
            let message =
                format!("`{id}` is not in the model registry: end of life and window are unknown");
            findings.warning(named, message, Some(how));
            continue;
        };
        if let Some(message) = life_warning(model, today) {
            let how = model
                .replacement
                .as_ref()
                .map(|r| format!("its replacement is `{r}`"));
            findings.warning(&registered.eol_place, message, how);
        }
        if registered.is_migrated() {
            let message = format!(
                "`{id}`: the registry says that it was migrated from, and a roster still names it ({})",
                named.address()
            );
            findings.warning(&registered.entry, message, None);
        }
    }
}

fn life_warning(model: &ModelConfig, today: Date) -> Option<String> {
    let (id, last) = (&model.id, model.eol_date?);
    match model.eol_state(today) {
        EolState::Current => None,
        EolState::Ending { days } => {
            Some(format!("`{id}` ends its life on {last}, in {days} days"))
        }
        EolState::Overdue => Some(format!(
            "`{id}` may go any day: it was promised until {last}"
        )),
        EolState::Past => Some(format!(
            "`{id}` is past its end of life, {last}: it is skipped"
        )),
    }
}

/// `agents_using` and the rosters should say the same.
fn check_registry(written: &Written<'_>, findings: &mut Findings) {
    for (id, registered) in &written.registry {
        let Some(used_by) = &registered.used_by else {
            continue;
        };
        for said in used_by {
            let role = said.text;
            if !uses(written, role, id) {
                let message = format!("role `{role}` does not have `{id}` in its roster");
                findings.warning(&said.place, message, None);
            }
        }
        for role in written.rosters.keys() {
            if uses(written, role, id) && !used_by.iter().any(|said| said.text == *role) {
                let message =
                    format!("role `{role}` has `{id}` in its roster and is not in agents_using");
                findings.warning(&registered.entry, message, None);
            }
        }
    }
}

fn uses(written: &Written<'_>, role: &str, id: &ModelId) -> bool {
    written.rosters.get(role).is_some_and(|roster| {
        let primary = roster.primary.iter().any(|(model, _)| model == id);
        primary || roster.fallbacks.iter().any(|f| f.model == *id)
    })
}

/// Settings for a model that no roster names do nothing.
fn check_provider_models(written: &Written<'_>, draft: &Draft, findings: &mut Findings) {
    for (provider, configured) in &written.providers {
        for (model, settings) in &configured.models {
            let id = ModelId::new(&format!("{provider}/{model}"));
            if id.is_ok_and(|id| draft.named.contains_key(&id)) {
                continue;
            }
            let named = draft.named.keys().filter(|id| id.provider() == provider);
            let how =
                nearest(model, named.map(ModelId::model)).map(|m| format!("did you mean `{m}`?"));
            let message = "no roster names this model".to_owned();
            findings.warning(&settings.place, message, how);
        }
    }
}
