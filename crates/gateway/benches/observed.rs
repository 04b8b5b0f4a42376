//! What it costs to observe a call: spans that are sampled and handed to an exporter that
//! forgets them, metrics, the audit log on a disk that is not waited for, log lines.
//!
//! `cargo bench -p evenkeel-gateway --bench observed -- [ROUNDS]`: the same call through the
//! same router, heard by nobody and by each and by all. Models answer at once, so that what
//! is left is the router and its observers. The variants take turns, some hundred calls
//! each, and medians are taken over the turns; the floor is the router that nobody hears.
//! A line of JSON for each: what a call takes of the thread that makes it, and what all
//! threads together work for it, both by the clocks of work, so that a busy machine only
//! makes them dearer by its caches.

use evenkeel_core::{
    CallContext, ChatRequest, ChatResponse, Class, EventStream, Extra, Failure, Finish, ModelId,
    Observer, Part, Provider, ProviderCall, SystemClock, TraceContext, Usage,
};
use evenkeel_gateway::LogObserver;
use evenkeel_otel_emit::audit::{AuditLog, AuditSink, FileSink, FileSinkConfig, SyncPolicy};
use evenkeel_otel_emit::metrics::{
    Build, Catalogue, Exposition, Metrics, ModelEntry, RoleEntry, RosterEntry, RungEntry,
};
use evenkeel_otel_emit::spans::Spans;
use evenkeel_roster::{
    BreakerPolicy, Config, Dialect, HedgeMode, ModelConfig, ProviderConfig, RoleConfig, RolePolicy,
    RungConfig,
};
use evenkeel_router::Router;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData, SpanExporter,
};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Calls of one turn: few enough that nothing that waits is dropped.
const CALLS: u32 = 400;
const ROUNDS: u32 = 60;
const ROLE: &str = "planner";

/// Takes spans and forgets them.
#[derive(Debug)]
struct Nowhere;

impl SpanExporter for Nowhere {
    async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
        Ok(())
    }
}

/// Answers at once, or is overloaded.
#[derive(Debug)]
struct AtOnce {
    is_well: bool,
}

#[async_trait::async_trait]
impl Provider for AtOnce {
    async fn complete(&self, _: ProviderCall) -> Result<ChatResponse, Failure> {
        if !self.is_well {
            return Err(Failure::new(Class::Overloaded, "busy").with_status(503));
        }
        Ok(ChatResponse {
            id: "chatcmpl-1".to_owned(),
            model: "m-2026-11-01".to_owned(),
            created: 1_700_000_000,
            parts: vec![Part::Text("hello".to_owned())],
            finish: Finish::Stop,
            usage: Some(Usage {
                input: 812,
                output: 144,
                ..Usage::default()
            }),
            adapted: Vec::new(),
            rate_limits: None,
            extra: Extra::default(),
        })
    }

    async fn stream(&self, _: ProviderCall) -> Result<EventStream, Failure> {
        Err(Failure::new(Class::BadRequest, "whole answers alone"))
    }
}

fn ids() -> [ModelId; 2] {
    ["p0/m", "p1/m"].map(|id| ModelId::new(id).expect("a model"))
}

/// Two rungs whose breakers never open: every call is like the others.
fn config() -> Config {
    let never = BreakerPolicy {
        failure_threshold: 1_000_000,
        min_calls: 1_000_000,
        ..BreakerPolicy::default()
    };
    let mut config = Config::default();
    for id in ids() {
        let mut provider = ProviderConfig::new(id.provider(), Dialect::OpenAi);
        provider.base_url = Some(format!("https://{}.test/v1", id.provider()));
        provider.breaker = never.clone();
        config.providers.insert(provider.name.clone(), provider);
        let mut model = ModelConfig::new(id.clone());
        model.breaker = never.clone();
        (model.input_usd_per_mtok, model.output_usd_per_mtok) = (Some(1.25), Some(10.0));
        config.models.insert(id, model);
    }
    let second = Duration::from_secs(1);
    let mut policy = RolePolicy::new(5 * second, 8 * second, 15 * second);
    policy.retry.overloaded = 0;
    policy.hedge.mode = HedgeMode::Off;
    let [primary, fallback] = ids();
    let role = RoleConfig {
        name: ROLE.to_owned(),
        policy,
        rungs: vec![
            RungConfig::primary(primary),
            RungConfig::fallback(fallback, 0.9),
        ],
    };
    config.roles.insert(ROLE.to_owned(), role);
    config
}

fn catalogue() -> Catalogue {
    let rungs = ids().map(|model| RungEntry {
        model,
        quality: None,
    });
    Catalogue {
        roles: vec![RoleEntry {
            name: ROLE.into(),
            task_types: Vec::new(),
            rosters: vec![RosterEntry {
                task: None,
                rungs: rungs.to_vec(),
            }],
            limits: Vec::new(),
            keeps_tickets: false,
            shadow: None,
        }],
        models: ids()
            .map(|id| ModelEntry {
                id,
                eol: None,
                is_priced: true,
            })
            .to_vec(),
        providers: vec!["p0".into(), "p1".into()],
        workflows: Vec::new(),
    }
}

/// Who hears a router, and what of theirs is still to be done when a call has ended.
#[derive(Default)]
struct Heard {
    observers: Vec<Arc<dyn Observer>>,
    spans: Option<SdkTracerProvider>,
    audit: Option<Arc<FileSink>>,
    /// Kept, so that there is something to count on.
    exposition: Option<Exposition>,
}

impl Heard {
    fn with_spans(mut self, sampler: Sampler) -> Self {
        let queue = BatchConfigBuilder::default().with_max_queue_size(16_384);
        let batches = BatchSpanProcessor::builder(Nowhere)
            .with_batch_config(queue.build())
            .build();
        let provider = SdkTracerProvider::builder()
            .with_sampler(sampler)
            .with_span_processor(batches)
            .build();
        let spans = Spans::new(provider.tracer("evenkeel"), Arc::new(SystemClock));
        self.observers.push(Arc::new(spans));
        self.spans = Some(provider);
        self
    }

    fn with_log(mut self) -> Self {
        let mut log = LogObserver::new();
        if self.spans.is_some() {
            log = log.with_traces_of(self.observers[0].clone());
        }
        self.observers.push(Arc::new(log));
        self
    }

    fn with_metrics(mut self) -> Self {
        let exposition = Exposition::new().expect("an exporter");
        let build = Build {
            version: "0",
            revision: "0",
        };
        let metrics = Metrics::new(&exposition.meter(), catalogue(), build);
        self.observers.push(Arc::new(metrics));
        self.exposition = Some(exposition);
        self
    }

    fn with_audit(mut self, folder: &Path) -> Self {
        let config = FileSinkConfig {
            sync: SyncPolicy::Never,
            ..FileSinkConfig::new(folder.to_owned(), "bench")
        };
        let sink = Arc::new(FileSink::open(&config).expect("a folder of our own"));
        let mut records = AuditLog::new(sink.clone(), None);
        if self.spans.is_some() {
            records = records.with_traces(self.observers[0].clone());
        }
        self.observers.push(Arc::new(records));
        self.audit = Some(sink);
        self
    }

    /// Whether those who count have counted.
    fn check(&self) {
        if let Some(exposition) = &self.exposition {
            let text = exposition.text().expect("it can be written");
            let counted = text
                .lines()
                .any(|line| line.starts_with("evenkeel_requests_total{") && !line.ends_with(" 0"));
            assert!(counted, "nobody has counted the calls");
        }
    }

    /// Waits until what was handed on has been written and sent.
    fn settle(&self) {
        if let Some(spans) = &self.spans {
            spans.force_flush().expect("nowhere takes everything");
        }
        if let Some(audit) = &self.audit {
            while audit.status().waiting > 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(audit.status().lost, 0, "a turn fits the queue");
        }
    }
}

/// A router that somebody hears, and what its turns came to.
struct Variant {
    name: &'static str,
    heard: Heard,
    router: Router,
    /// What a call took of its own thread, microseconds, a turn each.
    took: Vec<f64>,
    /// What all threads worked for it, in all turns.
    worked: Duration,
}

impl Variant {
    fn new(name: &'static str, heard: Heard, is_well: bool) -> Self {
        let config = config();
        let mut builder = Router::builder(&config);
        for (provider, is_well) in [("p0", is_well), ("p1", true)] {
            builder = builder.provider(provider, Arc::new(AtOnce { is_well }));
        }
        if !heard.observers.is_empty() {
            builder = builder.observer(Arc::new(heard.observers.clone()));
        }
        Self {
            name,
            heard,
            router: builder.build().expect("a router"),
            took: Vec::new(),
            worked: Duration::ZERO,
        }
    }

    fn turn(&mut self, runtime: &Runtime) {
        let all = worked(ClockId::ProcessCPUTime);
        let own = worked(ClockId::ThreadCPUTime);
        runtime.block_on(async {
            for _ in 0..CALLS {
                let answer = self
                    .router
                    .complete(ROLE, ChatRequest::user("hello"), context());
                std::hint::black_box(answer.await.expect("one of the two answers"));
            }
        });
        let took = worked(ClockId::ThreadCPUTime).saturating_sub(own);
        self.heard.settle();
        self.took.push(took.as_secs_f64() * 1e6 / f64::from(CALLS));
        self.worked += worked(ClockId::ProcessCPUTime).saturating_sub(all);
    }

    fn median(&self) -> f64 {
        let mut took = self.took.clone();
        took.sort_by(f64::total_cmp);
        took[took.len() / 2]
    }
}

fn context() -> CallContext {
    CallContext {
        request_id: Some("evk-0123456789abcdef-2a".into()),
        trace: Some(TraceContext {
            traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
            tracestate: "".into(),
        }),
        ..CallContext::default()
    }
}

/// What a clock of work says: another process that has the core adds nothing to it.
fn worked(of: ClockId) -> Duration {
    let now = clock_gettime(of);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(now.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}

fn main() -> std::io::Result<()> {
    // Lines are made as ever, and written nowhere.
    let lines = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(tracing::Level::INFO)
        .with_writer(std::io::sink);
    lines.init();
    let rounds = std::env::args().skip(1).find_map(|text| text.parse().ok());
    let rounds: u32 = rounds.unwrap_or(ROUNDS);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let folder = tempfile::tempdir()?;
    let mut out = std::io::stdout();
    for (call, is_well) in [("answered by its primary", true), ("failed over", false)] {
        let _within = runtime.enter();
        let at = |name: &str| folder.path().join(format!("{name}-{is_well}"));
        let heard = [
            ("nobody", Heard::default()),
            ("spans", Heard::default().with_spans(Sampler::AlwaysOn)),
            (
                "spans, not sampled",
                Heard::default().with_spans(Sampler::AlwaysOff),
            ),
            ("metrics", Heard::default().with_metrics()),
            ("audit log", Heard::default().with_audit(&at("audit"))),
            ("log", Heard::default().with_log()),
            (
                "all",
                Heard::default()
                    .with_spans(Sampler::AlwaysOn)
                    .with_log()
                    .with_metrics()
                    .with_audit(&at("all")),
            ),
        ];
        let mut variants = heard.map(|(name, heard)| Variant::new(name, heard, is_well));
        for round in 0..=rounds {
            for variant in &mut variants {
                variant.turn(&runtime);
                if round == 0 {
                    // Warm.
                    (variant.took, variant.worked) = (Vec::new(), Duration::ZERO);
                }
            }
        }
        let calls = f64::from(CALLS) * f64::from(rounds);
        let worked = |variant: &Variant| variant.worked.as_secs_f64() * 1e6 / calls;
        let (floor, floor_worked) = (variants[0].median(), worked(&variants[0]));
        for variant in &variants {
            variant.heard.check();
            let tenths = |us: f64| (us * 10.0).round() / 10.0;
            let line = json!({
                "call": call,
                "heard_by": variant.name,
                "takes_us": tenths(variant.median()),
                "adds_us": tenths(variant.median() - floor),
                "all_threads_add_us": tenths(worked(variant) - floor_worked),
            });
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}
