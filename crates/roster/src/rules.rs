//! The rules that a roster has to keep, as far as they can be told without
//! measuring anything.

use std::collections::BTreeMap;

use evenkeel_core::ModelId;
use jiff::civil::Date;

use crate::assemble::Draft;
use crate::config::{RoleConfig, RungConfig};
use crate::model::{EolState, ModelConfig};
use crate::policy::RolePolicy;
use crate::provider::Dialect;
use crate::read::{Findings, Place, nearest};
use crate::written::{Written, WrittenFallback, WrittenPolicy, WrittenRoster};

/// Checks every role, then every model.
pub(crate) fn check(draft: &Draft, written: &Written<'_>, today: Date, findings: &mut Findings) {
    let mut waived = Waivers::default();
    for (name, role) in &draft.config.roles {
        let Some(roster) = written.rosters.get(name.as_str()) else {
            continue;
        };
        let policy = written
            .policies
            .get(name.as_str())
            .map_or(&written.defaults, |(_, policy)| policy);
        let mut check = RoleCheck {
            role,
            roster,
            written: policy,
            findings,
        };
        check.check_distinct();
        check.check_providers(&mut waived);
        check.check_qualified(&mut waived);
        check.check_capability();
        check.check_latency();
        check.check_clocks();
        check.check_usable(draft, today);
    }
    waived.report(findings);
    check_models(draft, written, today, findings);
    check_registry(written, findings);
    check_provider_models(written, draft, findings);
}

/// Rules that a policy has switched off where they would have refused something,
/// so that `check` shows each switch once, with all it covers.
#[derive(Default)]
struct Waivers {
    /// By switch, then by the place it is set at.
    found: BTreeMap<(&'static str, String), (Place, Vec<String>)>,
}

impl Waivers {
    fn add(&mut self, switch: &'static str, at: Place, covered: String) {
        let key = (switch, format!("{}:{}", at.address(), at.key));
        self.found
            .entry(key)
            .or_insert_with(|| (at, Vec::new()))
            .1
            .push(covered);
    }

    fn report(self, findings: &mut Findings) {
        for ((switch, _), (at, covered)) in self.found {
            let what = if switch == "allow_unqualified" {
                "fallbacks without a score are used"
            } else {
                "the first fallback stands at the primary's provider"
            };
            findings.warning(&at, format!("{what}: {}", covered.join(", ")), None);
        }
    }
}

struct RoleCheck<'c, 'w> {
    role: &'c RoleConfig,
    roster: &'c WrittenRoster<'w>,
    written: &'c WrittenPolicy<'w>,
    findings: &'c mut Findings,
}

impl RoleCheck<'_, '_> {
    fn policy(&self) -> &RolePolicy {
        &self.role.policy
    }

    /// The fallbacks that could be read, each with its rung.
    fn fallbacks(&self) -> impl Iterator<Item = (&WrittenFallback<'_>, &RungConfig)> {
        let primary = usize::from(self.roster.primary.is_some());
        self.roster
            .fallbacks
            .iter()
            .zip(self.role.rungs.iter().skip(primary))
            .filter(|(fallback, _)| fallback.sound)
    }

    fn setting(&self, key: &str) -> Place {
        self.written
            .locate(key)
            .unwrap_or_else(|| self.roster.role.clone())
    }

    fn check_distinct(&mut self) {
        for (index, rung) in self.role.rungs.iter().enumerate() {
            if self.role.rungs[..index]
                .iter()
                .any(|r| r.model == rung.model)
            {
                let fallback = self
                    .roster
                    .fallbacks
                    .iter()
                    .rfind(|f| f.model == rung.model);
                let at = fallback.map_or_else(|| self.roster.role.clone(), |f| f.place("model"));
                let message = format!("`{}` is in this roster twice", rung.model);
                let how = "keep the better rank".to_owned();
                self.findings.error(&at, message, Some(how));
            }
        }
    }

    fn check_providers(&mut self, waived: &mut Waivers) {
        if !self.roster.complete {
            return;
        }
        if self.roster.fallbacks.is_empty() && !self.roster.says_fallbacks {
            let message = "no fallback: nothing to move to when the primary is slow".to_owned();
            let how = "add one, or write fallbacks = [] if that is meant".to_owned();
            self.findings.warning(&self.roster.role, message, Some(how));
        }
        let [primary, first, ..] = self.role.rungs.as_slice() else {
            return;
        };
        let provider = primary.model.provider();
        if first.model.provider() != provider {
            return;
        }
        if self.policy().allow_same_provider {
            waived.add(
                "allow_same_provider",
                self.setting("allow_same_provider"),
                self.role.name.clone(),
            );
            return;
        }
        let message = format!(
            "first fallback `{}` stands at the primary's provider, `{provider}`",
            first.model
        );
        let how =
            "put a rung of another provider first, or say allow_same_provider = true".to_owned();
        let at = self.roster.fallbacks[0].place("model");
        self.findings.error(&at, message, Some(how));
    }

    fn check_qualified(&mut self, waived: &mut Waivers) {
        let budget = self.policy().quality_budget;
        let allowed = self.policy().allow_unqualified;
        let mut faults = Vec::new();
        let mut unverified = Vec::new();
        let mut unmeasured = Vec::new();
        for (fallback, rung) in self.fallbacks() {
            match rung.quality_score {
                None if allowed => unmeasured.push(rung.model.to_string()),
                None => {
                    let message =
                        format!("`{}` has no quality_score: it is not qualified", rung.model);
                    let how = "measure it, or say allow_unqualified = true in the role's policy";
                    faults.push((fallback.entry().clone(), message, Some(how.to_owned())));
                }
                Some(ratio) => {
                    let at = fallback.place("quality_score");
                    faults.extend(quality_fault(ratio, budget, fallback, self.roster, at));
                    if !fallback.verified {
                        unverified.push(format!("`{}`", rung.model));
                    }
                }
            }
        }
        if !unmeasured.is_empty() {
            let covered = format!("{} ({})", self.role.name, unmeasured.join(", "));
            waived.add(
                "allow_unqualified",
                self.setting("allow_unqualified"),
                covered,
            );
        }
        for (at, message, how) in faults {
            self.findings.error(&at, message, how);
        }
        if !unverified.is_empty() {
            let message = format!(
                "unverified: {} without hashes of prompt, tools, dataset and snapshot, so nobody can tell what was measured",
                unverified.join(", ")
            );
            self.findings.warning(&self.roster.role, message, None);
        }
    }

    fn check_capability(&mut self) {
        let least = self.policy().min_capability_score;
        let below: Vec<_> = self
            .fallbacks()
            .filter(|(_, rung)| rung.capability_score < least)
            .map(|(fallback, rung)| {
                let message = format!(
                    "`{}` has capability {}, below min_capability_score = {least}: it would never be used",
                    rung.model, rung.capability_score
                );
                (fallback.entry().clone(), message)
            })
            .collect();
        for (at, message) in below {
            let how = "take it out, state its capability_score, or lower the limit".to_owned();
            self.findings.error(&at, message, Some(how));
        }
    }

    fn check_latency(&mut self) {
        let limit = self.policy().p95;
        let slow: Vec<_> = self
            .fallbacks()
            .filter_map(|(fallback, rung)| {
                let median = rung.median_latency.filter(|median| *median >= limit)?;
                let message = format!(
                    "is {} ms, not below p95_threshold_ms = {} ms: the role would move to a rung in breach",
                    median.as_millis(),
                    limit.as_millis()
                );
                Some((fallback.place("median_latency_ms"), message))
            })
            .collect();
        for (at, message) in slow {
            self.findings.error(&at, message, None);
        }
    }

    fn check_clocks(&mut self) {
        let policy = self.policy();
        let clocks = policy.clocks;
        let checks = [
            (
                "deadline_ms",
                clocks.deadline,
                "p95_threshold_ms",
                policy.p95,
            ),
            (
                "first_token_ms",
                clocks.first_token,
                "first_token_p95_ms",
                policy.first_token_p95,
            ),
        ];
        for (clock, ends, limit, patience) in checks {
            if ends <= patience {
                let message = format!(
                    "is {} ms, not above {limit} = {} ms: it runs out before a hedge can start",
                    ends.as_millis(),
                    patience.as_millis()
                );
                let keys = [clock, limit, "p95_threshold_ms"];
                let (at, message) = self.written.explain(&keys, message, &self.roster.role);
                self.findings.warning(&at, message, None);
            }
        }
    }

    /// A role needs a rung that can be asked today.
    fn check_usable(&mut self, draft: &Draft, today: Date) {
        let config = &draft.config;
        let past = |rung: &RungConfig| {
            let model = config.models.get(&rung.model);
            model.is_some_and(|model| model.is_past_eol(today))
        };
        let unavailable = |rung: &RungConfig| {
            let provider = config.providers.get(rung.model.provider());
            provider.is_some_and(|p| matches!(p.dialect, Dialect::Unavailable(_)))
        };
        let rungs = &self.role.rungs;
        if !self.roster.complete {
            return;
        }
        if rungs.iter().all(past) {
            let message = "every model of this roster is past its end of life".to_owned();
            self.findings.error(&self.roster.role, message, None);
        } else if rungs.iter().all(|rung| past(rung) || unavailable(rung)) {
            let message =
                "no rung of this role can be asked by this version: its calls will fail".to_owned();
            self.findings.warning(&self.roster.role, message, None);
        }
    }
}

/// What is wrong with a fallback's `ratio` to the primary's score.
fn quality_fault(
    ratio: f64,
    budget: f64,
    fallback: &WrittenFallback<'_>,
    roster: &WrittenRoster<'_>,
    at: Place,
) -> Option<(Place, String, Option<String>)> {
    /// No fallback is twice as good as its primary; a score in another unit looks like it.
    const MOST_PLAUSIBLE: f64 = 2.0;
    if roster.primary_score.is_none() && ratio > MOST_PLAUSIBLE {
        let message = format!("is {ratio}; without primary_score it is the ratio to the primary");
        let how = "write primary_score beside primary, in the same unit".to_owned();
        return Some((at, message, Some(how)));
    }
    if ratio >= budget {
        return None;
    }
    let score = fallback.quality_score.unwrap_or(ratio);
    let message = match roster.primary_score {
        Some(primary) => format!(
            "{score} is {ratio:.3} of the primary's {primary}, below quality_budget = {budget}"
        ),
        None => format!("{score} of the primary's score is below quality_budget = {budget}"),
    };
    let how = "take the rung out, or lower the budget for this role".to_owned();
    Some((at, message, Some(how)))
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
        if registered.is_migrated {
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
