//! What can go wrong with the database of tickets.

use evenkeel_core::TicketError;
use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why the tickets of a state folder cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder is not there and cannot be made.
    #[error("server.state_dir: cannot make {}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another process works with the folder.
    #[error(
        "{} is in use: another gateway works with this server.state_dir; give each its own",
        file.display()
    )]
    InUse {
        /// The database.
        file: PathBuf,
    },
    /// The file is damaged, or is no database.
    #[error(
        "{} is damaged: {found}; move it away to begin with no tickets, or restore a copy",
        file.display()
    )]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// What SQLite found.
        found: String,
    },
    /// A database of something else, or of another version of evenkeel.
    #[error(
        "{} is no ticket database of this version (application id {application:#x}, version {version})",
        file.display()
    )]
    Foreign {
        /// The file.
        file: PathBuf,
        /// Its application id.
        application: i64,
        /// Its version.
        version: i64,
    },
    /// The database cannot be opened for another reason.
    #[error("{}: {message}", file.display())]
    Database {
        /// The file.
        file: PathBuf,
        /// What SQLite said.
        message: String,
    },
    /// No thread for the database.
    #[error("cannot start a thread for the tickets: {source}")]
    Thread {
        /// What the system said.
        source: std::io::Error,
    },
    /// The webhook cannot be called.
    #[error("tickets.webhook_url: {message}")]
    Webhook {
        /// Why not.
        message: String,
    },
}

impl OpenError {
    /// Whether it is the disk's, which may mend, and not the configuration's.
    pub fn is_of_the_disk(&self) -> bool {
        match self {
            Self::Folder { .. }
            | Self::Corrupt { .. }
            | Self::Foreign { .. }
            | Self::Database { .. }
            | Self::Thread { .. } => true,
            Self::InUse { .. } | Self::Webhook { .. } => false,
        }
    }

    pub(super) fn of(file: &Path, fault: Fault) -> Self {
        let file = file.to_owned();
        let Fault::Sqlite(error) = fault else {
            let message = fault.to_string();
            return Self::Database { file, message };
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::InUse { file },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Corrupt {
                file,
                found: error.to_string(),
            },
            _ => Self::Database {
                file,
                message: error.to_string(),
            },
        }
    }
}

/// Why a job failed.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Sqlite(Arc<rusqlite::Error>),
    /// What is kept cannot be read.
    #[error("ticket {ticket}: {message}")]
    Unreadable { ticket: String, message: String },
    /// The store takes no more jobs: the process ends.
    #[error("the ticket store is closed")]
    Closed,
    /// What the router is told as it is.
    #[error(transparent)]
    Ticket(TicketError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(Arc::new(error))
    }
}

impl From<Fault> for TicketError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Ticket(error) => error,
            Fault::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                Self::Full(error)
            }
            other => Self::Store(Arc::new(other)),
        }
    }
}
