//! The client of every dialect.

use crate::body::{Inbound, undecodable};
use crate::called::Called;
use crate::config::{ClientConfig, ClientOptions, Limits, ModelOptions, ProviderConfigError};
use crate::connection::{Connector, Pooling};
use crate::dialect::{Asked, Dialect};
use crate::encoding::Decoding;
use crate::endpoint::Endpoint;
use crate::stream::{Content, Events, own_name};
use crate::transport::Transport;
use crate::wire::classify::{Reply, classify};
use crate::wire::openai::Unwanted;
use crate::wire::{Encoded, EventDecoder, Server, StreamLimits, rate_limits};
use bytes::Bytes;
use evenkeel_core::{
    Accumulator, ChatResponse, Class, Clock, EventStream, Failure, KeySource, Part, Provider,
    ProviderCall, StreamEvent, events_of,
};
use futures_util::stream;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::uri::Scheme;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Headers that decide how a message is read, or that this client sets itself.
const OWN_HEADERS: [HeaderName; 11] = [
    ACCEPT,
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    HOST,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Models that the client remembers refusals of; a roster has fewer.
const MAX_LEARNED: usize = 1024;

/// A client of one endpoint, in the endpoint's dialect.
///
/// It sends its own key and never the caller's headers, asks for no
/// compression, follows no redirect, and makes one upstream request per call.
/// Of the clocks it keeps `connect_ms`; the others are the caller's, who drops
/// the future or stream and so closes the connection.
#[derive(Debug)]
pub struct Client {
    dialect: Dialect,
    endpoint: Endpoint,
    transport: Transport,
    key: Arc<dyn KeySource>,
    key_header: HeaderName,
    /// Sent with every request.
    headers: HeaderMap,
    models: BTreeMap<String, ModelOptions>,
    /// What models have refused of that which the caller did not say so.
    unwanted: Mutex<BTreeMap<String, Unwanted>>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    propagate: bool,
}

/// A reply whose headers have come, and what was asked.
struct Answer {
    headers: HeaderMap,
    status: u16,
    body: Inbound,
    key: Option<SecretString>,
    adapted: Vec<String>,
    tool_names: BTreeMap<String, String>,
    called: Called,
}

impl Client {
    /// A client with the usual options.
    ///
    /// # Errors
    /// Where the address cannot be used.
    pub fn new(config: ClientConfig) -> Result<Self, ProviderConfigError> {
        Self::with_options(config, ClientOptions::default())
    }

    /// A client with options of its own.
    ///
    /// # Errors
    /// Where the address, a version, a header or the certificates cannot be used.
    pub fn with_options(
        config: ClientConfig,
        options: ClientOptions,
    ) -> Result<Self, ProviderConfigError> {
        let dialect = config.dialect;
        let endpoint = Endpoint::new(dialect, &config.base_url, &options)?;
        let connector = Connector::new(&options)?;
        let pooling = Pooling::of(&endpoint, &options);
        let who = match &options.proxy {
            Some(proxy) => format!("{} (by proxy {})", endpoint.authority, proxy.address()),
            None => endpoint.authority.clone(),
        };
        let usual_header = dialect.key_header(endpoint.server, endpoint.is_vertex());
        let key_header = options.key_header.clone().unwrap_or(usual_header);
        let headers = headers(&options, &endpoint)?;
        let models = models(options.models, options.api_version.as_ref());
        for model in models.values() {
            dialect.check(model)?;
        }
        Ok(Self {
            dialect,
            transport: Transport::new(&connector, pooling, who),
            key: config.key,
            key_header,
            headers,
            models,
            unwanted: Mutex::default(),
            endpoint,
            clock: options.clock,
            limits: options.limits,
            propagate: config.propagate,
        })
    }

    /// Who serves the endpoint, as given or guessed.
    pub fn server(&self) -> Server {
        self.endpoint.server
    }

    /// The wire format it speaks.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn current_key(&self) -> Result<Option<SecretString>, Failure> {
        let key = self.key.key();
        key.map_err(|e| Failure::new(Class::Auth, e.to_string()).with_source(e))
    }

    pub(crate) async fn send(
        &self,
        request: &Request<Full<Bytes>>,
        connect: Duration,
    ) -> Result<Response<Inbound>, Failure> {
        self.transport.send(request, connect).await
    }

    async fn ask(&self, call: &ProviderCall, stream: bool) -> Result<Answer, Failure> {
        let key = self.current_key()?;
        let options = self.model_options(&call.model);
        let asked = Asked {
            server: self.endpoint.server,
            request: &call.request,
            model: &call.model,
            stream,
            options: &options,
            model_in_path: self.endpoint.names_model(),
            at_vertex: self.endpoint.is_vertex(),
            unwanted: self.unwanted(&call.model, &options),
        };
        let Encoded {
            body: asked_for,
            adapted,
            tool_names,
        } = self.dialect.encode(&asked);
        let mut request = Request::new(Full::new(Bytes::from(asked_for.to_string())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.uri(&call.model, stream)?;
        self.put_headers(&mut request, call, &asked, key.as_ref())?;
        let (head, body) = self
            .transport
            .send(&request, call.connect)
            .await?
            .into_parts();
        let answer = Answer {
            headers: head.headers,
            status: head.status.as_u16(),
            body,
            key,
            adapted,
            tool_names,
            called: Called::before(&call.request.messages),
        };
        if head.status.is_success() {
            return Ok(answer);
        }
        if head.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
            let message = "the proxy wants a user name and password, or others";
            return Err(Failure::new(Class::Unreachable, message).with_status(answer.status));
        }
        let body = answer.body.collect_error(&answer.headers).await;
        let reply = Reply::new(self.endpoint.server, answer.status, &body)
            .with_headers(&answer.headers)
            .at(self.clock.now())
            .with_key(answer.key.as_ref());
        let mut failure = classify(&reply);
        failure.own_words = self.learn(&asked, &failure, &asked_for);
        Err(failure)
    }

    /// Remembers what the model refused of that which the caller did not say
    /// so. False where it refused something else.
    fn learn(&self, asked: &Asked<'_>, refusal: &Failure, asked_for: &Value) -> bool {
        let learned = asked.unwanted.learned(refusal, asked_for);
        // The other formats have no other way to write what they write.
        if let Some(learned) = learned.filter(|_| self.dialect == Dialect::OpenAi) {
            let mut unwanted = self.lock_unwanted();
            if unwanted.len() < MAX_LEARNED || unwanted.contains_key(asked.model) {
                unwanted.insert(asked.model.to_owned(), learned);
                return true;
            }
        }
        false
    }

    /// What the model has refused so far.
    fn unwanted(&self, model: &str, options: &ModelOptions) -> Unwanted {
        let learned = self.lock_unwanted().get(model).copied();
        let mut unwanted = learned.unwrap_or_default();
        unwanted.stream_options |= options.stream_usage == Some(false);
        unwanted
    }

    fn lock_unwanted(&self) -> MutexGuard<'_, BTreeMap<String, Unwanted>> {
        self.unwanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a model: its own entry, else what holds for all.
    pub(crate) fn model_options(&self, model: &str) -> ModelOptions {
        let own = self.models.get(model).or_else(|| self.models.get(""));
        own.cloned().unwrap_or_default()
    }

    fn put_headers(
        &self,
        request: &mut Request<Full<Bytes>>,
        call: &ProviderCall,
        asked: &Asked<'_>,
        key: Option<&SecretString>,
    ) -> Result<(), Failure> {
        let headers = request.headers_mut();
        self.put_own_headers(headers, asked.stream, asked.options, key)?;
        if let Some(trace) = call.context.trace.as_ref().filter(|_| self.propagate) {
            for (name, value) in [
                ("traceparent", &trace.traceparent),
                ("tracestate", &trace.tracestate),
            ] {
                if let Ok(value) = HeaderValue::from_str(value)
                    && !value.is_empty()
                {
                    headers.insert(HeaderName::from_static(name), value);
                }
            }
        }
        let context = self.propagate.then_some(&call.context);
        let baggage = context.and_then(|context| context.baggage.write(&context.degradation));
        if let Some(Ok(value)) = baggage.map(HeaderValue::try_from) {
            headers.insert(HeaderName::from_static("baggage"), value);
        }
        Ok(())
    }

    /// What goes with every request, whatever is asked.
    pub(crate) fn put_own_headers(
        &self,
        headers: &mut HeaderMap,
        stream: bool,
        options: &ModelOptions,
        key: Option<&SecretString>,
    ) -> Result<(), Failure> {
        let accept = if stream {
            "text/event-stream, application/json"
        } else {
            "application/json"
        };
        for (name, value) in [
            (CONTENT_TYPE, "application/json"),
            (ACCEPT, accept),
            (ACCEPT_ENCODING, "identity"),
            (USER_AGENT, concat!("evenkeel/", env!("CARGO_PKG_VERSION"))),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        for (name, value) in self.dialect.headers(options) {
            headers.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        // Those of the configuration hold over those of the format.
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        if let Some(key) = key {
            headers.insert(self.key_header.clone(), self.credential(key)?);
        }
        Ok(())
    }

    fn credential(&self, key: &SecretString) -> Result<HeaderValue, Failure> {
        let key = key.expose_secret();
        let value = if self.key_header == AUTHORIZATION {
            HeaderValue::try_from(format!("Bearer {key}"))
        } else {
            HeaderValue::try_from(key)
        };
        let mut value = value.map_err(|_| {
            let message = "the configured key holds characters that no header can carry";
            Failure::new(Class::Auth, message)
        })?;
        value.set_sensitive(true);
        Ok(value)
    }

    fn decoder(&self, key: Option<SecretString>) -> Box<dyn EventDecoder> {
        let limits = StreamLimits {
            max_event_bytes: self.limits.max_event_bytes,
            max_answer_bytes: self.limits.max_answer_bytes,
        };
        self.dialect.decoder(self.endpoint.server, limits, key)
    }

    /// A body that is to be read as one document.
    async fn whole(&self, mut answer: Answer) -> Result<ChatResponse, Failure> {
        let content = Content::of(&answer.headers);
        let body = answer
            .body
            .collect(&answer.headers, self.limits.max_answer_bytes)
            .await
            .map_err(|failure| failure.with_status(answer.status))?;
        let mut response = if content == Content::Events {
            self.added_up(&body, answer.key)?
        } else {
            let reply = Reply::new(self.endpoint.server, answer.status, &body)
                .with_headers(&answer.headers)
                .at(self.clock.now())
                .with_key(answer.key.as_ref());
            self.dialect.decode_answer(&reply)?
        };
        for part in &mut response.parts {
            if let Part::ToolCall(call) = part {
                own_name(&answer.tool_names, &mut call.name);
                answer.called.add(&mut call.id);
            }
        }
        response.adapted = answer.adapted;
        response.rate_limits = rate_limits(&answer.headers, self.clock.now()).map(Box::new);
        Ok(response)
    }

    /// A stream although a whole answer was asked for.
    fn added_up(&self, body: &[u8], key: Option<SecretString>) -> Result<ChatResponse, Failure> {
        let mut decoder = self.decoder(key);
        let mut whole = Accumulator::default();
        for event in decoder.push(body).into_iter().chain(decoder.finish()) {
            whole.push(&event?);
        }
        whole.finish()
    }

    /// Whether a body of JSON is a stream all the same: an array, as Gemini's
    /// format has it where server-sent events were not heard.
    async fn is_array(&self, answer: &mut Answer) -> Result<bool, Failure> {
        if self.dialect != Dialect::Gemini || answer.headers.contains_key(CONTENT_ENCODING) {
            return Ok(false);
        }
        let begins = answer.body.begins_with(b'[').await;
        begins.map_err(|failure| failure.with_status(answer.status))
    }

    fn events(&self, answer: Answer) -> Result<EventStream, Failure> {
        let decoding = Decoding::of(&answer.headers, self.limits.max_event_bytes)
            .map_err(|e| undecodable(e).with_status(answer.status))?;
        let mut ready = VecDeque::new();
        if let Some(limits) = rate_limits(&answer.headers, self.clock.now()) {
            ready.push_back(Ok(StreamEvent::RateLimits(Box::new(limits))));
        }
        if !answer.adapted.is_empty() {
            ready.push_back(Ok(StreamEvent::Adapted(answer.adapted)));
        }
        let events = Events {
            body: Some(answer.body),
            decoding,
            decoder: self.decoder(answer.key),
            ready,
            tool_names: answer.tool_names,
            called: answer.called,
            after_finish: self.limits.after_finish,
            ends: None,
        };
        Ok(Box::pin(stream::unfold(events, |mut events| async move {
            let next = events.next().await?;
            Some((next, events))
        })))
    }
}

#[async_trait::async_trait]
impl Provider for Client {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        let answer = self.ask(&call, false).await?;
        self.whole(answer).await
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        let mut answer = self.ask(&call, true).await?;
        match Content::of(&answer.headers) {
            Content::Events | Content::Unknown => self.events(answer),
            Content::Json if self.is_array(&mut answer).await? => self.events(answer),
            Content::Json | Content::Page => {
                let response = self.whole(answer).await?;
                let mut events = events_of(&response);
                events.push(StreamEvent::End);
                Ok(Box::pin(stream::iter(events.into_iter().map(Ok))))
            }
            Content::Lines => {
                let message = "the answer is application/x-ndjson, expected text/event-stream: \
                               the address is that of another dialect";
                Err(Failure::new(Class::Malformed, message).with_status(answer.status))
            }
        }
    }
}

/// The headers that go with every request, their values marked as secrets.
fn headers(options: &ClientOptions, endpoint: &Endpoint) -> Result<HeaderMap, ProviderConfigError> {
    let mut headers = options.headers.clone();
    if let Some(name) = headers.keys().find(|name| OWN_HEADERS.contains(name)) {
        return Err(ProviderConfigError::Header(name.clone()));
    }
    let proxy = options
        .proxy
        .as_ref()
        .filter(|_| endpoint.scheme == Scheme::HTTP);
    if let Some(authorization) = proxy.and_then(|proxy| proxy.authorization.clone()) {
        headers.insert(PROXY_AUTHORIZATION, authorization);
    }
    for value in headers.values_mut() {
        value.set_sensitive(true);
    }
    Ok(headers)
}

/// What is known of models, each with the common version where it has none of
/// its own; under the empty name, what holds for the others.
fn models(
    mut models: BTreeMap<String, ModelOptions>,
    api_version: Option<&String>,
) -> BTreeMap<String, ModelOptions> {
    models.entry(String::new()).or_default();
    for model in models.values_mut() {
        model.api_version = model.api_version.take().or_else(|| api_version.cloned());
    }
    models
}
