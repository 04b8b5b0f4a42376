//! Metrics on their way to a collector.

use super::look::Look;
use crate::app::App;
use evenkeel_otel_emit::metrics::Snapshot;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// How often metrics are pushed.
const PUSHED_EVERY: Duration = Duration::from_secs(15);

/// Pushes the metrics of a server, with gauges as of the push, whether or not anybody reads
/// them meanwhile.
#[derive(Debug)]
pub struct Pusher(Arc<App>);

impl Pusher {
    pub(crate) fn new(app: Arc<App>) -> Self {
        Self(app)
    }

    /// Pushes every 15 s, for ever; where metrics are not pushed it only waits. That the
    /// collector does not take them is told once, until it does. May be dropped at any
    /// moment.
    pub async fn run(&self) {
        let metrics = self.0.metrics.as_ref();
        let Some(metrics) = metrics.filter(|metrics| metrics.exposition.pushes()) else {
            return std::future::pending().await;
        };
        let mut due = tokio::time::interval(PUSHED_EVERY);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_losing = false;
        loop {
            due.tick().await;
            let look = Look::at(&self.0).await;
            let pushed = metrics.push(move || look.snapshot()).await;
            let was_losing = std::mem::replace(&mut is_losing, pushed.is_err());
            match pushed {
                Err(error) if !was_losing => tracing::warn!(
                    event = "telemetry_lost",
                    signal = "metric",
                    why = %error,
                    "metrics are not taken; the first push that is has all that was counted"
                ),
                Ok(()) if was_losing => tracing::info!(
                    event = "telemetry_recovered",
                    signal = "metric",
                    "the collector takes metrics again"
                ),
                _ => {}
            }
        }
    }

    /// How everything is when the server has ended, for the last push.
    pub async fn last_look(self) -> Snapshot {
        let look = Look::at(&self.0).await;
        // It fails where the runtime ends, and then nothing is pushed any more.
        let shown = tokio::task::spawn_blocking(move || look.snapshot()).await;
        shown.unwrap_or_default()
    }
}
