//! Trace contexts to providers, and none where they are not to have one.

use crate::world::{Plan, TRACE, World, ms, simulated, steady, text};
use evenkeel_chaos::{Behaviour, Fault, Simulated};
use evenkeel_core::{ChatResponse, EventStream, Failure, Provider, ProviderCall, TraceContext};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A provider that notes the trace context of each call.
#[derive(Debug)]
struct Noting {
    inner: Simulated,
    seen: Arc<Mutex<Vec<Option<TraceContext>>>>,
}

#[async_trait::async_trait]
impl Provider for Noting {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        self.seen.lock().unwrap().push(call.context.trace.clone());
        self.inner.complete(call).await
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        self.seen.lock().unwrap().push(call.context.trace.clone());
        self.inner.stream(call).await
    }
}

type Seen = Arc<Mutex<Vec<Option<TraceContext>>>>;

fn noting(rungs: Vec<Behaviour>) -> (Plan, Seen) {
    let seen = Seen::default();
    let rungs = rungs.into_iter().enumerate().map(|(i, behaviour)| {
        let inner = simulated(i, behaviour);
        let seen = seen.clone();
        Arc::new(Noting { inner, seen }) as Arc<dyn Provider>
    });
    (Plan::of(rungs.collect()), seen)
}

/// The `traceparent` of each attempt's span, in the order of attempts.
fn contexts(world: &World) -> Vec<String> {
    let mut attempts = world.named("chat m");
    attempts.sort_by_key(|attempt| text(attempt, "evenkeel.attempt.index"));
    attempts
        .iter()
        .map(|attempt| format!("00-{TRACE}-{}-01", attempt.span_context.span_id()))
        .collect()
}

// Conformance 16.
#[tokio::test(start_paused = true)]
async fn a_provider_gets_the_context_of_its_own_attempt_where_it_is_to_have_one() {
    let retried = vec![
        Behaviour::failing(Fault::status(503)),
        steady(10_000),
        steady(300),
    ];
    let (plan, seen) = noting(retried);
    let world = plan.policy(|p| p.retry.overloaded = 1).propagate().build();
    world.ask().await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let seen: Vec<_> = std::mem::take(&mut *seen.lock().unwrap());
    let parents: Vec<_> = seen
        .iter()
        .flatten()
        .map(|c| c.traceparent.to_string())
        .collect();
    let kinds: Vec<_> = world
        .named("chat m")
        .iter()
        .map(|a| text(a, "error.type"))
        .collect();
    assert_eq!(
        parents.len(),
        4,
        "a retry, a failover and a hedge: {kinds:?}"
    );
    assert_eq!(parents, contexts(&world));
    assert!(seen.iter().flatten().all(|c| &*c.tracestate == "vendor=x"));
    assert_eq!(world.spans.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_not_trusted_with_traces_gets_none() {
    let (plan, seen) = noting(vec![steady(300)]);
    let world = plan.build();
    world.ask().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [None]);
    assert_eq!(world.named("chat m").len(), 1);
    assert!(
        world
            .ended()
            .iter()
            .all(|span| span.end_time >= span.start_time)
    );
    let _ = ms(0);
}
