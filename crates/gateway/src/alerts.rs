//! Tells a webhook of models that are gone, and of those that will be.

use crate::webhook::{Webhook, WebhookError};
use arc_swap::ArcSwap;
use evenkeel::breaker::Backoff;
use evenkeel_core::{Class, Clock, Event, EventKind, ModelId, Observer, SystemClock};
use evenkeel_qualify::{ModelLife, ProviderWord, json_hash};
use evenkeel_roster::{AlertsConfig, Config};
use jiff::civil::Date;
use serde_json::{Value, json};
use std::sync::Arc;
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

/// Hears of models that their providers do not serve any more, or say they will not, and
/// hands that to its [`AlertPoster`].
#[derive(Debug)]
pub struct Alerts {
    posts: mpsc::Sender<Alert>,
    known: AlertFacts,
}

/// What alerts know of models and of who uses them: the configuration that runs.
#[derive(Debug, Clone)]
pub struct AlertFacts(Arc<ArcSwap<Config>>);

impl AlertFacts {
    /// Knows what `config` says from now on.
    pub(crate) fn replace(&self, config: &Config) {
        self.0.store(Arc::new(config.clone()));
    }

    /// The life of `model` as of `today`, with what its provider says of it where it
    /// does; none where no file names it.
    fn life(&self, model: &ModelId, today: Date, word: Option<ProviderWord>) -> Option<Value> {
        let config = self.0.load();
        let mut life = ModelLife::of(config.models.get(model)?, &config, today);
        if let Some(word) = word {
            life.hear(word, today);
        }
        Some(life.to_json(today))
    }
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
        let known = AlertFacts(Arc::new(ArcSwap::from_pointee(config.clone())));
        Ok(Some((Self { posts, known }, poster)))
    }

    /// What they know, for a reload to replace.
    pub fn facts(&self) -> AlertFacts {
        self.known.clone()
    }

    fn gone(&self, model: &ModelId, held: Duration) -> Alert {
        let now = Moment::now();
        let id = format!(
            "evt_gone_{:.12}_{}",
            json_hash(&model.as_str().into()),
            now.unix
        );
        let body = json!({
            "id": id,
            "type": "model.gone",
            "created": now.unix,
            "model": model.as_str(),
            "held_for_s": held.as_secs(),
            "life": self.known.life(model, now.today, None),
        });
        Alert { id, body }
    }

    /// What an answer says of its model's end, beside what the registry does.
    fn ending(&self, model: &ModelId, stage: Option<&str>, last_day: Option<&str>) -> Alert {
        let now = Moment::now();
        let word = ProviderWord::Served {
            last_day: last_day.and_then(|day| day.parse().ok()),
            is_deprecated: true,
        };
        let said = json!({ "model": model.as_str(), "stage": stage, "last_day": last_day });
        // The same word has the same id, so that many gateways' posts are one alert.
        let id = format!("evt_eol_{:.12}", json_hash(&said));
        let body = json!({
            "id": id,
            "type": "model.eol",
            "created": now.unix,
            "model": model.as_str(),
            "stage": stage,
            "last_day": last_day,
            "life": self.known.life(model, now.today, Some(word)),
        });
        Alert { id, body }
    }
}

/// Now, as alerts say it.
struct Moment {
    /// Seconds since 1970.
    unix: u64,
    /// UTC.
    today: Date,
}

impl Moment {
    fn now() -> Self {
        let now = SystemClock.now();
        let at = jiff::Timestamp::try_from(now).unwrap_or(jiff::Timestamp::MAX);
        Self {
            unix: now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            today: jiff::tz::Offset::UTC.to_datetime(at).date(),
        }
    }
}

impl Observer for Alerts {
    fn on(&self, event: &Event) {
        let (model, alert) = match &event.kind {
            EventKind::HoldStarted {
                model: Some(model),
                class: Class::ModelGone,
                duration,
                ..
            } => (model, self.gone(model, *duration)),
            EventKind::ModelStatus {
                model,
                stage,
                last_day,
            } => {
                let alert = self.ending(model, stage.as_deref(), last_day.as_deref());
                (model, alert)
            }
            _ => return,
        };
        if self.posts.try_send(alert).is_err() {
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
