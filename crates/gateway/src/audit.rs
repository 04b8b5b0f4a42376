//! The audit log of a gateway: what its configuration makes of it, and what is shown of it.

use evenkeel::Settings;
use evenkeel_otel_emit::audit::{
    AuditError, AuditLog, AuditSink, AuditStatus, ContentKey, FileSink, FileSinkConfig, OnFailure,
    SyncPolicy,
};
use evenkeel_roster::{Fsync, OnAuditFailure};
use serde_json::{Value, json};
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

/// Opens the log that the settings ask for; none where they have no `[audit]`. `instance`
/// names this process in its records. Blocks for some reads.
///
/// # Errors
/// [`AuditError`]: another process writes it, or it cannot be written and `on_failure` is
/// `closed`.
pub fn open_audit(
    settings: &Settings,
    instance: &str,
) -> Result<Option<Arc<FileSink>>, AuditError> {
    let config = settings.config();
    let (Some(audit), Some(folder)) = (&config.audit, settings.audit_dir()) else {
        return Ok(None);
    };
    let defaults = FileSinkConfig::new(folder, instance);
    let hours = u64::from(audit.rotate_hours);
    let sink = FileSink::open(&FileSinkConfig {
        rotate_bytes: NonZeroU64::new(audit.rotate_bytes).unwrap_or(defaults.rotate_bytes),
        rotate_after: Duration::from_secs(hours * 3_600),
        keep_files: audit.keep_files.and_then(NonZeroU32::new),
        sync: match audit.fsync {
            Fsync::Always => SyncPolicy::Always,
            Fsync::Interval => SyncPolicy::Interval(audit.fsync_interval),
            Fsync::Never => SyncPolicy::Never,
        },
        is_chained: audit.chain,
        on_failure: match audit.on_failure {
            OnAuditFailure::Open => OnFailure::Open,
            OnAuditFailure::Closed => OnFailure::Closed,
        },
        ..defaults
    })?;
    Ok(Some(Arc::new(sink)))
}

/// The observer that writes to `sink` what the settings' router does.
pub fn audit_log(settings: &Settings, sink: Arc<dyn AuditSink>) -> AuditLog {
    let config = settings.config();
    let log = AuditLog::new(sink, config.stamp.as_deref());
    let audit = config.audit.as_ref();
    match audit.and_then(|audit| audit.content_hmac_key.as_ref()) {
        Some(key) => log.with_content_key(ContentKey::new(key)),
        None => log,
    }
}

/// What `/readyz` says of a log: no path and no words of the system.
pub(crate) fn detail(status: &AuditStatus) -> Value {
    let since = status.failing.map(|(since, _)| since);
    let since = since.and_then(|since| jiff::Timestamp::try_from(since).ok());
    json!({
        "on_failure": if status.is_closed_on_failure { "closed" } else { "open" },
        "failing": status.failing.map(|(_, kind)| kind.as_str()),
        "since": since.map(|since| format!("{since:.3}")),
        "waiting": status.waiting,
        "lost": status.lost,
    })
}
