//! What a caller sees of its tickets: `/v1/evenkeel/tickets/{id}`, and the answer
//! to a call that became one.

use super::address::put_location;
use super::error::Fault;
use super::record::Record;
use super::replay;
use super::store::{Changed, Wish};
use crate::app::App;
use crate::error::ApiError;
use crate::reply;
use axum::body::Body;
use axum::extract::{Path, State};
use evenkeel_core::{CallContext, TicketError, TicketId, TicketState};
use evenkeel_providers::wire::ClientRequest;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use std::sync::Arc;

/// A client that knows tickets says so with this header, or with
/// `Prefer: respond-async` (RFC 7240).
const ACCEPT_TICKET: &str = "x-evenkeel-accept-ticket";
const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const RESPOND_ASYNC: &str = "respond-async";
/// When it makes sense to ask for an open ticket again, in seconds.
const ASK_AGAIN: u64 = 10;

/// What a client takes in place of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// A ticket. `OpenAI`'s clients read any 2xx as an answer, so nobody is given
    /// one who has not asked.
    ticket: bool,
    stream: bool,
    include_usage: bool,
}

impl Wanted {
    pub(crate) fn of(headers: &HeaderMap, asked: &ClientRequest) -> Self {
        Self {
            ticket: accepts_ticket(headers),
            stream: asked.stream,
            include_usage: asked.include_usage,
        }
    }
}

/// Whether the client says that it knows tickets.
fn accepts_ticket(headers: &HeaderMap) -> bool {
    let prefers = headers
        .get_all(PREFER)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split([',', ';']))
        .any(|token| token.trim().eq_ignore_ascii_case(RESPOND_ASYNC));
    let says = headers
        .get(ACCEPT_TICKET)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"));
    prefers || says
}

/// The answer to a request whose idempotency key has made a ticket before; none
/// where it has not: then the request is asked as any other.
pub(crate) async fn again(
    app: &App,
    asked: &ClientRequest,
    context: &CallContext,
    wanted: Wanted,
) -> Result<Option<Response<Body>>, ApiError> {
    let (Some(tickets), Some(key)) = (&app.tickets, &context.idempotency_key) else {
        return Ok(None);
    };
    let caller = context.caller.as_deref();
    match tickets
        .known(caller, key, &asked.model, &asked.request)
        .await
    {
        Ok(None) => Ok(None),
        Ok(Some(known)) => Ok(Some(told(app, &known.ticket, wanted, None).await)),
        Err(error @ TicketError::KeyReused { .. }) => Err(ApiError::key_reused(&error)),
        Err(error) => {
            // Clients send keys by themselves: live calls go on without tickets.
            tracing::error!(event = "ticket_store_failed", doing = "read", %error);
            Ok(None)
        }
    }
}

/// What a client is told of a ticket in place of an answer: the answer where it
/// is there, else the ticket if the client takes one, else an error, `error`
/// where there is one of the call itself.
pub(crate) async fn told(
    app: &App,
    id: &TicketId,
    wanted: Wanted,
    error: Option<ApiError>,
) -> Response<Body> {
    let found = match &app.tickets {
        Some(tickets) => tickets.find(id.clone(), None).await,
        None => Ok(None),
    };
    let Ok(Some(record)) = found else {
        return error
            .unwrap_or_else(ApiError::ticket_store_failed)
            .into_response();
    };
    match record.state {
        TicketState::Answered => answered(app, &record, wanted),
        TicketState::Queued | TicketState::Escalated if wanted.ticket => accepted(&record),
        TicketState::Queued | TicketState::Escalated => error
            .unwrap_or_else(|| ApiError::still_queued(id))
            .into_response(),
        TicketState::Failed | TicketState::Dropped => {
            ApiError::ticket_ended(record.state).into_response()
        }
    }
}

/// The ticket's answer as the answer to the call.
fn answered(app: &App, record: &Record, wanted: Wanted) -> Response<Body> {
    let answer = record.answer.as_deref().unwrap_or_default();
    if !wanted.stream {
        return reply::json(StatusCode::OK, answer.to_owned());
    }
    match replay::events(answer, &app.served().meta_key, wanted.include_usage) {
        Ok(events) => {
            let mut response = Response::new(Body::from(events));
            response.headers_mut().insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static("text/event-stream; charset=utf-8"),
            );
            response
        }
        Err(failure) => ApiError::from_failure(&failure).into_response(),
    }
}

/// 202 with the ticket, for a client that has asked for it.
fn accepted(record: &Record) -> Response<Body> {
    let mut response = shown(StatusCode::ACCEPTED, record);
    put_location(response.headers_mut(), &record.id);
    response
        .headers_mut()
        .insert(PREFERENCE_APPLIED, HeaderValue::from_static(RESPOND_ASYNC));
    response
}

/// `GET`: how the ticket stands, and its answer once it is there.
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response<Body> {
    match find(&app, &id, &headers).await {
        Ok(record) => shown(StatusCode::OK, &record),
        Err(error) => error.into_response(),
    }
}

async fn find(app: &App, id: &str, headers: &HeaderMap) -> Result<Record, ApiError> {
    let (tickets, id, caller) = asked(app, id, headers)?;
    let found = tickets.find(id, Some(caller)).await;
    found
        .map_err(|fault| failed(&fault))?
        .ok_or_else(ApiError::no_such_ticket)
}

/// `DELETE`: the caller needs no answer any more.
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response<Body> {
    match drop_ticket(&app, &id, &headers).await {
        Ok(record) => shown(StatusCode::OK, &record),
        Err(error) => error.into_response(),
    }
}

async fn drop_ticket(app: &App, id: &str, headers: &HeaderMap) -> Result<Record, ApiError> {
    let (tickets, id, caller) = asked(app, id, headers)?;
    if !app.admits_calls() {
        return Err(ApiError::audit_unavailable());
    }
    let changed = tickets.change(id, Some(caller), Wish::Drop).await;
    match changed.map_err(|fault| failed(&fault))? {
        Changed::Done(record) => Ok(*record),
        Changed::Not(record) if record.state == TicketState::Dropped => Ok(*record),
        Changed::Not(record) => Err(ApiError::ticket_closed(record.state)),
        Changed::Unknown => Err(ApiError::no_such_ticket()),
    }
}

/// Who asks for which ticket. Somebody else's ticket and none look the same.
fn asked<'a>(
    app: &'a App,
    id: &str,
    headers: &HeaderMap,
) -> Result<(&'a super::Tickets, TicketId, String), ApiError> {
    let caller = app.served().keys.admit(headers);
    let caller = caller.ok_or_else(ApiError::invalid_client_key)?;
    let caller = caller.id().map(ToString::to_string).unwrap_or_default();
    let tickets = app
        .tickets
        .as_deref()
        .ok_or_else(ApiError::no_such_ticket)?;
    let id = TicketId::new(id).map_err(|_| ApiError::no_such_ticket())?;
    Ok((tickets, id, caller))
}

/// The store failed: whoever asked hears no more than that.
pub(crate) fn failed(fault: &Fault) -> ApiError {
    tracing::error!(event = "ticket_store_failed", doing = "read", error = %fault);
    ApiError::ticket_store_failed()
}

pub(crate) fn shown(status: StatusCode, record: &Record) -> Response<Body> {
    let mut response = reply::json(status, record.shown().to_string());
    if record.state.is_open() {
        let wait = HeaderValue::from(ASK_AGAIN);
        response.headers_mut().insert(header::RETRY_AFTER, wait);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_says_that_it_knows_tickets() {
        let says = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            accepts_ticket(&headers)
        };
        for (name, value) in [
            ("prefer", "respond-async"),
            ("prefer", "wait=10, Respond-Async"),
            ("prefer", "respond-async; foo"),
            (ACCEPT_TICKET, "true"),
        ] {
            assert!(says(name, value), "{name}: {value}");
        }
        for (name, value) in [
            ("prefer", "wait=10"),
            ("prefer", "respond-asynchronously"),
            (ACCEPT_TICKET, "false"),
            (ACCEPT_TICKET, ""),
        ] {
            assert!(!says(name, value), "{name}: {value}");
        }
        assert!(!accepts_ticket(&HeaderMap::new()));
    }
}
