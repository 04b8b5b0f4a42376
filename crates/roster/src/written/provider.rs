//! `[providers.NAME]`, and the providers that need no entry.

use std::collections::BTreeMap;
use std::path::PathBuf;

use secrecy::SecretString;

use super::guard::{check, read_breaker, read_cooldown, read_limits, read_retry_budget};
use super::{check_key, check_name};
use crate::guard::{BreakerPolicy, CooldownPolicy, RetryBudgetPolicy};
use crate::model::{DEFAULT_CONCURRENCY, SimulatedModelConfig};
use crate::provider::{Dialect, ProviderConfig};
use evenkeel_document::{Findings, Place, Scope, TableReader, assign};

/// Names of the providers that need no entry.
pub(crate) const BUILT_IN: [&str; 4] = ["openai", "anthropic", "google", "mistral"];

/// Words that `dialect` knows and this version does not speak.
const LATER: [&str; 3] = ["anthropic", "gemini", "mistral"];

/// The environment variable with the key of the built-in `openai`.
pub(crate) const OPENAI_KEY: &str = "OPENAI_API_KEY";

/// A provider that needs no entry.
pub(crate) fn built_in(name: &str) -> Option<ProviderConfig> {
    let dialect = match name {
        "openai" => Dialect::OpenAi,
        "anthropic" => Dialect::Unavailable("anthropic"),
        "google" => Dialect::Unavailable("gemini"),
        "mistral" => Dialect::Unavailable("mistral"),
        _ => return None,
    };
    let mut provider = ProviderConfig::new(name, dialect);
    if dialect == Dialect::OpenAi {
        provider.base_url = Some("https://api.openai.com/v1".to_owned());
    }
    Some(provider)
}

/// The tables at the top of `evenkeel.toml` that providers and models start from.
#[derive(Clone)]
pub(crate) struct SharedTables {
    pub(crate) breaker: BreakerPolicy,
    pub(crate) cooldown: CooldownPolicy,
    pub(crate) retry_budget: RetryBudgetPolicy,
    pub(crate) max_concurrency: usize,
}

/// A configured provider.
pub(crate) struct WrittenProvider {
    pub(crate) provider: ProviderConfig,
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
        table.within("limits", |t| read_limits(t, &mut self.max_concurrency));
    }
}

impl Default for SharedTables {
    fn default() -> Self {
        Self {
            breaker: BreakerPolicy::default(),
            cooldown: CooldownPolicy::default(),
            retry_budget: RetryBudgetPolicy::default(),
            max_concurrency: DEFAULT_CONCURRENCY,
        }
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
    let mut provider = built_in(name).unwrap_or_else(|| ProviderConfig::new(name, Dialect::OpenAi));
    read_dialect(&mut table, &mut provider);
    let own_access = read_access(&mut table, &mut provider);
    assign(&mut provider.propagate, table.flag("propagate"));
    let mut own = shared.clone();
    own.read(&mut table, &[root, scope], true);
    provider.breaker = own.breaker.clone();
    provider.retry_budget = own.retry_budget.clone();
    let simulated = provider.dialect == Dialect::Simulated;
    let mut models = BTreeMap::new();
    for (model, inner) in table.named_tables("models") {
        let layers = [root, scope, &inner];
        let written = read_model(inner.clone(), &layers, &own, simulated, table.findings);
        models.insert(model.to_owned(), written);
    }
    table.finish();
    WrittenProvider {
        provider,
        shared: own,
        models,
        own_access,
    }
}

fn read_dialect(table: &mut TableReader<'_, '_>, provider: &mut ProviderConfig) {
    if !table.has("dialect") {
        table.know("dialect");
        if built_in(&provider.name).is_none() {
            let at = table.scope().place.clone();
            let how = "write dialect = \"openai\" or \"simulated\"".to_owned();
            table
                .findings
                .error(&at, "dialect is missing".to_owned(), Some(how));
        }
        return;
    }
    let mut words = vec![
        ("openai", Dialect::OpenAi),
        ("simulated", Dialect::Simulated),
    ];
    words.extend(LATER.map(|word| (word, Dialect::Unavailable(word))));
    let Some(dialect) = table.word("dialect", &words) else {
        return;
    };
    if let Dialect::Unavailable(word) = dialect {
        let message = format!("dialect `{word}` is not available in this version");
        let how = "use `openai` or `simulated`".to_owned();
        table
            .findings
            .error(&table.place("dialect"), message, Some(how));
    }
    if dialect != provider.dialect {
        provider.base_url = None;
    }
    provider.dialect = dialect;
}

/// Reads address and key; true if any of them is the provider's own.
fn read_access(table: &mut TableReader<'_, '_>, provider: &mut ProviderConfig) -> bool {
    const KEYS: [&str; 3] = ["base_url", "api_key", "api_key_file"];
    let own = KEYS.iter().any(|key| table.has(key));
    let url = table.text("base_url");
    let key = table.text("api_key");
    let key_file = table.text("api_key_file");
    if provider.dialect == Dialect::Simulated {
        for unused in KEYS
            .into_iter()
            .filter(|key| table.has(key))
            .collect::<Vec<_>>()
        {
            let message = "a simulated provider has none".to_owned();
            let how = "remove it".to_owned();
            table
                .findings
                .error(&table.place(unused), message, Some(how));
        }
        return own;
    }
    if let Some(url) = url {
        match checked_url(url) {
            Ok(url) => provider.base_url = Some(url),
            Err(message) => {
                let how = "write e.g. `https://api.acme.test/v1`".to_owned();
                table
                    .findings
                    .error(&table.place("base_url"), message, Some(how));
            }
        }
    }
    if provider.dialect == Dialect::OpenAi && provider.base_url.is_none() && !table.has("base_url")
    {
        let at = table.scope().place.clone();
        let how = "write the address up to and with the version, e.g. `https://api.acme.test/v1`";
        table
            .findings
            .error(&at, "base_url is missing".to_owned(), Some(how.to_owned()));
    }
    if let Some(key) = key {
        let variables = table.variables("api_key");
        if check_key(key, variables, &table.place("api_key"), table.findings) {
            provider.api_key = Some(SecretString::from(key));
        }
    }
    if let Some(path) = key_file {
        if path.is_empty() {
            let message = "is empty, expected a path".to_owned();
            table
                .findings
                .error(&table.place("api_key_file"), message, None);
        }
        if table.has("api_key") {
            let message = "api_key is there too".to_owned();
            let how = "keep one of them".to_owned();
            table
                .findings
                .error(&table.place("api_key_file"), message, Some(how));
        }
        provider.api_key_file = Some(PathBuf::from(path));
    }
    own
}

/// The address without its trailing slash, or what is wrong with it.
fn checked_url(text: &str) -> Result<String, String> {
    if text.contains('@') {
        // Not shown: what stands before the @ may be a password.
        return Err("holds a user name or password; use api_key for it".to_owned());
    }
    let uri: http::Uri = text
        .parse()
        .map_err(|error| format!("`{text}` is not an address: {error}"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(format!("`{text}` begins with neither http:// nor https://"));
    }
    let host = uri.host().unwrap_or_default();
    if host.is_empty() {
        return Err(format!("`{text}` names no host"));
    }
    let has_port = uri
        .authority()
        .is_some_and(|a| a.as_str().len() > host.len());
    if has_port && uri.port_u16().is_none() {
        return Err(format!("`{text}` has a port that is no number up to 65535"));
    }
    if uri.query().is_some() || text.contains('#') {
        return Err(format!(
            "`{text}` has a query or fragment, but paths are appended to it"
        ));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn read_model(
    scope: Scope<'_>,
    layers: &[&Scope<'_>],
    shared: &SharedTables,
    simulated: bool,
    findings: &mut Findings,
) -> WrittenModel {
    let place = scope.place.clone();
    let mut table = TableReader::new(scope, findings);
    let mut own = shared.clone();
    own.read(&mut table, layers, false);
    let simulated = simulated.then(|| read_simulated(&mut table));
    table.finish();
    WrittenModel {
        place,
        shared: own,
        simulated,
    }
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
