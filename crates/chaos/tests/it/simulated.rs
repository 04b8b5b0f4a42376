//! In-process models under the paused clock.

use crate::{call, ms};
use evenkeel_chaos::{Behaviour, Fault, Latency, Simulated, Stats, check_answer};
use evenkeel_core::{
    Accumulator, ChatResponse, Class, Failure, Finish, Provider, ProviderCall, StreamEvent,
};
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

fn provider(behaviour: Behaviour) -> Simulated {
    Simulated::new("p", 7).model("m", behaviour)
}

/// Five tokens, the first after 100 ms, 10 ms apart.
fn steady() -> Behaviour {
    Behaviour::healthy(Latency::millis(100))
        .with_tokens(5)
        .with_inter_token(ms(10))
}

/// Content events before the stream ended, and how it ended.
async fn drain(provider: &Simulated, prompt: &str) -> (usize, Result<ChatResponse, Failure>) {
    let mut content = 0;
    let mut whole = Accumulator::default();
    let mut stream = match provider.stream(call(prompt)).await {
        Ok(stream) => stream,
        Err(failure) => return (0, Err(failure)),
    };
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => {
                content += usize::from(event.is_content());
                whole.push(&event);
            }
            Err(failure) => return (content, Err(failure)),
        }
    }
    (content, whole.finish())
}

#[tokio::test(start_paused = true)]
async fn a_whole_answer_comes_when_its_last_token_is_due() {
    let provider = provider(steady());
    let begun = Instant::now();
    let answer = provider.complete(call("n3")).await.unwrap();
    assert_eq!(begun.elapsed(), ms(140));
    assert_eq!(check_answer(&answer.plain_text(), 3, 5), Ok("p/m"));
    assert_eq!(answer.finish, Finish::Stop);
    assert_eq!(answer.usage.unwrap().output, 5);
    assert!(answer.verify().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_stream_paces_its_tokens_and_adds_up_to_the_answer() {
    let provider = provider(steady());
    let begun = Instant::now();
    let mut stream = provider.stream(call("n4")).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let (mut times, mut whole) = (Vec::new(), Accumulator::default());
    while let Some(event) = stream.next().await {
        let event = event.unwrap();
        if event.is_content() {
            times.push(begun.elapsed());
        }
        whole.push(&event);
    }
    assert_eq!(times, [100, 110, 120, 130, 140].map(ms));
    let whole = whole.finish().unwrap();
    assert_eq!(check_answer(&whole.plain_text(), 4, 5), Ok("p/m"));
    assert_eq!(whole.usage.unwrap().output, 5);
}

/// A trace of real calls is replayed with its own token counts: the output
/// by the cap, the input by the prompt's length.
#[tokio::test(start_paused = true)]
async fn latency_follows_the_token_counts_of_the_request() {
    let behaviour = Behaviour::healthy(Latency::millis(100))
        .with_per_input_token(ms(2))
        .with_tokens(u32::MAX)
        .with_inter_token(ms(10));
    let provider = provider(behaviour);
    for (input, output) in [(50, 1), (1_000, 1), (50, 200)] {
        let mut call = call(&"word".repeat(input));
        let request = Arc::make_mut(&mut call.request);
        request.max_output_tokens = Some(output);
        let estimated = request.estimated_input_tokens();
        let begun = Instant::now();
        let answer = provider.complete(call).await.unwrap();
        let expected = ms(100) + ms(2 * estimated) + ms(10 * (output - 1));
        assert_eq!(begun.elapsed(), expected);
        assert_eq!(answer.usage.unwrap().output, output);
    }
}

/// Case C231, in process.
#[tokio::test(start_paused = true)]
async fn an_output_cap_is_honoured_and_reported_as_length() {
    let provider = provider(steady());
    let mut capped = call("n1");
    Arc::make_mut(&mut capped.request).max_output_tokens = Some(3);
    let whole = provider.complete(capped).await.unwrap();
    assert_eq!(
        (whole.finish, whole.usage.unwrap().output),
        (Finish::Length, 3)
    );
    assert_eq!(whole.plain_text(), "[[p/m]] n1 t0 t1 t2");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_model_is_gone() {
    let provider = provider(steady());
    let mut other = call("n1");
    other.model = Arc::from("no-such");
    assert_eq!(
        provider.complete(other).await.unwrap_err().class,
        Class::ModelGone
    );
    provider.retire("m");
    let failure = provider.stream(call("n1")).await.err().unwrap();
    assert_eq!(failure.class, Class::ModelGone);
}

/// Every fault: class of the whole call, then tokens and class of the stream.
#[tokio::test(start_paused = true)]
async fn each_fault_ends_a_call_in_the_class_a_client_would_report() {
    use Class::{
        Auth, BadRequest, ContextWindow, Malformed, ModelGone, Overloaded, QuotaExhausted,
        RateLimited, Semantic, Timeout, Transient, Unreachable,
    };
    let in_stream = |code: Option<&str>| Fault::ErrorInStream {
        after: 2,
        code: code.map(str::to_owned),
        message: "broken".into(),
    };
    let raw = Fault::Raw {
        status: 200,
        content_type: "application/json".into(),
        body: b"\"ok\"".to_vec(),
    };
    for (fault, whole, stream) in [
        (Fault::status(400), BadRequest, (0, BadRequest)),
        (Fault::status(401), Auth, (0, Auth)),
        (Fault::status(402), QuotaExhausted, (0, QuotaExhausted)),
        (Fault::status(404), ModelGone, (0, ModelGone)),
        (Fault::status(408), Timeout, (0, Timeout)),
        (Fault::status(429), RateLimited, (0, RateLimited)),
        (Fault::status(500), Transient, (0, Transient)),
        (Fault::status(503), Overloaded, (0, Overloaded)),
        (Fault::status(504), Timeout, (0, Timeout)),
        (Fault::context_window(), ContextWindow, (0, ContextWindow)),
        (Fault::Refuse, Unreachable, (0, Unreachable)),
        (Fault::Reset, Transient, (0, Transient)),
        (Fault::Close, Transient, (0, Transient)),
        (Fault::CutAfter(2), Transient, (2, Transient)),
        (Fault::ResetAfter(2), Transient, (2, Transient)),
        (in_stream(None), Transient, (2, Transient)),
        (in_stream(Some("overloaded")), Overloaded, (2, Overloaded)),
        (Fault::Html { status: 200 }, Malformed, (0, Malformed)),
        (Fault::Html { status: 502 }, Transient, (0, Transient)),
        (Fault::ErrorIn200, Transient, (0, Transient)),
        (Fault::NoChoices, Malformed, (0, Transient)),
        (Fault::GzipBomb, Malformed, (0, Malformed)),
        (Fault::Empty, Semantic, (0, Semantic)),
        (raw, Malformed, (0, Malformed)),
    ] {
        let provider = provider(steady().with_fault(fault.clone()));
        let verified = |answer: ChatResponse| answer.verify();
        let got = provider.complete(call("n1")).await.and_then(verified);
        assert_eq!(got.unwrap_err().class, whole, "{fault:?}, whole");
        let (content, got) = drain(&provider, "n1").await;
        let got = got.and_then(|answer| answer.verify()).unwrap_err().class;
        assert_eq!((content, got), stream, "{fault:?}, stream");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_without_a_finish_reason_is_no_answer() {
    for fault in [Fault::EndAfter(2), Fault::FalseDoneAfter(2)] {
        let provider = provider(steady().with_fault(fault.clone()));
        let (content, got) = drain(&provider, "n1").await;
        assert_eq!(
            (content, got.unwrap_err().class),
            (2, Class::Transient),
            "{fault:?}"
        );
        assert_eq!(provider.stats("m").failed, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn faults_that_never_end_hold_a_call_until_its_caller_leaves() {
    let every = ms(100);
    for (fault, content) in [
        (Fault::Hang, 0),
        (Fault::StallAfter(2), 2),
        (Fault::KeepAlivesOnly { every }, 0),
    ] {
        let provider = provider(steady().with_fault(fault.clone()));
        let whole = timeout(ms(60_000), provider.complete(call("n1"))).await;
        assert!(whole.is_err(), "{fault:?}");
        let seen = timeout(ms(60_000), async {
            let mut stream = provider.stream(call("n1")).await.unwrap();
            for _ in 0..content {
                while !stream.next().await.unwrap().unwrap().is_content() {}
            }
            while !stream.next().await.unwrap().unwrap().is_content() {}
        });
        assert!(seen.await.is_err(), "{fault:?}");
        let stats = provider.stats("m");
        assert_eq!((stats.started, stats.cancelled, stats.in_flight), (2, 2, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_stream_goes_on_and_on() {
    let fault = Behaviour::failing(Fault::Endless);
    let provider = provider(fault);
    let stream = provider.stream(call("n1")).await.unwrap();
    let many = stream
        .take(2_000)
        .filter(|e| std::future::ready(e.as_ref().is_ok_and(StreamEvent::is_content)));
    assert_eq!(many.count().await, 1_999);
}

#[tokio::test(start_paused = true)]
async fn a_latency_beyond_all_clocks_is_a_very_long_wait() {
    let forever = Behaviour::healthy(Latency::Fixed(Duration::MAX));
    let provider = provider(forever.with_inter_token(Duration::MAX));
    let year = Duration::from_secs(365 * 24 * 3_600);
    assert!(timeout(year, provider.complete(call("n1"))).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn keep_alives_come_at_their_pace() {
    let every = ms(500);
    let provider = provider(Behaviour::failing(Fault::KeepAlivesOnly { every }));
    let begun = Instant::now();
    let mut stream = provider.stream(call("n1")).await.unwrap();
    assert!(matches!(
        stream.next().await,
        Some(Ok(StreamEvent::Start { .. }))
    ));
    for n in 1..4 {
        assert_eq!(
            stream.next().await.unwrap().unwrap(),
            StreamEvent::KeepAlive
        );
        assert_eq!(begun.elapsed(), every * n);
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_event_is_skipped_and_costs_no_token() {
    let provider = provider(steady().with_fault(Fault::TruncatedJson));
    let (content, whole) = drain(&provider, "n9").await;
    assert_eq!(content, 5);
    assert_eq!(check_answer(&whole.unwrap().plain_text(), 9, 5), Ok("p/m"));
    let failure = provider.complete(call("n9")).await.unwrap_err();
    assert_eq!(failure.class, Class::Malformed);
}

#[tokio::test(start_paused = true)]
async fn a_fault_shows_after_its_delay_and_carries_the_wait() {
    let fault = Fault::rate_limited(ms(1_500));
    let provider = provider(Behaviour::failing(fault).with_fault_delay(ms(250)));
    let begun = Instant::now();
    let failure = provider.complete(call("n1")).await.unwrap_err();
    assert_eq!(begun.elapsed(), ms(250));
    assert_eq!(failure.retry_after, Some(ms(1_500)));
    assert_eq!(failure.status, Some(429));
    assert_eq!(failure.code.as_deref(), Some("rate_limit_exceeded"));
}

#[tokio::test(start_paused = true)]
async fn behaviour_is_switched_for_new_calls_and_kept_for_those_in_flight() {
    let provider = provider(Behaviour::healthy(Latency::millis(200)));
    let begun = Instant::now();
    let running = finish_time(&provider, call("n1"));
    tokio::task::yield_now().await;
    provider.set("m", Behaviour::healthy(Latency::millis(10_000)));
    let next = finish_time(&provider, call("n2"));
    assert_eq!(running.await.unwrap() - begun, ms(200));
    assert_eq!(next.await.unwrap() - begun, ms(10_000));
}

#[expect(clippy::disallowed_methods, reason = "the test awaits the handle")]
fn finish_time(provider: &Simulated, call: ProviderCall) -> tokio::task::JoinHandle<Instant> {
    let provider = provider.clone();
    tokio::spawn(async move {
        provider
            .complete(call)
            .await
            .expect("a healthy model answers");
        Instant::now()
    })
}

#[tokio::test(start_paused = true)]
async fn a_ramp_counts_from_when_it_was_set() {
    let provider = provider(Behaviour::default());
    tokio::time::sleep(ms(60_000)).await;
    provider.set(
        "m",
        Behaviour::healthy(Latency::Ramp {
            from: ms(0),
            to: ms(1_000),
            over: ms(10_000),
        }),
    );
    let took = async || {
        let begun = Instant::now();
        provider.complete(call("n1")).await.unwrap();
        begun.elapsed()
    };
    assert_eq!(took().await, ms(0));
    tokio::time::sleep(ms(5_000)).await;
    assert_eq!(took().await, ms(500));
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_calls_at_once_take_no_longer_than_the_slowest() {
    let provider = provider(Behaviour::healthy(Latency::lognormal_millis(200, 400)));
    let begun = Instant::now();
    let calls = (0..10_000).map(|n| {
        let provider = provider.clone();
        async move {
            let answer = provider.complete(call(&format!("n{n}"))).await.unwrap();
            check_answer(&answer.plain_text(), n, 20).unwrap();
        }
    });
    futures_util::future::join_all(calls).await;
    assert!(begun.elapsed() < ms(1_500), "{:?}", begun.elapsed());
    let expected = Stats {
        started: 10_000,
        ok: 10_000,
        ..Stats::default()
    };
    assert_eq!(provider.stats("m"), expected);
}
