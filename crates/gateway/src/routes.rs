//! The addresses the gateway answers on.

use crate::app::App;
use crate::audit;
use crate::chat;
use crate::error::{ApiError, method_not_allowed, no_such_path};
use crate::metrics::page as metrics;
use crate::outcomes;
use crate::reply;
use crate::tickets::client as tickets;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{get, post};
use http::{HeaderMap, Response};
use serde_json::json;
use std::sync::Arc;

/// Names that say the process lives: ours, and those other gateways use.
const HEALTH: [&str; 4] = ["/healthz", "/health", "/health/liveliness", "/ping"];
/// Names that say it takes requests.
const READY: [&str; 2] = ["/readyz", "/health/readiness"];

/// All of them.
pub(crate) fn routes(app: Arc<App>) -> Router {
    let mut routes = Router::new()
        .route("/v1/chat/completions", post(chat::completions))
        .route("/v1/models", get(models))
        .route("/v1/evenkeel/feedback", post(outcomes::feedback))
        .route(
            "/v1/evenkeel/workflows/{id}",
            get(outcomes::workflow).post(outcomes::end_workflow),
        )
        .route(
            "/v1/evenkeel/tickets/{id}",
            get(tickets::get).delete(tickets::delete),
        )
        .route("/metrics", get(metrics::for_clients))
        .fallback(no_such_path)
        .method_not_allowed_fallback(method_not_allowed);
    for path in HEALTH {
        routes = routes.route(path, get(health));
    }
    for path in READY {
        routes = routes.route(path, get(ready));
    }
    routes.with_state(app)
}

/// The roles, in the form of OpenAI's list of models.
async fn models(State(app): State<Arc<App>>, headers: HeaderMap) -> Response<Body> {
    if app.served().keys.admit(&headers).is_none() {
        return ApiError::invalid_client_key().into_response();
    }
    let roles: Vec<_> = app
        .router
        .roles()
        .into_iter()
        .map(|role| {
            json!({ "id": role, "object": "model", "created": app.started(), "owned_by": "evenkeel" })
        })
        .collect();
    reply::ok(&json!({ "object": "list", "data": roles }))
}

async fn health() -> Response<Body> {
    reply::ok(&json!({ "status": "ok" }))
}

/// Ready until it drains, and while calls may begin; upstreams have no say in it, or one that fails would
/// take the gateway out of service that stands in for it.
async fn ready(State(app): State<Arc<App>>) -> Response<Body> {
    if app.is_draining() {
        return ApiError::draining().into_response();
    }
    let Some(audit) = &app.audit else {
        return reply::ok(&json!({ "status": "ok" }));
    };
    let detail = audit::detail(&audit.status());
    if app.admits_calls() {
        return reply::ok(&json!({ "status": "ok", "audit": detail }));
    }
    let refusal = ApiError::audit_unavailable();
    let mut body = refusal.body();
    body["audit"] = detail;
    let mut response = refusal.into_response();
    *response.body_mut() = Body::from(body.to_string());
    response
}
