//! What a policy names to judge a role's answers.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_validators::BuiltIn;
use secrecy::{ExposeSecret, SecretString};

use crate::faults::{Fault, Faults};

/// One of a policy's `validators`.
#[derive(Debug, Clone, PartialEq)]
pub enum ValidatorConfig {
    /// A ready-made one.
    BuiltIn(BuiltIn),
    /// `http`: a service is asked.
    Http(HttpValidatorConfig),
}

impl ValidatorConfig {
    /// The `kind` of a service that is asked over HTTP.
    pub const HTTP: &'static str = "http";
}

impl From<BuiltIn> for ValidatorConfig {
    fn from(rule: BuiltIn) -> Self {
        Self::BuiltIn(rule)
    }
}

/// A service that judges answers (`kind = "http"`).
#[derive(Debug, Clone)]
pub struct HttpValidatorConfig {
    /// `url`; a secret, because such addresses often hold a token.
    pub url: SecretString,
    /// `timeout_ms`: how long it may take for one answer; without it only the
    /// role's `validator_timeout_ms` counts.
    pub timeout: Option<Duration>,
    /// `headers`: sent with every question, by name in lower case. Their values may be secrets.
    pub headers: BTreeMap<String, SecretString>,
}

impl HttpValidatorConfig {
    /// The service at `url`, with no headers and no limit of its own.
    pub fn new(url: impl Into<SecretString>) -> Self {
        Self {
            url: url.into(),
            timeout: None,
            headers: BTreeMap::new(),
        }
    }

    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        if let Some(timeout) = self.timeout {
            faults.span("timeout_ms", timeout);
        }
        faults.0
    }
}

impl PartialEq for HttpValidatorConfig {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: &SecretString, b: &SecretString| a.expose_secret() == b.expose_secret();
        let pairs = self.headers.iter().zip(&other.headers);
        same(&self.url, &other.url)
            && self.timeout == other.timeout
            && self.headers.len() == other.headers.len()
            && pairs
                .into_iter()
                .all(|((a, value), (b, other))| a == b && same(value, other))
    }
}
