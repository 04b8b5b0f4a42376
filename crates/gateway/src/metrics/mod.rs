//! `/metrics`: what the configuration knows as a catalogue, the router's state as a
//! snapshot, and who may read what comes of them.

mod catalogue;
mod look;
mod pusher;
mod snapshot;
#[cfg(test)]
mod tests;

pub use self::pusher::Pusher;

use self::catalogue::catalogue;
use self::look::Look;
use crate::app::App;
use crate::error::ApiError;
use crate::routes::no_such_path;
use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use evenkeel_core::Observer;
use evenkeel_otel_emit::metrics::{
    Build, CONTENT_TYPE, Exposition, ExpositionError, Losses, Metrics, Snapshot,
};
use evenkeel_roster::{Config, MetricsAccess};
use http::{HeaderMap, Response, Uri, header};
use std::sync::Arc;
use std::time::Duration;

/// Why metrics cannot be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Exposition(#[from] ExpositionError),
    /// The program ends.
    #[error("reading was broken off")]
    BrokenOff(#[from] tokio::task::JoinError),
}

/// What counts and measures for a gateway, and the page it is read on.
#[derive(Debug)]
pub struct GatewayMetrics {
    metrics: Arc<Metrics>,
    exposition: Exposition,
    /// Held while metrics are read: one reader at a time, however many ask.
    reading: tokio::sync::Mutex<()>,
}

impl GatewayMetrics {
    /// Metrics of the roles of `config`, read by `exposition`.
    pub fn new(config: &Config, exposition: Exposition) -> Self {
        let build = Build {
            version: env!("CARGO_PKG_VERSION"),
            revision: option_env!("EVENKEEL_REVISION").unwrap_or("unknown"),
        };
        Self {
            metrics: Arc::new(Metrics::new(&exposition.meter(), catalogue(config), build)),
            exposition,
            reading: tokio::sync::Mutex::default(),
        }
    }

    /// What has to hear of everything that is to be counted.
    pub fn observer(&self) -> Arc<dyn Observer> {
        self.metrics.clone()
    }

    /// What counts telemetry that was dropped.
    pub fn losses(&self) -> Losses {
        self.metrics.losses()
    }

    /// Pushes `last`, with all that was counted, where values are pushed, within `limit`.
    pub async fn shutdown(&self, last: Snapshot, limit: Duration) {
        if !self.exposition.pushes() {
            return;
        }
        let pushed = tokio::time::timeout(limit, self.push(move || last)).await;
        let problem = match pushed {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("not taken within {limit:?}"),
        };
        tracing::warn!(
            event = "telemetry_incomplete",
            problem,
            "metrics at the end"
        );
    }

    /// Pushes everything, gauges as `now` makes them.
    async fn push(&self, now: impl FnOnce() -> Snapshot + Send + 'static) -> Result<(), ReadError> {
        let (metrics, exposition) = (self.metrics.clone(), self.exposition.clone());
        let collected = tokio::task::spawn_blocking(move || {
            metrics.show(now());
            exposition.collect()
        });
        if let Some(collected) = collected.await?? {
            self.exposition.push(collected).await?;
        }
        Ok(())
    }

    /// Goes by another configuration from now on.
    pub(crate) fn replace(&self, config: &Config) {
        self.metrics.replace(catalogue(config));
    }

    /// Everything as Prometheus text, as of now.
    async fn text(self: Arc<Self>, app: &App) -> Result<String, ReadError> {
        let _alone = self.reading.lock().await;
        let (metrics, look) = (self.clone(), Look::at(app).await);
        // Merging windows and writing thousands of lines is no work for a thread that
        // serves calls.
        let read = tokio::task::spawn_blocking(move || {
            metrics.metrics.show(look.snapshot());
            metrics.exposition.text()
        });
        Ok(read.await??)
    }
}

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
    match metrics.text(app).await {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!(event = "metrics_failed", %error, "metrics cannot be read");
            ApiError::internal().into_response()
        }
    }
}
