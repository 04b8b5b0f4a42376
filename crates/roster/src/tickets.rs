//! The tickets' own settings.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use crate::faults::{Fault, Faults};

/// What becomes of kept calls beside being retried (`[tickets]`).
#[derive(Debug, Clone)]
pub struct TicketsConfig {
    /// `keep_ms`: how long a ticket is kept after its end.
    pub keep: Duration,
    /// `webhook_url` and what belongs to it; none: nobody is told.
    pub webhook: Option<WebhookConfig>,
}

/// Who is told of tickets.
#[derive(Debug, Clone)]
pub struct WebhookConfig {
    /// `webhook_url`; a secret, because such addresses often hold a token.
    pub url: SecretString,
    /// `webhook_secret`: what posts are signed with.
    pub secret: SecretString,
    /// `webhook_timeout_ms`: how long one post may take.
    pub timeout: Duration,
}

impl WebhookConfig {
    /// Whether both tell the same to the same.
    pub fn is_as(&self, other: &Self) -> bool {
        self.url.expose_secret() == other.url.expose_secret()
            && self.secret.expose_secret() == other.secret.expose_secret()
            && self.timeout == other.timeout
    }
}

/// Longest `keep_ms`: a year.
const LONGEST_KEPT: Duration = Duration::from_secs(365 * 86_400);

impl Default for TicketsConfig {
    fn default() -> Self {
        Self {
            keep: Duration::from_secs(7 * 86_400),
            webhook: None,
        }
    }
}

impl TicketsConfig {
    /// Whether both keep as long, and tell the same to the same.
    pub fn is_as(&self, other: &Self) -> bool {
        let hooks = (&self.webhook, &other.webhook);
        self.keep == other.keep
            && match hooks {
                (Some(own), Some(other)) => own.is_as(other),
                (own, other) => own.is_none() && other.is_none(),
            }
    }

    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        faults.span_to("keep_ms", self.keep, LONGEST_KEPT);
        if let Some(webhook) = &self.webhook {
            faults.span("webhook_timeout_ms", webhook.timeout);
        }
        faults.0
    }
}
