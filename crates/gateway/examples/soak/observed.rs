//! The gateway with all that watches it on: traces and metrics to a collector, `/metrics`, and
//! the audit log, which has to agree with the metrics when it ends.

use super::collector::Receiver;
use anyhow::{Context, bail, ensure};
use evenkeel::Settings;
use evenkeel_core::Observer;
use evenkeel_gateway::{GatewayMetrics, Pusher, Server, Tracing, audit_log, collector, open_audit};
use evenkeel_otel_emit::audit::{FileSink, RecordKind, Verifier, audit_files};
use evenkeel_otel_emit::metrics::{Exposition, Snapshot};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, interval};

/// How long the last records may take to be written, and the last telemetry to be sent.
const LAST_WRITES: Duration = Duration::from_secs(20);
/// How often metrics are read.
const SCRAPED_EVERY: Duration = Duration::from_secs(5);

/// Kinds of records, and the family of metrics that counts the same, without the samples that
/// have this in them.
const SAME: [(RecordKind, &str, &str); 7] = [
    (RecordKind::Answer, "evenkeel_requests_total", ""),
    (RecordKind::Substitution, "evenkeel_substitutions_total", ""),
    (RecordKind::Restoration, "evenkeel_restorations_total", ""),
    (
        RecordKind::LatencyBreach,
        "evenkeel_latency_breaches_total",
        "",
    ),
    (
        RecordKind::Hedge,
        "evenkeel_hedges_total",
        "result=\"refused\"",
    ),
    (RecordKind::Fallback, "evenkeel_fallbacks_total", ""),
    (
        RecordKind::Breaker,
        "evenkeel_breaker_transitions_total",
        "",
    ),
];

/// What watches.
pub(super) struct Watch {
    receiver: Receiver,
    tracing: Tracing,
    metrics: Arc<GatewayMetrics>,
    audit: Arc<FileSink>,
    folder: PathBuf,
}

impl Watch {
    /// On all that these settings' gateway does, which name `receiver` as their collector.
    ///
    /// # Errors
    /// Something of it cannot be had.
    pub(super) fn new(settings: &Settings, receiver: Receiver) -> anyhow::Result<Self> {
        let config = settings.config();
        let to = collector(&config.telemetry, settings.folder(), "soak")?;
        let to = to.context("the settings name no collector")?;
        let resource = to.service().resource();
        let exposition = Exposition::pushing(resource, to.metrics()?)?;
        let metrics = Arc::new(GatewayMetrics::new(config, exposition));
        let audit = open_audit(settings, "soak")?;
        Ok(Self {
            tracing: Tracing::new(&config.telemetry, &to, &metrics.losses())?,
            audit: audit.context("the settings have no [audit]")?,
            folder: settings.audit_dir().context("and no place for it")?,
            receiver,
            metrics,
        })
    }

    /// Who has to hear, in this order.
    pub(super) fn observers(&self, settings: &Settings) -> Vec<Arc<dyn Observer>> {
        let log = audit_log(settings, self.audit.clone()).with_traces(self.tracing.observer());
        vec![
            self.tracing.observer(),
            self.metrics.observer(),
            Arc::new(log),
        ]
    }

    /// The server with all that it shows.
    pub(super) fn shown_by(&self, server: Server) -> Server {
        let server = server.with_metrics(self.metrics.clone());
        server
            .with_audit(self.audit.clone())
            .with_tracing(&self.tracing)
    }

    /// Reads `/metrics` as Prometheus does, and pushes them, until `until`.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) async fn look_on(
        gateway: SocketAddr,
        pusher: &Pusher,
        until: Instant,
    ) -> anyhow::Result<()> {
        let scrape = async {
            let mut beats = interval(SCRAPED_EVERY);
            while Instant::now() < until {
                beats.tick().await;
                page(gateway).await?;
            }
            Ok(())
        };
        tokio::select! {
            scraped = scrape => scraped,
            () = pusher.run() => Ok(()),
        }
    }

    /// When nothing happens any more: counts by kind, as the log and `/metrics` have them.
    ///
    /// # Errors
    /// The log does not verify, or something is counted otherwise.
    pub(super) async fn compare(&self, gateway: SocketAddr) -> anyhow::Result<Value> {
        let (audit, folder) = (self.audit.clone(), self.folder.clone());
        let mut told = tokio::task::spawn_blocking(move || verified(&audit, &folder)).await??;
        let text = page(gateway).await?;
        let mut counts = BTreeMap::new();
        for (kind, family, but) in SAME {
            let (records, counted) = (self.audit.written(kind), sum(&text, family, but)?);
            counts.insert(kind.as_str(), records);
            ensure!(
                records == counted,
                "{records} records of {kind}, {counted} in {family}"
            );
        }
        let counted = sum(&text, "evenkeel_audit_records_total", "")?;
        ensure!(
            told["records"] == counted,
            "{} records, {counted} counted",
            told["records"]
        );
        let (requests, bytes) = self.receiver.taken();
        told["kinds"] = json!(counts);
        told["otlp"] = json!({
            "requests": requests,
            "bytes": bytes,
            "dropped": sum(&text, "evenkeel_telemetry_dropped_total", "")?,
        });
        Ok(told)
    }

    /// Ends what watches. `last` is how things were in the end.
    ///
    /// # Errors
    /// The last records were not written.
    pub(super) async fn end(self, last: Snapshot) -> anyhow::Result<()> {
        self.metrics.shutdown(last, LAST_WRITES).await;
        self.tracing.shutdown(LAST_WRITES).await;
        let audit = self.audit;
        let written = tokio::task::spawn_blocking(move || audit.close(LAST_WRITES)).await?;
        ensure!(written, "the log was not written to its end");
        Ok(())
    }
}

/// What the log holds, once all of it is written: it has to verify. Blocks.
fn verified(audit: &FileSink, folder: &std::path::Path) -> anyhow::Result<Value> {
    ensure!(audit.flush(LAST_WRITES), "the log was not written in time");
    let mut verifier = Verifier::new();
    let files = audit_files(folder)?;
    let mut bytes = 0;
    for path in &files {
        let file = File::open(path)?;
        bytes += file.metadata()?.len();
        verifier.read(&path.display().to_string(), BufReader::new(file))?;
    }
    let verdict = verifier.finish();
    ensure!(
        verdict.is_sound(),
        "the log does not verify: {:?}",
        verdict.faults
    );
    ensure!(verdict.lost == 0, "{} records were lost", verdict.lost);
    Ok(json!({ "records": verdict.records, "files": files.len(), "bytes": bytes }))
}

/// The text of `/metrics`.
async fn page(gateway: SocketAddr) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(gateway).await?;
    let request = "GET /metrics HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.to_owned()),
        _ => bail!(
            "/metrics says {}",
            answer.lines().next().unwrap_or_default()
        ),
    }
}

/// The sum of a family's samples, those with `but` in them left out.
fn sum(text: &str, family: &str, but: &str) -> anyhow::Result<u64> {
    let mut sum = 0;
    for line in text.lines() {
        let name = line.split(['{', ' ']).next();
        if name != Some(family) || (!but.is_empty() && line.contains(but)) {
            continue;
        }
        let value = line.rsplit(' ').next().unwrap_or_default();
        sum += value.parse::<u64>().with_context(|| line.to_owned())?;
    }
    Ok(sum)
}
