//! `[providers.NAME]`, and the providers that need no entry.

use std::collections::BTreeMap;

use super::access::{read_access, read_version};
use super::check_name;
use super::guard::{
    Limits, check, read_breaker, read_cooldown, read_hold, read_limits, read_retry_budget,
};
use super::preset::Preset;
use crate::guard::{BreakerPolicy, CooldownPolicy, HoldPolicy, RetryBudgetPolicy};
use crate::model::SimulatedModelConfig;
use crate::provider::{Dialect, ProviderConfig, ReasoningControl, WireConfig};
use evenkeel_document::{Findings, Place, Scope, TableReader, assign};

/// The tables at the top of `evenkeel.toml` that providers and models start from.
#[derive(Clone, Default)]
pub(crate) struct SharedTables {
    pub(crate) breaker: BreakerPolicy,
    pub(crate) cooldown: CooldownPolicy,
    pub(crate) hold: HoldPolicy,
    pub(crate) retry_budget: RetryBudgetPolicy,
    pub(crate) limits: Limits,
}

/// A configured provider.
pub(crate) struct WrittenProvider {
    pub(crate) provider: ProviderConfig,
    /// What is known of it by name.
    pub(crate) preset: Option<&'static Preset>,
    /// What its models start from.
    pub(crate) shared: SharedTables,
    pub(crate) models: BTreeMap<String, WrittenModel>,
    /// Whether its address or key are its own, not those of the built-in provider.
    pub(crate) own_access: bool,
}

/// A configured model of a provider.
pub(crate) struct WrittenModel {
    pub(crate) place: Place,
    pub(crate) shared: SharedTables,
    pub(crate) simulated: Option<SimulatedModelConfig>,
}

impl SharedTables {
    /// Reads the tables that this level may override; `layers` ends with this level.
    pub(crate) fn read(
        &mut self,
        table: &mut TableReader<'_, '_>,
        layers: &[&Scope<'_>],
        with_retry_budget: bool,
    ) {
        table.within("breaker", |t| read_breaker(t, &mut self.breaker));
        check(self.breaker.faults(), "breaker", layers, table.findings);
        table.within("cooldown", |t| read_cooldown(t, &mut self.cooldown));
        check(self.cooldown.faults(), "cooldown", layers, table.findings);
        table.within("hold", |t| read_hold(t, &mut self.hold));
        if with_retry_budget {
            table.within("retry_budget", |t| {
                read_retry_budget(t, &mut self.retry_budget);
            });
            check(
                self.retry_budget.faults(),
                "retry_budget",
                layers,
                table.findings,
            );
        }
        table.within("limits", |t| read_limits(t, &mut self.limits));
    }
}

/// Reads every `[providers.NAME]`.
pub(crate) fn read_providers(
    table: &mut TableReader<'_, '_>,
    root: &Scope<'_>,
    shared: &SharedTables,
) -> BTreeMap<String, WrittenProvider> {
    let mut providers = BTreeMap::new();
    for (name, scope) in table.named_tables("providers") {
        check_name("provider", name, &scope.place, table.findings);
        let written = read_provider(name, &scope, root, shared, table.findings);
        providers.insert(name.to_owned(), written);
    }
    providers
}

fn read_provider(
    name: &str,
    scope: &Scope<'_>,
    root: &Scope<'_>,
    shared: &SharedTables,
    findings: &mut Findings,
) -> WrittenProvider {
    let mut table = TableReader::new(scope.clone(), findings);
    let (mut provider, preset) = read_kind(&mut table, name);
    let own_access = read_access(&mut table, &mut provider);
    assign(&mut provider.propagate, table.flag("propagate"));
    let mut own = shared.clone();
    own.read(&mut table, &[root, scope], true);
    provider.breaker = own.breaker.clone();
    provider.retry_budget = own.retry_budget.clone();
    let mut models = BTreeMap::new();
    for (model, inner) in table.named_tables("models") {
        let layers = [root, scope, &inner];
        let (written, wire) = read_model(inner.clone(), &layers, &own, &provider, table.findings);
        if wire != WireConfig::default() {
            provider.models.insert(model.to_owned(), wire);
        }
        models.insert(model.to_owned(), written);
    }
    table.finish();
    WrittenProvider {
        provider,
        preset,
        shared: own,
        models,
        own_access,
    }
}

/// Reads `preset` and `dialect`: what kind of provider it is.
fn read_kind(
    table: &mut TableReader<'_, '_>,
    name: &str,
) -> (ProviderConfig, Option<&'static Preset>) {
    let chosen = table.word("preset", &Preset::words());
    let words = Dialect::ALL.map(|dialect| (dialect.as_str(), dialect));
    let dialect = table.word("dialect", &words);
    let preset = chosen.or_else(|| Preset::built_in(name).filter(|_| !table.has("preset")));
    match (preset, dialect) {
        (Some(preset), Some(dialect)) if dialect != preset.dialect && chosen.is_some() => {
            let message = format!(
                "is `{}`, but preset `{}` speaks `{}`",
                dialect.as_str(),
                preset.name,
                preset.dialect.as_str()
            );
            let how = "remove it".to_owned();
            table
                .findings
                .error(&table.place("dialect"), message, Some(how));
            (preset.provider(name), Some(preset))
        }
        // A built-in provider's name, but another kind of provider.
        (Some(preset), Some(dialect)) if dialect != preset.dialect => {
            (ProviderConfig::new(name, dialect), None)
        }
        (Some(preset), _) => (preset.provider(name), Some(preset)),
        (None, Some(dialect)) => (ProviderConfig::new(name, dialect), None),
        (None, None) => {
            if !table.has("dialect") && !table.has("preset") {
                let at = table.scope().place.clone();
                let how =
                    "write e.g. dialect = \"openai\", or preset = \"groq\" for a known provider";
                table
                    .findings
                    .error(&at, "dialect is missing".to_owned(), Some(how.to_owned()));
            }
            (ProviderConfig::new(name, Dialect::OpenAi), None)
        }
    }
}

fn read_model(
    scope: Scope<'_>,
    layers: &[&Scope<'_>],
    shared: &SharedTables,
    provider: &ProviderConfig,
    findings: &mut Findings,
) -> (WrittenModel, WireConfig) {
    let place = scope.place.clone();
    let mut table = TableReader::new(scope, findings);
    let mut own = shared.clone();
    own.read(&mut table, layers, false);
    let is_simulated = provider.dialect == Dialect::Simulated;
    let simulated = is_simulated.then(|| read_simulated(&mut table));
    let mut wire = WireConfig::default();
    if !is_simulated {
        wire.api_version = read_version(&mut table, provider.dialect, provider.server);
        assign(&mut wire.fixed_sampling, table.flag("fixed_sampling"));
        wire.stream_usage = table.flag("stream_usage");
        let ways = [
            ("none", ReasoningControl::None),
            ("budget", ReasoningControl::Budget),
            ("level", ReasoningControl::Level),
        ];
        wire.reasoning = table.word("reasoning", &ways);
    }
    table.finish();
    let model = WrittenModel {
        place,
        shared: own,
        simulated,
    };
    (model, wire)
}

fn read_simulated(table: &mut TableReader<'_, '_>) -> SimulatedModelConfig {
    let mut model = SimulatedModelConfig::default();
    table.within("latency", |t| {
        let (median, p99) = (t.ms("median_ms"), t.ms("p99_ms"));
        assign(&mut model.median, median);
        // Without its own p99 a slower model keeps the shape of the default one.
        assign(&mut model.p99, p99.or(median.map(|median| median * 2)));
        if model.p99 < model.median {
            let message = format!(
                "is {} ms, below median_ms = {} ms",
                model.p99.as_millis(),
                model.median.as_millis()
            );
            t.findings.error(&t.place("p99_ms"), message, None);
        }
    });
    assign(&mut model.tokens, table.count("tokens"));
    if model.tokens == 0 {
        let message = "is 0, expected 1 or more".to_owned();
        table.findings.error(&table.place("tokens"), message, None);
    }
    assign(&mut model.inter_token, table.ms("inter_token_ms"));
    assign(&mut model.error_rate, table.number("error_rate"));
    if !(0.0..=1.0).contains(&model.error_rate) {
        let message = format!("is {}, expected 0 to 1", model.error_rate);
        table
            .findings
            .error(&table.place("error_rate"), message, None);
    }
    model
}
