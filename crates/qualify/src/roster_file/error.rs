//! Why a roster could not be written.

use std::io;
use std::path::PathBuf;

/// Why a roster could not be written. The file is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RosterFileError {
    /// The name says neither TOML nor YAML.
    #[error("{}: a roster ends in .toml, .yaml or .yml", path.display())]
    Ending {
        /// Which file.
        path: PathBuf,
    },
    /// It is there and cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be parsed.
    #[error("{}: {message}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// What is wrong, and in which line.
        message: String,
    },
    /// It holds something else where a roster belongs.
    #[error("{}: {key}: {message}", path.display())]
    Shape {
        /// Which file.
        path: PathBuf,
        /// The key.
        key: String,
        /// What is there, and what was expected.
        message: String,
    },
    /// It cannot be replaced.
    #[error("cannot write {}: {source}; it is as it was", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
