//! The audit log: which model answered which request, when and why.

mod calls;
mod chain;
mod content;
mod excerpt;
mod hash;
mod id;
mod kind;
mod lines;
mod log;
mod query;
mod record;
mod sink;
mod stored;
mod time;
mod verify;

mod file;

pub use self::chain::{Chain, Sealed};
pub use self::content::ContentKey;
pub use self::file::{AuditError, FileSink, FileSinkConfig, OnFailure, SyncPolicy, audit_files};
pub use self::hash::{Hash, InvalidHash};
pub use self::id::{AuditId, Text64, Text128};
pub use self::kind::{KindCounts, RecordKind};
pub use self::log::AuditLog;
pub use self::query::{AuditFilter, Row, query};
pub use self::record::{
    AuditAttempt, AuditBreaker, AuditDegradation, AuditDrill, AuditGap, AuditHedge, AuditLatency,
    AuditModel, AuditOperator, AuditPolicy, AuditQuality, AuditTicket, AuditUsage, Record,
};
pub use self::sink::{AuditSink, AuditStatus, FailureKind};
pub use self::stored::Stored;
pub use self::time::{ExactMs, WallTime, WholeMs};
pub use self::verify::{
    Checkpoint, Fault, FaultKind, InvalidCheckpoint, Place, Start, Verdict, Verifier,
};
