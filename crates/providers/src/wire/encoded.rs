//! A request as it goes to a provider.

use serde_json::Value;

/// A request in a wire format, and what the format could not say.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoded {
    /// The body.
    pub body: Value,
    /// What the request asks for and the body does not say as asked, a short
    /// line each: `seed: not known to this provider, left out`. Never the
    /// caller's text.
    pub adapted: Vec<String>,
}
