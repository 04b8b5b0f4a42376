//! Providers as the configuration describes them, ready to be asked.

use crate::RouterError;
use crate::key::{FileKey, FixedKey};
use async_trait::async_trait;
use evenkeel_chaos::{Behaviour, Fault, Latency, Simulated};
use evenkeel_core::{ChatResponse, Class, EventStream, Failure, KeySource, Provider, ProviderCall};
use evenkeel_providers::{Client, ClientConfig};
use evenkeel_roster::{Config, Dialect, ProviderConfig, SimulatedModelConfig};
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
    match config.dialect {
        Dialect::OpenAi => openai(config, folder),
        Dialect::Simulated => Ok(simulated(config, all)),
        Dialect::Unavailable(name) => Ok(Arc::new(Unspoken(name))),
        _ => Ok(Arc::new(Unspoken("of another version"))),
    }
}

/// A provider whose dialect this version does not speak. A call that comes to
/// it goes on to the next rung, and the router sets the model aside.
#[derive(Debug)]
struct Unspoken(&'static str);

impl Unspoken {
    fn failure(&self) -> Failure {
        let message = format!("dialect `{}` is not spoken by this version", self.0);
        Failure::new(Class::ModelGone, message)
    }
}

#[async_trait]
impl Provider for Unspoken {
    async fn complete(&self, _: ProviderCall) -> Result<ChatResponse, Failure> {
        Err(self.failure())
    }

    async fn stream(&self, _: ProviderCall) -> Result<EventStream, Failure> {
        Err(self.failure())
    }
}

fn openai(config: &ProviderConfig, folder: &Path) -> Result<Arc<dyn Provider>, RouterError> {
    let wrong = |message: String| RouterError::Provider {
        provider: config.name.clone(),
        message,
    };
    let base_url = config
        .base_url
        .clone()
        .ok_or_else(|| wrong("`base_url` is missing".to_owned()))?;
    let key: Arc<dyn KeySource> = match &config.api_key_file {
        Some(file) => Arc::new(FileKey::new(folder.join(file))),
        None => Arc::new(FixedKey(config.api_key.clone())),
    };
    let client = Client::new(ClientConfig {
        dialect: evenkeel_providers::Dialect::OpenAi,
        base_url,
        key,
        propagate: config.propagate,
    })
    .map_err(|error| wrong(error.to_string()))?;
    Ok(Arc::new(client))
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
