//! Where records go.

use super::kind::RecordKind;
use super::record::Record;
use std::fmt;
use std::io;
use std::time::SystemTime;

/// Takes records and keeps them, each once and in the order they come.
///
/// [`FileSink`](super::FileSink) is one; another may send them elsewhere, and may give
/// them their places by a [`Chain`](super::Chain) of its own.
pub trait AuditSink: Send + Sync + fmt::Debug {
    /// Takes one record. It is called on the path of a request: it must not block, nor
    /// hold more and more memory while it cannot write. What it cannot take it counts.
    fn append(&self, record: Box<Record>);

    /// How it is.
    fn status(&self) -> AuditStatus;

    /// Whether calls may begin: false where nothing may happen unrecorded, and records
    /// cannot be written just now. Cheap; asked for every call.
    fn admits_calls(&self) -> bool {
        true
    }
}

/// How a sink is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditStatus {
    /// Since when it cannot write, and why; none while it can.
    pub failing: Option<(SystemTime, FailureKind)>,
    /// Whether calls are refused while it cannot write.
    pub is_closed_on_failure: bool,
    /// Records written by this process.
    pub written: u64,
    /// The same by kind; of a kind that is not there, none.
    pub written_by_kind: Vec<(RecordKind, u64)>,
    /// Attempts to write that failed, and records that were lost.
    pub write_failures: u64,
    /// Records that were lost.
    pub lost: u64,
    /// Records that wait to be written.
    pub waiting: usize,
}

/// Why a log cannot be written, as far as strangers may know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The disk or the quota is full.
    DiskFull,
    /// Writing is forbidden.
    ReadOnly,
    /// The folder or the file is not where it was.
    Gone,
    /// Another process writes it.
    InUse,
    /// A later version of evenkeel wrote it.
    LaterVersion,
    /// Anything else.
    Other,
}

impl FailureKind {
    /// The name used outside Rust.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DiskFull => "disk_full",
            Self::ReadOnly => "read_only",
            Self::Gone => "gone",
            Self::InUse => "in_use",
            Self::LaterVersion => "later_version",
            Self::Other => "other",
        }
    }

    /// Of what the system said.
    pub(super) fn of(error: &io::Error) -> Self {
        use io::ErrorKind as E;
        match error.kind() {
            E::StorageFull | E::QuotaExceeded | E::FileTooLarge => Self::DiskFull,
            E::ReadOnlyFilesystem | E::PermissionDenied => Self::ReadOnly,
            E::NotFound | E::NotADirectory => Self::Gone,
            E::ResourceBusy => Self::InUse,
            _ => Self::Other,
        }
    }
}
