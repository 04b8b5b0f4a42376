//! Who hears what the router of `evenkeel serve` tells, and how they end.

use evenkeel::Settings;
use evenkeel_core::Observer;
use evenkeel_gateway::{
    AlertFacts, Alerts, GatewayMetrics, LogObserver, Server, ShadowLog, Tracing, audit_log,
    collector, open_audit,
};
use evenkeel_otel_emit::audit::{AuditSink, FileSink};
use evenkeel_otel_emit::metrics::{Exposition, Losses, Snapshot};
use evenkeel_otel_emit::otlp::Collector;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long the last pairs of shadowed calls may take to be written, the last alerts to be
/// told, and the last records of the audit log. A disk that hangs holds up no end.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// How long the last metrics may take to be pushed, and the last spans and events to be
/// sent at each of their steps.
const LAST_SENT: Duration = Duration::from_secs(3);

/// The same where the program is to end at once.
const SENT_AT_ONCE: Duration = Duration::from_millis(500);

/// The parts that hear, as far as they have to be shown or ended.
pub(super) struct Hearers {
    metrics: Arc<GatewayMetrics>,
    tracing: Option<Tracing>,
    audit: Option<Arc<FileSink>>,
    /// What alerts know.
    facts: Option<AlertFacts>,
    writers: JoinSet<()>,
}

impl Hearers {
    /// Those that `settings` ask for, and the observer that tells them all.
    ///
    /// # Errors
    /// A collector, an audit log or metrics that cannot be had.
    pub(super) fn of(settings: &Settings) -> anyhow::Result<(Self, Arc<dyn Observer>)> {
        let telemetry = &settings.config().telemetry;
        let instance = instance();
        let collector = collector(telemetry, settings.folder(), &instance)?;
        let metrics = Arc::new(GatewayMetrics::new(
            settings.config(),
            exposition(collector.as_ref().filter(|_| telemetry.metrics))?,
        ));
        let tracing = collector.map(|c| Tracing::new(telemetry, &c, &metrics.losses()));
        let tracing = tracing.transpose()?;
        let mut observers: Vec<Arc<dyn Observer>> = Vec::new();
        let mut log = LogObserver::new();
        if let Some(tracing) = &tracing {
            // First: the others ask it what to call a call.
            observers.push(tracing.observer());
            log = log.with_traces_of(tracing.observer());
        }
        observers.push(Arc::new(log));
        observers.push(metrics.observer());
        let audit = open_audit(settings, &instance)?;
        if let Some(audit) = &audit {
            let mut records = audit_log(settings, audit.clone());
            if let Some(tracing) = &tracing {
                records = records.with_traces(tracing.observer());
            }
            observers.push(Arc::new(records));
        }
        let mut writers = JoinSet::new();
        if let Some(folder) = settings.state_dir() {
            let (shadows, writer) = ShadowLog::new(folder.join("shadow"));
            observers.push(Arc::new(shadows));
            writers.spawn(writer.run());
        }
        let mut facts = None;
        if let Some((alerts, poster)) = Alerts::new(settings.config())? {
            facts = Some(alerts.facts());
            observers.push(Arc::new(alerts));
            writers.spawn(poster.run());
        }
        let hearers = Self {
            metrics,
            tracing,
            audit,
            facts,
            writers,
        };
        Ok((hearers, Arc::new(observers)))
    }

    /// The server with what it shows of them.
    pub(super) fn shown_by(&self, server: Server) -> Server {
        let mut server = server.with_metrics(self.metrics.clone());
        if let Some(audit) = &self.audit {
            server = server.with_audit(audit.clone());
        }
        if let Some(facts) = &self.facts {
            server = server.with_alerts(facts.clone());
        }
        if let Some(tracing) = &self.tracing {
            server = server.with_tracing(tracing);
        }
        server
    }

    /// What counts telemetry that was dropped.
    pub(super) fn losses(&self) -> Losses {
        self.metrics.losses()
    }

    /// The audit log, where one is written.
    pub(super) fn audit(&self) -> Option<Arc<FileSink>> {
        self.audit.clone()
    }

    /// Writes and sends what can be without waiting long: the audit log as ever, telemetry
    /// within a second or two. `last` is how things are.
    pub(super) async fn end_at_once(self, last: Snapshot) {
        let sent = async {
            self.metrics.shutdown(last, SENT_AT_ONCE).await;
            if let Some(tracing) = self.tracing {
                tracing.shutdown(SENT_AT_ONCE).await;
            }
        };
        let closed = close(self.audit);
        tokio::join!(sent, closed);
    }

    /// Writes and sends what is left, when nothing is told any more. `last` is how things
    /// were then.
    pub(super) async fn end(mut self, mut last: Snapshot) {
        let written = async { while self.writers.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_WRITES, written).await.is_err() {
            tracing::warn!(
                event = "left_unwritten",
                "the last shadowed calls or alerts were not written or told within {} s",
                LAST_WRITES.as_secs()
            );
        }
        close(self.audit.clone()).await;
        last.audit = self.audit.map(|audit| audit.status());
        self.metrics.shutdown(last, LAST_SENT).await;
        if let Some(tracing) = self.tracing {
            tracing.shutdown(LAST_SENT).await;
        }
    }
}

/// Waits until the audit log has its last records. What it cannot write it tells itself.
async fn close(audit: Option<Arc<FileSink>>) {
    if let Some(audit) = audit {
        let _ = tokio::task::spawn_blocking(move || audit.close(LAST_WRITES)).await;
    }
}

/// Metrics that are read, and pushed where there is a collector.
fn exposition(collector: Option<&Collector>) -> anyhow::Result<Exposition> {
    let Some(collector) = collector else {
        return Ok(Exposition::new()?);
    };
    let resource = collector.service().resource();
    let exporter = collector.metrics()?;
    Ok(Exposition::pushing(resource, exporter)?)
}

/// A name of this process that no other has: a random UUID (RFC 9562, version 4).
fn instance() -> String {
    let (high, low) = (fastrand::u64(..), fastrand::u64(..));
    let (version, variant) = (high & 0xfff | 0x4000, low >> 48 & 0x3fff | 0x8000);
    format!(
        "{:08x}-{:04x}-{version:04x}-{variant:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        low & 0xffff_ffff_ffff
    )
}
