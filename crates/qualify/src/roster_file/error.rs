//! Why a roster could not be written.

use evenkeel_core::ModelId;
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
    /// No fallback of what would be written stands at another provider than the
    /// primary, which the role does not allow: the router would refuse the roster.
    #[error(
        "{}: not written: `{first}` stands at the primary's provider and none of the others elsewhere; measure a candidate of another provider, or say allow_same_provider = true in the role's policy",
        path.display()
    )]
    SameProvider {
        /// Which file.
        path: PathBuf,
        /// The best of the fallbacks.
        first: ModelId,
    },
    /// What would be written does not read back as it was meant.
    #[error(
        "{}: not written: it would not read back as meant ({message}); it is as it was. Write the role's fallbacks in a simpler form",
        path.display()
    )]
    Unsound {
        /// Which file.
        path: PathBuf,
        /// What it would say.
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
