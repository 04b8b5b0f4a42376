//! The keyed hash of what was said, as a caller who has it recomputes it.

use super::world::{World, context, ms, steady};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{ChatRequest, Delta, Message, Role, StreamEvent};
use evenkeel_otel_emit::audit::{ContentKey, RecordKind};
use futures_util::StreamExt;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::SecretString;
use serde_json::{Value, json};
use sha2::Sha256;
use std::fmt::Write as _;
use tokio::time::timeout;

const KEY: &str = "key-canary-0123456789abcdef0123456789";

fn key() -> ContentKey {
    ContentKey::new(&SecretString::from(KEY))
}

/// By the recipe alone: HMAC-SHA-256 over the canonical JSON.
fn expected(answer: Option<&str>) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let answer = answer.map_or("null".to_owned(), |answer| {
        format!(r#"{{"content":{},"role":"assistant"}}"#, text(answer))
    });
    let said = format!(
        r#"{{"answer":{answer},"messages":[{{"content":{},"role":"system"}},{{"content":{},"role":"user"}}]}}"#,
        text("obey \"me\""),
        text("say something, n42"),
    );
    let mut hmac = Hmac::<Sha256>::new_from_slice(KEY.as_bytes()).unwrap();
    hmac.update(said.as_bytes());
    let bytes = hmac.finalize().into_bytes();
    let mut text = "hmac-sha256:".to_owned();
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

fn request() -> ChatRequest {
    let mut request = ChatRequest::user("say something, n42");
    request
        .messages
        .insert(0, Message::text(Role::System, "obey \"me\""));
    request
}

/// The text of a stream.
async fn streamed(world: &World, id: &str) -> String {
    let stream = world.router.stream("planner", request(), context(id));
    let mut stream = stream.await.unwrap();
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        if let StreamEvent::Delta(Delta::Text(piece)) = event.unwrap() {
            text.push_str(&piece);
        }
    }
    text
}

/// What a request's record says.
fn told(world: &World, id: &str) -> Value {
    let answers = world.memory.of(RecordKind::Answer);
    let own = answers.iter().find(|record| record["request_id"] == id);
    own.unwrap()["content_hmac"].clone()
}

#[tokio::test(start_paused = true)]
async fn an_answer_s_record_has_the_hash_of_what_its_caller_asked_and_got() {
    let world = World::keyed([steady(100), steady(100), steady(100)], key());
    let asked = world
        .router
        .complete("planner", request(), context("whole"));
    let text = asked.await.unwrap().response.plain_text();
    assert!(!text.is_empty());
    assert_eq!(told(&world, "whole"), expected(Some(&text)));
    let text = streamed(&world, "stream").await;
    assert_eq!(told(&world, "stream"), expected(Some(&text)));
    assert_ne!(told(&world, "stream"), expected(None));
    assert!(!world.memory.text().contains(KEY));
    let others = world.memory.records();
    let others = others.iter().filter(|r| r["kind"] != "answer");
    assert!(others.into_iter().all(|r| r.get("content_hmac").is_none()));
}

/// Two models give one answer; neither of them has said all of it.
#[tokio::test(start_paused = true)]
async fn a_stream_that_another_model_went_on_with_is_hashed_as_its_caller_has_it() {
    let words = "one two three four five six seven eight nine ten";
    let said = || steady(100).with_text(words).with_inter_token(ms(10));
    let broken = said().with_fault(Fault::CutAfter(4));
    let world = World::keyed([broken, said(), said()], key());
    let text = streamed(&world, "resumed").await;
    assert_eq!(text, words);
    let answer = &world.memory.of(RecordKind::Answer)[0];
    assert_eq!(answer["model"]["answered"], "p1/m");
    assert_eq!(told(&world, "resumed"), expected(Some(words)));
}

#[tokio::test(start_paused = true)]
async fn without_a_whole_answer_the_request_alone_is_hashed() {
    let failing = || Behaviour::failing(Fault::status(500));
    let world = World::keyed([failing(), failing(), failing()], key());
    let asked = world.router.complete("planner", request(), context("none"));
    asked.await.unwrap_err();
    assert_eq!(told(&world, "none"), expected(None));
    // Nobody goes on with it: the rest of the roster fails.
    let words = "one two three four five six";
    let broken = steady(100).with_text(words).with_inter_token(ms(10));
    world.set(0, broken.with_fault(Fault::CutAfter(3)));
    let stream = world.router.stream("planner", request(), context("half"));
    let events: Vec<_> = stream.await.unwrap().collect().await;
    assert!(events.last().unwrap().is_err());
    assert_eq!(told(&world, "half"), expected(None));
    world.set(0, steady(5_000));
    let left = world.router.complete("planner", request(), context("left"));
    assert!(timeout(ms(50), left).await.is_err());
    assert_eq!(told(&world, "left"), expected(None));
}

#[tokio::test(start_paused = true)]
async fn without_a_key_there_is_no_hash() {
    let world = World::new([steady(100), steady(100), steady(100)]);
    assert!(world.ask("plain").await);
    assert_eq!(told(&world, "plain"), json!(null));
}
