//! A gateway over upstreams of the chaos crate, as a user would configure it.

use crate::wire::{self, Reply};
use evenkeel::Settings;
use evenkeel_chaos::{Behaviour, Upstream, UpstreamConfig};
use evenkeel_core::Observer;
use evenkeel_gateway::{GatewayMetrics, HttpValidators, Limits, LogObserver, Server, Tickets};
use evenkeel_otel_emit::metrics::Exposition;
use evenkeel_router::Router;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A running gateway with one role, `planner`.
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    /// Where operators are served, if they are.
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) router: Router,
    /// The folder that its configuration stands in.
    folder: TempDir,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    /// The work on tickets, which ends with the test.
    _background: JoinSet<()>,
}

/// What differs from the usual configuration.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    /// Where it listens.
    pub(crate) listen: &'static str,
    /// Lines of `[server]`.
    pub(crate) server: &'static str,
    /// Lines of the role.
    pub(crate) role: &'static str,
    /// Keys of each fallback.
    pub(crate) fallback: &'static str,
    /// Keys of each provider.
    pub(crate) provider: &'static str,
    /// Tables that providers share.
    pub(crate) shared: &'static str,
    pub(crate) limits: Limits,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0",
            server: "",
            role: "",
            fallback: "",
            provider: "",
            shared: "",
            limits: Limits::default(),
        }
    }
}

/// An upstream that behaves so.
pub(crate) async fn upstream(name: &str, behaviour: Behaviour) -> Upstream {
    let config = UpstreamConfig::named(name).with_behaviour(behaviour);
    Upstream::start(config).await.unwrap()
}

impl Gateway {
    /// In front of these upstreams, the first being the primary.
    pub(crate) fn start(upstreams: &[&Upstream]) -> Self {
        Self::with(upstreams, Setup::default())
    }

    pub(crate) fn with(upstreams: &[&Upstream], setup: Setup) -> Self {
        Self::with_more(upstreams, setup, "")
    }

    /// With more tables.
    pub(crate) fn with_more(upstreams: &[&Upstream], setup: Setup, tables: &str) -> Self {
        Self::observed(upstreams, setup, tables, Arc::new(LogObserver::new()))
    }

    pub(crate) fn observed(
        upstreams: &[&Upstream],
        setup: Setup,
        tables: &str,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("evenkeel.toml");
        let text = format!("{}\n{tables}", config(upstreams, setup));
        std::fs::write(&path, text).unwrap();
        let settings = Settings::load(&path).unwrap();
        let exposition = Exposition::new().unwrap();
        let metrics = Arc::new(GatewayMetrics::new(settings.config(), exposition));
        let observer: Arc<dyn Observer> = Arc::new(vec![observer, metrics.observer()]);
        let validators = HttpValidators::new().unwrap();
        let mut builder = settings
            .router_builder(observer.clone())
            .unwrap()
            .http_validators(move |service| validators.validator(service));
        let config = settings.config();
        let tickets = settings.state_dir().map(|folder| {
            let meta_key = &config.server.meta_key;
            Arc::new(Tickets::open(&folder, &config.tickets, meta_key, observer).unwrap())
        });
        if let Some(tickets) = &tickets {
            builder = builder.tickets(tickets.clone());
        }
        let router = builder.build().unwrap();
        let mut server = Server::bind(&config.server, router.clone(), setup.limits)
            .unwrap()
            .with_metrics(metrics)
            .reading(path, settings);
        let mut background = JoinSet::new();
        if let Some(tickets) = tickets {
            server = server.with_tickets(tickets.clone());
            background.spawn(async move { tickets.run(CancellationToken::new()).await });
        }
        let (mut address, admin) = (server.local_addr(), server.admin_addr());
        if address.ip().is_unspecified() {
            address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let stopped = stop.clone();
        tasks.spawn(async move { server.run(stopped.cancelled()).await });
        Self {
            address,
            admin,
            router,
            folder,
            stop,
            tasks,
            _background: background,
        }
    }

    /// The text of its configuration, as it is on disk.
    pub(crate) fn file(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("evenkeel.toml")).unwrap()
    }

    /// Writes another configuration, which a reload will read.
    pub(crate) fn rewrite(&self, text: &str) {
        std::fs::write(self.folder.path().join("evenkeel.toml"), text).unwrap();
    }

    /// Asks for a shutdown.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the server has ended.
    pub(crate) async fn ended(mut self) {
        self.tasks.join_next().await.unwrap().unwrap();
    }

    /// Sends a chat request.
    pub(crate) async fn chat(&self, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        wire::send(self.address, &chat(headers, body)).await
    }

    /// Sends a good request for a whole answer.
    pub(crate) async fn ask(&self) -> Reply {
        self.chat(&[], &question(&json!({}))).await
    }

    /// Sends a good request for a stream.
    pub(crate) async fn ask_stream(&self) -> Reply {
        self.chat(&[], &question(&json!({"stream": true}))).await
    }

    /// Asserts that the gateway is as well as ever.
    pub(crate) async fn assert_well(&self) {
        let reply = self.ask().await;
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
}

/// Bytes of a chat request.
pub(crate) fn chat(headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    wire::request("POST /v1/chat/completions", headers, body)
}

/// A good body with these fields beside.
pub(crate) fn question(fields: &Value) -> Vec<u8> {
    let mut body = json!({
        "model": "planner",
        "messages": [{ "role": "user", "content": "Say hi. n42" }],
    });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body.to_string().into_bytes()
}

fn config(upstreams: &[&Upstream], setup: Setup) -> String {
    let providers: Vec<String> = upstreams
        .iter()
        .enumerate()
        .map(|(i, upstream)| {
            let url = upstream.base_url();
            format!(
                "[providers.p{i}]\ndialect = \"openai\"\nbase_url = \"{url}\"\napi_key = \"sk-upstream-{i}\"\n{}\n",
                setup.provider
            )
        })
        .collect();
    let fallbacks: Vec<String> = (1..upstreams.len())
        .map(|i| {
            let comma = if setup.fallback.is_empty() { "" } else { ", " };
            format!(
                "{{ model = \"p{i}/m{i}\", rank = {i}{comma}{} }}",
                setup.fallback
            )
        })
        .collect();
    let Setup {
        listen,
        server,
        role,
        shared,
        ..
    } = setup;
    format!(
        r#"
        [server]
        listen = "{listen}"
        {server}
        {shared}
        {providers}
        [agent_roles.planner]
        p95_threshold_ms = 5000
        p99_threshold_ms = 8000
        evaluation_window_seconds = 15
        allow_unqualified = true
        retry = {{ rate_limited = 0, transient = 0, overloaded = 0, malformed = 0, semantic = 0 }}
        primary = "p0/m0"
        fallbacks = [{fallbacks}]
        {role}
        "#,
        providers = providers.concat(),
        fallbacks = fallbacks.join(", "),
    )
}
