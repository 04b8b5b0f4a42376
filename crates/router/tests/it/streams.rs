//! Streams: the commit, and what may happen after it.

use crate::world::{Plan, ms, steady};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{Class, Delta, EventKind, Failure, Phase, StreamEvent};
use evenkeel_roster::{Commit, HedgeMode, OnStreamBreak, Signal};
use evenkeel_router::AnswerStream;
use futures_util::StreamExt;
use tokio::time::Instant;

async fn read(mut stream: AnswerStream) -> (String, Option<Failure>, bool) {
    let mut text = String::new();
    let mut failure = None;
    let mut ended = false;
    while let Some(event) = stream.next().await {
        match event {
            Ok(StreamEvent::Delta(Delta::Text(piece))) => text.push_str(&piece),
            Ok(StreamEvent::End) => ended = true,
            Ok(_) => {}
            Err(f) => failure = Some(f),
        }
    }
    (text, failure, ended)
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_handed_over_at_its_first_token() {
    let model = steady(100).with_tokens(20).with_inter_token(ms(50));
    let world = Plan::new(vec![model, steady(100)]).build();
    let began = Instant::now();
    let stream = world.stream().await.unwrap();
    assert_eq!(began.elapsed(), ms(100));
    let (text, failure, ended) = read(stream).await;
    assert!(ended && failure.is_none());
    assert!(text.contains("t19"), "{text}");
    assert!(began.elapsed() >= ms(1_000));
}

// C001
#[tokio::test(start_paused = true)]
async fn every_fault_before_the_first_token_is_invisible() {
    for fault in [
        Fault::status(503),
        Fault::Reset,
        Fault::ErrorInStream {
            after: 0,
            code: None,
            message: "overloaded".to_owned(),
        },
        Fault::ErrorIn200,
        Fault::NoChoices,
        Fault::Empty,
        Fault::CutAfter(0),
        Fault::Hang,
    ] {
        let world = Plan::new(vec![Behaviour::failing(fault.clone()), steady(100)]).build();
        let stream = world.stream().await.unwrap();
        assert_eq!(stream.meta().rung, 1, "{fault:?}");
        let (text, failure, ended) = read(stream).await;
        assert!(
            ended && failure.is_none() && text.contains("[[p1/m]]"),
            "{fault:?}"
        );
    }
}

// C022
#[tokio::test(start_paused = true)]
async fn a_break_after_the_commit_is_an_error_and_never_a_clean_end() {
    for (fault, class) in [
        (Fault::CutAfter(3), Class::Transient),
        (Fault::EndAfter(3), Class::Transient),
        (Fault::FalseDoneAfter(3), Class::Transient),
    ] {
        let world = Plan::new(vec![Behaviour::failing(fault.clone()), steady(100)])
            .policy(|p| p.on_stream_break = OnStreamBreak::Fail)
            .build();
        let (_, failure, ended) = read(world.stream().await.unwrap()).await;
        assert!(!ended, "{fault:?}");
        assert_eq!(failure.unwrap().class, class, "{fault:?}");
        assert_eq!(world.stats(1).started, 0, "never retried after the commit");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stall_after_the_commit_is_a_timeout() {
    let world = Plan::new(vec![Behaviour::failing(Fault::StallAfter(3)), steady(100)])
        .policy(|p| {
            p.clocks.stall = ms(2_000);
            p.on_stream_break = OnStreamBreak::Fail;
        })
        .build();
    let stream = world.stream().await.unwrap();
    let began = Instant::now();
    let (_, failure, _) = read(stream).await;
    assert_eq!(failure.unwrap().phase, Some(Phase::Stall));
    assert_eq!(began.elapsed(), ms(2_000));
    assert_eq!(world.stats(0).in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn breaks_after_the_commit_count_on_the_breaker() {
    let world = Plan::new(vec![Behaviour::failing(Fault::CutAfter(3)), steady(100)]).build();
    for _ in 0..5 {
        read(world.stream().await.unwrap()).await;
    }
    assert_eq!(
        world
            .memory
            .count(|k| matches!(k, EventKind::BreakerTransition { to: "open", .. })),
        1
    );
    assert_eq!(world.stream().await.unwrap().meta().rung, 1);
}

#[tokio::test(start_paused = true)]
async fn a_held_answer_is_whole_or_comes_from_the_next_rung() {
    for fault in [
        Fault::CutAfter(3),
        Fault::EndAfter(3),
        Fault::StallAfter(3),
        Fault::ErrorInStream {
            after: 3,
            code: None,
            message: "overloaded".to_owned(),
        },
    ] {
        let world = Plan::new(vec![Behaviour::failing(fault.clone()), steady(100)])
            .policy(|p| {
                p.commit = Commit::Full;
                p.clocks.stall = ms(2_000);
            })
            .build();
        let stream = world.stream().await.unwrap();
        assert_eq!(stream.meta().rung, 1, "{fault:?}");
        let (text, failure, ended) = read(stream).await;
        assert!(ended && failure.is_none(), "{fault:?}");
        assert!(
            text.contains("[[p1/m]]") && !text.contains("[[p0/m]]"),
            "{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_stream_closes_its_upstream() {
    let endless = Behaviour::failing(Fault::Endless).with_inter_token(ms(10));
    let world = Plan::new(vec![endless, steady(100)]).build();
    let mut stream = world.stream().await.unwrap();
    for _ in 0..20 {
        stream.next().await.unwrap().unwrap();
    }
    assert_eq!(world.stats(0).in_flight, 1);
    drop(stream);
    assert_eq!(world.stats(0).in_flight, 0);
    assert_eq!(world.stats(0).cancelled, 1);
}

#[tokio::test(start_paused = true)]
async fn an_endless_stream_ends_at_the_deadline() {
    let endless = Behaviour::failing(Fault::Endless).with_inter_token(ms(100));
    let world = Plan::new(vec![endless])
        .policy(|p| p.clocks.deadline = ms(5_000))
        .build();
    let began = Instant::now();
    let (_, failure, _) = read(world.stream().await.unwrap()).await;
    assert_eq!(failure.unwrap().phase, Some(Phase::Deadline));
    assert_eq!(began.elapsed(), ms(5_000));
}

#[tokio::test(start_paused = true)]
async fn a_drip_slower_than_the_least_pace_is_a_stall() {
    let drip = steady(100).with_tokens(40).with_inter_token(ms(900));
    let world = Plan::new(vec![drip])
        .policy(|p| {
            p.hedge.mode = HedgeMode::Off;
            p.clocks.stall = ms(2_000);
            p.min_tokens_per_s = 5.0;
            p.signal = Signal::FirstToken;
        })
        .build();
    let (_, failure, _) = read(world.stream().await.unwrap()).await;
    assert_eq!(failure.unwrap().phase, Some(Phase::Stall));
}
