//! Each rung is asked in its own words, and its answer comes back in the caller's.

mod refused;

use crate::world::{ROLE, model_id, ms, told};
use evenkeel_core::{
    Accumulator, CallContext, ChatRequest, ChatResponse, Class, EventStream, Extra, Failure,
    Finish, Message, Output, Part, Provider, ProviderCall, Role, StreamEvent, Tool, ToolCall,
    Trail, Usage, events_of,
};
use evenkeel_prompts::{SourceFile, Sources};
use evenkeel_roster::{
    Config, Dialect, ModelConfig, ProviderConfig, RoleConfig, RolePolicy, RungConfig,
};
use evenkeel_router::{Answer, CallError, Router};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) type Reply =
    Box<dyn Fn(usize, &ChatRequest) -> Result<ChatResponse, Failure> + Send + Sync>;

/// A model that answers by a function of how often it was asked and what.
struct Scripted {
    reply: Reply,
    seen: Mutex<Vec<Arc<ChatRequest>>>,
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

#[async_trait::async_trait]
impl Provider for Scripted {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        let nth = {
            let mut seen = self.seen.lock().unwrap();
            seen.push(call.request.clone());
            seen.len() - 1
        };
        tokio::time::sleep(ms(100)).await;
        (self.reply)(nth, &call.request)
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        let response = self.complete(call).await?;
        let mut events = events_of(&response);
        events.push(StreamEvent::End);
        Ok(stream::iter(events.into_iter().map(Ok)).boxed())
    }
}

pub(crate) fn says(text: &str) -> ChatResponse {
    answer(vec![Part::Text(text.to_owned())], Finish::Stop)
}

pub(crate) fn answer(parts: Vec<Part>, finish: Finish) -> ChatResponse {
    ChatResponse {
        id: "a".into(),
        model: "m".into(),
        created: 0,
        parts,
        finish,
        usage: None,
        adapted: Vec::new(),
        rate_limits: None,
        extra: Extra::default(),
    }
}

fn always(text: &'static str) -> Reply {
    Box::new(move |_, _| Ok(says(text)))
}

pub(crate) fn down() -> Reply {
    Box::new(|_, _| Err(Failure::new(Class::Overloaded, "down")))
}

/// A role over scripted models.
pub(crate) struct Stage {
    pub(crate) router: Router,
    models: Vec<Arc<Scripted>>,
}

pub(crate) fn stage(
    models: Vec<(Reply, ModelConfig)>,
    policy: impl FnOnce(&mut RolePolicy),
) -> Stage {
    prompted(models, policy, "")
}

fn prompted(
    models: Vec<(Reply, ModelConfig)>,
    change: impl FnOnce(&mut RolePolicy),
    prompts: &str,
) -> Stage {
    let mut policy = RolePolicy::new(ms(1_000), ms(2_000), Duration::from_secs(20));
    policy.retry.semantic = 0;
    policy.retry.malformed = 0;
    policy.retry.overloaded = 0;
    change(&mut policy);
    let ids: Vec<_> = (0..models.len()).map(model_id).collect();
    let rungs = ids.iter().enumerate().map(|(rank, id)| match rank {
        0 => RungConfig::primary(id.clone()),
        _ => RungConfig::fallback(id.clone(), 0.9),
    });
    let role = RoleConfig {
        name: ROLE.to_owned(),
        policy,
        rungs: rungs.collect(),
    };
    let providers = (0..models.len()).map(|i| {
        let name = format!("p{i}");
        (name.clone(), ProviderConfig::new(name, Dialect::OpenAi))
    });
    let (replies, configs): (Vec<_>, Vec<_>) = models.into_iter().unzip();
    let config = Config {
        roles: BTreeMap::from([(ROLE.to_owned(), role)]),
        models: configs.into_iter().map(|m| (m.id.clone(), m)).collect(),
        providers: providers.collect(),
        ..Config::default()
    };
    let rosters = BTreeMap::from([(ROLE.to_owned(), ids)]);
    let files = [SourceFile {
        name: "prompts.toml".into(),
        text: prompts.into(),
    }];
    let prompts = evenkeel_prompts::load(&Sources {
        files: if prompts.is_empty() { &[] } else { &files },
        rosters: &rosters,
        env: &|_| None,
        read: &|path| Ok(format!("{path}: you are {{{{model}}}} for {{{{team}}}}.").into_bytes()),
    });
    let mut builder = Router::builder(&config).prompts(prompts.unwrap()).seed(1);
    let mut models = Vec::new();
    for (i, reply) in replies.into_iter().enumerate() {
        let model = Arc::new(Scripted {
            reply,
            seen: Mutex::default(),
        });
        builder = builder.provider(&format!("p{i}"), model.clone());
        models.push(model);
    }
    Stage {
        router: builder.build().unwrap(),
        models,
    }
}

impl Stage {
    pub(crate) async fn ask(&self, request: ChatRequest) -> Result<Answer, CallError> {
        self.router
            .complete(ROLE, request, CallContext::default())
            .await
    }

    fn seen(&self, rung: usize) -> Vec<Arc<ChatRequest>> {
        self.models[rung].seen.lock().unwrap().clone()
    }
}

fn model(rung: usize, change: impl FnOnce(&mut ModelConfig)) -> ModelConfig {
    let mut model = ModelConfig::new(model_id(rung));
    change(&mut model);
    model
}

pub(crate) fn plain(rung: usize) -> ModelConfig {
    model(rung, |_| {})
}

fn window(rung: usize, tokens: u64) -> ModelConfig {
    model(rung, |m| m.context_window = Some(tokens))
}

fn system(request: &ChatRequest) -> String {
    let systems = request.messages.iter().filter(|m| m.role == Role::System);
    systems.map(Message::plain_text).collect()
}

/// A conversation of `turns` turns of some 60 tokens each.
fn conversation(turns: usize) -> ChatRequest {
    let mut messages = vec![Message::text(Role::System, "Be brief.")];
    for turn in 0..turns {
        let question = format!("question {turn}: {}", "tide ".repeat(15));
        messages.push(Message::text(Role::User, question));
        messages.push(Message::text(Role::Assistant, "ebb ".repeat(15)));
    }
    messages.push(Message::text(Role::User, "the last question"));
    ChatRequest {
        messages,
        ..ChatRequest::default()
    }
}

/// The trail without what was adapted.
fn asked(trail: &Trail) -> Vec<String> {
    let mut steps = told(trail);
    steps.retain(|step| !step.starts_with("adapted"));
    steps
}

const PROMPTS: &str = r#"
[agent.system_prompt_variants]
default = "default.txt"
"p1/*" = "other.txt"
simple = "simple.txt"

[agent.variables]
team = "harbour"
"#;

// C020, C226: what a rung is asked derives from the caller's request and its own needs, never
// from what another rung was asked.
#[tokio::test(start_paused = true)]
async fn each_rung_gets_its_own_prompt_and_the_callers_request_stays_as_it_is() {
    let models = vec![(down(), plain(0)), (always("ok"), plain(1))];
    let stage = prompted(models, |_| {}, PROMPTS);
    let request = ChatRequest::user("hello");
    let context = CallContext {
        prompt_variables: BTreeMap::from([("team".to_owned(), "night watch".to_owned())]),
        ..CallContext::default()
    };
    let answered = stage.router.complete(ROLE, request.clone(), context).await;
    assert_eq!(answered.unwrap().meta.rung, 1);
    assert_eq!(
        system(&stage.seen(0)[0]),
        "default.txt: you are m for night watch."
    );
    assert_eq!(
        system(&stage.seen(1)[0]),
        "other.txt: you are m for night watch."
    );
    assert_eq!(stage.seen(1)[0].messages[1..], request.messages[..]);
}

#[tokio::test(start_paused = true)]
async fn a_rung_of_small_capability_gets_the_simple_prompt() {
    let models = vec![(down(), plain(0)), (always("ok"), plain(1))];
    let stage = prompted(models, |p| p.simplify_below = 0.95, PROMPTS);
    stage.ask(ChatRequest::user("hello")).await.unwrap();
    assert!(system(&stage.seen(0)[0]).starts_with("default.txt"));
    assert!(system(&stage.seen(1)[0]).starts_with("simple.txt"));
}

#[tokio::test(start_paused = true)]
async fn a_history_is_cut_for_a_small_fallback_and_the_answer_says_so() {
    let models = vec![
        (down(), window(0, 100_000)),
        (always("ok"), window(1, 1_000)),
    ];
    let stage = stage(models, |_| {});
    let request = conversation(40);
    let answer = stage.ask(request.clone()).await.unwrap();
    let (whole, cut) = (&stage.seen(0)[0], &stage.seen(1)[0]);
    assert_eq!(**whole, request);
    assert!(
        cut.messages.len() < request.messages.len() / 2,
        "{}",
        cut.messages.len()
    );
    assert!(cut.estimated_input_tokens() <= 1_000);
    assert_eq!(cut.messages.first(), request.messages.first());
    assert_eq!(cut.messages.last(), request.messages.last());
    let [note] = answer.meta.adapted.as_slice() else {
        panic!("{:?}", answer.meta.adapted);
    };
    assert!(
        note.starts_with("messages: ") && note.contains("cut to fit"),
        "{note}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rung_that_takes_all_of_it_comes_before_one_that_takes_a_part() {
    let models = vec![
        (always("small"), window(0, 1_000)),
        (always("also small"), window(1, 1_000)),
        (always("large"), window(2, 100_000)),
    ];
    let stage = stage(models, |_| {});
    let answer = stage.ask(conversation(40)).await.unwrap();
    assert_eq!(answer.meta.rung, 2);
    assert_eq!(answer.meta.adapted, [""; 0]);
    assert!(told(&answer.trail).contains(&"skip 0 context_window".to_owned()));
    assert!(stage.seen(0).is_empty() && stage.seen(1).is_empty());
    // Without it the best of the small ones takes what it can.
    let models = vec![
        (always("small"), window(0, 1_000)),
        (down(), window(1, 800)),
    ];
    let stage = self::stage(models, |_| {});
    assert_eq!(stage.ask(conversation(40)).await.unwrap().meta.rung, 0);
}

#[tokio::test(start_paused = true)]
async fn what_must_be_kept_and_fits_nowhere_is_the_callers_to_know() {
    let models = vec![(always("x"), window(0, 500)), (always("x"), window(1, 600))];
    let stage = stage(models, |_| {});
    let error = stage
        .ask(ChatRequest::user("tide ".repeat(2_000)))
        .await
        .unwrap_err();
    assert_eq!(error.kind.class(), Some(Class::ContextWindow));
    // What it takes, and the largest window that there is.
    let said = error.to_string();
    assert!(
        said.contains("tokens") && said.ends_with(" of 600"),
        "{said}"
    );
    assert!(stage.seen(0).is_empty() && stage.seen(1).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_window_smaller_than_said_is_asked_again_with_less() {
    // It takes far fewer tokens than its entry says.
    let refuses = |most: u64| -> Reply {
        Box::new(move |_, request| {
            if request.estimated_input_tokens() > most {
                return Err(Failure::new(Class::ContextWindow, "too long"));
            }
            Ok(says("ok"))
        })
    };
    let alone = stage(vec![(refuses(1_800), window(0, 2_500))], |_| {});
    let answer = alone.ask(conversation(60)).await.unwrap();
    let sizes: Vec<u64> = alone
        .seen(0)
        .iter()
        .map(|r| r.estimated_input_tokens())
        .collect();
    assert_eq!(sizes.len(), 2, "{sizes:?}");
    assert!(sizes[1] <= sizes[0] * 3 / 4, "{sizes:?}");
    assert_eq!(
        asked(&answer.trail),
        ["0 first context_window", "0 retry won"]
    );
    // Once only.
    let hopeless = stage(vec![(refuses(10), window(0, 2_500))], |_| {});
    let error = hopeless.ask(conversation(60)).await.unwrap_err();
    assert_eq!(error.kind.class(), Some(Class::ContextWindow));
    assert_eq!(hopeless.seen(0).len(), 2);
    // A larger window comes first.
    let models = vec![
        (refuses(10), window(0, 2_500)),
        (always("ok"), window(1, 100_000)),
    ];
    let both = stage(models, |_| {});
    let answer = both.ask(conversation(10)).await.unwrap();
    assert_eq!(
        told(&answer.trail),
        ["0 first context_window", "1 failover won"]
    );
}

#[tokio::test(start_paused = true)]
async fn what_answers_report_teaches_how_much_a_model_takes() {
    // Three tokens for each one that is estimated.
    let reply: Reply = Box::new(|_, request| {
        let mut answer = says("ok");
        answer.usage = Some(Usage {
            input: request.estimated_input_tokens() * 3,
            output: 1,
            ..Usage::default()
        });
        Ok(answer)
    });
    let stage = stage(vec![(reply, window(0, 4_000))], |_| {});
    for _ in 0..8 {
        stage.ask(conversation(10)).await.unwrap();
    }
    let before = stage.seen(0).len();
    stage.ask(conversation(20)).await.unwrap();
    let sent = stage.seen(0)[before].clone();
    assert!(sent.messages.len() < conversation(20).messages.len());
    assert!(
        sent.estimated_input_tokens() * 3 <= 4_100,
        "{}",
        sent.estimated_input_tokens()
    );
}

fn weather(strict: bool) -> ChatRequest {
    ChatRequest {
        output: Output::JsonSchema {
            name: "weather".into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "city": {"type": "string", "minLength": 2},
                    "wind": {"type": "integer", "maximum": 12},
                },
                "required": ["city"],
                "additionalProperties": false,
            }),
            strict,
            description: None,
        },
        ..ChatRequest::user("the weather in Bergen")
    }
}

fn demand(request: &ChatRequest) -> Option<&Value> {
    match &request.output {
        Output::JsonSchema { schema, .. } => Some(schema),
        _ => None,
    }
}

// C226
#[tokio::test(start_paused = true)]
async fn each_rung_is_asked_for_the_schema_in_its_own_dialect() {
    let models = vec![
        (down(), plain(0)),
        // No enforcement of any kind: the schema is in the prompt.
        (
            always("Here you are:\n```json\n{\"city\": \"Bergen\"}\n```"),
            model(1, |m| m.schema_dialect = Some("none")),
        ),
    ];
    let stage = stage(models, |_| {});
    let answer = stage.ask(weather(true)).await.unwrap();
    let strict = stage.seen(0)[0].clone();
    let required = &demand(&strict).unwrap()["required"];
    assert_eq!(
        *required,
        json!(["city", "wind"]),
        "strict: everything is required"
    );
    let told = stage.seen(1)[0].clone();
    assert!(demand(&told).is_none() && system(&told).contains("minLength"));
    assert_eq!(answer.response.plain_text(), "{\"city\": \"Bergen\"}");
    assert!(!answer.meta.adapted.is_empty(), "the repair is noted");
}

#[tokio::test(start_paused = true)]
async fn what_stands_for_absence_is_absent_again() {
    let stage = stage(
        vec![(always("{\"city\":\"Bergen\",\"wind\":null}"), plain(0))],
        |_| {},
    );
    let answer = stage.ask(weather(true)).await.unwrap();
    assert_eq!(answer.response.plain_text(), "{\"city\":\"Bergen\"}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_against_the_schema_is_asked_again_with_a_hint_then_elsewhere() {
    let wrong = "{\"city\":\"B\",\"wind\":null}";
    let models = vec![
        (always(wrong), plain(0)),
        (always("{\"city\":\"Oslo\"}"), plain(1)),
    ];
    let stage = stage(models, |p| p.retry.semantic = 1);
    let answer = stage.ask(weather(true)).await.unwrap();
    assert_eq!(
        asked(&answer.trail),
        [
            "0 first semantic",
            "wait 0 semantic",
            "0 retry semantic",
            "1 failover won"
        ]
    );
    let again = stage.seen(0)[1].clone();
    let [.., said, hint] = again.messages.as_slice() else {
        panic!("{again:?}");
    };
    assert_eq!(
        (said.role, said.plain_text().as_str()),
        (Role::Assistant, wrong)
    );
    assert!(
        hint.role == Role::User && hint.plain_text().contains("city"),
        "{hint:?}"
    );
    assert_eq!(stage.seen(1)[0].messages, weather(true).messages);
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_stream_is_delivered_before_its_json_is_valid() {
    let models = vec![
        (always("no JSON at all"), plain(0)),
        (always("{\"city\":\"Oslo\"}"), plain(1)),
    ];
    let stage = stage(models, |_| {});
    let stream = stage
        .router
        .stream(ROLE, weather(false), CallContext::default())
        .await;
    let mut stream = stream.unwrap();
    assert_eq!(stream.meta().rung, 1);
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        if let StreamEvent::Delta(evenkeel_core::Delta::Text(piece)) = event.unwrap() {
            text.push_str(&piece);
        }
    }
    assert_eq!(text, "{\"city\":\"Oslo\"}");
}

#[tokio::test(start_paused = true)]
async fn a_schema_that_nobody_can_use_is_the_callers_to_know_and_nobody_is_asked() {
    let stage = stage(
        vec![(always("{}"), plain(0)), (always("{}"), plain(1))],
        |_| {},
    );
    let mut request = weather(true);
    request.output = Output::JsonSchema {
        name: "w".into(),
        schema: json!({"type": "no such type"}),
        strict: true,
        description: None,
    };
    let error = stage.ask(request).await.unwrap_err();
    assert_eq!(error.kind.class(), Some(Class::BadRequest));
    assert!(stage.seen(0).is_empty() && stage.seen(1).is_empty());
}

fn with_tool(name: &str) -> ChatRequest {
    ChatRequest {
        tools: vec![Tool {
            name: name.into(),
            description: None,
            parameters: Some(json!({
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            })),
            strict: None,
            extra: Extra::default(),
        }],
        ..ChatRequest::user("the weather in Bergen")
    }
}

fn calls(name: &str, arguments: &str) -> ChatResponse {
    let call = ToolCall {
        id: "c1".into(),
        name: name.into(),
        arguments: arguments.into(),
        extra: Extra::default(),
    };
    answer(vec![Part::ToolCall(call)], Finish::ToolUse)
}

/// A tool whose optional parameter is sent as one that may be null.
fn with_strict_tool() -> ChatRequest {
    let mut request = with_tool("weather");
    request.tools[0].strict = Some(true);
    request.tools[0].parameters = Some(json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "day": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": false,
    }));
    request
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_rewritten_tool_come_back_in_its_own_terms() {
    let reply: Reply = Box::new(|_, _| Ok(calls("weather", "{\"city\":\"Bergen\",\"day\":null}")));
    let stage = stage(vec![(reply, plain(0))], |_| {});
    let answer = stage.ask(with_strict_tool()).await.unwrap();
    let sent = stage.seen(0)[0].tools[0].parameters.clone().unwrap();
    assert_eq!(sent["required"], json!(["city", "day"]));
    let arguments = |call: &ToolCall| call.arguments.clone();
    let said: Vec<String> = answer.response.tool_calls().map(arguments).collect();
    assert_eq!(said, ["{\"city\":\"Bergen\"}"]);
    // In a stream as well, which is therefore held until it is whole.
    let call = stage
        .router
        .stream(ROLE, with_strict_tool(), CallContext::default());
    let mut whole = Accumulator::default();
    let mut events = call.await.unwrap();
    while let Some(event) = events.next().await {
        whole.push(&event.unwrap());
    }
    let whole = whole.finish().unwrap();
    let said: Vec<String> = whole.tool_calls().map(arguments).collect();
    assert_eq!(said, ["{\"city\":\"Bergen\"}"]);
}

#[tokio::test(start_paused = true)]
async fn arguments_against_the_tools_schema_are_no_answer() {
    let bad: Reply = Box::new(|_, _| Ok(calls("weather", "{\"town\":\"Bergen\"}")));
    let good: Reply = Box::new(|_, _| Ok(calls("weather", "{\"city\":\"Bergen\"}")));
    let stage = stage(vec![(bad, plain(0)), (good, plain(1))], |_| {});
    let answer = stage.ask(with_tool("weather")).await.unwrap();
    assert_eq!(told(&answer.trail), ["0 first semantic", "1 failover won"]);
}

#[tokio::test(start_paused = true)]
async fn a_rung_that_lacks_tools_is_passed_over() {
    let good: Reply = Box::new(|_, _| Ok(calls("weather", "{\"city\":\"Bergen\"}")));
    let models = vec![
        (always("x"), model(0, |m| m.tools = Some(false))),
        (good, plain(1)),
    ];
    let stage = stage(models, |_| {});
    let answer = stage.ask(with_tool("weather")).await.unwrap();
    assert_eq!(told(&answer.trail), ["skip 0 lacks", "1 failover won"]);
    // Nobody has them: that is the caller's to know.
    let lonely = self::stage(
        vec![(always("x"), model(0, |m| m.tools = Some(false)))],
        |_| {},
    );
    let error = lonely.ask(with_tool("weather")).await.unwrap_err();
    assert_eq!(error.kind.class(), Some(Class::BadRequest));
}

/// A request that offers so many tools and allows several calls at once.
fn with_tools(count: usize) -> ChatRequest {
    let tools = (0..count).flat_map(|nth| with_tool(&format!("weather_{nth}")).tools);
    ChatRequest {
        tools: tools.collect(),
        parallel_tool_calls: Some(true),
        ..ChatRequest::user("the weather in Bergen")
    }
}

// C226
#[tokio::test(start_paused = true)]
async fn a_rung_of_one_call_at_a_time_hears_nothing_of_parallel_calls() {
    let stage = stage(
        vec![
            (down(), plain(0)),
            (
                always("ok"),
                model(1, |m| m.parallel_tool_calls = Some(false)),
            ),
        ],
        |_| {},
    );
    let answer = stage.ask(with_tools(2)).await.unwrap();
    let parallel = |rung| stage.seen(rung)[0].parallel_tool_calls;
    assert_eq!((parallel(0), parallel(1)), (Some(true), None));
    let note = "parallel_tool_calls left out: one call at a time";
    assert!(
        answer.meta.adapted.iter().any(|n| n == note),
        "{:?}",
        answer.meta
    );
    // One call at a time is what its caller wants anyway: nothing is lost.
    let one_call = ChatRequest {
        parallel_tool_calls: Some(false),
        ..with_tools(2)
    };
    let answer = stage.ask(one_call).await.unwrap();
    assert_eq!(stage.seen(1)[1].parallel_tool_calls, None);
    assert!(answer.meta.adapted.is_empty(), "{:?}", answer.meta);
    // And without any tool.
    stage.ask(with_tools(0)).await.unwrap();
    assert_eq!(stage.seen(1)[2].parallel_tool_calls, None);
}

// C226
#[tokio::test(start_paused = true)]
async fn a_rung_that_takes_fewer_tools_is_passed_over() {
    let few = || (always("ok"), model(1, |m| m.max_tools = Some(16)));
    let stage = stage(
        vec![(down(), plain(0)), few(), (always("ok"), plain(2))],
        |_| {},
    );
    let answer = stage.ask(with_tools(17)).await.unwrap();
    assert_eq!(
        told(&answer.trail),
        ["0 first overloaded", "skip 1 lacks", "2 failover won"]
    );
    let answer = stage.ask(with_tools(16)).await.unwrap();
    assert_eq!(answer.meta.rung, 1);
    assert_eq!(stage.seen(1)[0].tools.len(), 16);
}

/// The registry names a dialect by the name that the adapter knows it by.
#[test]
fn every_schema_dialect_of_the_registry_is_one_of_the_adapters() {
    for name in evenkeel_roster::SCHEMA_DIALECTS {
        let dialect = evenkeel_schema_adapter::Dialect::named(name);
        assert_eq!(
            dialect.map(evenkeel_schema_adapter::Dialect::as_str),
            Some(name)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_we_wrote_ourselves_and_a_model_refuses_is_put_otherwise_once() {
    let refuses = |times: usize| -> Reply {
        Box::new(move |nth, _| {
            if nth >= times {
                return Ok(says("hi"));
            }
            let mut failure = Failure::new(Class::BadRequest, "Unknown field: stream_options");
            failure.capability_gap = true;
            failure.own_words = true;
            Err(failure)
        })
    };
    let once = stage(
        vec![(refuses(1), plain(0)), (always("x"), plain(1))],
        |_| {},
    );
    let answer = once.ask(ChatRequest::user("hello")).await.unwrap();
    assert_eq!(told(&answer.trail), ["0 first bad_request", "0 retry won"]);
    // Without a pause, and never twice.
    let times: Vec<_> = answer.trail.attempts().map(|a| a.started).collect();
    assert_eq!(times[1], ms(100));
    let twice = stage(
        vec![(refuses(2), plain(0)), (always("x"), plain(1))],
        |_| {},
    );
    let answer = twice.ask(ChatRequest::user("hello")).await.unwrap();
    assert_eq!(
        told(&answer.trail),
        [
            "0 first bad_request",
            "0 retry bad_request",
            "1 failover won"
        ]
    );
}
