//! What keeps a configuration from being used.

use evenkeel_roster::Problems;
use evenkeel_router::BuildError;
use std::io;
use std::path::PathBuf;

/// Why settings cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder without a single configuration file.
    #[error("{} holds no configuration: expected evenkeel.toml, policy.toml, roster.toml …", path.display())]
    Empty {
        /// Which.
        path: PathBuf,
    },
    /// The files contradict the rules, or themselves.
    #[error("the configuration cannot be used:\n{0}")]
    Problems(#[from] Problems),
}

/// Why a router cannot be built from settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouterError {
    /// A provider's client cannot be made.
    #[error("provider `{provider}`: {message}")]
    Provider {
        /// Its name.
        provider: String,
        /// What is wrong.
        message: String,
    },
    /// The router refuses the configuration.
    #[error(transparent)]
    Router(#[from] BuildError),
}
