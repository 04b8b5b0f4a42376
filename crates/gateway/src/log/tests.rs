//! Log lines as whoever reads them by program sees them.

use super::*;
use evenkeel_core::{
    DegradationLevel, Latency, ModelId, Refusal, RestorationReason, SubstitutionReason,
};
use serde_json::Value;
use std::io;
use std::sync::Mutex;
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// What was written.
#[derive(Debug, Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Written {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Knows one trace, of every call.
#[derive(Debug)]
struct OneTrace;

impl Observer for OneTrace {
    fn on(&self, _: &Event) {}

    fn call_context(&self, _: CallId) -> Option<TraceContext> {
        Some(TraceContext {
            traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
            tracestate: "".into(),
        })
    }
}

/// The lines of an event that comes so often, from this level on.
pub(super) fn written(
    kind: &EventKind,
    call: Option<CallId>,
    level: tracing::Level,
    times: usize,
) -> String {
    let written = Written::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(level)
        .with_writer(written.clone())
        .finish();
    let log = LogObserver::new().with_traces_of(Arc::new(OneTrace));
    let at = tokio::time::Instant::now().into_std();
    let kind = || kind.clone();
    // With a single dispatcher whichever thread first comes by a line decides for all whether
    // anybody hears it.
    let _another = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    tracing::subscriber::with_default(subscriber, || {
        for _ in 0..times {
            let kind = kind();
            log.on(&Event { at, call, kind });
        }
    });
    let bytes = written.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

/// The one line of an event, at `info`.
fn line(kind: &EventKind, call: Option<CallId>) -> Value {
    serde_json::from_str(&written(kind, call, tracing::Level::INFO, 1)).unwrap()
}

pub(super) fn id(text: &str) -> ModelId {
    ModelId::new(text).unwrap()
}

pub(super) fn latency(p95: Option<Duration>) -> Latency {
    Latency {
        measure: "total",
        p95,
        p99: p95,
        slo_p95: Duration::from_secs(5),
        slo_p99: Duration::from_secs(8),
        samples: u64::from(p95.is_some()),
    }
}

pub(super) fn substitution() -> EventKind {
    EventKind::ModelSubstitution {
        role: "planner".into(),
        task: None,
        epoch: 1,
        primary: id("a/m"),
        from: 0,
        from_model: id("a/m"),
        to: 1,
        to_model: id("b/m"),
        reason: SubstitutionReason::LatencyP95Breach,
        latency: latency(Some(Duration::from_micros(6_200_500))),
    }
}

pub(super) fn hedge() -> EventKind {
    EventKind::HedgeEnded {
        role: "planner".into(),
        task: None,
        request_id: None,
        from: 0,
        from_model: id("a/m"),
        to: 1,
        to_model: id("b/m"),
        result: HedgeResult::Won,
        reason: "patience_exceeded",
        patience: Duration::from_secs(1),
        latency: latency(None),
    }
}

pub(super) fn restoration() -> EventKind {
    EventKind::ModelRestoration {
        role: "planner".into(),
        task: None,
        epoch: 2,
        from: 1,
        from_model: id("b/m"),
        to: 0,
        to_model: id("a/m"),
        duration: Duration::from_secs(42),
        reason: RestorationReason::Recovered,
        latency: latency(Some(Duration::from_secs(1))),
        away: None,
    }
}

pub(super) fn breach(detector: &'static str) -> EventKind {
    EventKind::LatencyBreach {
        role: "planner".into(),
        task: None,
        rung: 0,
        model: id("a/m"),
        detector,
        measure: "total",
        p95: None,
        p99: None,
        slo: Duration::from_secs(5),
        samples: 5,
        window: Duration::from_secs(15),
    }
}

pub(super) fn fallback() -> EventKind {
    EventKind::ModelFallback {
        role: "planner".into(),
        task: None,
        request_id: None,
        primary: id("a/m"),
        fallback: id("b/m"),
        rung: 1,
        reason: "cooldown",
        class: Some(Class::Overloaded),
        status: Some(503),
        latency_added: Duration::from_millis(412),
    }
}

pub(super) fn transition() -> EventKind {
    EventKind::BreakerTransition {
        provider: "a".into(),
        system: "openai".into(),
        model: Some(id("a/m")),
        role: None,
        from: "closed",
        to: "open",
        retry_in: Some(Duration::from_secs(60)),
        cause: "consecutive_failures",
        failures: Some(5),
        class: Some(Class::Overloaded),
    }
}

pub(super) fn degraded() -> EventKind {
    EventKind::WorkflowDegraded {
        workflow: "run-7".into(),
        level: DegradationLevel::Minor,
        depth: 1,
        roles: vec!["planner".into()],
        expected_quality: 0.9,
    }
}

pub(super) fn rejected() -> EventKind {
    EventKind::QualityRejected {
        role: "planner".into(),
        task: None,
        attempt: 1,
        rung: 1,
        model: id("b/m"),
        gate: "schema".into(),
    }
}

pub(super) fn exhausted() -> EventKind {
    EventKind::RosterExhausted {
        role: "planner".into(),
        task: None,
        primary: id("a/m"),
        tried: vec![(id("a/m"), Class::Overloaded)],
        refused: vec![(id("b/m"), Refusal::RateLimitNear(Duration::from_secs(1)))],
        last: Some(Class::Overloaded),
    }
}

/// The contract: what each event is called in the log, and what its line has.
#[test]
fn every_event_of_the_contract_is_a_line_with_its_attributes_and_the_trace() {
    let substituted = "agent.role model.primary model.fallback substitution.reason \
                       latency.p95_ms latency.p99_ms";
    let breached = "agent.role model.primary breach.detector breach.percentile latency.p95_ms \
                    latency.p99_ms latency.slo_ms";
    let fell_back = "agent.role task_type primary_model fallback_model reason latency_added_ms";
    let restored = "agent.role model.primary model.fallback restoration.reason \
                    restoration.duration_ms latency.p95_ms latency.p99_ms";
    let changed = "gen_ai.provider.name model.primary breaker.from breaker.to";
    let degraded_by = "workflow degradation.level evenkeel.degradation_depth degradation.roles";
    let refused = "agent.role model.fallback quality.score quality.gate";
    let left = "agent.role model.primary exhausted.tried exhausted.refused error.type";
    let call = Some(CallId::next());
    for (kind, call, name, level, attributes) in [
        (
            substitution(),
            call,
            "model_substitution",
            "WARN",
            substituted,
        ),
        (hedge(), call, "model_substitution", "INFO", substituted),
        (breach("spike"), call, "latency_breach", "WARN", breached),
        (
            fallback(),
            call,
            "model_fallback_activated",
            "INFO",
            fell_back,
        ),
        (restoration(), None, "model_restoration", "INFO", restored),
        (transition(), call, "breaker_transition", "WARN", changed),
        (degraded(), call, "workflow_degraded", "WARN", degraded_by),
        (rejected(), call, "quality_rejected", "INFO", refused),
        (exhausted(), call, "roster_exhausted", "WARN", left),
    ] {
        let told = line(&kind, call);
        assert_eq!(told["event"], name);
        assert_eq!(told["level"], level, "{told}");
        assert!(told["target"].is_string(), "{told}");
        for key in attributes.split_whitespace() {
            assert!(!told[key].is_null(), "{key} is missing: {told}");
            let is_number = ["_ms", "_depth", ".score"]
                .iter()
                .any(|end| key.ends_with(end));
            assert_eq!(told[key].is_number(), is_number, "{key}: {told}");
        }
        if call.is_some() {
            assert_eq!(told["trace_id"], "0af7651916cd43dd8448eb211c80319c");
            assert_eq!(told["span_id"], "b7ad6b7169203331");
        }
    }
}

#[test]
fn words_of_reasons_and_percentiles_are_the_contracts() {
    assert_eq!(line(&fallback(), None)["reason"], "cooldown");
    let told = line(&exhausted(), None);
    assert_eq!(told["exhausted.tried"], "a/m");
    assert_eq!(told["exhausted.refused"], "b/m:cooldown");
    for (detector, percentile) in [("p95", "p95"), ("p99", "p99"), ("spike", "p95")] {
        assert_eq!(
            line(&breach(detector), None)["breach.percentile"],
            percentile
        );
    }
    // Without a sample the percentiles are 0, and it is said that there is none.
    let told = line(&hedge(), None);
    assert_eq!(
        (&told["latency.p95_ms"], &told["latency.samples"]),
        (&0.0.into(), &0.into())
    );
    assert_eq!(told["substitution.scope"], "request");
    assert_eq!(line(&substitution(), None)["latency.p95_ms"], 6_200.5);
}

/// Lines join with metrics by their models, in a cascade too.
#[test]
fn a_move_of_a_cascade_names_the_role_s_primary_and_half_way_back_is_no_restoration() {
    let mut on = substitution();
    if let EventKind::ModelSubstitution {
        primary,
        from_model,
        ..
    } = &mut on
    {
        (*primary, *from_model) = (id("a/x"), id("a/m"));
    }
    let mut back = restoration();
    if let EventKind::ModelRestoration { away, .. } = &mut back {
        *away = Some(evenkeel_core::Away {
            primary: id("a/x"),
            reason: SubstitutionReason::LatencySpike,
        });
    }
    for (kind, fallback) in [(on, "b/m"), (back, "a/m")] {
        let line = line(&kind, None);
        assert_eq!(line["event"], "model_substitution", "{line}");
        assert_eq!(line["model.primary"], "a/x", "{line}");
        assert_eq!(line["model.fallback"], fallback, "{line}");
    }
}
