//! `GET /admin/state`: what runs, and how it is.

use super::reload::config;
use crate::answer::ms;
use crate::app::App;
use crate::reply;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::get;
use evenkeel_core::{Clock, Refusal, Snapshot, SystemClock};
use evenkeel_router::{
    BreakerState, CooldownState, DriftState, DrillState, HoldState, ModelState, ProviderState,
    RecoveryState, RoleState, RouterState, RungState, WindowState,
};
use http::Response;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/admin/state", get(state))
}

async fn state(State(app): State<Arc<App>>) -> Response<Body> {
    let at = Moment::now();
    let RouterState { roles, drills, .. } = app.router.state();
    let drills: Vec<Value> = drills.iter().map(|drill| at.drill(drill)).collect();
    let roles: Vec<Value> = roles.iter().map(|role| at.role(role)).collect();
    reply::ok(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "at": at.to_string(),
        "started": started(&app),
        "draining": app.is_draining(),
        "config": app.live.get().map(config),
        "roles": roles,
        "drills": drills,
    }))
}

/// When the server began, RFC 3339.
fn started(app: &App) -> Option<String> {
    let seconds = i64::try_from(app.started()).ok()?;
    Some(Timestamp::from_second(seconds).ok()?.to_string())
}

/// When a state was read: ages and remaining times become times of day.
pub(super) struct Moment(Timestamp);

impl Moment {
    pub(super) fn now() -> Self {
        Self(Timestamp::try_from(SystemClock.now()).unwrap_or(Timestamp::MAX))
    }

    fn ago(&self, age: Duration) -> String {
        text(self.0.checked_sub(age).unwrap_or(Timestamp::MIN))
    }

    pub(super) fn ahead(&self, remaining: Duration) -> String {
        text(self.0.checked_add(remaining).unwrap_or(Timestamp::MAX))
    }

    pub(super) fn drill(&self, drill: &DrillState) -> Value {
        json!({
            "id": drill.id,
            "kind": drill.kind.as_str(),
            "model": drill.model.as_str(),
            "since": self.ago(drill.age),
            "until": self.ahead(drill.remaining),
            "first_fallback_ms": drill.first_fallback.map(ms),
            "answered": drill.answered,
            "failed": drill.failed,
        })
    }

    fn role(&self, role: &RoleState) -> Value {
        let rungs = role.rungs.iter().enumerate();
        let rungs: Vec<Value> = rungs.map(|(index, rung)| self.rung(index, rung)).collect();
        json!({
            "role": role.role,
            "task": role.task,
            "rung": role.active,
            "model": role.rungs.get(role.active).map(|rung| rung.model.as_str()),
            "epoch": role.epoch,
            "since": self.ago(role.standing),
            "forced": role.forced,
            "goes_to": role.goes_to(),
            "in_flight": role.in_flight,
            "rungs": rungs,
        })
    }

    fn rung(&self, index: usize, rung: &RungState) -> Value {
        let mut value = json!({
            "rung": index,
            "model": rung.model.as_str(),
            "capability_score": rung.capability_score,
            "refused": rung.refusal.map(|refusal| self.refusal(refusal)),
            "benched": rung.is_benched(),
            "total": window(&rung.total),
            "first_token": window(&rung.first_token),
            "recovery": self.recovery(&rung.recovery),
            "semantic_breaker": self.breaker(&rung.semantic),
            "drift": rung.drift.as_ref().map(drift),
        });
        if let (Some(fields), Value::Object(model)) =
            (value.as_object_mut(), self.model(&rung.health))
        {
            fields.extend(model);
        }
        value
    }

    fn refusal(&self, refusal: Refusal) -> Value {
        let until = refusal.retry_in().map(|left| self.ahead(left));
        json!({ "why": refusal.as_str(), "until": until })
    }

    fn recovery(&self, recovery: &RecoveryState) -> Value {
        json!({
            "stage": recovery.stage,
            "since": recovery.stage_age.map(|age| self.ago(age)),
            "share": recovery.share,
            "probe_interval_ms": ms(recovery.probe_interval),
        })
    }

    fn model(&self, model: &ModelState) -> Value {
        json!({
            "breaker": self.breaker(&model.breaker),
            "cooldown": model.cooldown.map(|cooldown| self.cooldown(cooldown)),
            "hold": model.hold.map(|hold| self.hold(hold)),
            "in_use": model.in_use,
            "max_concurrency": model.max_concurrency,
            "eol_date": model.eol_date.map(|date| date.to_string()),
            "past_eol": model.past_eol,
            "provider": self.provider(&model.provider),
        })
    }

    fn provider(&self, provider: &ProviderState) -> Value {
        json!({
            "name": provider.name,
            "breaker": self.breaker(&provider.breaker),
            "hold": provider.hold.map(|hold| self.hold(hold)),
        })
    }

    fn breaker(&self, breaker: &BreakerState) -> Value {
        json!({
            "state": breaker.state,
            "since": self.ago(breaker.age),
            "why": breaker.cause,
            "until": breaker.retry_in.map(|left| self.ahead(left)),
            "failures_in_a_row": breaker.failures_in_a_row,
            "calls": breaker.calls,
            "failures": breaker.failures,
        })
    }

    fn cooldown(&self, cooldown: CooldownState) -> Value {
        json!({
            "why": "rate_limited",
            "since": self.ago(cooldown.age),
            "until": self.ahead(cooldown.remaining),
        })
    }

    fn hold(&self, hold: HoldState) -> Value {
        json!({
            "why": hold.class.as_str(),
            "since": self.ago(hold.age),
            "until": self.ahead(hold.remaining),
        })
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text(self.0))
    }
}

/// RFC 3339 in UTC, to the millisecond.
pub(super) fn text(at: Timestamp) -> String {
    Timestamp::from_millisecond(at.as_millisecond())
        .unwrap_or(at)
        .to_string()
}

fn drift(drift: &DriftState) -> Value {
    let reported = drift.reported.iter().map(build);
    json!({
        "expected": build(&drift.expected),
        "reported": reported.collect::<Vec<_>>(),
    })
}

fn build(build: &Snapshot) -> Value {
    json!({ "model": *build.model, "fingerprint": build.fingerprint.as_deref() })
}

fn window(window: &WindowState) -> Value {
    json!({
        "samples": window.samples,
        "p50_ms": window.p50.map(ms),
        "p95_ms": window.p95.map(ms),
        "p99_ms": window.p99.map(ms),
        "p95_limit_ms": ms(window.p95_limit),
        "p99_limit_ms": ms(window.p99_limit),
        "verdict": window.verdict,
        "detector": window.detector,
    })
}
