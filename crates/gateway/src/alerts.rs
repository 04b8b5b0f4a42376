//! Tells a webhook of models that are gone.

use crate::webhook::{Webhook, WebhookError};
use evenkeel::breaker::Backoff;
use evenkeel_core::{Class, Clock, Event, EventKind, ModelId, Observer, SystemClock};
use evenkeel_qualify::{ModelLife, json_hash};
use evenkeel_roster::{AlertsConfig, Config};
use serde_json::{Value, json};
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Alerts that may wait to be posted; there is one an hour for each model at most.
const WAITING: usize = 64;
/// Posts of one alert before it is given up.
const TRIES: u32 = 6;
/// Waits before a post that was not taken is tried again.
const BACKOFF: Backoff = Backoff {
    base: Duration::from_secs(1),
    cap: Duration::from_secs(60),
};

/// Hears of models that their providers do not serve any more, and hands that to its
/// [`AlertPoster`].
#[derive(Debug)]
pub struct Alerts {
    posts: mpsc::Sender<Alert>,
    config: Config,
}

/// Posts alerts, one after the other.
#[derive(Debug)]
pub struct AlertPoster {
    posts: mpsc::Receiver<Alert>,
    webhook: Webhook,
}

/// One thing to be told.
#[derive(Debug)]
struct Alert {
    id: String,
    body: Value,
}

impl Alerts {
    /// Alerts for the webhook of `alerts`, and the poster that is to be run beside
    /// them; none where nobody is to be told.
    ///
    /// # Errors
    /// A webhook that cannot be posted to.
    pub fn new(config: &Config) -> Result<Option<(Self, AlertPoster)>, WebhookError> {
        let AlertsConfig { webhook } = &config.alerts;
        let Some(webhook) = webhook else {
            return Ok(None);
        };
        let (posts, waiting) = mpsc::channel(WAITING);
        let poster = AlertPoster {
            posts: waiting,
            webhook: Webhook::new(webhook)?,
        };
        let config = config.clone();
        Ok(Some((Self { posts, config }, poster)))
    }

    fn gone(&self, model: &ModelId, held: Duration) -> Alert {
        let now = SystemClock.now();
        let created = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let id = format!(
            "evt_gone_{:.12}_{created}",
            json_hash(&model.as_str().into())
        );
        let known = self.config.models.get(model);
        let life = known.map(|known| {
            let at = jiff::Timestamp::try_from(now).unwrap_or(jiff::Timestamp::MAX);
            let today = jiff::tz::Offset::UTC.to_datetime(at).date();
            ModelLife::of(known, &self.config, today).to_json(today)
        });
        let body = json!({
            "id": id,
            "type": "model.gone",
            "created": created,
            "model": model.as_str(),
            "held_for_s": held.as_secs(),
            "life": life,
        });
        Alert { id, body }
    }
}

impl Observer for Alerts {
    fn on(&self, event: &Event) {
        let EventKind::HoldStarted {
            model: Some(model),
            class: Class::ModelGone,
            duration,
            ..
        } = &event.kind
        else {
            return;
        };
        if self.posts.try_send(self.gone(model, *duration)).is_err() {
            tracing::error!(event = "alert_lost", model.primary = %model);
        }
    }
}

impl AlertPoster {
    /// Posts until the [`Alerts`] are dropped, then what still waits.
    ///
    /// Not cancel safe: dropping it loses what waits.
    pub async fn run(mut self) {
        while let Some(alert) = self.posts.recv().await {
            self.post(&alert).await;
        }
    }

    async fn post(&self, alert: &Alert) {
        let body = alert.body.to_string();
        for nth in 1..=TRIES {
            match self.webhook.send(&alert.id, &body).await {
                Ok(()) => return tracing::debug!(event = "alert_told", id = alert.id),
                Err(error) if nth == TRIES => {
                    tracing::error!(event = "alert_given_up", id = alert.id, attempts = nth, %error);
                }
                Err(error) => {
                    tracing::warn!(event = "alert_failed", id = alert.id, attempts = nth, %error);
                    sleep(BACKOFF.delay(nth, fastrand::f64())).await;
                }
            }
        }
    }
}
