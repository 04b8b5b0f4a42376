//! `POST /v1/chat/completions`.

use crate::answer::{completion, put_failure, put_meta, put_request_id, put_role, spent_upstream};
use crate::app::App;
use crate::body;
use crate::context::{call_context, is_off};
use crate::error::ApiError;
use crate::events::{EventBody, Opening, Wording};
use crate::reply;
use crate::telemetry::{self, put_trace, traced};
use crate::tickets::client::{Wanted, again, told};
use crate::trust::{baggage, put_baggage};
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use evenkeel_core::{Baggage, CallContext, DegradationContext, ModelId, TraceContext, Trail};
use evenkeel_providers::wire::ClientRequest;
use evenkeel_providers::wire::openai::decode_request;
use evenkeel_router::{CallError, CallErrorKind, PassTo};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// What it is served on.
const ROUTE: &str = "/v1/chat/completions";

/// Bodies from this size on, in bytes, are decoded off the runtime's threads:
/// a megabyte of JSON takes some milliseconds, in which nothing else would run.
const LARGE_BODY: usize = 256 * 1024;

/// The `heartbeat_after_ms` of a pass to a model, which has no role: the default.
const PASS_HEARTBEAT_AFTER: Duration = Duration::from_secs(10);

/// Answers a chat request, whole or as a stream.
pub(crate) async fn completions(
    State(app): State<Arc<App>>,
    request: Request<Body>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let id = app.ids.of(&parts.headers);
    let (method, headers) = (parts.method.as_str(), &parts.headers);
    let mut span = telemetry::begin(app.spans.as_ref(), method, ROUTE, headers, now());
    let trace = span.as_ref().map(|span| span.context().clone());
    let mut response = match answer(&app, &parts, body, id.clone(), trace).await {
        Ok(response) => response,
        Err(refusal) => {
            tracing::info!(
                event = "request_refused",
                request_id = %id,
                http.response.status_code = refusal.status().as_u16(),
                code = refusal.code(),
            );
            refusal.into_response()
        }
    };
    put_request_id(response.headers_mut(), &id);
    put_trace(&mut response, None, span.as_ref());
    if let Some(span) = &mut span {
        span.answered(response.status().as_u16(), &id);
    }
    traced(response, span)
}

/// The answer of the role that is asked, be it an error; `Err` is a request
/// that never came to a role.
async fn answer(
    app: &App,
    parts: &Parts,
    body: Body,
    id: Arc<str>,
    trace: Option<TraceContext>,
) -> Result<Response<Body>, ApiError> {
    let headers = &parts.headers;
    let Some(caller) = app.served().keys.admit(headers) else {
        body::discard(body, headers).await;
        return Err(ApiError::invalid_client_key());
    };
    if !app.admits_calls() {
        body::discard(body, headers).await;
        return Err(ApiError::audit_unavailable());
    }
    let most = app.served().max_body_bytes;
    let body = body::read(body, headers, most, &app.limits).await?;
    let begun = now();
    let mut context = call_context(headers, id.clone())?;
    context.caller = caller.id().cloned();
    // The span of the request, where there is one, is the call's parent.
    context.trace = trace.or(context.trace);
    let baggage = baggage(headers);
    if app.served().trust.covers(&caller, &parts.extensions) {
        context.degradation = baggage.degradation();
        context.baggage = baggage.clone();
    }
    let off = is_off(headers)?;
    let asked = decode(body).await?;
    let pass = pass_to(app.served().allow_pass, off, &asked.model)?;
    let wanted = Wanted::of(headers, &asked);
    if pass.is_none()
        && let Some(known) = again(app, &asked, &context, wanted).await?
    {
        return Ok(known);
    }
    let call = Call {
        app,
        begun,
        role: asked.model.clone(),
        pass,
        wanted,
        id,
        baggage,
        before: context.degradation.clone(),
    };
    if asked.stream {
        call.stream(asked, context).await
    } else {
        call.whole(asked, context).await
    }
}

/// The model that is to be asked with no routing: that of the name where it is
/// a model's, which no role's name can be, or the role's primary.
fn pass_to(allowed: bool, off: bool, asked: &str) -> Result<Option<PassTo>, ApiError> {
    match ModelId::new(asked) {
        Ok(model) if allowed => Ok(Some(PassTo::Model(model))),
        _ if !off => Ok(None),
        _ if !allowed => Err(ApiError::pass_not_allowed()),
        _ => Ok(Some(PassTo::PrimaryOf(asked.to_owned()))),
    }
}

/// Reads the request, off the runtime's threads where that takes long.
async fn decode(body: Bytes) -> Result<ClientRequest, ApiError> {
    if body.len() < LARGE_BODY {
        return read(&body);
    }
    tokio::task::spawn_blocking(move || read(&body))
        .await
        .map_err(|_| ApiError::internal())?
}

fn read(body: &[u8]) -> Result<ClientRequest, ApiError> {
    if let Err(error) = std::str::from_utf8(body) {
        let at = error.valid_up_to();
        let message = format!("the request body is not valid UTF-8: byte {at} begins no character");
        return Err(ApiError::bad_request("invalid_utf8", message, None));
    }
    decode_request(body).map_err(|error| {
        let code = error.code.unwrap_or("invalid_request");
        ApiError::bad_request(code, error.message, error.param)
    })
}

/// One call of a role.
struct Call<'a> {
    app: &'a App,
    /// When the request was complete.
    begun: Instant,
    role: String,
    /// The model that is asked with no routing, if the caller wants that.
    pass: Option<PassTo>,
    /// What the client takes in place of an answer.
    wanted: Wanted,
    id: Arc<str>,
    /// What the request carried.
    baggage: Baggage,
    /// What the answers it builds on have lost, as far as its sender is believed.
    before: DegradationContext,
}

impl Call<'_> {
    async fn whole(
        &self,
        asked: ClientRequest,
        context: CallContext,
    ) -> Result<Response<Body>, ApiError> {
        let called = now();
        let router = &self.app.router;
        let answered = match &self.pass {
            Some(to) => router.pass(to, asked.request, context).await,
            None => router.complete(&self.role, asked.request, context).await,
        };
        let answer = match answered {
            Ok(answer) => answer,
            Err(error) => return self.failed(&error).await,
        };
        let served = self.app.served();
        let body = completion(answer.response, &answer.meta, &served.meta_key, &self.id);
        let mut response = reply::json(StatusCode::OK, body.to_string());
        let overhead = self.overhead(called, &answer.trail);
        put_meta(response.headers_mut(), &answer.meta, overhead);
        put_trace(&mut response, answer.trace.as_ref(), None);
        let baggage = self.baggage.write(&answer.degradation);
        put_baggage(response.headers_mut(), baggage);
        Ok(response)
    }

    async fn stream(
        &self,
        asked: ClientRequest,
        context: CallContext,
    ) -> Result<Response<Body>, ApiError> {
        let called = now();
        let wording = Wording {
            id: format!("chatcmpl-{}", self.id),
            meta_key: self.app.served().meta_key.clone(),
            include_usage: asked.include_usage,
        };
        let mut opening = self.open(asked, context);
        let patience = self.app.router.heartbeat_after(&self.role);
        let patience = patience.unwrap_or(PASS_HEARTBEAT_AFTER);
        let stream = match timeout(patience, &mut opening).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return self.failed(&error).await,
            Err(_) => {
                let body = EventBody::opening(opening, patience, wording);
                let mut response = event_stream(body);
                // Who answers is not known yet.
                put_role(response.headers_mut(), &self.role);
                return Ok(response);
            }
        };
        let meta = stream.meta().clone();
        let baggage = self.baggage.write(&stream.degradation());
        let overhead = self.overhead(called, &stream.trail());
        let trace = stream.trace().cloned();
        let mut response = event_stream(EventBody::new(stream, wording));
        put_trace(&mut response, trace.as_ref(), None);
        let headers = response.headers_mut();
        put_meta(headers, &meta, overhead);
        put_baggage(headers, baggage);
        Ok(response)
    }

    /// Asks the role for a stream, on its own legs: its headers may go out first.
    fn open(&self, asked: ClientRequest, context: CallContext) -> Opening {
        let router = self.app.router.clone();
        let (role, pass) = (self.role.clone(), self.pass.clone());
        Box::pin(async move {
            match &pass {
                Some(to) => router.pass_stream(to, asked.request, context).await,
                None => router.stream(&role, asked.request, context).await,
            }
        })
    }

    /// The answer to a call that failed; `Err` where it never came to a role.
    async fn failed(&self, error: &CallError) -> Result<Response<Body>, ApiError> {
        if let CallErrorKind::UnknownRole(role) = &error.kind {
            let roles = self.app.router.roles();
            let roles = roles.iter().map(String::as_str);
            return Err(ApiError::unknown_role(role, roles));
        }
        let answer = ApiError::from_call(error);
        let mut response = match &error.kind {
            CallErrorKind::Queued { ticket, .. } => {
                told(self.app, ticket, self.wanted, Some(answer)).await
            }
            _ => answer.into_response(),
        };
        put_trace(&mut response, error.trace.as_ref(), None);
        let headers = response.headers_mut();
        put_failure(headers, &self.role, error);
        put_baggage(headers, self.baggage.write(&self.before));
        Ok(response)
    }

    /// What the gateway took for itself, of a call that was handed to the
    /// router at `called`.
    fn overhead(&self, called: Instant, trail: &Trail) -> Duration {
        let now = now();
        let upstream = spent_upstream(trail, now - called);
        (now - self.begun).saturating_sub(upstream)
    }
}

/// An answer of server-sent events.
fn event_stream(body: EventBody) -> Response<Body> {
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream; charset=utf-8"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx holds a stream back otherwise.
    let buffering = HeaderName::from_static("x-accel-buffering");
    headers.insert(buffering, HeaderValue::from_static("no"));
    response
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
