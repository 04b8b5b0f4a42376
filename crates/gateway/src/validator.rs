//! Validators of kind `http`: a service is sent an answer and says whether it is valid.

use crate::outbound::{self, OutboundClient};
use bytes::Bytes;
use evenkeel_core::{Judged, Validator, ValidatorError, Verdict};
use evenkeel_roster::{HttpValidatorConfig, ValidatorConfig};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Longest verdict that is read, in bytes: a verdict is a message and a hint.
const LONGEST_VERDICT: usize = 64 * 1024;
/// A service that is connected to no sooner is none.
const CONNECT: Duration = Duration::from_secs(10);

/// Why services cannot be asked at all.
#[derive(Debug, thiserror::Error)]
#[error("validators of kind `http`: no TLS")]
pub struct HttpValidatorsError(#[source] rustls::Error);

/// Makes the validators of kind `http`, over one pool of connections that
/// reloads keep; for
/// [`RouterBuilder::http_validators`](evenkeel_router::RouterBuilder::http_validators).
#[derive(Clone)]
pub struct HttpValidators {
    client: OutboundClient,
}

impl fmt::Debug for HttpValidators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpValidators").finish_non_exhaustive()
    }
}

impl HttpValidators {
    /// With no connection yet.
    ///
    /// # Errors
    /// [`HttpValidatorsError`] where TLS cannot be had.
    pub fn new() -> Result<Self, HttpValidatorsError> {
        let client = outbound::client(CONNECT).map_err(HttpValidatorsError)?;
        Ok(Self { client })
    }

    /// The validator that asks this service. It is sent the text of answers and
    /// the arguments of their tool calls. Must be asked in a tokio runtime.
    ///
    /// # Errors
    /// An address or a header that cannot be used; files are checked for both.
    pub fn validator(
        &self,
        config: &HttpValidatorConfig,
    ) -> Result<Arc<dyn Validator>, ValidatorError> {
        let url = config.url.expose_secret().parse::<Uri>();
        let url = url.map_err(|_| ValidatorError::new("url is not an address"))?;
        if url.scheme().is_none() || url.authority().is_none() {
            return Err(ValidatorError::new("url names no scheme or no host"));
        }
        Ok(Arc::new(HttpValidator {
            url,
            headers: headers(config)?,
            timeout: config.timeout,
            client: self.client.clone(),
        }))
    }
}

/// What is sent with every question.
fn headers(config: &HttpValidatorConfig) -> Result<HeaderMap, ValidatorError> {
    let mut headers = HeaderMap::new();
    let agent = concat!("evenkeel/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    for (name, value) in &config.headers {
        let unusable = || ValidatorError::new(format!("headers: `{name}` cannot be sent"));
        let value = HeaderValue::from_str(value.expose_secret());
        let mut value = value.map_err(|_| unusable())?;
        value.set_sensitive(true);
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable())?;
        headers.insert(name, value);
    }
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    Ok(headers)
}

/// Asks one service.
struct HttpValidator {
    url: Uri,
    headers: HeaderMap,
    timeout: Option<Duration>,
    client: OutboundClient,
}

impl fmt::Debug for HttpValidator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a token.
        f.debug_struct("HttpValidator")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl Validator for HttpValidator {
    fn name(&self) -> &str {
        ValidatorConfig::HTTP
    }

    async fn validate(&self, answer: &Judged) -> Result<Verdict, ValidatorError> {
        let asked = self.ask(question(answer));
        match self.timeout {
            None => asked.await,
            Some(limit) => timeout(limit, asked).await.unwrap_or_else(|_| {
                let message = format!("gave no verdict within {} ms", limit.as_millis());
                Err(ValidatorError::new(message))
            }),
        }
    }
}

impl HttpValidator {
    async fn ask(&self, question: Bytes) -> Result<Verdict, ValidatorError> {
        let mut request = Request::new(Full::new(question));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        *request.headers_mut() = self.headers.clone();
        let reply = self.client.request(request).await;
        let reply = reply.map_err(|error| {
            let what = if error.is_connect() {
                "cannot be reached"
            } else {
                "broke off before its answer"
            };
            ValidatorError::new(what).with_source(error)
        })?;
        if reply.status() != StatusCode::OK {
            let status = reply.status().as_u16();
            let message = format!("answered with status {status}, expected 200");
            return Err(ValidatorError::new(message));
        }
        let body = Limited::new(reply.into_body(), LONGEST_VERDICT);
        let body = body.collect().await.map_err(|error| {
            ValidatorError::new(if error.is::<LengthLimitError>() {
                format!("answered with more than {LONGEST_VERDICT} bytes")
            } else {
                "broke off within its answer".to_owned()
            })
        })?;
        verdict(&body.to_bytes())
    }
}

/// What a service is asked of an answer.
fn question(answer: &Judged) -> Bytes {
    let response = &answer.response;
    let calls = response.tool_calls().map(|call| {
        let arguments = match call.arguments.as_str() {
            "" => "{}",
            arguments => arguments,
        };
        json!({ "name": call.name, "arguments": arguments })
    });
    let mut question = json!({
        "role": &*answer.role,
        "model": answer.model.to_string(),
        "text": response.plain_text(),
        "tool_calls": calls.collect::<Value>(),
        "finish": response.finish.as_str(),
    });
    if let Some(id) = &answer.request_id {
        question["request_id"] = Value::from(&**id);
    }
    Bytes::from(question.to_string())
}

/// What a service's answer means. What it says is not quoted: it may quote the text.
fn verdict(body: &[u8]) -> Result<Verdict, ValidatorError> {
    let said: Value = serde_json::from_slice(body)
        .map_err(|error| ValidatorError::new("answered with no JSON").with_source(error))?;
    let Some(valid) = said.get("valid").and_then(Value::as_bool) else {
        let message = "answered without `valid`, expected true or false";
        return Err(ValidatorError::new(message));
    };
    let message = words(&said, "message")?;
    let hint = words(&said, "hint")?;
    if valid {
        return Ok(Verdict::Valid);
    }
    Ok(Verdict::Invalid {
        message: message.unwrap_or_else(|| "is not valid".to_owned()),
        hint,
    })
}

/// A text that may be absent; null and an empty one say nothing either.
fn words(said: &Value, key: &str) -> Result<Option<String>, ValidatorError> {
    match said.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim().to_owned()).filter(|t| !t.is_empty())),
        Some(_) => {
            let message = format!("answered with a `{key}` that is no text");
            Err(ValidatorError::new(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_read_strictly_and_what_is_beside_it_is_let_be() {
        let read = |text: &str| verdict(text.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(read(r#"{"valid":true,"score":1}"#), Ok(Verdict::Valid));
        assert_eq!(
            read(r#"{"valid":false,"message":null,"hint":" "}"#),
            Ok(Verdict::invalid("is not valid"))
        );
        assert_eq!(
            read(r#"{"valid":false,"message":"too rude","hint":"Be kind."}"#),
            Ok(Verdict::repairable("too rude", "Be kind."))
        );
        for (text, why) in [
            ("", "no JSON"),
            ("\u{feff}{}", "no JSON"),
            ("{}", "without `valid`"),
            ("[true]", "without `valid`"),
            (r#"{"valid":"true"}"#, "without `valid`"),
            (
                r#"{"valid":false,"hint":["a"]}"#,
                "a `hint` that is no text",
            ),
            (
                r#"{"valid":true,"message":1}"#,
                "a `message` that is no text",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn what_cannot_be_asked_is_refused_and_shown_to_nobody() {
        let services = HttpValidators::new().unwrap();
        for url in ["", "/validate", "secret-host"] {
            let refused = services.validator(&HttpValidatorConfig::new(url));
            let error = refused.unwrap_err().to_string();
            assert!(error.starts_with("url "), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let mut config = HttpValidatorConfig::new("http://h/secret");
        let token = |value: &str| [("x-key".to_owned(), value.to_owned().into())].into();
        config.headers = token("secret\n");
        let error = services.validator(&config).unwrap_err().to_string();
        assert_eq!(error, "headers: `x-key` cannot be sent");
        config.headers = token("secret");
        let shown = format!("{:?}", services.validator(&config).unwrap());
        assert!(!shown.contains("secret"), "{shown}");
    }
}
