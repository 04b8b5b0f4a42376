//! `evenkeel check` over scores that are out of date and models at the end of their
//! lives, and who is told.

use crate::tickets::hook::{Hook, Manner};
use axum::Router;
use axum::extract::Path as Segment;
use axum::routing::get;
use evenkeel_core::{Class, Clock, Event, EventKind, ModelId, Observer, SystemClock};
use evenkeel_gateway::Alerts;
use http::StatusCode;
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
    let hold = |class| Event {
        at: Instant::now().into_std(),
        call: None,
        kind: EventKind::HoldStarted {
            provider: Arc::from("sim"),
            model: Some(ModelId::new("sim/big").unwrap()),
            class,
            duration: Duration::from_secs(3_600),
        },
    };
    alerts.on(&hold(Class::QuotaExhausted));
    alerts.on(&hold(Class::ModelGone));
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
