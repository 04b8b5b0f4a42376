//! Who is told of what needs a person.

use crate::faults::{Fault, Faults};
use crate::tickets::WebhookConfig;

/// Who is told of models that are at the end of their life (`[alerts]`).
#[derive(Debug, Clone, Default)]
pub struct AlertsConfig {
    /// `webhook_url` and what belongs to it; none: nobody is told.
    pub webhook: Option<WebhookConfig>,
}

impl AlertsConfig {
    /// Whether both tell the same to the same.
    pub fn is_as(&self, other: &Self) -> bool {
        match (&self.webhook, &other.webhook) {
            (Some(own), Some(other)) => own.is_as(other),
            (own, other) => own.is_none() && other.is_none(),
        }
    }

    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        if let Some(webhook) = &self.webhook {
            faults.span("webhook_timeout_ms", webhook.timeout);
        }
        faults.0
    }
}
