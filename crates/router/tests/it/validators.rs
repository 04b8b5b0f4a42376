//! What a role's validators make of an answer, by the whole trail.

use crate::world::{Memory, ROLE, model_id, ms, told};
use evenkeel_core::{
    Accumulator, CallContext, ChatRequest, ChatResponse, Class, ClockOverrides, EventKind,
    EventStream, Extra, Failure, Finish, Judged, Part, Provider, ProviderCall, Role, StreamEvent,
    Validator, ValidatorError, Verdict, events_of, validator_fn,
};
use evenkeel_roster::{
    Config, HttpValidatorConfig, OnValidatorError, RoleConfig, RolePolicy, RungConfig,
    StreamValidation, ValidatorConfig,
};
use evenkeel_router::{BuildError, CallErrorKind, Router};
use futures_util::{StreamExt, stream};
use secrecy::ExposeSecret;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tokio::time::Instant;

/// A model that says these texts in turn, the last one for good, each after its time.
#[derive(Debug)]
struct Says {
    texts: Vec<&'static str>,
    after: Duration,
    asked: Mutex<Vec<Arc<ChatRequest>>>,
}

#[async_trait::async_trait]
impl Provider for Says {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        let nth = {
            let mut asked = self.asked.lock().unwrap();
            asked.push(call.request.clone());
            asked.len() - 1
        };
        tokio::time::sleep(self.after).await;
        let text = self.texts[nth.min(self.texts.len() - 1)];
        Ok(ChatResponse {
            id: "a".into(),
            model: "m".into(),
            created: 0,
            parts: vec![Part::Text(text.to_owned())],
            finish: Finish::Stop,
            usage: None,
            adapted: Vec::new(),
            rate_limits: None,
            extra: Extra::default(),
        })
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        let response = self.complete(call).await?;
        let mut events = events_of(&response);
        events.push(StreamEvent::End);
        Ok(stream::iter(events.into_iter().map(Ok)).boxed())
    }
}

struct Stage {
    router: Router,
    models: Vec<Arc<Says>>,
    memory: Arc<Memory>,
}

type Model = (Duration, Vec<&'static str>);

fn quick(texts: &[&'static str]) -> Model {
    (ms(100), texts.to_vec())
}

fn stage(
    models: Vec<Model>,
    validators: Vec<Arc<dyn Validator>>,
    change: impl FnOnce(&mut RolePolicy),
) -> Stage {
    let mut policy = RolePolicy::new(ms(1_000), ms(2_000), Duration::from_secs(20));
    policy.retry.semantic = 0;
    change(&mut policy);
    let rungs = (0..models.len()).map(|rank| match rank {
        0 => RungConfig::primary(model_id(0)),
        _ => RungConfig::fallback(model_id(rank), 0.9),
    });
    let role = RoleConfig {
        name: ROLE.to_owned(),
        policy,
        rungs: rungs.collect(),
    };
    let config = Config {
        roles: [(ROLE.to_owned(), role)].into(),
        ..Config::default()
    };
    let memory = Arc::new(Memory::default());
    let mut builder = Router::builder(&config).observer(memory.clone()).seed(1);
    let mut said = Vec::new();
    for (rank, (after, texts)) in models.into_iter().enumerate() {
        let asked = Mutex::default();
        let model = Arc::new(Says {
            texts,
            after,
            asked,
        });
        builder = builder.provider(&format!("p{rank}"), model.clone());
        said.push(model);
    }
    for validator in validators {
        builder = builder.validator(ROLE, validator);
    }
    Stage {
        router: builder.build().unwrap(),
        models: said,
        memory,
    }
}

impl Stage {
    /// The text of the answer, if there is one, and the trail.
    async fn ask(&self) -> (Option<String>, Vec<String>) {
        self.ask_with(CallContext::default()).await
    }

    async fn ask_with(&self, context: CallContext) -> (Option<String>, Vec<String>) {
        let request = ChatRequest::user("hello");
        match self.router.complete(ROLE, request, context).await {
            Ok(answer) => (Some(answer.response.plain_text()), told(&answer.trail)),
            Err(error) => (None, told(&error.trail)),
        }
    }

    /// As [`ask`](Self::ask), of a stream; also how many events came.
    async fn stream(&self) -> (String, Vec<String>) {
        let request = ChatRequest::user("hello");
        let context = CallContext::default();
        let mut stream = self.router.stream(ROLE, request, context).await.unwrap();
        let mut sum = Accumulator::default();
        while let Some(event) = stream.next().await {
            sum.push(&event.unwrap());
        }
        let trail = told(&stream.trail());
        (sum.finish().unwrap().plain_text(), trail)
    }

    fn rejected(&self) -> Vec<(usize, String)> {
        self.memory.all(|k| match k {
            EventKind::QualityRejected { rung, gate, .. } => Some((*rung, gate.to_string())),
            _ => None,
        })
    }

    fn without_verdict(&self) -> Vec<(&'static str, bool)> {
        self.memory.all(|k| match k {
            EventKind::ValidatorFailed { why, passed, .. } => Some((*why, *passed)),
            _ => None,
        })
    }
}

/// How each attempt ended, as events say it and as the trail of its call has it.
fn words(stage: &Stage) -> [Vec<&'static str>; 2] {
    let told = stage.memory.all(|k| match k {
        EventKind::AttemptEnded { outcome, .. } => Some(*outcome),
        _ => None,
    });
    let trails = stage.memory.all(|k| match k {
        EventKind::CallEnded { trail, .. } => Some(trail.clone()),
        _ => None,
    });
    let kept = trails.iter().flat_map(|trail| trail.attempts());
    [told, kept.map(|a| a.outcome.word(a.rejected)).collect()]
}

/// Answers must be good; others are worth asking again.
fn good() -> Arc<dyn Validator> {
    Arc::new(Quick(|judged| {
        if judged.response.plain_text() == "good" {
            return Verdict::Valid;
        }
        Verdict::repairable("not good", "Say `good`.")
    }))
}

/// A validator on the runtime's own thread.
struct Quick(fn(&Judged) -> Verdict);

impl std::fmt::Debug for Quick {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Quick")
    }
}

#[async_trait::async_trait]
impl Validator for Quick {
    fn name(&self) -> &'static str {
        "quick"
    }

    async fn validate(&self, answer: &Judged) -> Result<Verdict, ValidatorError> {
        Ok((self.0)(answer))
    }
}

/// A validator that does so instead of judging the model of the first rung.
#[derive(Debug, Clone, Copy)]
enum Odd {
    Panics,
    Fails,
    Hangs,
    /// Takes its time, then says valid.
    Slow(u64),
}

#[async_trait::async_trait]
impl Validator for Odd {
    fn name(&self) -> &'static str {
        "odd"
    }

    async fn validate(&self, answer: &Judged) -> Result<Verdict, ValidatorError> {
        if answer.model != model_id(0) {
            return Ok(Verdict::Valid);
        }
        match *self {
            Self::Panics => panic!("on purpose"),
            Self::Fails => return Err(ValidatorError::new("no connection\nto the judge")),
            Self::Hangs => std::future::pending().await,
            Self::Slow(time) => tokio::time::sleep(ms(time)).await,
        }
        Ok(Verdict::Valid)
    }
}

// ---- verdicts

#[tokio::test(start_paused = true)]
async fn an_invalid_answer_is_asked_for_once_more_with_the_hint() {
    let models = vec![quick(&["bad", "good"]), quick(&["good"])];
    let stage = stage(models, vec![good()], |p| p.retry.semantic = 1);
    let (text, trail) = stage.ask().await;
    assert_eq!(text.as_deref(), Some("good"));
    assert_eq!(
        trail,
        ["0 first semantic", "wait 0 semantic", "0 retry won"]
    );
    assert_eq!(words(&stage), [["rejected_quality", "ok"]; 2]);
    let asked = stage.models[0].asked.lock().unwrap().clone();
    let [.., said, hint] = asked[1].messages.as_slice() else {
        panic!("no repair");
    };
    assert_eq!(
        (said.role, said.plain_text().as_str()),
        (Role::Assistant, "bad")
    );
    assert_eq!(
        (hint.role, hint.plain_text().as_str()),
        (Role::User, "Say `good`.")
    );
    assert_eq!(stage.rejected(), [(0, "quick".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stays_invalid_goes_to_the_next_rung_and_each_is_told() {
    let models = vec![quick(&["bad"]), quick(&["good"])];
    let stage = stage(models, vec![good()], |p| p.retry.semantic = 1);
    let (text, trail) = stage.ask().await;
    assert_eq!(text.as_deref(), Some("good"));
    let expected = [
        "0 first semantic",
        "wait 0 semantic",
        "0 retry semantic",
        "1 failover won",
    ];
    assert_eq!(trail, expected);
    assert_eq!(stage.rejected().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_hint_is_not_asked_for_again() {
    let refuses = validator_fn("taste", |judged: &Judged| {
        if judged.model == model_id(0) {
            return Verdict::invalid("not to my taste\nand more");
        }
        Verdict::Valid
    });
    let models = vec![quick(&["a"]), quick(&["b"])];
    let stage = stage(models, vec![Arc::new(refuses)], |p| p.retry.semantic = 1);
    let (text, trail) = stage.ask().await;
    assert_eq!(text.as_deref(), Some("b"));
    assert_eq!(trail, ["0 first semantic", "1 failover won"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_every_answer_is_invalid_says_whose_verdict_that_was() {
    let stage = stage(vec![quick(&["bad"])], vec![good()], |_| {});
    let request = ChatRequest::user("hello");
    let context = CallContext::default();
    let error = stage
        .router
        .complete(ROLE, request, context)
        .await
        .unwrap_err();
    let CallErrorKind::Failed(failure) = &error.kind else {
        panic!("{error}");
    };
    assert_eq!(failure.class, Class::Semantic);
    assert_eq!(failure.message, "validator `quick`: not good");
}

#[tokio::test(start_paused = true)]
async fn invalid_answers_count_on_role_and_model_and_on_no_model() {
    let models = vec![quick(&["bad"]), quick(&["good"])];
    let stage = stage(models, vec![good()], |_| {});
    for _ in 0..5 {
        stage.ask().await;
    }
    let (_, trail) = stage.ask().await;
    assert_eq!(trail, ["skip 0 quality_gate", "1 failover won"]);
    let role = stage.router.explain(ROLE).unwrap();
    assert_eq!(role.rungs[0].semantic.state, "open");
    assert_eq!(role.rungs[0].health.breaker.state, "closed");
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_held_until_it_is_valid_unless_the_role_lets_it_pass() {
    let models = || vec![quick(&["bad"]), quick(&["good"])];
    let held = stage(models(), vec![good()], |_| {});
    let (text, trail) = held.stream().await;
    assert_eq!(text, "good");
    assert_eq!(trail, ["0 first semantic", "1 failover won"]);
    let passing = stage(models(), vec![good()], |p| {
        p.stream_validation = StreamValidation::Pass;
    });
    assert_eq!(passing.stream().await.0, "bad");
}

#[tokio::test(start_paused = true)]
async fn validators_are_asked_in_turn_up_to_the_first_that_refuses() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counts = asked.clone();
    let never = validator_fn("never", move |_: &Judged| {
        counts.fetch_add(1, Ordering::Relaxed);
        Verdict::Valid
    });
    let validators: Vec<Arc<dyn Validator>> = vec![good(), Arc::new(never)];
    let stage = stage(vec![quick(&["bad", "good"])], validators, |_| {});
    stage.ask().await;
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    stage.ask().await;
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

// ---- no verdict

#[tokio::test(start_paused = true)]
async fn a_validator_without_a_verdict_sends_the_call_on_and_counts_on_nobody() {
    for (odd, why) in [
        (Odd::Panics, "panic"),
        (Odd::Fails, "error"),
        (Odd::Hangs, "timeout"),
    ] {
        let models = vec![quick(&["a"]), quick(&["b"])];
        let stage = stage(models, vec![Arc::new(odd)], |p| p.retry.semantic = 1);
        for _ in 0..6 {
            let (text, trail) = stage.ask().await;
            assert_eq!(text.as_deref(), Some("b"), "{odd:?}");
            let expected = ["0 first semantic", "no verdict 0 odd", "1 failover won"];
            assert_eq!(trail, expected, "{odd:?}");
        }
        assert_eq!(stage.without_verdict(), [(why, false); 6]);
        assert_eq!(stage.rejected(), [], "no verdict is no rejection");
        let [told, kept] = words(&stage);
        assert_eq!(told, ["error", "ok"].repeat(6), "{odd:?}");
        assert_eq!(kept, told);
        let role = stage.router.explain(ROLE).unwrap();
        assert_eq!(role.rungs[0].semantic.state, "closed", "{odd:?}");
        assert_eq!(role.rungs[0].health.breaker.state, "closed", "{odd:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_may_let_answers_pass_that_nobody_judged() {
    let stage = stage(vec![quick(&["a"])], vec![Arc::new(Odd::Hangs)], |p| {
        p.on_validator_error = OnValidatorError::Pass;
        p.validator_timeout = ms(500);
    });
    let began = Instant::now();
    let (text, trail) = stage.ask().await;
    assert_eq!(text.as_deref(), Some("a"));
    assert_eq!(trail, ["0 first won", "no verdict 0 odd"]);
    assert_eq!(began.elapsed(), ms(600));
    assert_eq!(stage.without_verdict(), [("timeout", true)]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_call_that_waits_for_a_verdict_and_blames_no_model() {
    let stage = stage(vec![quick(&["a"])], vec![Arc::new(Odd::Hangs)], |_| {});
    let context = CallContext {
        clocks: ClockOverrides {
            deadline: Some(ms(1_500)),
            ..ClockOverrides::default()
        },
        ..CallContext::default()
    };
    for _ in 0..6 {
        let began = Instant::now();
        let (text, trail) = stage.ask_with(context.clone()).await;
        assert_eq!((text, began.elapsed()), (None, ms(1_500)));
        assert_eq!(trail, ["0 first timeout"]);
    }
    let role = stage.router.explain(ROLE).unwrap();
    assert_eq!(role.rungs[0].health.breaker.state, "closed");
}

#[tokio::test(start_paused = true)]
async fn a_race_goes_on_while_an_answer_is_judged_and_a_validators_time_is_not_the_models() {
    // The primary answers late, so that a hedge runs; judging its answer takes longer.
    let late = (ms(1_100), vec!["slow"]);
    let models = vec![late, (ms(500), vec!["quick"])];
    let raced = stage(models, vec![Arc::new(Odd::Slow(1_800))], |_| {});
    let began = Instant::now();
    let (text, trail) = raced.ask().await;
    assert_eq!(text.as_deref(), Some("quick"));
    assert_eq!(trail, ["0 first lost", "1 hedge won"]);
    assert_eq!(began.elapsed(), ms(1_500));
    let slow = stage(
        vec![quick(&["a"])],
        vec![Arc::new(Odd::Slow(1_800))],
        |_| {},
    );
    for _ in 0..20 {
        assert_eq!(slow.ask().await.1, ["0 first won"]);
    }
    let p95 = slow.router.explain(ROLE).unwrap().rungs[0].total.p95;
    assert!(p95.unwrap() < ms(200), "{p95:?}");
}

// ---- closures, off the runtime's threads

#[tokio::test]
async fn a_closure_that_panics_takes_nothing_down() {
    let panics = validator_fn("panics", |judged: &Judged| {
        assert_ne!(judged.model, model_id(0), "on purpose");
        Verdict::Valid
    });
    let models = vec![quick(&["a"]), quick(&["b"])];
    let stage = stage(models, vec![Arc::new(panics)], |_| {});
    let (text, trail) = stage.ask().await;
    assert_eq!(text.as_deref(), Some("b"));
    assert_eq!(trail[..2], ["0 first semantic", "no verdict 0 panics"]);
    assert_eq!(stage.without_verdict(), [("panic", false)]);
}

/// More closures hang than may hold a thread: every call ends in its time, the
/// runtime serves on, and only so many threads are held.
#[tokio::test]
async fn closures_that_never_return_hold_few_threads_and_no_call() {
    const HANGING: usize = 32;
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let entered = Arc::new(AtomicUsize::new(0));
    let counts = entered.clone();
    let hangs = validator_fn("hangs", move |_: &Judged| {
        counts.fetch_add(1, Ordering::Relaxed);
        // Until the test lets go of the other end.
        let _ = gate
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .recv();
        Verdict::Valid
    });
    let stage = Arc::new(stage(
        vec![(Duration::ZERO, vec!["a"])],
        vec![Arc::new(hangs)],
        |p| p.validator_timeout = ms(300),
    ));
    let calls = (0..HANGING + 8).map(|_| {
        let stage = stage.clone();
        async move { stage.ask().await }
    });
    for (text, _) in futures_util::future::join_all(calls).await {
        assert_eq!(text, None);
    }
    let entered = entered.load(Ordering::Relaxed);
    assert!((1..=HANGING).contains(&entered), "{entered}");
    let late = ("timeout", false);
    assert_eq!(stage.without_verdict(), vec![late; HANGING + 8]);
    drop(release);
}

#[tokio::test(start_paused = true)]
async fn huge_words_of_a_validator_are_cut_to_one_line() {
    let huge = Quick(|_| Verdict::Invalid {
        message: format!("{}\nsecond line", "ü".repeat(1_000_000)),
        hint: Some("ß".repeat(1_000_000)),
    });
    let stage = stage(vec![quick(&["a"])], vec![Arc::new(huge)], |p| {
        p.retry.semantic = 1;
    });
    let request = ChatRequest::user("hello");
    let context = CallContext::default();
    let error = stage
        .router
        .complete(ROLE, request, context)
        .await
        .unwrap_err();
    let message = error.to_string();
    assert!(message.chars().count() < 400 && !message.contains('\n'));
    let asked = stage.models[0].asked.lock().unwrap().clone();
    let hint = asked[1].messages.last().unwrap().plain_text();
    assert_eq!(hint.chars().count(), 4_001);
}

#[tokio::test(start_paused = true)]
async fn a_validator_for_a_role_that_is_not_there_is_refused() {
    let config = Config::default();
    let builder = Router::builder(&config).validator("nobody", good());
    assert!(matches!(builder.build(), Err(BuildError::UnknownRole(role)) if role == "nobody"));
}

fn named_service(url: &str) -> Config {
    let mut policy = RolePolicy::new(ms(1_000), ms(2_000), Duration::from_secs(20));
    let service = HttpValidatorConfig::new(url);
    policy.validators = vec![ValidatorConfig::Http(service)];
    let role = RoleConfig {
        name: ROLE.to_owned(),
        policy,
        rungs: vec![RungConfig::primary(model_id(0))],
    };
    Config {
        roles: [(ROLE.to_owned(), role)].into(),
        ..Config::default()
    }
}

fn says(text: &'static str) -> Arc<Says> {
    Arc::new(Says {
        texts: vec![text],
        after: ms(100),
        asked: Mutex::default(),
    })
}

/// Finds answers valid that are the address of its service.
fn by_address(service: &HttpValidatorConfig) -> Result<Arc<dyn Validator>, ValidatorError> {
    let url = service.url.expose_secret().to_owned();
    if url.is_empty() {
        return Err(ValidatorError::new("no address"));
    }
    let judge = move |answer: &Judged| {
        if answer.response.plain_text() == url {
            Verdict::Valid
        } else {
            Verdict::invalid("another address")
        }
    };
    Ok(Arc::new(validator_fn("service", judge)))
}

/// Nothing is skipped in silence, and a reload asks the service that the policy
/// names by then.
#[tokio::test(start_paused = true)]
async fn a_service_that_a_policy_names_is_asked_or_refused() {
    let config = named_service("here");
    let alone = || Router::builder(&config).provider("p0", says("here"));
    let refused = alone().build().unwrap_err();
    assert!(matches!(&refused, BuildError::NoHttpValidators(role) if role == ROLE));
    let nowhere = named_service("");
    let unmade = Router::builder(&nowhere)
        .provider("p0", says("here"))
        .http_validators(by_address)
        .build();
    assert!(matches!(unmade, Err(BuildError::HttpValidator { role, .. }) if role == ROLE));
    let router = alone().http_validators(by_address).build().unwrap();
    let ask = || router.complete(ROLE, ChatRequest::user("?"), CallContext::default());
    assert!(ask().await.is_ok());
    let moved = named_service("there");
    let builder = Router::builder(&moved).provider("p0", router.provider("p0").unwrap());
    assert_eq!(builder.replace(&router).unwrap().changed, [ROLE]);
    let error = ask().await.unwrap_err();
    assert!(error.to_string().contains("another address"), "{error}");
}
