//! The client of `OpenAI`'s Chat Completions, and of every compatible server.

use crate::body::{Inbound, undecodable};
use crate::config::{Endpoint, Limits, OpenAiConfig, OpenAiOptions, ProviderConfigError};
use crate::connection::{Connector, Pooling};
use crate::encoding::Decoding;
use crate::transport::Transport;
use crate::wire::classify::{Reply, classify};
use crate::wire::openai::{StreamDecoder, decode_answer, encode_request_for};
use crate::wire::{EventDecoder, Server, StreamLimits, events_of};
use bytes::Bytes;
use evenkeel_core::{
    Accumulator, ChatResponse, Class, Clock, EventStream, Failure, KeySource, Provider,
    ProviderCall, StreamEvent,
};
use futures_util::stream;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    USER_AGENT,
};
use http::{Method, Request};
use http_body_util::Full;
use secrecy::{ExposeSecret, SecretString};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long the end of the body is waited for once the answer has ended, so
/// that the connection can be used again. It comes with the last event, or
/// right behind it.
const DRAIN_WAIT: Duration = Duration::from_millis(10);

/// A client of one endpoint that speaks `OpenAI`'s dialect.
///
/// It sends its own key and never the caller's headers, asks for no
/// compression, follows no redirect, and makes one upstream request per call.
/// Of the clocks it keeps `connect_ms`; the others are the caller's, who drops
/// the future or stream and so closes the connection.
#[derive(Debug)]
pub struct OpenAi {
    endpoint: Endpoint,
    transport: Transport,
    key: Arc<dyn KeySource>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    propagate: bool,
}

/// A reply whose headers have come.
struct Answer {
    headers: HeaderMap,
    status: u16,
    body: Inbound,
    key: Option<SecretString>,
}

/// What the content type says a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Json,
    Events,
    Page,
    Lines,
    /// Not said, or something vague.
    Unknown,
}

impl OpenAi {
    /// A client with the usual options.
    ///
    /// # Errors
    /// Where the address cannot be used.
    pub fn new(config: OpenAiConfig) -> Result<Self, ProviderConfigError> {
        Self::with_options(config, OpenAiOptions::default())
    }

    /// A client with options of its own.
    ///
    /// # Errors
    /// Where the address or the certificates cannot be used.
    pub fn with_options(
        config: OpenAiConfig,
        options: OpenAiOptions,
    ) -> Result<Self, ProviderConfigError> {
        let endpoint = Endpoint::new(&config.base_url, &options)?;
        let connector = Connector::new(&options)?;
        let pooling = Pooling::of(&endpoint, &options);
        Ok(Self {
            transport: Transport::new(&connector, pooling, endpoint.authority.clone()),
            endpoint,
            key: config.key,
            clock: options.clock,
            limits: options.limits,
            propagate: config.propagate,
        })
    }

    /// Who serves the endpoint, as given or guessed.
    pub fn server(&self) -> Server {
        self.endpoint.server
    }

    async fn ask(&self, call: &ProviderCall, stream: bool) -> Result<Answer, Failure> {
        let key = self
            .key
            .key()
            .map_err(|e| Failure::new(Class::Auth, e.to_string()).with_source(e))?;
        let request = self.request(call, stream, key.as_ref())?;
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
        };
        if head.status.is_success() {
            return Ok(answer);
        }
        let body = answer.body.collect_error(&answer.headers).await;
        let reply = Reply::new(self.endpoint.server, answer.status, &body)
            .with_headers(&answer.headers)
            .at(self.clock.now())
            .with_key(answer.key.as_ref());
        Err(classify(&reply))
    }

    fn request(
        &self,
        call: &ProviderCall,
        stream: bool,
        key: Option<&SecretString>,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let body = encode_request_for(self.endpoint.server, &call.request, &call.model, stream);
        let mut request = Request::new(Full::new(Bytes::from(body.to_string())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.chat.clone();
        let headers = request.headers_mut();
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
        if let Some(key) = key {
            let (name, value) = self.credential(key)?;
            headers.insert(name, value);
        }
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
        Ok(request)
    }

    fn credential(&self, key: &SecretString) -> Result<(HeaderName, HeaderValue), Failure> {
        let key = key.expose_secret();
        let (name, value) = match self.endpoint.server {
            Server::Azure => (HeaderName::from_static("api-key"), key.to_owned()),
            _ => (AUTHORIZATION, format!("Bearer {key}")),
        };
        let mut value = HeaderValue::try_from(value).map_err(|_| {
            let message = "the configured key holds characters that no header can carry";
            Failure::new(Class::Auth, message)
        })?;
        value.set_sensitive(true);
        Ok((name, value))
    }

    fn decoder(&self, key: Option<SecretString>) -> StreamDecoder {
        let limits = StreamLimits {
            max_event_bytes: self.limits.max_event_bytes,
            max_answer_bytes: self.limits.max_answer_bytes,
        };
        StreamDecoder::with_limits(self.endpoint.server, limits).with_key(key)
    }

    /// A body that is to be read as one document.
    async fn whole(&self, answer: Answer) -> Result<ChatResponse, Failure> {
        let content = Content::of(&answer.headers);
        let body = answer
            .body
            .collect(&answer.headers, self.limits.max_answer_bytes)
            .await
            .map_err(|failure| failure.with_status(answer.status))?;
        if content == Content::Events {
            return self.added_up(&body, answer.key);
        }
        let reply = Reply::new(self.endpoint.server, answer.status, &body)
            .with_headers(&answer.headers)
            .at(self.clock.now())
            .with_key(answer.key.as_ref());
        decode_answer(&reply)
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

    fn events(&self, answer: Answer) -> Result<EventStream, Failure> {
        let decoding = Decoding::of(&answer.headers, self.limits.max_event_bytes)
            .map_err(|e| undecodable(e).with_status(answer.status))?;
        let events = Events {
            body: Some(answer.body),
            decoding,
            decoder: self.decoder(answer.key),
            ready: VecDeque::new(),
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
impl Provider for OpenAi {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        let answer = self.ask(&call, false).await?;
        self.whole(answer).await
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        let answer = self.ask(&call, true).await?;
        match Content::of(&answer.headers) {
            Content::Events | Content::Unknown => self.events(answer),
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

impl Content {
    fn of(headers: &HeaderMap) -> Self {
        let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let value = String::from_utf8_lossy(value.unwrap_or_default()).to_ascii_lowercase();
        let kind = value.split(';').next().unwrap_or_default().trim();
        match kind {
            "text/event-stream" => Self::Events,
            "text/html" | "application/xhtml+xml" => Self::Page,
            "application/x-ndjson" | "application/jsonl" => Self::Lines,
            kind if kind == "application/json" || kind.ends_with("+json") => Self::Json,
            _ => Self::Unknown,
        }
    }
}

/// A stream being read.
struct Events {
    /// None once everything is read, or the connection given up.
    body: Option<Inbound>,
    decoding: Decoding,
    decoder: StreamDecoder,
    ready: VecDeque<Result<StreamEvent, Failure>>,
    after_finish: Duration,
    /// When a stream that has told its finish reason counts as ended.
    ends: Option<Instant>,
}

impl Events {
    async fn next(&mut self) -> Option<Result<StreamEvent, Failure>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.decoder.is_over() {
                return None;
            }
            self.read().await;
            if self.decoder.is_over() {
                self.drain().await;
            }
        }
    }

    async fn read(&mut self) {
        let Some(body) = &mut self.body else {
            self.ready.extend(self.decoder.finish());
            return;
        };
        let read = if self.decoder.is_complete() {
            // Only the terminator is missing, and some servers never send it.
            let ends = *self
                .ends
                .get_or_insert_with(|| Instant::now() + self.after_finish);
            tokio::time::timeout_at(ends, body.next())
                .await
                .unwrap_or(Ok(None))
        } else {
            body.next().await
        };
        match read {
            Ok(Some(bytes)) => self.decode(&bytes),
            Ok(None) => {
                self.body = None;
                self.ready.extend(self.decoder.finish());
            }
            // A finish reason was seen: the answer is whole all the same.
            Err(_) if self.decoder.is_complete() => {
                self.body = None;
                self.ready.extend(self.decoder.finish());
            }
            Err(failure) => self.fail(failure),
        }
    }

    fn decode(&mut self, bytes: &[u8]) {
        let (decoder, ready) = (&mut self.decoder, &mut self.ready);
        let result = self.decoding.decode(bytes, |decoded| {
            ready.extend(decoder.push(decoded));
            !decoder.is_over()
        });
        if let Err(error) = result
            && !self.decoder.is_over()
        {
            self.fail(undecodable(error));
        }
    }

    /// Ends the stream as the transport did. What was held may still complete
    /// the answer, or say why it broke.
    fn fail(&mut self, failure: Failure) {
        self.body = None;
        let mut held = self.decoder.finish();
        let unexplained = match held.last() {
            Some(Ok(StreamEvent::End)) => false,
            Some(Err(told)) => told.code.is_none(),
            _ => true,
        };
        if unexplained {
            held.retain(Result::is_ok);
            held.push(Err(failure));
        }
        self.ready.extend(held);
    }

    /// Reads the end of the body, so that the connection can be used again.
    async fn drain(&mut self) {
        let Some(mut body) = self.body.take() else {
            return;
        };
        let failed = self.ready.back().is_some_and(Result::is_err);
        if !failed {
            // A time-out or a break only costs the connection.
            let _ = tokio::time::timeout(DRAIN_WAIT, body.next()).await;
        }
    }
}
