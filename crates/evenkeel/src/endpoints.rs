//! Providers as the configuration describes them, ready to be asked.

use crate::RouterError;
use crate::key::{FileKey, FixedKey};
use evenkeel_chaos::{Behaviour, Fault, Latency, Simulated};
use evenkeel_core::{KeySource, Provider};
use evenkeel_providers::{
    Client, ClientConfig, ClientOptions, Dialect as WireDialect, Limits, ModelOptions, Proxy,
    ReasoningControl as WireReasoning, Server,
};
use evenkeel_roster::{Config, Dialect, ProviderConfig, ReasoningControl, SimulatedModelConfig};
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

/// What simulated models draw their latencies and faults from: any number will
/// do, the same one makes runs comparable.
const SEED: u64 = 1;

/// The provider that `config` describes. Paths count from `folder`.
pub(crate) fn provider(
    config: &ProviderConfig,
    all: &Config,
    folder: &Path,
) -> Result<Arc<dyn Provider>, RouterError> {
    if config.dialect == Dialect::Simulated {
        return Ok(simulated(config, all));
    }
    Ok(Arc::new(client(config, all, folder)?))
}

/// The client of a provider that is none of ours. Paths count from `folder`.
pub(crate) fn client(
    config: &ProviderConfig,
    all: &Config,
    folder: &Path,
) -> Result<Client, RouterError> {
    let dialect = WireDialect::named(config.dialect.as_str());
    let wrong = |message: String| RouterError::Provider {
        provider: config.name.clone(),
        message,
    };
    let dialect = dialect.ok_or_else(|| wrong("its dialect is not spoken".to_owned()))?;
    let base_url = config
        .base_url
        .clone()
        .ok_or_else(|| wrong("`base_url` is missing".to_owned()))?;
    let key: Arc<dyn KeySource> = match &config.api_key_file {
        Some(file) => Arc::new(FileKey::new(folder.join(file))),
        None => Arc::new(FixedKey(config.api_key.clone())),
    };
    let options = options(config, all, folder).map_err(&wrong)?;
    let config = ClientConfig {
        dialect,
        base_url,
        key,
        propagate: config.propagate,
    };
    Client::with_options(config, options).map_err(|e| wrong(e.to_string()))
}

fn options(config: &ProviderConfig, all: &Config, folder: &Path) -> Result<ClientOptions, String> {
    let said = |key: &'static str| move |error: &dyn Display| format!("`{key}`: {error}");
    let key_header = config.key_header.as_ref().map(|name| name.parse());
    let key_header = key_header.transpose().map_err(|e| said("key_header")(&e))?;
    let proxy = config.proxy.as_ref();
    let proxy = proxy.map(|url| Proxy::new(url.expose_secret())).transpose();
    let root_certificates = match &config.ca_file {
        Some(file) => {
            let file = folder.join(file);
            let read = std::fs::read(&file);
            Some(read.map_err(|e| format!("`ca_file` {}: {e}", file.display()))?)
        }
        None => None,
    };
    let usual = Limits::default();
    let count = |asked: Option<u32>, usual: usize| {
        asked.map_or(usual, |n| usize::try_from(n).unwrap_or(usual))
    };
    Ok(ClientOptions {
        server: config.server.and_then(Server::named),
        api_version: config.api_version.clone(),
        key_header,
        headers: headers(config)?,
        models: models(config, all),
        limits: Limits {
            max_connections: count(config.connections.max, usual.max_connections),
            max_idle_connections: count(config.connections.max_idle, usual.max_idle_connections),
            ..usual
        },
        idle: config.connections.idle,
        root_certificates,
        proxy: proxy.map_err(|e| e.to_string())?,
        ..ClientOptions::default()
    })
}

/// Whether the client of the running configuration does for the new one.
pub(crate) fn is_same_client(
    new: (&ProviderConfig, &Config),
    old: (&ProviderConfig, &Config),
) -> bool {
    let simulated = |(of, all): (&ProviderConfig, &Config)| -> Vec<_> {
        let own = all.models.values().filter(|m| m.id.provider() == of.name);
        own.map(|m| (m.id.clone(), m.simulated.clone())).collect()
    };
    new.0.has_client_of(old.0)
        && models(new.0, new.1) == models(old.0, old.1)
        && (new.0.dialect != Dialect::Simulated || simulated(new) == simulated(old))
}

/// The certificates of a provider's `ca_file`; none where it can't be read,
/// which making its client complains of.
pub(crate) fn certificates(config: &ProviderConfig, folder: &Path) -> Option<Vec<u8>> {
    std::fs::read(folder.join(config.ca_file.as_ref()?)).ok()
}

/// The headers of the configuration, whose values never show.
fn headers(config: &ProviderConfig) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &config.headers {
        let unusable = || format!("`headers`: `{name}` cannot be sent");
        let value = HeaderValue::from_str(value.expose_secret());
        let mut value = value.map_err(|_| unusable())?;
        value.set_sensitive(true);
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable())?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// What is known of a provider's models: what their entry says of the wire, and
/// what the registry says of them.
fn models(config: &ProviderConfig, all: &Config) -> BTreeMap<String, ModelOptions> {
    let mut models: BTreeMap<String, ModelOptions> = BTreeMap::new();
    for (name, wire) in &config.models {
        let options = ModelOptions {
            api_version: wire.api_version.clone(),
            fixed_sampling: wire.fixed_sampling,
            stream_usage: wire.stream_usage,
            reasoning: wire.reasoning.map(|control| match control {
                ReasoningControl::None => WireReasoning::None,
                ReasoningControl::Budget => WireReasoning::Budget,
                ReasoningControl::Level => WireReasoning::Level,
            }),
            ..ModelOptions::default()
        };
        models.insert(name.clone(), options);
    }
    let own = |id: &evenkeel_core::ModelId| id.provider() == config.name;
    for model in all.models.values().filter(|model| own(&model.id)) {
        if model.max_output_tokens.is_some() || model.prefill.is_some() {
            let options = models.entry(model.id.model().to_owned()).or_default();
            options.max_output_tokens = model.max_output_tokens;
            options.prefill = model.prefill;
        }
    }
    models
}

fn simulated(config: &ProviderConfig, all: &Config) -> Arc<dyn Provider> {
    let models = all
        .models
        .values()
        .filter(|model| model.id.provider() == config.name);
    let provider = models.fold(Simulated::new(&config.name, SEED), |provider, model| {
        let behaviour = behaviour(&model.simulated.clone().unwrap_or_default());
        provider.model(model.id.model(), behaviour)
    });
    Arc::new(provider)
}

fn behaviour(config: &SimulatedModelConfig) -> Behaviour {
    let latency = Latency::LogNormal {
        median: config.median,
        p99: config.p99,
    };
    let healthy = Behaviour::healthy(latency)
        .with_tokens(config.tokens)
        .with_inter_token(config.inter_token);
    if config.error_rate > 0.0 {
        let error = Fault::status(500);
        return healthy.with_fault(error).with_error_rate(config.error_rate);
    }
    healthy
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_roster::WireConfig;

    fn endpoint() -> ProviderConfig {
        let mut config = ProviderConfig::new("p", Dialect::OpenAi);
        config.base_url = Some("https://127.0.0.1:1/v1".into());
        config.headers.insert("x-title".into(), "harbour".into());
        config.proxy = Some("http://user:hunter2@127.0.0.1:1".into());
        config.connections.max = Some(3);
        config
    }

    #[test]
    fn what_the_files_say_of_the_way_reaches_the_client() {
        let folder = Path::new("/nowhere");
        let options = options(&endpoint(), &Config::default(), folder).unwrap();
        assert_eq!(options.limits.max_connections, 3);
        assert!(options.proxy.is_some());
        assert_eq!(options.headers["x-title"], "harbour");
        let client = provider(&endpoint(), &Config::default(), folder).unwrap();
        let shown = format!("{options:?} {client:?}");
        assert!(
            !shown.contains("harbour") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    #[test]
    fn what_the_files_say_of_a_model_reaches_its_requests() {
        let id = evenkeel_core::ModelId::new("p/m").unwrap();
        let mut config = endpoint();
        let wire = WireConfig {
            reasoning: Some(ReasoningControl::Level),
            ..WireConfig::default()
        };
        config.models.insert("m".into(), wire);
        let mut all = Config::default();
        let mut model = evenkeel_roster::ModelConfig::new(id.clone());
        model.prefill = Some(false);
        all.models.insert(id, model);
        let known = models(&config, &all);
        assert_eq!(known["m"].reasoning, Some(WireReasoning::Level));
        assert_eq!(
            (known["m"].prefill, known["m"].max_output_tokens),
            (Some(false), None)
        );
    }

    #[test]
    fn a_certificate_file_that_is_not_there_is_named() {
        let mut config = endpoint();
        config.ca_file = Some("ca.pem".into());
        let folder = tempfile::tempdir().unwrap();
        let error = provider(&config, &Config::default(), folder.path()).unwrap_err();
        assert!(error.to_string().contains("ca.pem"), "{error}");
        std::fs::write(folder.path().join("ca.pem"), "no certificate").unwrap();
        let error = provider(&config, &Config::default(), folder.path()).unwrap_err();
        assert!(
            error.to_string().contains("no certificate found"),
            "{error}"
        );
    }

    /// Every dialect and preset of the files is one of the client's.
    #[test]
    fn the_words_of_the_files_are_those_of_the_client() {
        for dialect in Dialect::ALL
            .into_iter()
            .filter(|d| *d != Dialect::Simulated)
        {
            assert!(
                WireDialect::named(dialect.as_str()).is_some(),
                "{dialect:?}"
            );
        }
        for preset in evenkeel_roster::preset_servers() {
            assert!(Server::named(preset).is_some(), "{preset}");
        }
    }
}
