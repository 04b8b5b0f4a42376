//! Where credentials come from.

use secrecy::SecretString;
use std::fmt;

/// Gives a provider's key when a request is made, so that a rotated key is
/// used without a restart. The key itself is a secret: its `Debug` masks it.
pub trait KeySource: Send + Sync + fmt::Debug {
    /// The key to send now; `None` where the provider takes none.
    ///
    /// # Errors
    /// [`MissingKey`] where a key is configured and cannot be had.
    fn key(&self) -> Result<Option<SecretString>, MissingKey>;
}

/// A configured key that cannot be had. Says where it was looked for, never what was found.
#[derive(Debug, Clone, thiserror::Error)]
#[error("no key: {0}")]
pub struct MissingKey(pub String);
