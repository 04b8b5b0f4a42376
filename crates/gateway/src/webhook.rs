//! A webhook: who is posted to, and how the posts are signed.

use crate::outbound::{self, OutboundClient};
use bytes::Bytes;
use evenkeel_core::{Clock, SystemClock};
use evenkeel_roster::WebhookConfig;
use http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full};
use ring::hmac;
use secrecy::{ExposeSecret, SecretString};
use std::fmt;
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};
use tokio::time::timeout;

/// `t=UNIX_SECONDS,v1=HEX`: HMAC-SHA256 of `t.body` under the secret.
const SIGNATURE: HeaderName = HeaderName::from_static("x-evenkeel-signature");
/// The event's id, the same at every try.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Where posts go, and how they are signed.
pub struct Webhook {
    url: Uri,
    /// None: they are not.
    key: Option<hmac::Key>,
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
#[non_exhaustive]
pub enum NotTaken {
    /// Nothing came in time.
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// It was refused.
    #[error("status {0}")]
    Status(u16),
    /// Nobody is there.
    #[error("cannot be reached: {0}")]
    Unreachable(hyper_util::client::legacy::Error),
}

/// Why a webhook cannot be posted to at all.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WebhookError(String);

impl Webhook {
    /// The webhook that the configuration names, its posts signed.
    ///
    /// # Errors
    /// An address that is none, or no certificates to check others with.
    pub fn new(config: &WebhookConfig) -> Result<Self, WebhookError> {
        let secret = Some(&config.secret);
        Self::at(config.url.expose_secret(), secret, config.timeout)
    }

    /// A webhook at `url`. Without a secret its posts are not signed.
    ///
    /// # Errors
    /// As [`Webhook::new`].
    pub fn at(
        url: &str,
        secret: Option<&SecretString>,
        timeout: Duration,
    ) -> Result<Self, WebhookError> {
        let url: Uri = url
            .parse()
            .map_err(|_| WebhookError("is no address".to_owned()))?;
        if url.host().is_none() || !matches!(url.scheme_str(), Some("http" | "https")) {
            let message = "begins with neither http:// nor https://";
            return Err(WebhookError(message.to_owned()));
        }
        let client = outbound::client(timeout).map_err(|error| WebhookError(error.to_string()))?;
        Ok(Self {
            url,
            key: secret.map(key),
            timeout,
            client,
        })
    }

    /// Posts `body`, which is JSON, once; `id` is that of what it tells, the same
    /// whenever it is posted again.
    ///
    /// # Errors
    /// Why it was not taken.
    ///
    /// # Panics
    /// Where `id` is no plain ASCII.
    pub async fn send(&self, id: &str, body: &str) -> Result<(), NotTaken> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(
                header::USER_AGENT,
                concat!("evenkeel/", env!("CARGO_PKG_VERSION")),
            )
            .header(IDEMPOTENCY_KEY, id);
        if let Some(key) = &self.key {
            let since = SystemClock.now().duration_since(UNIX_EPOCH);
            let t = since.unwrap_or_default().as_secs();
            request = request.header(SIGNATURE, signature(key, t, body));
        }
        let request = request
            .body(Full::new(Bytes::from(body.to_owned())))
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
fn signature(key: &hmac::Key, t: u64, body: &str) -> HeaderValue {
    let tag = hmac::sign(key, format!("{t}.{body}").as_bytes());
    let mut text = format!("t={t},v1=");
    for byte in tag.as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    HeaderValue::from_str(&text).expect("digits and letters")
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
