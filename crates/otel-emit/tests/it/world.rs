//! A router over simulated models, watched by spans that are kept in memory.

use evenkeel_chaos::{Behaviour, Latency, Simulated};
use evenkeel_core::{CallContext, ChatRequest, Clock, ModelId, Provider, TraceContext};
use evenkeel_otel_emit::Capture;
use evenkeel_otel_emit::spans::{Records, Spans};
use evenkeel_roster::{
    Config, Dialect, ModelConfig, ProviderConfig, RoleConfig, RolePolicy, RungConfig,
};
use evenkeel_router::{Answer, CallError, Router, RouterBuilder};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::trace::{Link, SpanKind, TraceId};
use opentelemetry::{Array, Value};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{
    InMemorySpanExporter, Sampler, SamplingResult, SdkTracer, SdkTracerProvider, ShouldSample,
    SpanData,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

pub(crate) const ROLE: &str = "planner";

/// The trace that every call comes in on, and the span that it is a child of.
pub(crate) const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
pub(crate) const PARENT: &str = "b7ad6b7169203331";

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The calendar by the runtime's clock, which stands still but for sleeps.
#[derive(Debug)]
pub(crate) struct PausedClock(Instant);

impl PausedClock {
    pub(crate) fn new() -> Self {
        Self(tokio::time::Instant::now().into_std())
    }
}

impl Clock for PausedClock {
    fn now(&self) -> SystemTime {
        let now = tokio::time::Instant::now().into_std();
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_000_000) + (now - self.0)
    }
}

/// A span's name, and the keys that it came with.
type Sampled = (String, Vec<String>);

/// A sampler that notes which attributes it had to go by, span by span.
#[derive(Debug, Clone)]
struct Noting {
    inner: Sampler,
    seen: Arc<Mutex<Vec<Sampled>>>,
}

impl ShouldSample for Noting {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let keys = attributes.iter().map(|kv| kv.key.to_string()).collect();
        self.seen.lock().unwrap().push((name.to_owned(), keys));
        self.inner
            .should_sample(parent, trace, name, kind, attributes, links)
    }
}

type Change = Box<dyn Fn(usize, &mut ModelConfig)>;

/// What a test changes of the world before it is built.
pub(crate) struct Plan {
    policy: RolePolicy,
    rungs: Vec<Arc<dyn Provider>>,
    model: Change,
    sampler: Sampler,
    records: Records,
    capture: Option<Capture>,
    propagate: bool,
}

/// Rungs `p0/m`, `p1/m`, …
pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) spans: Arc<Spans<SdkTracer>>,
    exporter: InMemorySpanExporter,
    sampler: Noting,
    _provider: SdkTracerProvider,
}

/// A healthy model that answers in exactly `first` ms, at once and whole.
pub(crate) fn steady(first: u64) -> Behaviour {
    Behaviour::healthy(Latency::millis(first))
        .with_tokens(5)
        .with_inter_token(Duration::ZERO)
}

/// A simulated provider for the rung of that number.
pub(crate) fn simulated(rung: usize, behaviour: Behaviour) -> Simulated {
    Simulated::new(&format!("p{rung}"), 7 + rung as u64).model("m", behaviour)
}

impl Plan {
    /// p95 1 s, p99 2 s, window 20 s; retries off.
    pub(crate) fn new(rungs: Vec<Behaviour>) -> Self {
        let rungs = rungs.into_iter().enumerate();
        Self::of(rungs.map(|(i, b)| Arc::new(simulated(i, b)) as _).collect())
    }

    pub(crate) fn of(rungs: Vec<Arc<dyn Provider>>) -> Self {
        let mut policy = RolePolicy::new(ms(1_000), ms(2_000), Duration::from_secs(20));
        policy.retry.rate_limited = 0;
        policy.retry.transient = 0;
        policy.retry.overloaded = 0;
        policy.retry.malformed = 0;
        policy.retry.semantic = 0;
        Self {
            policy,
            rungs,
            model: Box::new(|_, _| {}),
            sampler: Sampler::ParentBased(Box::new(Sampler::AlwaysOn)),
            records: Records::default(),
            capture: None,
            propagate: false,
        }
    }

    pub(crate) fn policy(mut self, change: impl FnOnce(&mut RolePolicy)) -> Self {
        change(&mut self.policy);
        self
    }

    pub(crate) fn model(mut self, change: impl Fn(usize, &mut ModelConfig) + 'static) -> Self {
        self.model = Box::new(change);
        self
    }

    pub(crate) fn sampler(mut self, sampler: Sampler) -> Self {
        self.sampler = sampler;
        self
    }

    pub(crate) fn records(mut self, records: Records) -> Self {
        self.records = records;
        self
    }

    pub(crate) fn capture(mut self, capture: Capture) -> Self {
        self.capture = Some(capture);
        self
    }

    pub(crate) fn propagate(mut self) -> Self {
        self.propagate = true;
        self
    }

    fn config(&self) -> Config {
        let ids: Vec<ModelId> = (0..self.rungs.len())
            .map(|i| ModelId::new(&format!("p{i}/m")).unwrap())
            .collect();
        let mut models = BTreeMap::new();
        let mut providers = BTreeMap::new();
        for (i, id) in ids.iter().enumerate() {
            let mut model = ModelConfig::new(id.clone());
            (self.model)(i, &mut model);
            models.insert(id.clone(), model);
            let mut provider = ProviderConfig::new(id.provider(), Dialect::OpenAi);
            provider.base_url = Some(format!("https://p{i}.test:8443/v1?key=secret"));
            provider.propagate = self.propagate;
            providers.insert(provider.name.clone(), provider);
        }
        let rungs = ids.iter().enumerate().map(|(i, id)| match i {
            0 => RungConfig::primary(id.clone()),
            _ => RungConfig::fallback(id.clone(), 0.9),
        });
        let role = RoleConfig {
            name: ROLE.to_owned(),
            policy: self.policy.clone(),
            rungs: rungs.collect(),
        };
        Config {
            roles: BTreeMap::from([(ROLE.to_owned(), role)]),
            models,
            providers,
            ..Config::default()
        }
    }

    pub(crate) fn build(self) -> World {
        self.build_with(|builder| builder)
    }

    pub(crate) fn build_with(
        self,
        change: impl FnOnce(RouterBuilder<'_>) -> RouterBuilder<'_>,
    ) -> World {
        let exporter = InMemorySpanExporter::default();
        let sampler = Noting {
            inner: self.sampler.clone(),
            seen: Arc::default(),
        };
        let provider = SdkTracerProvider::builder()
            .with_sampler(sampler.clone())
            .with_simple_exporter(exporter.clone())
            .build();
        let spans = Spans::new(provider.tracer("evenkeel"), Arc::new(PausedClock::new()))
            .with_records(self.records.clone())
            .with_content(self.capture.clone());
        let spans = Arc::new(spans);
        let config = self.config();
        let mut builder = Router::builder(&config).observer(spans.clone()).seed(42);
        for (i, provider) in self.rungs.into_iter().enumerate() {
            builder = builder.provider(&format!("p{i}"), provider);
        }
        World {
            router: change(builder).build().unwrap(),
            spans,
            exporter,
            sampler,
            _provider: provider,
        }
    }
}

/// The context of every call: it came in on a trace.
pub(crate) fn context() -> CallContext {
    CallContext {
        request_id: Some("req-1".into()),
        task: Some("plan".into()),
        trace: Some(TraceContext {
            traceparent: format!("00-{TRACE}-{PARENT}-01").into(),
            tracestate: "vendor=x".into(),
        }),
        ..CallContext::default()
    }
}

impl World {
    pub(crate) async fn ask(&self) -> Result<Answer, CallError> {
        self.router
            .complete(ROLE, ChatRequest::user("hello"), context())
            .await
    }

    /// The spans that have ended, in the order of their ends.
    pub(crate) fn ended(&self) -> Vec<SpanData> {
        self.exporter.get_finished_spans().unwrap()
    }

    /// The attributes that each span of that name came with, when it began.
    pub(crate) fn sampled_by(&self, name: &str) -> Vec<Vec<String>> {
        let seen = self.sampler.seen.lock().unwrap();
        let named = seen.iter().filter(|(known, _)| known == name);
        named.map(|(_, keys)| keys.clone()).collect()
    }

    /// Those of that name.
    pub(crate) fn named(&self, name: &str) -> Vec<SpanData> {
        let all = self.ended().into_iter();
        all.filter(|span| span.name == name).collect()
    }

    /// Every event of that name, with the name of its span.
    pub(crate) fn events(&self, name: &str) -> Vec<(String, BTreeMap<String, Value>)> {
        let mut events = Vec::new();
        for span in self.ended() {
            for event in span.events.iter().filter(|event| event.name == name) {
                let attributes = event.attributes.iter();
                let attributes = attributes.map(|kv| (kv.key.to_string(), kv.value.clone()));
                events.push((span.name.to_string(), attributes.collect()));
            }
        }
        events
    }
}

/// The value of an attribute of a span.
pub(crate) fn value(span: &SpanData, key: &str) -> Option<Value> {
    let mut found = span.attributes.iter().filter(|kv| kv.key.as_str() == key);
    let value = found.next().map(|kv| kv.value.clone());
    assert!(found.next().is_none(), "{key} is there twice");
    value
}

/// The text of an attribute of a span.
pub(crate) fn text(span: &SpanData, key: &str) -> Option<String> {
    value(span, key).map(|value| value.to_string())
}

/// A value, and of what type it is.
pub(crate) fn typed(value: &Value) -> String {
    match value {
        Value::Bool(b) => b.to_string(),
        Value::I64(n) => n.to_string(),
        Value::F64(n) => format!("{n:?}"),
        Value::String(text) => format!("{:?}", text.as_str()),
        Value::Array(Array::String(texts)) => {
            let texts: Vec<_> = texts
                .iter()
                .map(opentelemetry::StringValue::as_str)
                .collect();
            format!("{texts:?}")
        }
        other => format!("{other:?}"),
    }
}
