//! What was said is nowhere, unless somebody has decided that it is to be kept.

use crate::world::{Plan, ROLE, World, context, steady};
use evenkeel_chaos::Behaviour;
use evenkeel_core::{ChatRequest, Extra, Message, Part, Role, Tool, ToolCall, ToolResult};
use evenkeel_otel_emit::{Capture, CaptureContent};
use futures_util::StreamExt;
use std::sync::Arc;

const CANARY: &str = "canary-7f3a";

/// With the canary in whatever a request has; its answer is to call the tool.
fn request() -> ChatRequest {
    let mut request = ChatRequest::user(format!("my name is {CANARY}"));
    let system = Message::text(Role::System, format!("obey {CANARY}"));
    request.messages.insert(0, system);
    let call = ToolCall {
        id: "c1".into(),
        name: "find".into(),
        arguments: format!("{{\"who\":\"{CANARY}\"}}"),
        ..ToolCall::default()
    };
    let result = ToolResult {
        call_id: "c1".into(),
        parts: vec![Part::Text(CANARY.into())],
        is_error: false,
    };
    for (role, part) in [
        (Role::Assistant, Part::ToolCall(call)),
        (Role::Tool, Part::ToolResult(result)),
    ] {
        let mut message = Message::text(role, "");
        message.parts = vec![part];
        request.messages.push(message);
    }
    request.messages.push(Message::text(Role::User, CANARY));
    let who = serde_json::json!({ "type": "string", "const": CANARY });
    request.tools.push(Tool {
        name: "find".into(),
        description: Some(format!("finds {CANARY}")),
        parameters: Some(serde_json::json!({
            "type": "object", "properties": { "who": who }, "required": ["who"],
        })),
        strict: None,
        extra: Extra::default(),
    });
    request
}

/// Calls the tool of a request.
fn calling() -> Behaviour {
    steady(100).with_calls(1)
}

async fn asked(plan: Plan) -> World {
    let world = plan.build();
    let answer = world.router.complete(ROLE, request(), context());
    let called = answer.await.unwrap().response;
    let said = called.tool_calls().next().unwrap().arguments.as_str();
    assert!(said.contains(CANARY), "the caller gets it: {said}");
    let stream = world.router.stream(ROLE, request(), context());
    assert!(stream.await.unwrap().count().await > 2);
    world
}

/// Keys of attributes that hold the canary.
fn leaks(world: &World) -> Vec<String> {
    let mut keys: Vec<String> = world
        .ended()
        .iter()
        .flat_map(|span| {
            let events = span.events.iter().flat_map(|event| &event.attributes);
            span.attributes
                .iter()
                .chain(events)
                .filter(|kv| kv.value.to_string().contains(CANARY))
                .map(|kv| kv.key.to_string())
                .collect::<Vec<_>>()
        })
        .collect();
    keys.sort();
    keys.dedup();
    keys
}

// Conformance 8, the traces' part.
#[tokio::test(start_paused = true)]
async fn nothing_of_what_was_said_is_on_a_span() {
    let world = asked(Plan::new(vec![calling()])).await;
    assert!(world.ended().len() >= 4);
    assert_eq!(leaks(&world), Vec::<String>::new());
    let all = format!("{:?}", world.ended());
    assert!(!all.contains(CANARY));
}

#[tokio::test(start_paused = true)]
async fn by_opt_in_it_is_in_the_four_attributes_and_nowhere_else() {
    let capture = Capture {
        content: CaptureContent::Span,
        redaction: None,
    };
    let world = asked(Plan::new(vec![calling()]).capture(capture)).await;
    assert_eq!(
        leaks(&world),
        [
            "gen_ai.input.messages",
            "gen_ai.output.messages",
            "gen_ai.system_instructions",
            "gen_ai.tool.definitions",
        ]
    );
    let answered = world.named("chat m");
    for attempt in &answered {
        let said = crate::world::text(attempt, "gen_ai.output.messages").unwrap();
        let read: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(read[0]["role"], "assistant");
        assert_eq!(read[0]["finish_reason"], "tool_call");
    }
}

#[tokio::test(start_paused = true)]
async fn a_redaction_has_the_last_word() {
    let capture = Capture {
        content: CaptureContent::Span,
        redaction: Some(Arc::new(|text: &str| text.replace(CANARY, "[name]"))),
    };
    let world = asked(Plan::new(vec![calling()]).capture(capture)).await;
    assert_eq!(leaks(&world), Vec::<String>::new());
    let said = crate::world::text(&world.named("chat m")[0], "gen_ai.input.messages");
    assert!(said.unwrap().contains("my name is [name]"));
}
