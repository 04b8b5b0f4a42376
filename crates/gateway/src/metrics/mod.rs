//! `/metrics`: what the configuration knows as a catalogue, the router's state as a
//! snapshot, and who may read what comes of them.

mod catalogue;
mod look;
pub(crate) mod page;
mod pusher;
#[cfg(test)]
mod pushing;
mod snapshot;
#[cfg(test)]
mod tests;

pub use self::pusher::Pusher;

use self::catalogue::catalogue;
use evenkeel_core::Observer;
use evenkeel_otel_emit::metrics::{Build, Exposition, ExpositionError, Losses, Metrics, Snapshot};
use evenkeel_roster::Config;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

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

    /// Pushes everything, gauges as `now` makes them. Dropped, it ends.
    ///
    /// All of it is done on a thread that may be held up: thousands of series are merged and
    /// encoded, and how an exporter waits for its next try is its own.
    async fn push(&self, now: impl FnOnce() -> Snapshot + Send + 'static) -> Result<(), ReadError> {
        let (metrics, exposition) = (self.metrics.clone(), self.exposition.clone());
        let (_wanted, unwanted) = oneshot::channel::<Infallible>();
        let runtime = Handle::current();
        let pushed = tokio::task::spawn_blocking(move || {
            metrics.show(now());
            let Some(collected) = exposition.collect()? else {
                return Ok(());
            };
            runtime.block_on(async {
                tokio::select! {
                    pushed = exposition.push(collected) => pushed,
                    _ = unwanted => Ok(()),
                }
            })
        });
        Ok(pushed.await??)
    }

    /// Goes by another configuration from now on.
    pub(crate) fn replace(&self, config: &Config) {
        self.metrics.replace(catalogue(config));
    }

    /// Everything as Prometheus text, gauges as `now` makes them.
    async fn text(
        self: Arc<Self>,
        now: impl FnOnce() -> Snapshot + Send + 'static,
    ) -> Result<String, ReadError> {
        // Merging windows and writing thousands of lines is no work for a thread that
        // serves calls.
        let read = tokio::task::spawn_blocking(move || {
            self.metrics.show(now());
            self.exposition.text()
        });
        Ok(read.await??)
    }
}
