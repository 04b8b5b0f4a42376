//! The audit log's own settings.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use crate::faults::{Fault, Faults};

/// How the audit log is written (`[audit]`).
#[derive(Debug, Clone)]
pub struct AuditConfig {
    /// `path`: the folder of its files; a relative one counts from `server.state_dir`.
    pub path: PathBuf,
    /// `rotate_bytes`: a file that would grow beyond it is left for a new one.
    pub rotate_bytes: u64,
    /// `rotate_hours`: so is one whose first record is so old.
    pub rotate_hours: u32,
    /// `keep_files`: files that are kept; none: all of them.
    pub keep_files: Option<u32>,
    /// `fsync`: when the disk is asked to have it.
    pub fsync: Fsync,
    /// `fsync_interval_ms`: how often, with `fsync = "interval"`.
    pub fsync_interval: Duration,
    /// `chain`: whether records carry the hashes that hold their order.
    pub chain: bool,
    /// `on_failure`: what happens to calls while it cannot be written.
    pub on_failure: OnAuditFailure,
    /// `content_hmac_key`: the key of a hash of what was asked and answered; none: records
    /// have no such hash.
    pub content_hmac_key: Option<SecretString>,
}

impl PartialEq for AuditConfig {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            path,
            rotate_bytes,
            rotate_hours,
            keep_files,
            fsync,
            fsync_interval,
            chain,
            on_failure,
            content_hmac_key,
        } = self;
        let key = |key: &Option<SecretString>| key.as_ref().map(|k| k.expose_secret().to_owned());
        *path == other.path
            && *rotate_bytes == other.rotate_bytes
            && *rotate_hours == other.rotate_hours
            && *keep_files == other.keep_files
            && *fsync == other.fsync
            && *fsync_interval == other.fsync_interval
            && *chain == other.chain
            && *on_failure == other.on_failure
            && key(content_hmac_key) == key(&other.content_hmac_key)
    }
}

impl Eq for AuditConfig {}

/// When the disk is asked to have what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// After each write.
    Always,
    /// Every `fsync_interval_ms`.
    Interval,
    /// When the system sees fit.
    Never,
}

/// What happens to calls while the audit log cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnAuditFailure {
    /// They go on.
    Open,
    /// New ones are refused.
    Closed,
}

/// A smaller file would hold a few records.
const LEAST_BYTES: u64 = 4_096;
/// Longest `rotate_hours`: a year.
const MOST_HOURS: u32 = 8_760;
/// Shortest `content_hmac_key`, characters: as long as the hash (RFC 2104 §3 discourages
/// less), so that 32 bytes in hexadecimal are more than enough.
const LEAST_KEY: usize = 32;

impl Default for AuditConfig {
    fn default() -> Self {
        Self {
            path: PathBuf::from("audit"),
            rotate_bytes: 64 * 1024 * 1024,
            rotate_hours: 24,
            keep_files: None,
            fsync: Fsync::Interval,
            fsync_interval: Duration::from_secs(1),
            chain: true,
            on_failure: OnAuditFailure::Open,
            content_hmac_key: None,
        }
    }
}

impl AuditConfig {
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        let bytes = self.rotate_bytes;
        if bytes < LEAST_BYTES {
            let message = format!("is {bytes}, expected {LEAST_BYTES} or more");
            faults.add("rotate_bytes", message);
        }
        let hours = self.rotate_hours;
        if !(1..=MOST_HOURS).contains(&hours) {
            let message = format!("is {hours}, expected 1 to {MOST_HOURS}");
            faults.add("rotate_hours", message);
        }
        if self.keep_files == Some(0) {
            let message = "is 0, expected 1 or more; leave it out to keep all".to_owned();
            faults.add("keep_files", message);
        }
        faults.span("fsync_interval_ms", self.fsync_interval);
        let key = self.content_hmac_key.as_ref();
        let length = key.map_or(LEAST_KEY, |key| key.expose_secret().len());
        if length < LEAST_KEY {
            let message = format!(
                "has {length} characters, expected {LEAST_KEY} or more, e.g. of `openssl rand -hex 32`"
            );
            faults.add("content_hmac_key", message);
        }
        faults.0
    }
}
