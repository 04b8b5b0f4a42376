//! The two simulated upstreams, the gateway in front of them, and the switch
//! that breaks them.

use super::scenario::{DRAIN, Scenario};
use super::settings::{
    self, FALLBACK_MS, INTER_TOKEN_MS, PRIMARY_MS, PROVIDERS, RETRY_AFTER, ROLE, SLOW, TOKENS,
};
use anyhow::Context;
use evenkeel_chaos::{Behaviour, Fault, Latency, Upstream, UpstreamConfig};
use evenkeel_core::{KeySource, MissingKey, Observer};
use evenkeel_gateway::{GatewayMetrics, Limits, Server};
use evenkeel_otel_emit::metrics::Exposition;
use evenkeel_providers::{Client, ClientConfig, Dialect};
use evenkeel_roster::{Config, SourceFile};
use evenkeel_router::Router;
use http::Uri;
use secrecy::SecretString;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Upstreams and gateway. Dropping it ends them.
#[derive(Debug)]
pub(super) struct World {
    /// Primary and fallback.
    upstreams: [Upstream; 2],
    router: Router,
    address: SocketAddr,
    patience: Duration,
    gateway: JoinSet<()>,
    stop: CancellationToken,
}

impl World {
    /// Starts everything on free loopback ports, the gateway at `listen`, in good
    /// health. Latencies and jitter are drawn from `seed`, so that runs with the same one differ by
    /// the machine alone.
    ///
    /// # Errors
    /// Where no port is to be had, or the demo's own settings are refused.
    pub(super) async fn start(
        scenario: Scenario,
        seed: u64,
        listen: SocketAddr,
        observer: Arc<dyn Observer>,
    ) -> anyhow::Result<Self> {
        let upstreams = [
            upstream(PROVIDERS[0], seed, healthy(PRIMARY_MS)).await?,
            upstream(PROVIDERS[1], seed, healthy(FALLBACK_MS)).await?,
        ];
        let urls = upstreams.each_ref().map(Upstream::base_url);
        let mut config = config(scenario, &urls)?;
        config.server.listen = listen.to_string();
        let metrics = Arc::new(GatewayMetrics::new(&config, Exposition::new()?));
        let observers: Vec<Arc<dyn Observer>> = vec![observer, metrics.observer()];
        let router = router(&config, &urls, seed, Arc::new(observers))?;
        let patience = config.roles[ROLE].policy.first_token_p95;
        let limits = Limits {
            drain: DRAIN,
            ..Limits::default()
        };
        let server = Server::bind(&config.server, router.clone(), limits)
            .context("cannot start the gateway")?
            .with_metrics(metrics);
        let address = server.local_addr();
        let stop = CancellationToken::new();
        let mut gateway = JoinSet::new();
        gateway.spawn(server.run(stop.clone().cancelled_owned()));
        Ok(Self {
            upstreams,
            router,
            address,
            patience,
            gateway,
            stop,
        })
    }

    /// The gateway's chat completions endpoint.
    pub(super) fn url(&self) -> Uri {
        format!("http://{}/v1/chat/completions", self.address)
            .parse()
            .expect("a socket address makes a valid URL")
    }

    /// Where the gateway listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How long an attempt may run before a hedge starts.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// What the scenario is about happens now.
    pub(super) fn break_down(&self, scenario: Scenario) {
        let [primary, fallback] = &self.upstreams;
        let well = healthy(PRIMARY_MS);
        primary.set(match scenario {
            Scenario::Spike => Behaviour {
                first_token: Latency::Fixed(SLOW),
                ..well
            },
            Scenario::Ramp => Behaviour {
                first_token: Latency::Ramp {
                    from: Duration::from_millis(PRIMARY_MS.0),
                    to: SLOW,
                    over: scenario.course().fault(),
                },
                ..well
            },
            Scenario::Outage | Scenario::AllDown => well.with_fault(Fault::status(500)),
            Scenario::Hang => well.with_fault(Fault::Hang),
            Scenario::Ratelimit => well.with_fault(Fault::rate_limited(RETRY_AFTER)),
        });
        if scenario == Scenario::AllDown {
            fallback.set(healthy(FALLBACK_MS).with_fault(Fault::status(500)));
        }
    }

    /// Everything is as it was before.
    pub(super) fn heal(&self) {
        let [primary, fallback] = &self.upstreams;
        primary.set(healthy(PRIMARY_MS));
        fallback.set(healthy(FALLBACK_MS));
    }

    /// Calls that have reached the upstreams, probes included.
    pub(super) fn upstream_calls(&self) -> u64 {
        self.upstreams.iter().map(|u| u.stats().started).sum()
    }

    /// Ends gateway, router and upstreams, in this order, and waits for them.
    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        while self.gateway.join_next().await.is_some() {}
        self.router.shutdown().await;
        for upstream in self.upstreams {
            upstream.stop().await;
        }
    }
}

/// A model in good health: median and 99th percentile of its time to the
/// first token, in milliseconds.
fn healthy((median, p99): (u64, u64)) -> Behaviour {
    Behaviour::healthy(Latency::lognormal_millis(median, p99))
        .with_tokens(TOKENS)
        .with_inter_token(Duration::from_millis(INTER_TOKEN_MS))
}

async fn upstream(name: &str, seed: u64, behaviour: Behaviour) -> anyhow::Result<Upstream> {
    let config = UpstreamConfig::named(name)
        .with_seed(seed)
        .with_behaviour(behaviour);
    Upstream::start(config)
        .await
        .with_context(|| format!("cannot start the simulated upstream `{name}`"))
}

/// The settings as a gateway reads them from its config folder.
fn config(scenario: Scenario, urls: &[String; 2]) -> anyhow::Result<Config> {
    let files = [
        SourceFile::new("evenkeel.toml", settings::main_file(scenario, urls)),
        SourceFile::new("policy.toml", settings::POLICY),
        SourceFile::new("roster.toml", settings::ROSTER),
    ];
    // No model of the demo has an end of life, so any day will do.
    let today = jiff::civil::date(2026, 1, 1);
    let loaded = evenkeel_roster::load(&files, &|_| None, today)
        .context("the demo's own settings are refused")?;
    Ok(loaded.config)
}

fn router(
    config: &Config,
    urls: &[String; 2],
    seed: u64,
    observer: Arc<dyn Observer>,
) -> anyhow::Result<Router> {
    let mut builder = Router::builder(config).observer(observer).seed(seed);
    for (name, url) in PROVIDERS.into_iter().zip(urls) {
        let client = Client::new(ClientConfig {
            dialect: Dialect::OpenAi,
            base_url: url.clone(),
            key: Arc::new(NoKey),
            propagate: false,
        })?;
        builder = builder.provider(name, Arc::new(client));
    }
    Ok(builder.build()?)
}

/// The simulated upstreams take no key.
#[derive(Debug)]
struct NoKey;

impl KeySource for NoKey {
    fn key(&self) -> Result<Option<SecretString>, MissingKey> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    /// What the opening says of patience is what the configuration leads to.
    #[test]
    fn the_settings_of_every_scenario_are_accepted() {
        let urls = ["http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"].map(str::to_owned);
        for scenario in Scenario::value_variants() {
            let config = config(*scenario, &urls).unwrap();
            let role = &config.roles[ROLE];
            assert_eq!(role.policy.first_token_p95, Duration::from_millis(600));
            let models = role.rungs.iter().map(|rung| rung.model.as_str());
            let expected = [settings::PRIMARY, settings::FALLBACK];
            assert!(models.eq(expected), "{scenario:?}");
        }
    }
}
