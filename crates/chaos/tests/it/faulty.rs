//! Faults in front of a provider, under the paused clock.

use crate::{call, ms};
use evenkeel_chaos::{Behaviour, Faulty, Injection, Latency, Simulated, check_answer};
use evenkeel_core::{Class, Failure, Provider, StreamEvent};
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Three tokens, the first after 100 ms, 10 ms apart.
fn model() -> Simulated {
    let behaviour = Behaviour::healthy(Latency::millis(100))
        .with_tokens(3)
        .with_inter_token(ms(10));
    Simulated::new("p", 7).model("m", behaviour)
}

fn overloaded() -> Failure {
    Failure::new(Class::Overloaded, "busy").with_status(503)
}

/// Content events of a stream, and its last item.
async fn drain(provider: &impl Provider) -> (usize, Option<Result<StreamEvent, Failure>>) {
    let mut stream = provider.stream(call("n1")).await.expect("a stream");
    let (mut content, mut last) = (0, None);
    while let Some(item) = stream.next().await {
        content += usize::from(item.as_ref().is_ok_and(StreamEvent::is_content));
        last = Some(item);
    }
    (content, last)
}

#[tokio::test(start_paused = true)]
async fn each_call_takes_the_next_injection_and_then_they_pass() {
    let inner = model();
    let provider = Faulty::new(inner.clone()).with([
        Injection::Fail(overloaded()),
        Injection::Pass,
        Injection::Delay(ms(500)),
    ]);
    let failure = provider.complete(call("n1")).await.unwrap_err();
    assert_eq!(
        (failure.class, failure.status),
        (Class::Overloaded, Some(503))
    );
    assert_eq!(inner.stats("m").started, 0, "the provider was not asked");
    for (n, due) in [(2, 120), (3, 620), (4, 120)] {
        let begun = Instant::now();
        let answer = provider.complete(call(&format!("n{n}"))).await.unwrap();
        assert_eq!(begun.elapsed(), ms(due));
        assert_eq!(check_answer(&answer.plain_text(), n, 3), Ok("p/m"));
    }
    assert_eq!((provider.calls(), inner.stats("m").ok), (4, 3));
}

#[tokio::test(start_paused = true)]
async fn the_standing_injection_holds_until_another_is_set() {
    let provider = Faulty::new(Arc::new(model()));
    provider.set_standing(Injection::Fail(overloaded()));
    provider.inject([Injection::Pass]);
    assert!(provider.complete(call("n1")).await.is_ok());
    for _ in 0..3 {
        assert!(provider.complete(call("n1")).await.is_err());
    }
    provider.clone().set_standing(Injection::Pass);
    assert!(provider.complete(call("n1")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn streams_break_as_they_are_told() {
    let provider = Faulty::new(model());
    let class = |last: Option<Result<StreamEvent, Failure>>| last.unwrap().unwrap_err().class;
    provider.inject([Injection::CutAfter(2)]);
    let (content, last) = drain(&provider).await;
    assert_eq!((content, class(last)), (2, Class::Transient));
    provider.inject([Injection::FailAfter(0, overloaded())]);
    let (content, last) = drain(&provider).await;
    assert_eq!((content, class(last)), (0, Class::Overloaded));
    provider.inject([Injection::EndAfter(3)]);
    let (content, last) = drain(&provider).await;
    assert_eq!(content, 3);
    assert!(
        matches!(last, Some(Ok(StreamEvent::Delta(_)))),
        "no end: {last:?}"
    );
    let (content, last) = drain(&provider).await;
    assert_eq!((content, last.unwrap().unwrap()), (3, StreamEvent::End));
}

#[tokio::test(start_paused = true)]
async fn whole_answers_are_lost_when_they_come() {
    let provider = Faulty::new(model());
    for (injection, class) in [
        (Injection::CutAfter(2), Class::Transient),
        (Injection::EndAfter(2), Class::Transient),
        (Injection::FailAfter(2, overloaded()), Class::Overloaded),
    ] {
        provider.inject([injection]);
        let begun = Instant::now();
        let failure = provider.complete(call("n1")).await.unwrap_err();
        assert_eq!((failure.class, begun.elapsed()), (class, ms(120)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hang_or_a_stall_ends_only_with_its_caller() {
    let inner = model();
    let provider = Faulty::new(inner.clone());
    let hour = Duration::from_secs(3_600);
    provider.inject([
        Injection::Hang,
        Injection::StallAfter(1),
        Injection::StallAfter(1),
    ]);
    assert!(timeout(hour, provider.complete(call("n1"))).await.is_err());
    assert_eq!(inner.stats("m").started, 0, "a hang asks nobody");
    assert!(timeout(hour, provider.complete(call("n1"))).await.is_err());
    let mut stream = provider.stream(call("n1")).await.unwrap();
    while !stream.next().await.unwrap().unwrap().is_content() {}
    assert!(timeout(hour, stream.next()).await.is_err());
    assert_eq!(
        inner.stats("m").in_flight,
        1,
        "the provider's stream is open"
    );
    drop(stream);
    assert_eq!(inner.stats("m").cancelled, 1);
}
