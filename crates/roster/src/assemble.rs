//! Puts the parts together: roles with their rosters, models with their providers.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::ModelId;
use secrecy::SecretString;

use crate::candidates::{CandidatesByRole, refuse_unknown};
use crate::config::{Config, RoleConfig, RungConfig};
use crate::model::{ModelConfig, SimulatedModelConfig};
use crate::provider::{Dialect, ProviderConfig};
use crate::telemetry::TelemetryConfig;
use crate::written::{Preset, Written, WrittenFallback, WrittenRoster};
use evenkeel_document::{Findings, Place, nearest};

/// A configuration, and where its models are first named.
pub(crate) struct Draft {
    pub(crate) config: Config,
    /// Where each model is first named, by a roster or as a candidate.
    pub(crate) named: BTreeMap<ModelId, Place>,
}

/// What a configuration is read for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose<'c> {
    /// Every role is served by its roster.
    Serve,
    /// These are measured, in roles whose rosters may not be fit to serve yet.
    Measure(&'c CandidatesByRole),
}

/// Assembles what can be; reports roles, rosters and providers that do not meet.
/// `home` stands for the configuration as a whole.
pub(crate) fn assemble(
    written: &Written<'_>,
    home: &Place,
    purpose: Purpose<'_>,
    env: &dyn Fn(&str) -> Option<String>,
    findings: &mut Findings,
) -> Draft {
    let roles = assemble_roles(written, home, purpose, findings);
    let mut named = named_models(written, &roles);
    if let Purpose::Measure(candidates) = purpose {
        refuse_unknown(candidates, &roles, home, findings);
        for rung in roles.values().flat_map(|role| &role.rungs) {
            let model = named.entry(rung.model.clone());
            model.or_insert_with(|| home.clone());
        }
    }
    let providers = assemble_providers(written, &named, env, findings);
    let models = named
        .keys()
        .map(|id| (id.clone(), assemble_model(id, written, &providers)))
        .collect();
    let telemetry = settled_telemetry(written, home, env, findings);
    Draft {
        config: Config {
            roles,
            models,
            providers,
            server: written.server.clone(),
            tickets: written.tickets.clone(),
            alerts: written.alerts.clone(),
            registry: written
                .registry
                .iter()
                .map(|(id, entry)| (id.clone(), entry.registered(id)))
                .collect(),
            telemetry,
            stamp: None,
            audit: written.audit.clone(),
        },
        named,
    }
}

/// What the files say of telemetry, and the environment beside them.
fn settled_telemetry(
    written: &Written<'_>,
    home: &Place,
    env: &dyn Fn(&str) -> Option<String>,
    findings: &mut Findings,
) -> TelemetryConfig {
    let mut unusable = Vec::new();
    let telemetry = written.telemetry.settled(env, &mut unusable);
    for variable in unusable {
        findings.warning(home, variable.to_string(), None);
    }
    telemetry
}

fn assemble_roles(
    written: &Written<'_>,
    home: &Place,
    purpose: Purpose<'_>,
    findings: &mut Findings,
) -> BTreeMap<String, RoleConfig> {
    let names: BTreeSet<&str> = written
        .policies
        .keys()
        .chain(written.rosters.keys())
        .copied()
        .collect();
    if names.is_empty() {
        let message = "no role anywhere: nothing to serve".to_owned();
        let how = "write [agent_roles.NAME] into policy.toml and roster.toml".to_owned();
        findings.error(home, message, Some(how));
    }
    let mut roles = BTreeMap::new();
    for name in names {
        let (candidates, is_asked) = match purpose {
            Purpose::Serve => (None, true),
            // Without any, all roles that can be measured are.
            Purpose::Measure(all) if all.is_empty() => {
                let policy = written.policies.get(name);
                (
                    None,
                    policy.is_some_and(|(_, policy)| policy.can_be_measured()),
                )
            }
            Purpose::Measure(all) => (all.get(name), all.contains_key(name)),
        };
        let roster = written.rosters.get(name);
        if roster.is_none() && candidates.is_none_or(|c| c.primary.is_none()) {
            if is_asked {
                refuse_rosterless(name, written, findings);
            }
            continue;
        }
        let policy = match (written.policies.get(name), roster) {
            (Some((place, policy)), _) => policy.finished(place, findings),
            (None, Some(roster)) if written.defaults.is_complete() => {
                written.defaults.finished(&roster.role, findings)
            }
            (None, Some(roster)) if is_asked => {
                refuse_policyless(name, roster, written, findings);
                continue;
            }
            (None, _) => continue,
        };
        let mut rungs = roster.map(rungs).unwrap_or_default();
        if let Some(candidates) = candidates {
            candidates.join(&mut rungs);
        }
        let role = RoleConfig {
            name: name.to_owned(),
            policy,
            rungs,
        };
        roles.insert(name.to_owned(), role);
    }
    roles
}

fn refuse_rosterless(name: &str, written: &Written<'_>, findings: &mut Findings) {
    let Some((place, policy)) = written.policies.get(name) else {
        return;
    };
    policy.finished(place, findings);
    let free = written.rosters.keys().copied();
    let meant = nearest(name, free.filter(|r| !written.policies.contains_key(r)));
    let how = meant.map_or_else(
        || format!("write [agent_roles.{name}] with its primary into roster.toml"),
        |meant| format!("did you mean `{meant}`, which has a roster?"),
    );
    let message = format!("role `{name}` has a policy and no roster");
    findings.error(place, message, Some(how));
}

fn refuse_policyless(
    name: &str,
    roster: &WrittenRoster<'_>,
    written: &Written<'_>,
    findings: &mut Findings,
) {
    let free = written.policies.keys().copied();
    let meant = nearest(name, free.filter(|p| !written.rosters.contains_key(p)));
    let how = meant.map_or_else(
        || {
            "write p95_threshold_ms, p99_threshold_ms and evaluation_window_seconds for it, or for all in [defaults], into policy.toml"
                .to_owned()
        },
        |meant| format!("did you mean `{meant}`, which has a policy?"),
    );
    let message = format!("role `{name}` has a roster and no policy");
    findings.error(&roster.role, message, Some(how));
}

fn rungs(roster: &WrittenRoster<'_>) -> Vec<RungConfig> {
    let primary = roster.primary.iter().map(|(id, _)| RungConfig {
        measured: roster.measured.clone(),
        ..RungConfig::primary(id.clone())
    });
    let fallbacks = roster.fallbacks.iter().map(|fallback| {
        let quality_score = quality(fallback, roster);
        let known = fallback.capability_score.or(quality_score);
        RungConfig {
            model: fallback.model.clone(),
            quality_score,
            capability_score: known.unwrap_or(0.0).min(1.0),
            median_latency: fallback.median_latency,
            measured: fallback.measured.clone(),
        }
    });
    primary.chain(fallbacks).collect()
}

/// A score beside a `primary_score` is in the same unit; alone it is the ratio.
fn quality(fallback: &WrittenFallback<'_>, roster: &WrittenRoster<'_>) -> Option<f64> {
    let score = fallback.quality_score?;
    Some(
        roster
            .primary_score
            .map_or(score, |primary| score / primary),
    )
}

fn named_models(
    written: &Written<'_>,
    roles: &BTreeMap<String, RoleConfig>,
) -> BTreeMap<ModelId, Place> {
    let mut named = BTreeMap::new();
    for roster in written.rosters.values() {
        let primary = roster.primary.iter().cloned();
        let fallbacks = roster
            .fallbacks
            .iter()
            .map(|f| (f.model.clone(), f.place("model")));
        for (id, place) in primary.chain(fallbacks) {
            named.entry(id).or_insert(place);
        }
    }
    for (name, role) in roles {
        let policy = written.policies.get(name.as_str());
        let policy = policy.map_or(&written.defaults, |(_, policy)| policy);
        let place = policy.locate("shadow.model");
        if let (Some(id), Some(place)) = (&role.policy.shadow.model, place) {
            named.entry(id.clone()).or_insert(place);
        }
    }
    named
}

fn assemble_providers(
    written: &Written<'_>,
    named: &BTreeMap<ModelId, Place>,
    env: &dyn Fn(&str) -> Option<String>,
    findings: &mut Findings,
) -> BTreeMap<String, ProviderConfig> {
    let configured = written.providers.iter();
    let mut providers: BTreeMap<String, ProviderConfig> = configured
        .map(|(name, written)| (name.clone(), written.provider.clone()))
        .collect();
    let mut met = BTreeSet::new();
    for (id, place) in named {
        let name = id.provider();
        if !met.insert(name) {
            continue;
        }
        if !providers.contains_key(name) {
            let Some(preset) = Preset::built_in(name) else {
                refuse_provider(id, place, written, findings);
                continue;
            };
            let mut provider = preset.provider(name);
            provider.breaker = written.shared.breaker.clone();
            provider.retry_budget = written.shared.retry_budget.clone();
            providers.insert(name.to_owned(), provider);
        }
        if let Some(provider) = providers.get_mut(name) {
            let entry = written.providers.get(name);
            let preset = match entry {
                Some(entry) => entry.preset.filter(|_| !entry.own_access),
                None => Preset::built_in(name),
            };
            if let Some(preset) = preset {
                fill_key(provider, preset, place, env, findings);
            }
        }
    }
    providers
}

fn refuse_provider(id: &ModelId, place: &Place, written: &Written<'_>, findings: &mut Findings) {
    let name = id.provider();
    let known = written
        .providers
        .keys()
        .map(String::as_str)
        .chain(Preset::built_in_names());
    let how = nearest(name, known).map_or_else(
        || format!("configure it in evenkeel.toml, [providers.{name}]"),
        |meant| {
            format!(
                "did you mean `{meant}`? Else configure it in evenkeel.toml, [providers.{name}]"
            )
        },
    );
    let message = format!("`{id}`: provider `{name}` is not configured");
    findings.error(place, message, Some(how));
}

/// The usual key of a known provider, which only goes to its own address.
fn fill_key(
    provider: &mut ProviderConfig,
    preset: &Preset,
    place: &Place,
    env: &dyn Fn(&str) -> Option<String>,
    findings: &mut Findings,
) {
    let [first, ..] = preset.key_variables else {
        return;
    };
    let usable = |key: &String| !key.is_empty() && key.bytes().all(|b| b.is_ascii_graphic());
    let mut keys = preset.key_variables.iter().filter_map(|name| env(name));
    if let Some(key) = keys.find(usable) {
        provider.api_key = Some(SecretString::from(key));
    } else {
        let message = format!(
            "{first} holds no key: `{}` will refuse every call",
            provider.name
        );
        let how = format!("set it, or api_key in [providers.{}]", provider.name);
        findings.warning(place, message, Some(how));
    }
}

fn assemble_model(
    id: &ModelId,
    written: &Written<'_>,
    providers: &BTreeMap<String, ProviderConfig>,
) -> ModelConfig {
    let provider = written.providers.get(id.provider());
    let own = provider.and_then(|provider| provider.models.get(id.model()));
    let shared = match (own, provider) {
        (Some(own), _) => &own.shared,
        (None, Some(provider)) => &provider.shared,
        (None, None) => &written.shared,
    };
    let mut model = ModelConfig {
        breaker: shared.breaker.clone(),
        cooldown: shared.cooldown.clone(),
        hold: shared.hold.clone(),
        max_concurrency: shared.limits.max_concurrency,
        requests_per_minute: shared.limits.requests_per_minute,
        tokens_per_minute: shared.limits.tokens_per_minute,
        ..ModelConfig::new(id.clone())
    };
    let dialect = providers
        .get(id.provider())
        .map(|provider| provider.dialect);
    if dialect == Some(Dialect::Simulated) {
        model.simulated = own
            .and_then(|own| own.simulated.clone())
            .or_else(|| Some(SimulatedModelConfig::default()));
    }
    if let Some(registered) = written.registry.get(id) {
        registered.apply(&mut model);
    }
    model
}
