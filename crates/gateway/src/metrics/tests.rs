//! What a router does, as metrics show it; on the paused clock.

use super::snapshot::snapshot;
use super::{GatewayMetrics, Pusher, catalogue};
use crate::app::App;
use crate::limits::Limits;
use evenkeel_chaos::{Behaviour, Fault, Latency, Simulated};
use evenkeel_core::{CallContext, ChatRequest, Event, ModelId, Observer};
use evenkeel_document::SourceFile;
use evenkeel_otel_emit::metrics::{Build, Exposition, Metrics};
use evenkeel_replay::{Scenario, replay};
use evenkeel_roster::{Config, ModelConfig, RoleConfig, RolePolicy, RungConfig};
use evenkeel_router::{BreakerAction, BreakerTarget, Router};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::InMemoryMetricExporter;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const BUILD: Build = Build {
    version: "0",
    revision: "0",
};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn steady(first: u64) -> Behaviour {
    Behaviour::healthy(Latency::millis(first))
        .with_tokens(5)
        .with_inter_token(Duration::ZERO)
}

/// The role `agent` with `a/m` and `b/m`, watched.
struct World {
    config: Config,
    router: Router,
    primary: Simulated,
    metrics: Arc<Metrics>,
    exposition: Exposition,
}

impl World {
    fn new(change: impl FnOnce(&mut RolePolicy)) -> Self {
        let mut policy = RolePolicy::new(ms(1_000), ms(2_000), ms(20_000));
        policy.restore.probe_interval = ms(1_000);
        policy.restore.canary = Vec::new();
        change(&mut policy);
        let models = ["a/m", "b/m"].map(|id| ModelId::new(id).unwrap());
        let mut config = Config::default();
        for model in &models {
            config
                .models
                .insert(model.clone(), ModelConfig::new(model.clone()));
        }
        let [primary, fallback] = models;
        let role = RoleConfig {
            name: "agent".into(),
            policy,
            rungs: vec![
                RungConfig::primary(primary),
                RungConfig::fallback(fallback, 0.9),
            ],
        };
        config.roles.insert("agent".into(), role);
        let exposition = Exposition::new().unwrap();
        let metrics = Arc::new(Metrics::new(&exposition.meter(), catalogue(&config), BUILD));
        let primary = Simulated::new("a", 1).model("m", steady(100));
        let router = Router::builder(&config)
            .provider("a", Arc::new(primary.clone()))
            .provider(
                "b",
                Arc::new(Simulated::new("b", 2).model("m", steady(150))),
            )
            .observer(metrics.clone())
            .build()
            .unwrap();
        Self {
            config,
            router,
            primary,
            metrics,
            exposition,
        }
    }

    async fn ask(&self) {
        let request = ChatRequest::user("?");
        // An error is seen in the metrics.
        let _ = self
            .router
            .complete("agent", request, CallContext::default())
            .await;
    }

    fn text(&self) -> String {
        self.metrics.show(snapshot(&self.router, None, None));
        self.exposition.text().unwrap()
    }

    fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        value(&self.text(), name, labels)
    }
}

/// The value of the one sample of that name and these labels, and more.
fn value(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let mut found = text.lines().filter(|line| {
        let is_named = line
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(['{', ' ']));
        let has = |(key, value): &(&str, &str)| line.contains(&format!("{key}=\"{value}\""));
        is_named && labels.iter().all(has)
    });
    let line = found.next()?;
    assert_eq!(found.next(), None, "{name} {labels:?}");
    line.rsplit(' ').next().unwrap().parse().ok()
}

#[tokio::test(start_paused = true)]
async fn a_start_shows_every_known_series_and_no_state_that_is_not() {
    let world = World::new(|_| {});
    let none = [
        ("role", "agent"),
        ("route", "none"),
        ("outcome", "error"),
        ("model", "m"),
        ("provider", "b"),
    ];
    assert_eq!(world.value("evenkeel_requests_total", &none), Some(0.0));
    let pair = [("primary", "a/m"), ("fallback", "b/m")];
    assert_eq!(
        world.value("evenkeel_substitution_active", &pair),
        Some(0.0)
    );
    assert_eq!(world.value("evenkeel_restorations_total", &pair), Some(0.0));
    let closed = [("provider", "a"), ("model", "m"), ("state", "closed")];
    assert_eq!(world.value("evenkeel_breaker_state", &closed), Some(1.0));
    let open = [("provider", "b"), ("model", ""), ("state", "open")];
    assert_eq!(world.value("evenkeel_breaker_state", &open), Some(0.0));
    let hold = [("provider", "b"), ("kind", "hold")];
    assert_eq!(world.value("evenkeel_cooldown_active", &hold), Some(0.0));
    let quality = [("source", "qualify"), ("fallback", "b/m")];
    assert_eq!(world.value("evenkeel_quality_ratio", &quality), Some(0.9));
    let limit = [("percentile", "p99"), ("measure", "first_token")];
    assert_eq!(
        world.value("evenkeel_latency_slo_seconds", &limit),
        Some(2.0)
    );
    assert!(!world.text().contains("evenkeel_latency_p95_seconds{"));
}

/// The role moves, comes back, and the time that took is on the clock.
#[tokio::test(start_paused = true)]
async fn a_move_and_the_way_back_are_each_counted_once() {
    let world = World::new(|_| {});
    let pair = [("primary", "a/m"), ("fallback", "b/m")];
    for _ in 0..30 {
        world.ask().await;
    }
    world.primary.set("m", steady(5_000));
    let mut moved = None;
    for _ in 0..20 {
        world.ask().await;
        let active = world.value("evenkeel_substitution_active", &pair) == Some(1.0);
        moved = moved.or(active.then(Instant::now));
    }
    let moved = moved.expect("the role has moved");
    let breaches = world.text();
    let breaches = breaches
        .lines()
        .filter(|line| line.starts_with("evenkeel_latency_breaches_total{"))
        .filter(|line| !line.ends_with(" 0"));
    assert_eq!(breaches.count(), 1);
    world.primary.set("m", steady(100));
    let active = || world.value("evenkeel_substitution_active", &pair);
    while active() == Some(1.0) {
        sleep(ms(10)).await;
    }
    let back = moved.elapsed().as_secs_f64();
    assert_eq!(active(), Some(0.0));
    let name = "evenkeel_time_to_restoration_seconds";
    assert_eq!(world.value(&format!("{name}_count"), &[]), Some(1.0));
    let told = world.value(&format!("{name}_sum"), &[]).unwrap();
    // The move was seen when the call in which it happened had ended.
    assert!(told >= back && told < back + 5.5, "{told} {back}");
    assert_eq!(world.value("evenkeel_restorations_total", &pair), Some(1.0));
    world.router.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_breaker_is_in_one_state_at_every_reading() {
    let world = World::new(|policy| policy.retry.transient = 0);
    let mut seen = Vec::new();
    let look = |seen: &mut Vec<&'static str>| {
        let text = world.text();
        let states = ["closed", "open", "half_open", "forced_open", "disabled"];
        let of = |state: &str| {
            let labels = [("provider", "a"), ("model", "m"), ("state", state)];
            value(&text, "evenkeel_breaker_state", &labels).unwrap()
        };
        let on: Vec<_> = states.into_iter().filter(|state| of(state) > 0.5).collect();
        assert_eq!(on.len(), 1, "{on:?}");
        if seen.last() != Some(&on[0]) {
            seen.push(on[0]);
        }
    };
    world
        .primary
        .set("m", steady(10).with_fault(Fault::status(500)));
    for _ in 0..6 {
        world.ask().await;
        look(&mut seen);
    }
    world.primary.set("m", steady(100));
    sleep(ms(70_000)).await;
    for _ in 0..3 {
        tokio::join!(world.ask(), async {
            sleep(ms(50)).await;
            look(&mut seen);
        });
        look(&mut seen);
    }
    let model = || BreakerTarget::Model(ModelId::new("a/m").unwrap());
    let operator = world.router.operator("ann");
    operator
        .breaker(&model(), BreakerAction::ForceOpen)
        .unwrap();
    look(&mut seen);
    operator.breaker(&model(), BreakerAction::Reset).unwrap();
    look(&mut seen);
    let course = [
        "closed",
        "open",
        "half_open",
        "closed",
        "forced_open",
        "closed",
    ];
    assert_eq!(seen, course);
    let counted = |from, to| {
        let labels = [
            ("provider", "a"),
            ("model", "m"),
            ("from", from),
            ("to", to),
        ];
        world.value("evenkeel_breaker_transitions_total", &labels)
    };
    for (from, to) in course.iter().zip(&course[1..]) {
        assert_eq!(counted(from, to), Some(1.0), "{from} -> {to}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hedge_without_a_breach_moves_nothing() {
    let world = World::new(|_| {});
    let pair = ("primary", "a/m");
    let hedges = |result| {
        let labels = [pair, ("fallback", "b/m"), ("result", result)];
        world.value("evenkeel_hedges_total", &labels)
    };
    let routed = |route, provider| {
        let labels = [("route", route), ("outcome", "ok"), ("provider", provider)];
        world.value("evenkeel_requests_total", &labels)
    };
    for _ in 0..30 {
        world.ask().await;
    }
    world.primary.set("m", steady(5_000));
    world.ask().await;
    assert_eq!((hedges("won"), hedges("lost")), (Some(1.0), Some(0.0)));
    assert_eq!(routed("hedge", "b"), Some(1.0));
    // The primary is there before its hedge.
    world.primary.set("m", steady(1_050));
    world.ask().await;
    assert_eq!((hedges("won"), hedges("lost")), (Some(1.0), Some(1.0)));
    assert_eq!(routed("primary", "a"), Some(31.0));
    let text = world.text();
    let moves = text
        .lines()
        .filter(|line| line.starts_with("evenkeel_substitutions_total{"));
    assert!(moves.into_iter().all(|line| line.ends_with(" 0")));
    let left = [
        ("provider", "b"),
        ("outcome", "abandoned"),
        ("error_type", ""),
    ];
    assert_eq!(world.value("evenkeel_attempts_total", &left), Some(1.0));
}

/// Hours of calm do not hide five calls in a row that stall.
#[tokio::test(start_paused = true)]
async fn a_stall_after_calm_is_a_spike() {
    let world = World::new(|policy| policy.window = ms(600_000));
    for _ in 0..2_000 {
        world.ask().await;
    }
    world.primary.set("m", steady(60_000));
    for _ in 0..5 {
        world.ask().await;
    }
    let breaches = |detector| {
        let labels = [("model", "a/m"), ("detector", detector)];
        world.value("evenkeel_latency_breaches_total", &labels)
    };
    assert_eq!((breaches("spike"), breaches("p95")), (Some(1.0), Some(0.0)));
    let moved = [("reason", "latency_spike"), ("fallback", "b/m")];
    assert_eq!(
        world.value("evenkeel_substitutions_total", &moved),
        Some(1.0)
    );
}

/// What may stand in each label of a closed set.
fn closed_sets() -> BTreeMap<&'static str, Vec<&'static str>> {
    let classes = [
        "transient",
        "rate_limited",
        "quota_exhausted",
        "overloaded",
        "unreachable",
        "timeout",
        "context_window",
        "content_filter",
        "auth",
        "model_gone",
        "bad_request",
        "malformed",
        "semantic",
    ];
    let refusals = [
        "breaker_open",
        "cooldown",
        "hold",
        "at_capacity",
        "below_capability",
        "quality_gate",
        "eol",
        "drill",
        "manual",
    ];
    let moved = ["latency_p95_breach", "latency_p99_breach", "latency_spike"];
    BTreeMap::from([
        ("error_type", [&classes[..], &["", "cancelled"]].concat()),
        ("reason", [&classes[..], &refusals, &moved].concat()),
        (
            "outcome",
            vec!["ok", "error", "cancelled", "abandoned", "rejected_quality"],
        ),
        (
            "route",
            vec![
                "primary",
                "substitute",
                "hedge",
                "fallback",
                "degraded",
                "none",
            ],
        ),
        (
            "result",
            vec!["won", "lost", "refused", "ok", "slow", "error"],
        ),
        ("detector", vec!["p95", "p99", "spike"]),
        (
            "from",
            vec!["closed", "open", "half_open", "forced_open", "disabled"],
        ),
        (
            "to",
            vec!["closed", "open", "half_open", "forced_open", "disabled"],
        ),
        ("resumed", vec!["true", "false"]),
        (
            "verdict",
            vec!["better", "equivalent", "worse", "not_enough_data"],
        ),
    ])
}

/// Values of the labels of closed sets in series that have counted something.
fn counted(text: &str, seen: &mut BTreeMap<(String, String), BTreeSet<String>>) {
    for line in text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.ends_with(" 0"))
    {
        let Some((name, rest)) = line.split_once('{') else {
            continue;
        };
        let labels = rest.rsplit_once('}').map_or("", |(labels, _)| labels);
        for pair in labels.split("\",") {
            let (key, value) = pair.split_once("=\"").unwrap();
            let value = value.trim_end_matches('"').to_owned();
            let place = (name.to_owned(), key.to_owned());
            seen.entry(place).or_default().insert(value);
        }
    }
}

/// All scenarios there are: whatever happens, it is told in the words that are promised.
#[test]
fn every_scenario_is_told_in_words_of_the_closed_sets() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/scenarios");
    let mut seen = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let file = SourceFile::new(path.display().to_string(), text);
        let scenario = Scenario::parse(&file).unwrap();
        let exposition = Exposition::new().unwrap();
        let known = catalogue(&scenario.config);
        let metrics = Metrics::new(&exposition.meter(), known, BUILD);
        let at = tokio::time::Instant::now().into_std();
        for told in replay(&scenario).unwrap().events {
            metrics.on(&Event {
                at,
                call: told.call,
                kind: told.kind,
            });
        }
        counted(&exposition.text().unwrap(), &mut seen);
    }
    let sets = closed_sets();
    for ((name, label), values) in &seen {
        if let Some(allowed) = sets.get(label.as_str()) {
            let strange: Vec<_> = values
                .iter()
                .filter(|v| !allowed.contains(&v.as_str()))
                .collect();
            assert!(strange.is_empty(), "{name}: {label} = {strange:?}");
        }
    }
    let values = |name: &str, label: &str| &seen[&(name.to_owned(), label.to_owned())];
    for reason in [
        "timeout",
        "rate_limited",
        "overloaded",
        "unreachable",
        "auth",
        "model_gone",
        "quota_exhausted",
        "transient",
        "malformed",
        "semantic",
        "context_window",
        "breaker_open",
        "cooldown",
        "hold",
        "drill",
    ] {
        let reasons = values("evenkeel_fallbacks_total", "reason");
        assert!(reasons.contains(reason), "{reason}: {reasons:?}");
    }
    for (name, label, expected) in [
        (
            "evenkeel_requests_total",
            "route",
            &["primary", "substitute", "hedge", "fallback", "none"][..],
        ),
        (
            "evenkeel_requests_total",
            "outcome",
            &["ok", "error", "cancelled"],
        ),
        (
            "evenkeel_attempts_total",
            "outcome",
            &["ok", "error", "abandoned", "cancelled"],
        ),
        (
            "evenkeel_hedges_total",
            "result",
            &["won", "lost", "refused"],
        ),
        (
            "evenkeel_latency_breaches_total",
            "detector",
            &["p95", "spike"],
        ),
        (
            "evenkeel_substitutions_total",
            "reason",
            &["latency_p95_breach", "latency_spike", "eol", "drill"],
        ),
        (
            "evenkeel_stream_interruptions_total",
            "resumed",
            &["true", "false"],
        ),
    ] {
        for value in expected {
            assert!(
                values(name, label).contains(*value),
                "{name} {label}={value}: {:?}",
                values(name, label)
            );
        }
    }
}

/// Points of a gauge in the last push; none without a push that has it.
fn pushed(exporter: &InMemoryMetricExporter, name: &str) -> Option<usize> {
    let all = exporter.get_finished_metrics().unwrap();
    let scope = all.last()?.scope_metrics().next()?;
    let metric = scope.metrics().find(|metric| metric.name() == name)?;
    match metric.data() {
        AggregatedMetrics::F64(MetricData::Gauge(gauge)) => Some(gauge.data_points().count()),
        other => panic!("{name} is no gauge: {other:?}"),
    }
}

/// Nobody reads `/metrics` here.
#[tokio::test(start_paused = true)]
async fn every_push_has_gauges_as_of_then() {
    let World { router, config, .. } = World::new(|_| {});
    let exporter = InMemoryMetricExporter::default();
    let resource = Resource::builder_empty().build();
    let exposition = Exposition::pushing(resource, exporter.clone()).unwrap();
    let metrics = Arc::new(GatewayMetrics::new(&config, exposition));
    let mut app = App::new(&config.server, router.clone(), Limits::default());
    app.metrics = Some(metrics);
    let pusher = Pusher::new(Arc::new(app));
    let ask = async {
        sleep(ms(1_000)).await;
        assert_eq!(
            pushed(&exporter, "evenkeel.latency.p50"),
            None,
            "no call yet"
        );
        assert_eq!(pushed(&exporter, "evenkeel.breaker.state"), Some(4 * 5));
        let asked = router.complete("agent", ChatRequest::user("?"), CallContext::default());
        asked.await.unwrap();
        sleep(ms(15_000)).await;
        assert_eq!(pushed(&exporter, "evenkeel.latency.p50"), Some(1));
        // The window has run empty long ago.
        sleep(ms(60_000)).await;
        assert_eq!(pushed(&exporter, "evenkeel.latency.p50"), None);
        let count = exporter.get_finished_metrics().unwrap().len();
        assert_eq!(count, 6, "one every 15 s, the first at once");
    };
    tokio::select! {
        () = pusher.run() => unreachable!("it never ends"),
        () = ask => {}
    }
    let last = pusher.last_look().await;
    assert_eq!(last.roles[0].in_flight, 0);
}
