//! Answers that end where their caller said: what came of them is no model's fault.

use crate::world::{Plan, ROLE, World, steady};
use evenkeel_core::{
    CallContext, ChatRequest, ChatResponse, Class, EventKind, EventStream, Failure, Finish, Output,
    Part, Provider, ProviderCall, Tool, ToolCall, Usage,
};
use evenkeel_router::CallErrorKind;
use std::sync::Arc;

/// Gives the same answer to whoever bounds it, and a good one to others.
#[derive(Debug)]
struct Bounded<P>(P, ChatResponse);

#[async_trait::async_trait]
impl<P: Provider> Provider for Bounded<P> {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        let asked = &call.request;
        if asked.max_output_tokens.is_some() || !asked.stop.is_empty() {
            return Ok(self.1.clone());
        }
        self.0.complete(call).await
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        self.0.stream(call).await
    }
}

fn cut(parts: Vec<Part>, finish: Finish) -> ChatResponse {
    ChatResponse {
        id: "c1".into(),
        model: "m".into(),
        created: 0,
        parts,
        finish,
        usage: Some(Usage::default()),
        adapted: Vec::new(),
        rate_limits: None,
        extra: evenkeel_core::Extra::default(),
    }
}

fn world(answer: &ChatResponse) -> World {
    let answer = answer.clone();
    Plan::new(vec![steady(100), steady(100)])
        .policy(|p| {
            p.retry.malformed = 1;
            p.retry.semantic = 1;
        })
        .provider(move |_, inner| Arc::new(Bounded(inner, answer.clone())))
        .build()
}

fn json() -> ChatRequest {
    ChatRequest {
        output: Output::JsonObject,
        max_output_tokens: Some(5),
        ..ChatRequest::user("hello")
    }
}

fn with_tool() -> ChatRequest {
    let tool = Tool {
        name: "find".into(),
        description: None,
        parameters: None,
        strict: None,
        extra: evenkeel_core::Extra::default(),
    };
    ChatRequest {
        tools: vec![tool],
        max_output_tokens: Some(5),
        ..ChatRequest::user("hello")
    }
}

/// One caller's cap or stop text must not take models away from all the others.
#[tokio::test(start_paused = true)]
async fn an_end_that_the_caller_set_counts_on_no_model() {
    let call = ToolCall {
        id: "c1".into(),
        name: "find".into(),
        arguments: "{\"q\":".into(),
        ..ToolCall::default()
    };
    let stopped = ChatRequest {
        max_output_tokens: None,
        stop: vec!["\n".into()],
        ..json()
    };
    let text = || vec![Part::Text("{\"p\":\"ab".into())];
    let cases = [
        (json(), cut(text(), Finish::Length), "allows it 5 tokens"),
        (
            with_tool(),
            cut(vec![Part::ToolCall(call)], Finish::Length),
            "allows it 5 tokens",
        ),
        (stopped.clone(), cut(text(), Finish::Stop), "`stop`"),
        (stopped, cut(Vec::new(), Finish::StopSequence), "`stop`"),
    ];
    for (request, answer, why) in cases {
        let world = world(&answer);
        for _ in 0..6 {
            let asked = request.clone();
            let error = world
                .router
                .complete(ROLE, asked, CallContext::default())
                .await;
            let error = error.unwrap_err();
            let CallErrorKind::Failed(failure) = &error.kind else {
                panic!("{error}")
            };
            assert!(matches!(failure.class, Class::Malformed | Class::Semantic));
            assert!(failure.message.contains(why), "{failure}");
            // Each model once: asked the same again it would end there again.
            assert_eq!(error.trail.attempts().count(), 2);
        }
        let moved = world.memory.count(|k| {
            matches!(
                k,
                EventKind::BreakerTransition { .. } | EventKind::RosterExhausted { .. }
            )
        });
        assert_eq!(moved, 0, "{answer:?}");
        assert_eq!(world.ask().await.unwrap().meta.rung, 0);
    }
}

/// Nothing but thoughts under the caller's cap is what was asked for.
#[tokio::test(start_paused = true)]
async fn an_answer_that_came_to_nothing_under_the_callers_cap_is_an_answer() {
    let empty = cut(Vec::new(), Finish::Length);
    let world = world(&empty);
    let request = ChatRequest {
        max_output_tokens: Some(50),
        ..ChatRequest::user("hello")
    };
    let answer = world
        .router
        .complete(ROLE, request, CallContext::default())
        .await
        .unwrap();
    assert_eq!(
        (answer.meta.rung, answer.response.finish),
        (0, Finish::Length)
    );
    assert_eq!(answer.response.plain_text(), "");
}

/// What a model cuts by itself is its own.
#[tokio::test(start_paused = true)]
async fn an_end_that_nobody_asked_for_counts() {
    let answer = cut(vec![Part::Text("{\"p\":".into())], Finish::Length);
    let all = Plan::new(vec![steady(100)])
        .provider(move |_, _| Arc::new(Always(answer.clone())))
        .build();
    let request = ChatRequest {
        max_output_tokens: None,
        ..json()
    };
    for _ in 0..8 {
        let _ = all
            .router
            .complete(ROLE, request.clone(), CallContext::default())
            .await;
    }
    let opened = |k: &EventKind| matches!(k, EventKind::BreakerTransition { to: "open", .. });
    assert_eq!(all.memory.count(opened), 1);
}

/// One answer, whatever is asked.
#[derive(Debug)]
struct Always(ChatResponse);

#[async_trait::async_trait]
impl Provider for Always {
    async fn complete(&self, _: ProviderCall) -> Result<ChatResponse, Failure> {
        Ok(self.0.clone())
    }

    async fn stream(&self, _: ProviderCall) -> Result<EventStream, Failure> {
        unreachable!("nobody streams here")
    }
}

/// A schema that no model meets takes no model from others; one that only the primary
/// does not meet speaks against the primary.
#[tokio::test(start_paused = true)]
async fn a_schema_that_nobody_meets_counts_on_no_model() {
    let schema = serde_json::json!({ "type": "object", "required": ["p"], "properties": { "p": { "type": "integer" } } });
    let request = ChatRequest {
        output: Output::JsonSchema {
            name: "p".into(),
            schema,
            strict: false,
            description: None,
        },
        ..ChatRequest::user("hello")
    };
    let says = |text: &str| steady(100).with_text(text);
    let world = Plan::new(vec![says("{\"p\":\"x\"}"), says("{\"p\":\"y\"}")]).build();
    let ask = |world: &World| {
        let (router, request) = (world.router.clone(), request.clone());
        async move { router.complete(ROLE, request, CallContext::default()).await }
    };
    let moved = |world: &World| {
        let of = |k: &EventKind| matches!(k, EventKind::BreakerTransition { .. });
        world.memory.count(of)
    };
    for _ in 0..10 {
        ask(&world).await.unwrap_err();
    }
    assert_eq!(moved(&world), 0);
    world.set(1, says("{\"p\":1}"));
    for _ in 0..10 {
        assert_eq!(ask(&world).await.unwrap().meta.rung, 1);
    }
    assert_eq!(moved(&world), 1);
}
