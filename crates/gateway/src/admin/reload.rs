//! `POST /admin/reload`, and what `state` says of the configuration.

use super::fields::Fields;
use super::state::text;
use crate::app::{ADMIN, App};
use crate::error::ApiError;
use crate::live::{Live, ReloadError, Reloaded, Reloader};
use crate::reply;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::SystemTime;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/admin/reload", post(reload))
}

async fn reload(State(app): State<Arc<App>>, request: Request) -> Response<Body> {
    let read = Fields::read(&app, request).await;
    if let Err(refused) = read.and_then(Fields::finish) {
        return refused.into_response();
    }
    match Reloader(app.clone()).reload(ADMIN).await {
        Ok(Reloaded {
            hash,
            roles,
            warnings,
            ..
        }) => reply::ok(&json!({
            "hash": hash,
            "added": roles.added,
            "removed": roles.removed,
            "changed": roles.changed,
            "let_go": roles.let_go,
            "warnings": warnings,
        })),
        Err(error) => refused(&error),
    }
}

/// OpenAI's error object with the problems beside.
fn refused(error: &ReloadError) -> Response<Body> {
    let message = format!("the configuration is refused, what ran before runs on: {error}");
    let refusal = ApiError::unusable_config(message);
    let mut body = refusal.body();
    body["error"]["problems"] = error.problems().into();
    let mut response = refusal.into_response();
    *response.body_mut() = Body::from(body.to_string());
    response
}

/// What runs, since when, and what was refused last.
pub(super) fn config(live: &Live) -> Value {
    let shown = live.shown();
    let (applied, refused) = live.counts();
    json!({
        "path": live.path(),
        "hash": shown.hash,
        "loaded": at(shown.loaded),
        "reloads": applied,
        "refused_reloads": refused,
        "last_refusal": shown.refusal.map(|(when, problems)| {
            json!({ "at": at(when), "problems": problems })
        }),
    })
}

fn at(when: SystemTime) -> Option<String> {
    Timestamp::try_from(when).ok().map(text)
}
