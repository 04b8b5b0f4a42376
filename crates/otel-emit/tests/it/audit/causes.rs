//! Calls that nobody answered: for the models' sake, or for their own. An alert wakes
//! somebody for the first, so spans, metrics and records must not take one for the other.

use super::world::{World, context, steady};
use crate::metrics::page::Page;
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{Baggage, CallContext, ChatRequest, ModelId, Observer, SystemClock};
use evenkeel_otel_emit::audit::RecordKind;
use evenkeel_otel_emit::metrics::{
    Build, Catalogue, Exposition, Metrics, ModelEntry, RoleEntry, RosterEntry, RungEntry,
};
use evenkeel_otel_emit::spans::Spans;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use std::sync::Arc;

fn failing(fault: Fault) -> Behaviour {
    Behaviour::failing(fault)
}

/// What metrics know of the role of the world.
fn catalogue() -> Catalogue {
    let ids = ["p0/m", "p1/m", "p2/m"].map(|id| ModelId::new(id).unwrap());
    let rung = |model: &ModelId| RungEntry {
        model: model.clone(),
        quality: None,
    };
    let model = |id: &ModelId| ModelEntry {
        id: id.clone(),
        eol: None,
        is_priced: false,
    };
    let roster = RosterEntry {
        task: None,
        rungs: ids.iter().map(rung).collect(),
    };
    let role = RoleEntry {
        name: "planner".into(),
        task_types: vec![],
        rosters: vec![roster],
        limits: vec![],
        keeps_tickets: false,
        shadow: None,
    };
    Catalogue {
        roles: vec![role],
        models: ids.iter().map(model).collect(),
        providers: ["p0", "p1", "p2"].map(Into::into).into(),
        workflows: vec![],
    }
}

/// What is told of one call: its route, its end, and why.
#[derive(Debug, PartialEq)]
struct Told {
    route: String,
    outcome: String,
    /// Of its record: why not the primary, else what the primary refused it for.
    reason: String,
}

impl Told {
    fn new(route: &str, outcome: &str, reason: &str) -> Self {
        Self {
            route: route.to_owned(),
            outcome: outcome.to_owned(),
            reason: reason.to_owned(),
        }
    }
}

/// What spans, records and metrics tell of a call, which is the same; and on whom metrics
/// count it.
async fn told(rungs: [Behaviour; 3], role: &str, context: CallContext) -> (Told, String) {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let exposition = Exposition::new().unwrap();
    let build = Build {
        version: "1.2.3",
        revision: "r",
    };
    let spans = Spans::new(provider.tracer("evenkeel"), Arc::new(SystemClock));
    let metrics = Metrics::new(&exposition.meter(), catalogue(), build);
    let observers: Vec<Arc<dyn Observer>> = vec![Arc::new(spans), Arc::new(metrics)];
    let world = World::with(rungs, role, observers);
    let asked = world
        .router
        .complete("planner", ChatRequest::user("hi"), context);
    let _ = asked.await;

    let ended = exporter.get_finished_spans().unwrap();
    let request = ended.iter().find(|span| span.name == "evenkeel.request");
    let attribute = |key: &str| {
        let found = request.unwrap().attributes.iter();
        found
            .filter(|kv| kv.key.as_str() == key)
            .map(|kv| kv.value.to_string())
            .next()
    };
    let record = &world.memory.of(RecordKind::Answer)[0];
    let member = |name: &str| record[name].as_str().unwrap().to_owned();
    let recorded = Told {
        route: member("route"),
        outcome: member("outcome"),
        reason: member("reason"),
    };
    assert_eq!(attribute("evenkeel.route").as_ref(), Some(&recorded.route));
    assert_eq!(
        attribute("evenkeel.outcome").as_ref(),
        Some(&recorded.outcome)
    );
    let by_primary = recorded.route == "primary";
    let why = (!by_primary).then_some(&recorded.reason);
    assert_eq!(attribute("evenkeel.reason").as_ref(), why);
    let page = Page::read(&exposition.text().unwrap());
    let counted = page.find("evenkeel_requests_total", &[]);
    let counted: Vec<_> = counted.iter().filter(|(_, n)| *n > 0.0).collect();
    let [(labels, _)] = counted[..] else {
        panic!("one call is counted once: {counted:?}");
    };
    assert_eq!(
        (&labels["route"], &labels["outcome"]),
        (&recorded.route, &recorded.outcome)
    );
    (recorded, labels["provider"].clone())
}

async fn called(rungs: [Behaviour; 3]) -> (Told, String) {
    told(rungs, "", context("req-1")).await
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_itself_the_cause_keeps_the_way_to_who_refused_it() {
    let bad = || failing(Fault::status(400));
    let (by_primary, on) = called([bad(), steady(100), steady(100)]).await;
    let expected = Told::new("primary", "error", "bad_request");
    assert_eq!((by_primary, &*on), (expected, "p0"));

    let overloaded = || failing(Fault::status(503));
    let (by_fallback, on) = called([overloaded(), bad(), steady(100)]).await;
    let expected = Told::new("fallback", "error", "overloaded");
    assert_eq!((by_fallback, &*on), (expected, "p1"));

    let full = || failing(Fault::context_window());
    let (by_all, on) = called([full(), full(), full()]).await;
    let expected = Told::new("fallback", "error", "context_window");
    assert_eq!((by_all, &*on), (expected, "p2"));
}

#[tokio::test(start_paused = true)]
async fn a_roster_that_is_exhausted_is_one_whatever_its_first_model_said() {
    let overloaded = || failing(Fault::status(503));
    for first in [Fault::context_window(), Fault::status(503)] {
        let (exhausted, on) = called([failing(first), overloaded(), overloaded()]).await;
        let expected = Told::new("none", "error", "roster_exhausted");
        assert_eq!((exhausted, &*on), (expected, "p2"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_that_refuses_degraded_input_is_no_exhausted_roster() {
    let degraded = "evenkeel.depth=2,evenkeel.min_capability=0.70,evenkeel.agents=reader";
    let context = CallContext {
        degradation: Baggage::read([degraded]).degradation(),
        ..context("req-1")
    };
    let rungs = [steady(100), steady(100), steady(100)];
    let role = "on_degraded_input = \"refuse\"";
    let (refused, on) = told(rungs, role, context).await;
    let expected = Told::new("primary", "error", "bad_request");
    assert_eq!((refused, &*on), (expected, "p0"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_a_fallback_is_told_alike_too() {
    let overloaded = failing(Fault::status(503));
    let (answered, on) = called([overloaded, steady(100), steady(100)]).await;
    assert_eq!(answered, Told::new("fallback", "ok", "overloaded"));
    assert_eq!(on, "p1");
}
