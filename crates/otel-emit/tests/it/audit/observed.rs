//! From the router's events to records.

use super::world::{Memory, World, context, ms, steady};
use crate::metrics::events::{half_way_back, moves_on};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{ChatRequest, DrillKind, Event, ModelId, Observer as _};
use evenkeel_otel_emit::audit::{AuditLog, RecordKind};
use evenkeel_router::{BreakerAction, BreakerTarget};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::{sleep, timeout};

fn failing(status: u16) -> Behaviour {
    Behaviour::failing(Fault::status(status))
}

#[tokio::test(start_paused = true)]
async fn an_answer_says_who_gave_it_and_what_was_tried() {
    let world = World::new([steady(200), steady(100), steady(100)]);
    assert!(world.ask("req-1").await);
    let records = world.memory.records();
    assert_eq!(records.len(), 1);
    let record = &records[0];
    assert_eq!(record["kind"], "answer");
    assert_eq!(record["request_id"], "req-1");
    assert_eq!(record["role"], "planner");
    assert_eq!(record["workflow"], "run-1");
    assert_eq!(record["tenant"], "team-a");
    assert_eq!(record["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(record["model"]["primary"], "p0/m");
    assert_eq!(record["model"]["answered"], "p0/m");
    assert_eq!(record["model"]["provider"], "p0");
    assert_eq!(
        (&record["route"], &record["outcome"]),
        (&json!("primary"), &json!("ok"))
    );
    assert_eq!(record.get("reason"), None);
    let attempt = &record["attempts"][0];
    assert_eq!(attempt["model"], "p0/m");
    assert_eq!(attempt["outcome"], "ok");
    assert_eq!(attempt["duration_ms"], 200);
    assert_eq!(record["latency"], json!({ "total_ms": 200, "added_ms": 0 }));
    assert!(record["usage"]["output_tokens"].as_u64() > Some(0));
    assert_eq!(
        record["degradation"],
        json!({ "depth": 0, "fallback_depth": 0 })
    );
    assert_eq!(world.log.open_calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failure_leaves_a_fallback_beside_the_answer() {
    let world = World::new([failing(503), steady(100), steady(100)]);
    assert!(world.ask("req-1").await);
    let fallback = &world.memory.of(RecordKind::Fallback)[0];
    assert_eq!(fallback["request_id"], "req-1");
    assert_eq!(fallback["reason"], "overloaded");
    assert_eq!(
        fallback["model"],
        json!({ "primary": "p0/m", "fallback": "p1/m" })
    );
    let answer = &world.memory.of(RecordKind::Answer)[0];
    assert_eq!(answer["route"], "fallback");
    assert_eq!(answer["reason"], "overloaded");
    assert_eq!(answer["attempts"][0]["error_type"], "overloaded");
    assert_eq!(answer["attempts"][0]["http_status"], 503);
    assert_eq!(answer["degradation"]["fallback_depth"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_answers_has_a_reason_too() {
    let world = World::new([failing(500), failing(503), failing(401)]);
    assert!(!world.ask("req-1").await);
    let answer = &world.memory.of(RecordKind::Answer)[0];
    assert_eq!(
        (&answer["route"], &answer["outcome"]),
        (&json!("none"), &json!("error"))
    );
    assert_eq!(answer["reason"], "roster_exhausted");
    assert_eq!(answer["model"].get("answered"), None);
    let classes: Vec<&Value> = (0..3)
        .map(|n| &answer["attempts"][n]["error_type"])
        .collect();
    assert_eq!(classes, ["transient", "overloaded", "auth"]);
    assert!(world.memory.of(RecordKind::Fallback).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hedge_is_recorded_when_it_has_ended() {
    let world = World::new([steady(10_000), steady(300), steady(300)]);
    assert!(world.ask("won").await);
    world.set(0, steady(1_200));
    world.set(1, steady(5_000));
    assert!(world.ask("lost").await);
    let hedges = world.memory.of(RecordKind::Hedge);
    assert_eq!(hedges.len(), 2);
    for (hedge, result) in hedges.iter().zip(["won", "lost"]) {
        assert_eq!(hedge["request_id"], result);
        assert_eq!(
            hedge["hedge"],
            json!({ "result": result, "patience_ms": 1_000 })
        );
        assert_eq!(hedge["reason"], "patience_exceeded");
        assert_eq!(hedge["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    }
    let answers = world.memory.of(RecordKind::Answer);
    assert_eq!(answers[0]["route"], "hedge");
    assert_eq!(answers[0]["attempts"][0]["outcome"], "abandoned");
    assert_eq!(answers[1]["route"], "primary");
    assert!(world.memory.of(RecordKind::Substitution).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_breach_moves_the_role_and_its_end_brings_it_back() {
    let world = World::new([steady(5_000), steady(200), steady(200)]);
    for n in 0..8 {
        assert!(world.ask(&format!("r{n}")).await);
    }
    world.set(0, steady(100));
    sleep(ms(10_000)).await;
    assert!(world.ask("back").await);
    let breach = &world.memory.of(RecordKind::LatencyBreach)[0];
    assert_eq!(breach["model"]["primary"], "p0/m");
    let detector = breach["latency"]["detector"].as_str().unwrap();
    let moves = world.memory.of(RecordKind::Substitution);
    assert_eq!(moves.len(), 1);
    let reason = moves[0]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("latency_") && reason.contains(detector),
        "{reason}"
    );
    assert!(moves[0]["request_id"].is_string(), "the call that saw it");
    assert!(moves[0]["latency"]["p95_ms"].is_number());
    let back = &world.memory.of(RecordKind::Restoration)[0];
    assert_eq!(back["reason"], "recovered");
    assert_eq!(
        back["model"],
        json!({ "primary": "p0/m", "fallback": "p1/m" })
    );
    assert!(back["latency"]["degraded_for_ms"].as_u64() > Some(0));
    let routes: Vec<Value> = world
        .memory
        .of(RecordKind::Answer)
        .iter()
        .map(|a| a["route"].clone())
        .collect();
    assert!(routes.contains(&json!("substitute")), "{routes:?}");
    assert_eq!(routes.last(), Some(&json!("primary")));
}

#[tokio::test(start_paused = true)]
async fn a_breaker_tells_each_of_its_states() {
    let world = World::new([failing(500), steady(100), steady(100)]);
    for n in 0..6 {
        assert!(world.ask(&format!("r{n}")).await);
    }
    world.set(0, steady(100));
    sleep(ms(2_500)).await;
    for n in 6..9 {
        assert!(world.ask(&format!("r{n}")).await);
    }
    let changes = world.memory.of(RecordKind::Breaker);
    let states: Vec<_> = changes
        .iter()
        .map(|c| {
            (
                c["breaker"]["from"].as_str().unwrap(),
                c["breaker"]["to"].as_str().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("closed", "open"),
        ("open", "half_open"),
        ("half_open", "closed"),
    ];
    assert_eq!(states, expected);
    assert_eq!(changes[0]["reason"], "transient");
    assert_eq!(changes[0]["breaker"]["failures"], 5);
    let skipped = &world.memory.of(RecordKind::Fallback)[5];
    assert_eq!(skipped["reason"], "breaker_open");
}

#[tokio::test(start_paused = true)]
async fn operators_and_drills_leave_records() {
    let world = World::new([steady(100), steady(100), steady(100)]);
    let model = ModelId::new("p0/m").unwrap();
    let oncall = world.router.operator("oncall");
    oncall.force("planner", Some(1)).unwrap();
    oncall.force("planner", None).unwrap();
    let breaker = BreakerTarget::Model(model.clone());
    oncall.breaker(&breaker, BreakerAction::ForceOpen).unwrap();
    oncall.breaker(&breaker, BreakerAction::Reset).unwrap();
    oncall.release(&model).unwrap();
    let drill = oncall
        .start_drill(DrillKind::Eol, &model, ms(60_000))
        .unwrap();
    oncall.end_drill(drill).unwrap();
    oncall.acted("reload", "ab12");
    let acts = world.memory.of(RecordKind::Operator);
    let told: Vec<_> = acts
        .iter()
        .map(|a| {
            format!(
                "{} {}",
                a["operator"]["action"].as_str().unwrap(),
                a["operator"]["target"].as_str().unwrap()
            )
        })
        .collect();
    let expected = [
        "force_rung planner:1",
        "release planner",
        "open_breaker p0/m",
        "close_breaker p0/m",
        "release p0/m",
        "drill eol:p0/m",
        "drill 1:p0/m",
        "reload ab12",
    ];
    assert_eq!(told, expected);
    assert!(acts.iter().all(|a| a["operator"]["actor"] == "oncall"));
    let drills = world.memory.of(RecordKind::Drill);
    let phases: Vec<_> = drills.iter().map(|d| &d["drill"]["phase"]).collect();
    assert_eq!(phases, ["begin", "end"]);
    assert_eq!(drills[0]["drill"]["name"], "eol");
    let moves = world.memory.of(RecordKind::Substitution);
    let reasons: Vec<_> = moves.iter().map(|m| &m["reason"]).collect();
    assert_eq!(reasons, ["manual", "drill"]);
    // Nothing was measured, and that is said.
    assert_eq!(moves[0]["latency"]["samples"], 0);
    assert_eq!(moves[0]["latency"]["p95_ms"], 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_leaves_is_recorded_and_forgotten() {
    let world = World::new([steady(5_000), steady(5_000), steady(5_000)]);
    assert!(timeout(ms(500), world.ask("gone")).await.is_err());
    let asked = ChatRequest::user("say something, n42");
    let stream = world.router.stream("planner", asked, context("stream"));
    drop(timeout(ms(400), stream).await);
    let answers = world.memory.of(RecordKind::Answer);
    assert_eq!(answers.len(), 2);
    for answer in &answers {
        assert_eq!(answer["outcome"], "cancelled");
        assert_eq!(answer["reason"], "cancelled");
        assert_eq!(answer["attempts"][0]["outcome"], "cancelled");
    }
    assert_eq!(world.log.open_calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_recorded_when_its_last_word_is_out() {
    let world = World::new([steady(100), steady(100), steady(100)]);
    let asked = ChatRequest::user("say something, n42");
    let mut stream = world
        .router
        .stream("planner", asked, context("stream"))
        .await
        .unwrap();
    assert!(world.memory.records().is_empty());
    while stream.next().await.is_some() {}
    drop(stream);
    let answer = &world.memory.of(RecordKind::Answer)[0];
    assert_eq!(answer["outcome"], "ok");
    assert!(answer["attempts"][0]["ttft_ms"].is_number());
}

/// What was asked, what was answered and what a provider says of an error.
#[tokio::test(start_paused = true)]
async fn no_record_holds_what_was_said() {
    let fault = Fault::Status {
        status: 400,
        code: Some("CODE-CANARY".to_owned()),
        message: "BODY-CANARY".to_owned(),
        retry_after: None,
    };
    let said = steady(100).with_text("ANSWER-CANARY");
    let world = World::new([Behaviour::failing(fault), said.clone(), said]);
    for n in 0..6 {
        let asked = ChatRequest::user("PROMPT-CANARY");
        let _ = world
            .router
            .complete("planner", asked, context(&format!("r{n}")))
            .await;
    }
    let text = world.memory.text();
    assert!(!text.is_empty() && !text.contains("CANARY"), "{text}");
}

/// Records join with metrics by their models.
#[test]
fn a_move_of_a_cascade_is_a_pair_of_the_role_s_primary_and_who_serves_instead() {
    let memory = Arc::new(Memory::default());
    let log = AuditLog::new(memory.clone(), None);
    for kind in [moves_on(), half_way_back()] {
        let at = tokio::time::Instant::now().into_std();
        let call = None;
        log.on(&Event { at, call, kind });
    }
    let moves = memory.of(RecordKind::Substitution);
    let models: Vec<_> = moves.iter().map(|record| &record["model"]).collect();
    let pair = |fallback: &str| json!({ "primary": "openai/gpt", "fallback": fallback });
    assert_eq!(models, [&pair("new/one"), &pair("azure/gpt")]);
    assert_eq!(memory.of(RecordKind::Restoration), [Value::Null; 0]);
}
