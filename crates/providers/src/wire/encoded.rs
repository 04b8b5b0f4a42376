//! A request as it goes to a provider.

use serde_json::Value;
use std::collections::BTreeMap;

/// A request in a wire format, and what the format could not say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Encoded {
    /// The body.
    pub body: Value,
    /// What the request asks for and the body does not say as asked, a short
    /// line each: `seed: not known to this provider, left out`. Never the
    /// caller's text.
    pub adapted: Vec<String>,
    /// Tools whose name the format does not allow: the request's own name by
    /// the one in the body. An answer calls them by the latter.
    pub tool_names: BTreeMap<String, String>,
}
