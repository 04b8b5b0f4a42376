//! Where metrics are read, and who may.

use super::look::Look;
use crate::app::App;
use crate::error::{ApiError, no_such_path};
use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use evenkeel_otel_emit::metrics::CONTENT_TYPE;
use evenkeel_roster::MetricsAccess;
use http::{HeaderMap, Response, Uri, header};
use std::sync::Arc;

/// `GET /metrics` where clients call.
pub(crate) async fn for_clients(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    uri: Uri,
) -> Response<Body> {
    let (access, admitted) = {
        let served = app.served();
        (served.metrics, served.keys.admit(&headers).is_some())
    };
    match access {
        MetricsAccess::Client if !admitted => ApiError::invalid_client_key().into_response(),
        MetricsAccess::Client | MetricsAccess::Open => page(&app, uri).await,
        MetricsAccess::Admin | MetricsAccess::Off => no_such_path(uri).await,
    }
}

/// `GET /metrics` where operators act; they have shown the token.
pub(crate) async fn for_operators(State(app): State<Arc<App>>, uri: Uri) -> Response<Body> {
    let access = app.served().metrics;
    match access {
        MetricsAccess::Off => no_such_path(uri).await,
        _ => page(&app, uri).await,
    }
}

async fn page(app: &App, uri: Uri) -> Response<Body> {
    let Some(metrics) = app.metrics.clone() else {
        return no_such_path(uri).await;
    };
    let _alone = metrics.reading.lock().await;
    let look = Look::at(app).await;
    match metrics.clone().text(move || look.snapshot()).await {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!(event = "metrics_failed", %error, "metrics cannot be read");
            ApiError::internal().into_response()
        }
    }
}
