//! Tells a webhook what becomes of tickets: at least once each, signed, and
//! never in the way of anything else.

use super::Tickets;
use super::outbox::{self, Post};
use super::timeline::whole_ms;
use crate::webhook::Webhook;
use evenkeel::breaker::Backoff;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::time::Duration;
use tokio::time::sleep;

/// Posts under way at once: one that hangs does not hold the others up.
const AT_ONCE: usize = 4;
/// Waits before a post that was not taken is tried again.
const BACKOFF: Backoff = Backoff {
    base: Duration::from_secs(1),
    cap: Duration::from_secs(600),
};
/// Pause after the store failed.
const STORE_PAUSE: Duration = Duration::from_secs(5);
/// Longest sleep while nothing is due.
const LOOK_EVERY: Duration = Duration::from_secs(60);

impl Tickets {
    /// Tells what is to be told, for ever; pending where there is no webhook.
    pub(super) async fn post(&self) {
        let Some(webhook) = &self.webhook else {
            return std::future::pending().await;
        };
        let mut under_way: Vec<String> = Vec::new();
        let mut posts = FuturesUnordered::new();
        loop {
            let wait = match self.due(&under_way).await {
                Ok((due, next)) => {
                    for post in due {
                        under_way.push(post.id.clone());
                        posts.push(self.tell_webhook(webhook, post));
                    }
                    next.unwrap_or(LOOK_EVERY)
                }
                Err(error) => {
                    tracing::warn!(event = "ticket_store_failed", doing = "post", %error);
                    STORE_PAUSE
                }
            };
            let idle = under_way.len() < AT_ONCE;
            tokio::select! {
                Some(id) = posts.next(), if !posts.is_empty() => {
                    under_way.retain(|known| *known != id);
                }
                () = self.outbox.notified(), if idle => {}
                () = sleep(wait.clamp(Duration::from_millis(10), LOOK_EVERY)), if idle => {}
            }
        }
    }

    async fn due(
        &self,
        under_way: &[String],
    ) -> Result<(Vec<Post>, Option<Duration>), super::Fault> {
        let (now, most) = (self.timeline.now(), AT_ONCE - under_way.len());
        let known = under_way.to_vec();
        self.database
            .run(move |desk| outbox::due(desk, &known, most, now))
            .await
    }

    /// Posts it once, and writes down how that went. Gives its id.
    async fn tell_webhook(&self, webhook: &Webhook, post: Post) -> String {
        let id = post.id.clone();
        let sent = webhook.send(&post.id, &post.body).await;
        let done = match &sent {
            Ok(()) => {
                tracing::debug!(event = "webhook_told", kind = post.kind, id);
                self.database
                    .run(move |desk| outbox::remove(desk, &post.id))
                    .await
            }
            Err(error) if post.age >= whole_ms(self.keep) => {
                tracing::error!(
                    event = "webhook_given_up",
                    kind = post.kind,
                    id,
                    attempts = post.attempts.saturating_add(1),
                    %error,
                );
                self.database
                    .run(move |desk| outbox::remove(desk, &post.id))
                    .await
            }
            Err(error) => {
                let nth = post.attempts.saturating_add(1);
                let wait = BACKOFF.delay(nth, fastrand::f64());
                tracing::warn!(
                    event = "webhook_failed",
                    kind = post.kind,
                    id,
                    attempts = nth,
                    retry_in_ms = whole_ms(wait),
                    %error,
                );
                let due = self.timeline.now().saturating_add(whole_ms(wait));
                self.database
                    .run(move |desk| outbox::put_off(desk, &post.id, due))
                    .await
            }
        };
        if let Err(error) = done {
            // It stays in the outbox and is told again: its id says that it is the same.
            tracing::warn!(event = "ticket_store_failed", doing = "post", %error);
            sleep(STORE_PAUSE).await;
        }
        id
    }
}
