//! `/admin/*`: what operators see and do, on an address of their own.
//!
//! Every request must bring the token, whatever the address and whatever the
//! path: without it nobody learns which paths there are.

mod acts;
mod fields;
mod reload;
mod state;

use crate::app::App;
use crate::body;
use crate::error::{ApiError, method_not_allowed, no_such_path};
use crate::metrics::page as metrics;
use crate::tickets;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;

/// All of them, behind the token.
pub(crate) fn routes(app: Arc<App>) -> Router {
    Router::new()
        .merge(state::routes())
        .merge(acts::routes())
        .merge(reload::routes())
        .merge(tickets::admin::routes())
        .route("/metrics", get(metrics::for_operators))
        .fallback(no_such_path)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(app.clone(), admit))
        .with_state(app)
}

/// Lets a request pass that brings the token.
async fn admit(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let admitted = app
        .served()
        .admin
        .as_ref()
        .is_some_and(|token| token.admit(&parts.headers).is_some());
    if !admitted {
        body::discard(body, &parts.headers).await;
        tracing::warn!(
            event = "admin_refused",
            "an operator's request without the token"
        );
        return ApiError::invalid_admin_token().into_response();
    }
    next.run(Request::from_parts(parts, body)).await
}
