//! Tells a webhook what becomes of tickets: at least once each, signed, and
//! never in the way of anything else.

use super::outbox::{self, Post};
use super::timeline::{unix_ms, whole_ms};
use super::{OpenError, Tickets};
use crate::outbound::{self, OutboundClient};
use bytes::Bytes;
use evenkeel::breaker::Backoff;
use evenkeel_core::{Clock, SystemClock};
use evenkeel_roster::WebhookConfig;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full};
use ring::hmac;
use secrecy::{ExposeSecret, SecretString};
use std::fmt;
use std::fmt::Write as _;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// `t=UNIX_SECONDS,v1=HEX`: HMAC-SHA256 of `t.body` under the secret.
const SIGNATURE: HeaderName = HeaderName::from_static("x-evenkeel-signature");
/// The event's id, the same at every try.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
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

/// Where posts go, and how they are signed.
pub(super) struct Webhook {
    url: Uri,
    key: hmac::Key,
    timeout: Duration,
    client: OutboundClient,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a token.
        f.debug_struct("Webhook").finish_non_exhaustive()
    }
}

/// Why a post was not taken.
#[derive(Debug, thiserror::Error)]
enum NotTaken {
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("status {0}")]
    Status(u16),
    #[error("cannot be reached: {0}")]
    Unreachable(hyper_util::client::legacy::Error),
}

impl Webhook {
    pub(super) fn new(config: &WebhookConfig) -> Result<Self, OpenError> {
        let wrong = |message: String| OpenError::Webhook { message };
        let url: Uri = config
            .url
            .expose_secret()
            .parse()
            .map_err(|_| wrong("is no address".to_owned()))?;
        Ok(Self {
            url,
            key: key(&config.secret),
            timeout: config.timeout,
            client: outbound::client(config.timeout).map_err(|error| wrong(error.to_string()))?,
        })
    }

    /// Posts it once.
    async fn send(&self, post: &Post) -> Result<(), NotTaken> {
        let t = unix_ms(SystemClock.now()) / 1_000;
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(
                header::USER_AGENT,
                concat!("evenkeel/", env!("CARGO_PKG_VERSION")),
            )
            .header(IDEMPOTENCY_KEY, &post.id)
            .header(SIGNATURE, signature(&self.key, t, &post.body))
            .body(Full::new(Bytes::from(post.body.clone())))
            .expect("an address that was read, and headers of plain ASCII");
        let answered = timeout(self.timeout, async {
            let answer = self.client.request(request).await;
            let answer = answer.map_err(NotTaken::Unreachable)?;
            let status = answer.status();
            if status.is_success() {
                // So that the connection can be used again; what it says is nobody's.
                let _ = http_body_util::Limited::new(answer.into_body(), 64 * 1024)
                    .collect()
                    .await;
                return Ok(());
            }
            Err(NotTaken::Status(status.as_u16()))
        });
        answered
            .await
            .unwrap_or(Err(NotTaken::Timeout(self.timeout)))
    }
}

fn key(secret: &SecretString) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes())
}

/// The signature of a body sent at `t`, Unix seconds.
fn signature(key: &hmac::Key, t: i64, body: &str) -> HeaderValue {
    let tag = hmac::sign(key, format!("{t}.{body}").as_bytes());
    let mut text = format!("t={t},v1=");
    for byte in tag.as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    HeaderValue::from_str(&text).expect("digits and letters")
}

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
        let sent = webhook.send(&post).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with `openssl dgst -sha256 -hmac`.
    #[test]
    fn a_signature_is_what_any_other_tool_computes() {
        let key = key(&"whsec-test".into());
        let signed = signature(&key, 1_700_000_000, r#"{"id":"evt_1"}"#);
        assert_eq!(
            signed.to_str().unwrap(),
            "t=1700000000,v1=ab0f82fa9f9ae7a690c998696fb56441e102a1546c14f8c2077dd1c92a67f65c"
        );
    }
}
