//! A rung of little capability is asked in parts, where somebody knows how.

use crate::world::{ROLE, model_id, ms, told};
use evenkeel_core::{
    Accumulator, CallContext, ChatRequest, ChatResponse, Class, EventStream, Extra, Failure,
    Finish, Message, Part, Provider, ProviderCall, Role, StreamEvent, Usage, events_of,
};
use evenkeel_roster::{
    Config, Dialect, ModelConfig, ProviderConfig, RoleConfig, RolePolicy, RungConfig,
};
use evenkeel_router::{Decomposition, Router};
use futures_util::{StreamExt, stream};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Answers in capitals, and fails at questions with an exclamation mark.
#[derive(Debug, Default)]
struct Capitals(Mutex<Vec<String>>);

#[async_trait::async_trait]
impl Provider for Capitals {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        let asked = question(&call.request);
        self.0.lock().unwrap().push(asked.clone());
        tokio::time::sleep(ms(900)).await;
        if asked.contains('!') {
            return Err(Failure::new(Class::BadRequest, "do not shout"));
        }
        Ok(says(&asked.to_uppercase()))
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        let mut events = events_of(&self.complete(call).await?);
        events.push(StreamEvent::End);
        Ok(stream::iter(events.into_iter().map(Ok)).boxed())
    }
}

#[derive(Debug)]
struct Down;

#[async_trait::async_trait]
impl Provider for Down {
    async fn complete(&self, _: ProviderCall) -> Result<ChatResponse, Failure> {
        Err(Failure::new(Class::Unreachable, "down"))
    }

    async fn stream(&self, _: ProviderCall) -> Result<EventStream, Failure> {
        Err(Failure::new(Class::Unreachable, "down"))
    }
}

fn question(request: &ChatRequest) -> String {
    request.messages.last().map(Message::plain_text).unwrap()
}

fn says(text: &str) -> ChatResponse {
    ChatResponse {
        id: "a".into(),
        model: "m".into(),
        created: 0,
        parts: vec![Part::Text(text.to_owned())],
        finish: Finish::Stop,
        usage: Some(Usage {
            input: 10,
            output: 2,
            ..Usage::default()
        }),
        adapted: Vec::new(),
        rate_limits: None,
        extra: Extra::default(),
    }
}

/// Sentence by sentence.
#[derive(Debug)]
struct Sentences;

impl Decomposition for Sentences {
    fn split(&self, request: &ChatRequest) -> Vec<ChatRequest> {
        let question = question(request);
        assert!(!question.contains("panic"), "it was asked for");
        let sentences = question.split_inclusive('.');
        let part = |sentence: &str| {
            let mut part = request.clone();
            let last = part.messages.len() - 1;
            part.messages[last] = Message::text(Role::User, sentence.trim());
            part
        };
        sentences.map(part).collect()
    }

    fn join(&self, _: &ChatRequest, answers: Vec<ChatResponse>) -> ChatResponse {
        let texts: Vec<_> = answers.iter().map(ChatResponse::plain_text).collect();
        says(&texts.join(" / "))
    }
}

/// A role whose primary is down, and a fallback of capability 0.8.
fn world(simplify_below: f64) -> (Router, Arc<Capitals>) {
    let mut policy = RolePolicy::new(ms(1_000), ms(2_000), Duration::from_secs(20));
    policy.simplify_below = simplify_below;
    policy.quality_budget = 0.5;
    let ids = [model_id(0), model_id(1)];
    let role = RoleConfig {
        name: ROLE.to_owned(),
        policy,
        rungs: vec![
            RungConfig::primary(ids[0].clone()),
            RungConfig::fallback(ids[1].clone(), 0.8),
        ],
    };
    let provider = |name: &str| (name.to_owned(), ProviderConfig::new(name, Dialect::OpenAi));
    let config = Config {
        roles: BTreeMap::from([(ROLE.to_owned(), role)]),
        models: ids.map(|id| (id.clone(), ModelConfig::new(id))).into(),
        providers: BTreeMap::from([provider("p0"), provider("p1")]),
        ..Config::default()
    };
    let capitals = Arc::new(Capitals::default());
    let router = Router::builder(&config)
        .provider("p0", Arc::new(Down))
        .provider("p1", capitals.clone())
        .decomposition(ROLE, Arc::new(Sentences))
        .build();
    (router.unwrap(), capitals)
}

#[tokio::test(start_paused = true)]
async fn a_rung_of_little_capability_is_asked_sentence_by_sentence() {
    let (router, asked) = world(0.9);
    let request = ChatRequest::user("One. Two. Three.");
    let answer = router.complete(ROLE, request, CallContext::default());
    let answer = answer.await.unwrap();
    assert_eq!(answer.response.plain_text(), "ONE. / TWO. / THREE.");
    assert_eq!(*asked.0.lock().unwrap(), ["One.", "Two.", "Three."]);
    // One attempt, of all parts together: longer than T95, and no breach of it.
    assert_eq!(
        told(&answer.trail),
        ["0 first unreachable", "1 failover won"]
    );
    let usage = answer.response.usage.unwrap();
    assert_eq!((usage.input, usage.output), (30, 6));
    let state = router.state();
    let rung = &state.roles[0].rungs[1];
    assert_eq!(rung.total.samples, 0, "{rung:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_gets_the_joined_answer() {
    let (router, _) = world(0.9);
    let request = ChatRequest::user("One. Two.");
    let stream = router.stream(ROLE, request, CallContext::default());
    let mut events = stream.await.unwrap();
    let mut whole = Accumulator::default();
    while let Some(event) = events.next().await {
        whole.push(&event.unwrap());
    }
    assert_eq!(whole.finish().unwrap().plain_text(), "ONE. / TWO.");
}

#[tokio::test(start_paused = true)]
async fn one_part_a_capable_rung_and_a_split_that_panics_are_asked_as_they_are() {
    for (below, question) in [(0.9, "One."), (0.5, "One. Two."), (0.9, "panic. Two.")] {
        let (router, asked) = world(below);
        let request = ChatRequest::user(question);
        let answer = router.complete(ROLE, request, CallContext::default());
        let text = answer.await.unwrap().response.plain_text();
        assert_eq!(text, question.to_uppercase());
        assert_eq!(*asked.0.lock().unwrap(), [question]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_that_fails_fails_the_attempt() {
    let (router, asked) = world(0.9);
    let request = ChatRequest::user("One. Two! Too. Three.");
    let error = router.complete(ROLE, request, CallContext::default());
    let error = error.await.unwrap_err();
    assert_eq!(error.kind.class(), Some(Class::BadRequest));
    assert_eq!(asked.0.lock().unwrap().len(), 2);
}
