//! The real router over simulated models on the paused clock, and what is told of it.

use super::schema;
use evenkeel_chaos::{Behaviour, Latency, Simulated};
use evenkeel_core::{CallContext, ChatRequest, Observer, PolicyStamp, TraceContext};
use evenkeel_otel_emit::audit::{
    AuditLog, AuditSink, AuditStatus, Chain, ContentKey, KindCounts, Record, RecordKind, Verifier,
};
use evenkeel_roster::{Config, SourceFile, load};
use evenkeel_router::Router;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Keeps lines, as a file would hold them.
#[derive(Debug)]
pub(crate) struct Memory {
    lines: Mutex<(Chain, Vec<u8>)>,
    written: KindCounts,
}

impl AuditSink for Memory {
    fn append(&self, record: Box<Record>) {
        self.written.add(record.kind);
        let mut log = self.lines.lock().unwrap();
        let line = log.0.seal(*record).unwrap().line;
        log.1.extend(line);
    }

    fn status(&self) -> AuditStatus {
        AuditStatus {
            written: self.written.total(),
            written_by_kind: RecordKind::ALL
                .map(|kind| (kind, self.written.of(kind)))
                .to_vec(),
            ..AuditStatus::default()
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            lines: Mutex::new((Chain::new("gw-1", true), Vec::new())),
            written: KindCounts::default(),
        }
    }
}

impl Memory {
    /// The text of the log, which is as it must be.
    pub(crate) fn text(&self) -> String {
        let text = String::from_utf8(self.lines.lock().unwrap().1.clone()).unwrap();
        let mut verifier = Verifier::new();
        verifier.read("memory", text.as_bytes()).unwrap();
        let verdict = verifier.finish();
        assert!(verdict.is_sound(), "{:?}", verdict.faults);
        let schema = schema();
        for line in text.lines() {
            let line = serde_json::from_str(line).unwrap();
            let faults: Vec<_> = schema.iter_errors(&line).map(|e| e.to_string()).collect();
            assert!(faults.is_empty(), "{faults:?} in {line}");
        }
        text
    }

    pub(crate) fn records(&self) -> Vec<Value> {
        let text = self.text();
        text.lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect()
    }

    /// Those of a kind.
    pub(crate) fn of(&self, kind: RecordKind) -> Vec<Value> {
        let mut records = self.records();
        records.retain(|record| record["kind"] == kind.as_str());
        records
    }
}

/// A router with a role `planner`: `p0/m`, `p1/m`, `p2/m`.
pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) log: Arc<AuditLog>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) providers: Vec<Simulated>,
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A healthy model that answers in exactly `first` ms, at once and whole.
pub(crate) fn steady(first: u64) -> Behaviour {
    Behaviour::healthy(Latency::millis(first))
        .with_tokens(5)
        .with_inter_token(Duration::ZERO)
}

pub(crate) fn config(role: &str) -> Config {
    let providers = "[providers.p0]
dialect = \"simulated\"
[providers.p1]
dialect = \"simulated\"
[providers.p2]
dialect = \"simulated\"";
    let text = format!(
        r#"
        {providers}
        [breaker]
        failure_threshold = 5
        open_ms = 2000
        jitter = 0.0
        [agent_roles.planner]
        p95_threshold_ms = 1000
        p99_threshold_ms = 2000
        evaluation_window_seconds = 20
        allow_unqualified = true
        retry = {{ rate_limited = 0, transient = 0, overloaded = 0, malformed = 0, semantic = 0 }}
        restore = {{ probe_interval_ms = 1000, restore_after = 1, canary = [], hold_ms = 0 }}
        primary = "p0/m"
        fallbacks = [{{ model = "p1/m", rank = 1 }}, {{ model = "p2/m", rank = 2 }}]
        {role}
        "#
    );
    let today = jiff::civil::date(2026, 11, 29);
    let files = [SourceFile::new("evenkeel.toml", text)];
    load(&files, &|_| None, today).unwrap().config
}

/// A router over such models, and these.
pub(crate) fn routing(
    config: &Config,
    rungs: [Behaviour; 3],
    observer: Arc<dyn Observer>,
) -> (Router, Vec<Simulated>) {
    let providers: Vec<Simulated> = rungs
        .into_iter()
        .enumerate()
        .map(|(n, behaviour)| Simulated::new(&format!("p{n}"), n as u64).model("m", behaviour))
        .collect();
    let mut builder = Router::builder(config).observer(observer).seed(7);
    for (n, provider) in providers.iter().enumerate() {
        builder = builder.provider(&format!("p{n}"), Arc::new(provider.clone()));
    }
    (builder.build().unwrap(), providers)
}

impl World {
    pub(crate) fn new(rungs: [Behaviour; 3]) -> Self {
        Self::with(rungs, "", Vec::new())
    }

    /// With more keys of the role, and others who hear.
    pub(crate) fn with(
        rungs: [Behaviour; 3],
        role: &str,
        observers: Vec<Arc<dyn Observer>>,
    ) -> Self {
        Self::logged(rungs, role, observers, |log| log)
    }

    /// With the hash of what was said.
    pub(crate) fn keyed(rungs: [Behaviour; 3], key: ContentKey) -> Self {
        Self::logged(rungs, "", Vec::new(), |log| log.with_content_key(key))
    }

    /// With a log that is changed before it hears anything; all `observers` hear first.
    pub(crate) fn logged(
        rungs: [Behaviour; 3],
        role: &str,
        mut observers: Vec<Arc<dyn Observer>>,
        change: impl FnOnce(AuditLog) -> AuditLog,
    ) -> Self {
        let config = config(role);
        let stamp = config.stamp.clone();
        let memory = Arc::new(Memory::default());
        let stamp: Option<&PolicyStamp> = stamp.as_deref();
        let log = Arc::new(change(AuditLog::new(memory.clone(), stamp)));
        observers.push(log.clone());
        let (router, providers) = routing(&config, rungs, Arc::new(observers));
        Self {
            router,
            log,
            memory,
            providers,
        }
    }

    pub(crate) fn set(&self, rung: usize, behaviour: Behaviour) {
        self.providers[rung].set("m", behaviour);
    }

    /// Asks in the name of a request; whether it was answered.
    pub(crate) async fn ask(&self, id: &str) -> bool {
        let asked = ChatRequest::user("say something, n42");
        let answer = self.router.complete("planner", asked, context(id));
        answer.await.is_ok()
    }
}

/// A request of that id, in a trace.
pub(crate) fn context(id: &str) -> CallContext {
    CallContext {
        request_id: Some(id.into()),
        workflow: Some("run-1".into()),
        caller: Some("team-a".into()),
        trace: Some(TraceContext {
            traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
            tracestate: "".into(),
        }),
        ..CallContext::default()
    }
}
