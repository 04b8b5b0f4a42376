//! `evenkeel check` over scores that are out of date and models at the end of their
//! lives, and who is told.

use crate::tickets::hook::{Hook, Manner};
use axum::Router;
use axum::extract::Path as Segment;
use axum::routing::{get, post};
use evenkeel_core::{
    CallContext, ChatRequest, Class, Clock, Event, EventKind, ModelId, NoObserver, Observer,
    SystemClock,
};
use evenkeel_gateway::{Alerts, Limits, Server};
use futures_util::StreamExt;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use jiff::ToSpan;
use jiff::civil::Date;
use serde_json::Value;
use std::fs;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

const LONG: Duration = Duration::from_secs(60);

const MAIN: &str = "[providers]
sim = { dialect = 'simulated' }
[agent_roles.planner]
p95_threshold_ms = 1500
p99_threshold_ms = 2500
evaluation_window_seconds = 15
primary = 'sim/big'
fallbacks = []
";

/// A folder with that `evenkeel.toml` and `models.toml`.
fn folder(main: &str, models: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("evenkeel.toml"), main).unwrap();
    fs::write(folder.path().join("models.toml"), models).unwrap();
    folder
}

async fn check(folder: &TempDir, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.arg("check").arg(folder.path()).args(args);
    let output = command.kill_on_drop(true).stdin(Stdio::null()).output();
    timeout(LONG, output).await.unwrap().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The day so many days from today.
fn in_days(days: i32) -> Date {
    let now = jiff::Timestamp::try_from(SystemClock.now()).unwrap();
    let today = jiff::tz::Offset::UTC.to_datetime(now).date();
    today.checked_add(days.days()).unwrap()
}

fn ending(days: i32) -> String {
    format!(
        "models = [{{ id = 'sim/big', eol_date = '{}' }}]\n",
        in_days(days)
    )
}

#[tokio::test]
async fn a_daily_job_ends_with_one_only_where_a_used_model_is_past_its_end() {
    for (days, code, status) in [(100, 0, "ok"), (30, 0, "warning"), (-1, 1, "error")] {
        let folder = folder(MAIN, &ending(days));
        let output = check(&folder, &["--eol", "--json"]).await;
        assert_eq!(output.status.code(), Some(code), "{days}: {output:?}");
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["status"], status, "{days}: {told}");
        assert_eq!(told["models"][0]["days_left"], days);
    }
    let folder = folder(MAIN, &ending(30));
    let told = said(&check(&folder, &["--eol"]).await);
    assert!(told.contains("in 30 days; used by planner"), "{told}");
    for wrong in [&["--json"][..], &["--online"], &["--alert"]] {
        assert_eq!(
            check(&folder, wrong).await.status.code(),
            Some(2),
            "{wrong:?}"
        );
    }
}

/// An alarm must not take a folder that is not there for a model that is gone, or for
/// nothing to say.
#[tokio::test]
async fn what_cannot_be_read_ends_with_two_and_is_json_too() {
    let empty = tempfile::tempdir().unwrap();
    let wrong = folder(&MAIN.replace("primary", "primry"), &ending(30));
    let gone = tempfile::tempdir().unwrap();
    fs::remove_dir(gone.path()).unwrap();
    for (which, words) in [
        (&empty, "holds no configuration"),
        (&gone, "cannot read"),
        (&wrong, "primary is missing"),
    ] {
        let output = check(which, &["--eol", "--json"]).await;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["status"], "error");
        let problem = told["problems"][0].as_str().unwrap();
        assert!(problem.contains(words), "{problem}");
    }
    let output = check(&empty, &["--eol"]).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.contains("holds no configuration"), "{why}");
}

#[tokio::test]
async fn a_webhook_is_told_where_there_is_something_to_look_at() {
    let hook = Hook::start(Manner::Takes).await;
    let url = format!("http://{}/hook", hook.address);
    let calm = folder(MAIN, &ending(100));
    let output = check(&calm, &["--eol", "--webhook", &url]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let near = folder(MAIN, &ending(30));
    let output = check(&near, &["--eol", "--webhook", &url]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let alerts = format!("[alerts]\nwebhook_url = '{url}'\nwebhook_secret = 'whsec'\n");
    let signed = folder(&format!("{alerts}{MAIN}"), &ending(30));
    let output = check(&signed, &["--eol", "--alert"]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let posts = hook.posts();
    assert_eq!(posts.len(), 2);
    assert_eq!(posts[0].kind(), "model.eol");
    assert_eq!(posts[0].event(), posts[1].event(), "the same of a day");
    assert_eq!(posts[0].body["report"]["models"][0]["state"], "ending");
    assert!(posts[1].header("x-evenkeel-signature").starts_with("t="));
    assert_eq!(posts[1].header("idempotency-key"), posts[1].event());
    let output = check(&near, &["--eol", "--alert"]).await;
    assert_eq!(output.status.code(), Some(1));
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.contains("[alerts]"), "{why}");
    hook.set(Manner::Refuses);
    let output = check(&near, &["--eol", "--webhook", &url]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.contains("was not told: status 500"), "{why}");
}

/// A provider that lists one model, knows another and no more.
async fn provider(tasks: &mut JoinSet<()>) -> String {
    let day = in_days(20);
    let list = format!(r#"{{"data":[{{"id":"listed","shutdown_date":"{day}"}}]}}"#);
    let router = Router::new()
        .route("/v1/models", get(move || async move { list }))
        .route(
            "/v1/models/{model}",
            get(|Segment(model): Segment<String>| async move {
                if model == "alias" {
                    return (StatusCode::OK, r#"{"id":"alias-2026"}"#);
                }
                let gone =
                    r#"{"error":{"message":"The model does not exist","code":"model_not_found"}}"#;
                (StatusCode::NOT_FOUND, gone)
            }),
        );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}/v1")
}

#[tokio::test]
async fn providers_are_asked_for_the_dates_that_the_file_should_have() {
    let mut tasks = JoinSet::new();
    let url = provider(&mut tasks).await;
    let main = format!(
        "[providers]
p = {{ dialect = 'openai', base_url = '{url}' }}
dead = {{ dialect = 'openai', base_url = 'http://127.0.0.1:9/v1' }}
[agent_roles.planner]
p95_threshold_ms = 1500
p99_threshold_ms = 2500
evaluation_window_seconds = 15
allow_unqualified = true
allow_same_provider = true
primary = 'p/listed'
fallbacks = [{{ model = 'p/alias' }}, {{ model = 'p/gone' }}, {{ model = 'dead/m' }}]
"
    );
    let models =
        "models = [{ id = 'p/listed' }, { id = 'p/alias' }, { id = 'p/gone' }, { id = 'dead/m' }]";
    let folder = folder(&main, models);
    let output = check(&folder, &["--eol"]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = check(&folder, &["--eol", "--online", "--json"]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let models = told["models"].as_array().unwrap();
    let of = |name: &str| models.iter().find(|m| m["model"] == name).unwrap();
    assert_eq!(of("p/listed")["status"], "warning");
    assert_eq!(
        of("p/listed")["provider"]["eol_date"],
        in_days(20).to_string()
    );
    assert_eq!(of("p/alias")["status"], "ok");
    assert_eq!(of("p/gone")["provider"]["served"], false);
    assert_eq!(of("p/gone")["status"], "error");
    assert_eq!(of("dead/m")["provider"]["served"], Value::Null);
}

#[tokio::test]
async fn a_model_that_is_gone_at_run_time_is_told_to_the_webhook() {
    let hook = Hook::start(Manner::Refuses).await;
    let alerts = format!(
        "[alerts]\nwebhook_url = 'http://{}/hook'\nwebhook_secret = 'whsec'\n",
        hook.address
    );
    let folder = folder(&format!("{alerts}{MAIN}"), &ending(30));
    let settings = evenkeel::Settings::load(folder.path()).unwrap();
    let (alerts, poster) = Alerts::new(settings.config()).unwrap().unwrap();
    let mut held = gone("sim/big");
    alerts.on(&held);
    if let EventKind::HoldStarted { class, .. } = &mut held.kind {
        *class = Class::QuotaExhausted;
    }
    alerts.on(&held);
    drop(alerts);
    let posting = tokio::time::timeout(LONG, poster.run());
    let told = async {
        hook.until(|posts| !posts.is_empty()).await;
        hook.set(Manner::Takes);
    };
    let (ended, ()) = tokio::join!(posting, told);
    ended.unwrap();
    let posts = hook.posts();
    assert!(posts.len() > 1, "told again until it was taken");
    for post in &posts {
        assert_eq!(
            (post.kind(), post.event()),
            ("model.gone", posts[0].event())
        );
        assert_eq!(post.body["model"], "sim/big");
        assert_eq!(post.body["life"]["agents_using"][0], "planner");
        assert_eq!(post.body["held_for_s"], 3_600);
    }
}

fn gone(model: &str) -> Event {
    Event {
        at: Instant::now().into_std(),
        call: None,
        kind: EventKind::HoldStarted {
            provider: Arc::from("sim"),
            system: Arc::from("sim"),
            model: Some(ModelId::new(model).unwrap()),
            class: Class::ModelGone,
            duration: Duration::from_secs(3_600),
        },
    }
}

#[tokio::test]
async fn after_a_reload_alerts_say_what_the_new_registry_says() {
    let hook = Hook::start(Manner::Takes).await;
    let main = |secret: &str| {
        let address = hook.address;
        format!(
            "[alerts]\nwebhook_url = 'http://{address}/hook'\nwebhook_secret = '{secret}'\n\
             [server]\nlisten = '127.0.0.1:0'\n{MAIN}"
        )
    };
    let folder = folder(&main("whsec"), &ending(30));
    let settings = evenkeel::Settings::load(folder.path()).unwrap();
    let (alerts, poster) = Alerts::new(settings.config()).unwrap().unwrap();
    let router = settings.router(Arc::new(NoObserver)).unwrap();
    let server = Server::bind(&settings.config().server, router, Limits::default()).unwrap();
    let server = server
        .with_alerts(alerts.facts())
        .reading(folder.path().to_owned(), settings);
    let reloader = server.reloader();
    fs::write(folder.path().join("models.toml"), ending(40)).unwrap();
    let warnings = reloader.reload("test").await.unwrap().warnings;
    assert!(
        !warnings.iter().any(|warning| warning.starts_with("alerts")),
        "{warnings:?}"
    );
    fs::write(folder.path().join("evenkeel.toml"), main("other")).unwrap();
    let warnings = reloader.reload("test").await.unwrap().warnings;
    let stays = "alerts: go where they went until the program is started anew";
    assert!(
        warnings.iter().any(|warning| warning == stays),
        "{warnings:?}"
    );
    alerts.on(&gone("sim/big"));
    drop(alerts);
    timeout(LONG, poster.run()).await.unwrap();
    let posts = hook.posts();
    assert_eq!(posts[0].body["life"]["eol_date"], in_days(40).to_string());
}

/// Gemini, as far as it answers, whole and streamed, as a model that will be retired.
async fn retiring(tasks: &mut JoinSet<()>) -> String {
    let answer = include_str!("../../../../fixtures/wire/gemini/responses/model_retiring.json");
    let answer: Value = serde_json::from_str(answer).unwrap();
    let router = Router::new().route(
        "/v1beta/models/{call}",
        post(move |Segment(call): Segment<String>| async move {
            if call.ends_with(":streamGenerateContent") {
                let events = format!("data: {answer}\r\n\r\n");
                return ([(CONTENT_TYPE, "text/event-stream")], events);
            }
            ([(CONTENT_TYPE, "application/json")], answer.to_string())
        }),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}/v1beta")
}

#[tokio::test]
async fn a_day_that_comes_with_an_answer_is_held_against_the_registry() {
    let mut tasks = JoinSet::new();
    let url = retiring(&mut tasks).await;
    for streamed in [false, true] {
        for (known, count) in [
            ("", 1),
            ("eol_date = '2027-02-01'", 0),
            ("eol_date = '2027-01-31'", 1),
        ] {
            let hook = Hook::start(Manner::Takes).await;
            let main = format!(
                "[alerts]\nwebhook_url = 'http://{}/hook'\nwebhook_secret = 'whsec'\n\
                 [providers.g]\ndialect = 'gemini'\nbase_url = '{url}'\n\
                 [agent_roles.planner]\np95_threshold_ms = 1500\np99_threshold_ms = 2500\n\
                 evaluation_window_seconds = 15\nprimary = 'g/flash'\nfallbacks = []\n",
                hook.address
            );
            let comma = if known.is_empty() { "" } else { ", " };
            let models = format!("models = [{{ id = 'g/flash'{comma}{known} }}]\n");
            let folder = folder(&main, &models);
            let settings = evenkeel::Settings::load(folder.path()).unwrap();
            let (alerts, poster) = Alerts::new(settings.config()).unwrap().unwrap();
            let router = settings.router(Arc::new(alerts)).unwrap();
            for _ in 0..3 {
                let (hi, context) = (ChatRequest::user("hi"), CallContext::default());
                if streamed {
                    let mut stream = router.stream("planner", hi, context).await.unwrap();
                    while let Some(event) = stream.next().await {
                        event.unwrap();
                    }
                } else {
                    router.complete("planner", hi, context).await.unwrap();
                }
            }
            router.shutdown().await;
            drop(router);
            timeout(LONG, poster.run()).await.unwrap();
            let posts = hook.posts();
            assert_eq!(posts.len(), count, "{streamed} {known}");
            for post in &posts {
                assert_eq!(
                    (post.kind(), &post.body["stage"]),
                    ("model.eol", &Value::from("LEGACY"))
                );
                assert_eq!(post.body["last_day"], "2027-02-01");
                assert_eq!(post.body["life"]["provider"]["eol_date"], "2027-02-01");
                assert_eq!(post.body["life"]["status"], "warning");
            }
        }
    }
}

#[tokio::test]
async fn check_ends_with_one_where_a_score_is_out_of_date() {
    let main = "[providers]
a = { dialect = 'simulated' }
b = { dialect = 'simulated' }
[agent_roles.planner]
p95_threshold_ms = 1500
p99_threshold_ms = 2500
evaluation_window_seconds = 15
primary = 'a/m'
fallbacks = [{ model = 'b/m', quality_score = 0.9, qualified_at = 2026-01-01, hashes = { prompt = 'none', tools = 'none', dataset = 'd', snapshot = 'm' } }]
";
    let folder = folder(main, "models = [{ id = 'a/m' }, { id = 'b/m' }]");
    let output = check(&folder, &[]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = said(&output);
    assert!(
        told.contains("role `planner`: `b/m` is stale: it was measured on 2026-01-01, "),
        "{told}"
    );
    let fresh = main.replace("requalify", "").replace(
        "evaluation_window_seconds = 15",
        "evaluation_window_seconds = 15\nrequalify_after_days = 100000",
    );
    fs::write(folder.path().join("evenkeel.toml"), fresh).unwrap();
    assert_eq!(check(&folder, &[]).await.status.code(), Some(0));
}
