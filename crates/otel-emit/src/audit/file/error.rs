//! Why a log cannot be opened or written.

use crate::audit::sink::FailureKind;
use std::io;
use std::path::PathBuf;

/// Why a log cannot be opened or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// Another process writes to it.
    #[error(
        "{} is in use: another process writes this audit log; give each its own",
        folder.display()
    )]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// A file or the folder.
    #[error("audit log: cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file that is written is not where it was put.
    #[error("audit log: {} is gone or has been replaced", path.display())]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// The log ends with what a later version wrote: where it stands cannot be told, and
    /// whatever were added would be a second end of it.
    #[error(
        "audit log: {}:{line} was written by a later version of evenkeel, and nothing is added \
         to it; run that version, or move the log away to begin another",
        path.display()
    )]
    LaterVersion {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// The writer's thread cannot be started.
    #[error("audit log: cannot start its thread: {source}")]
    Thread {
        /// What the system said.
        source: io::Error,
    },
}

impl AuditError {
    /// For an operation that failed.
    pub(super) fn io(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }

    /// In one word.
    pub(super) fn kind(&self) -> FailureKind {
        match self {
            Self::InUse { .. } => FailureKind::InUse,
            Self::Gone { .. } => FailureKind::Gone,
            Self::LaterVersion { .. } => FailureKind::LaterVersion,
            Self::Io { source, .. } | Self::Thread { source } => FailureKind::of(source),
        }
    }
}
