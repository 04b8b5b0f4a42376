//! What a caller makes up is no name of a span, and nothing long on one.

use crate::world::{Plan, World, context, steady, text, typed};
use evenkeel_core::{ChatRequest, ModelId};
use evenkeel_otel_emit::spans::HttpRequest;
use evenkeel_router::PassTo;
use opentelemetry_sdk::trace::SpanData;

/// Longest text of a caller's on a span, bytes, its quotes and a refusal's word beside it.
const LONGEST: usize = 256 + 32;

fn none_is_long(spans: &[SpanData]) {
    for span in spans {
        let events = span.events.iter().flat_map(|event| &event.attributes);
        for kv in span.attributes.iter().chain(events) {
            let length = typed(&kv.value).len();
            assert!(length <= LONGEST, "{}: {length} bytes", kv.key);
        }
    }
}

async fn passed(model: &str) -> World {
    let world = Plan::new(vec![steady(100)]).build();
    let to = PassTo::Model(ModelId::new(model).unwrap());
    let asked = ChatRequest::user("hello");
    let _ = world.router.pass(&to, asked, context()).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_model_that_a_caller_makes_up_names_no_span() {
    let made_up = "x".repeat(100_000);
    let world = passed(&format!("p0/{made_up}")).await;
    let ended = world.ended();
    let names: Vec<_> = ended.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["chat", "evenkeel.request"]);
    let told = text(&ended[0], "gen_ai.request.model").unwrap();
    assert_eq!(told, made_up[..256]);
    none_is_long(&ended);
}

#[tokio::test(start_paused = true)]
async fn a_method_that_http_does_not_know_names_no_span() {
    let world = Plan::new(vec![steady(100)]).build();
    let made_up = "X".repeat(10_000);
    for method in ["POST", &made_up] {
        let request = HttpRequest {
            method,
            route: "/v1/chat/completions",
            trace: None,
        };
        let now = tokio::time::Instant::now().into_std();
        let mut span = world.spans.serve(request, now);
        span.answered(200, &made_up);
        span.end(now);
    }
    let ended = world.ended();
    let told: Vec<_> = ended
        .iter()
        .map(|span| (&*span.name, text(span, "http.request.method").unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            ("POST /v1/chat/completions", "POST".to_owned()),
            ("HTTP /v1/chat/completions", "_OTHER".to_owned()),
        ]
    );
    none_is_long(&ended);
}
