//! What operators do with tickets: list, read, answer, retry, drop.

use super::Tickets;
use super::client::{failed, shown};
use super::record::Record;
use super::store::{Changed, Wish};
use crate::app::{ADMIN, App};
use crate::body;
use crate::clock::unix_seconds;
use crate::error::ApiError;
use crate::reply;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::routing::{get, post};
use evenkeel_core::{ChatResponse, Extra, Finish, Part, TicketId, TicketState};
use evenkeel_providers::wire::Server;
use evenkeel_providers::wire::openai::{DIALECT, decode_response, encode_response};
use http::{Response, StatusCode, Uri};
use serde_json::{Value, json};
use std::sync::Arc;

/// Tickets in a list, unless `limit` says otherwise; and the most it may say.
const LISTED: (u32, u32) = (100, 1_000);
/// Who an operator's answer comes from.
const OPERATOR: &str = "operator";

/// `/admin/tickets` and below.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/admin/tickets", get(list))
        .route("/admin/tickets/{id}", get(read))
        .route("/admin/tickets/{id}/answer", post(answer))
        .route("/admin/tickets/{id}/retry", post(retry))
        .route("/admin/tickets/{id}/drop", post(drop_ticket))
}

fn respond(said: Result<Response<Body>, ApiError>) -> Response<Body> {
    said.unwrap_or_else(ApiError::into_response)
}

fn tickets(app: &App) -> Result<&Tickets, ApiError> {
    app.tickets.as_deref().ok_or_else(ApiError::no_such_ticket)
}

fn id(text: &str) -> Result<TicketId, ApiError> {
    TicketId::new(text).map_err(|_| ApiError::no_such_ticket())
}

async fn list(State(app): State<Arc<App>>, uri: Uri) -> Response<Body> {
    respond(listed(&app, uri.query().unwrap_or_default()).await)
}

/// `?state=…&role=…&limit=…`, the newest first.
async fn listed(app: &App, query: &str) -> Result<Response<Body>, ApiError> {
    let (mut state, mut role, mut most) = (None, None, LISTED.0);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "state" => {
                let named = TicketState::named(value);
                let expected = TicketState::ALL.map(TicketState::as_str).join(", ");
                state = Some(named.ok_or_else(|| bad_query(name, &format!("one of {expected}")))?);
            }
            "role" => role = Some(value.to_owned()),
            "limit" => {
                let limit = value.parse().ok().filter(|n| (1..=LISTED.1).contains(n));
                most = limit.ok_or_else(|| bad_query(name, &format!("1 to {}", LISTED.1)))?;
            }
            _ => return Err(bad_query(name, "state, role or limit")),
        }
    }
    let Some(tickets) = app.tickets.as_deref() else {
        return Ok(reply::ok(&json!({ "tickets": [] })));
    };
    let found = tickets.list(state, role, most).await;
    let found = found.map_err(|fault| failed(&fault))?;
    let shown: Vec<Value> = found.iter().map(for_operator).collect();
    Ok(reply::ok(&json!({ "tickets": shown })))
}

fn bad_query(name: &str, expected: &str) -> ApiError {
    let message = format!("`{name}` must be {expected}");
    ApiError::bad_request("invalid_value", message, Some(name.to_owned()))
}

/// What an operator sees beside what the caller sees: whose it is.
fn for_operator(record: &Record) -> Value {
    let mut shown = record.shown();
    shown["caller"] = record.caller.as_str().into();
    shown["escalated"] = record.escalated.into();
    shown
}

async fn read(State(app): State<Arc<App>>, Path(text): Path<String>) -> Response<Body> {
    respond(with_request(&app, &text).await)
}

/// The ticket, and what was asked: an operator cannot answer otherwise.
async fn with_request(app: &App, text: &str) -> Result<Response<Body>, ApiError> {
    let (tickets, id) = (tickets(app)?, id(text)?);
    let found = tickets.find(id.clone(), None).await;
    let record = found.map_err(|fault| failed(&fault))?;
    let record = record.ok_or_else(ApiError::no_such_ticket)?;
    let request = tickets.request(id).await.map_err(|fault| failed(&fault))?;
    let mut shown = for_operator(&record);
    if let Some(Ok(request)) = request.as_deref().map(serde_json::from_str::<Value>) {
        shown["request"] = request;
    }
    Ok(reply::ok(&shown))
}

async fn retry(State(app): State<Arc<App>>, Path(text): Path<String>) -> Response<Body> {
    respond(change(&app, &text, Wish::Retry).await)
}

async fn drop_ticket(State(app): State<Arc<App>>, Path(text): Path<String>) -> Response<Body> {
    respond(change(&app, &text, Wish::Drop).await)
}

async fn answer(
    State(app): State<Arc<App>>,
    Path(text): Path<String>,
    request: Request,
) -> Response<Body> {
    respond(answered(&app, &text, request).await)
}

async fn answered(app: &App, text: &str, request: Request) -> Result<Response<Body>, ApiError> {
    let (parts, body) = request.into_parts();
    let body = body::read(
        body,
        &parts.headers,
        app.served().max_body_bytes,
        &app.limits,
    )
    .await?;
    let mut response = written(&body)?;
    if response.id.is_empty() {
        response.id = format!("chatcmpl-{text}");
    }
    if response.created == 0 {
        response.created = unix_seconds();
    }
    let mut completion = encode_response(&response, OPERATOR);
    completion[app.served().meta_key.as_str()] = json!({
        "route": OPERATOR,
        "degraded": true,
        "fallback_reason": "roster_exhausted",
    });
    change(app, text, Wish::Answer(completion)).await
}

/// `{"text": "…"}`, or a whole chat completion, which may also call tools.
fn written(body: &[u8]) -> Result<ChatResponse, ApiError> {
    let said: Value = serde_json::from_slice(body).map_err(|error| {
        let message = format!("the body is not valid JSON: {error}");
        ApiError::bad_request("invalid_json", message, None)
    })?;
    let response = if said.get("choices").is_some() {
        let read = decode_response(body, Server::default());
        read.map_err(|failure| unusable(failure.message))?
    } else {
        let text = said["text"].as_str().ok_or_else(|| {
            let message = "say `text`, or send a chat completion with its `choices`";
            let param = Some("text".to_owned());
            ApiError::bad_request("missing_required_parameter", message, param)
        })?;
        ChatResponse {
            id: String::new(),
            model: OPERATOR.to_owned(),
            created: 0,
            parts: vec![Part::Text(text.to_owned())],
            finish: Finish::Stop,
            usage: None,
            adapted: Vec::new(),
            rate_limits: None,
            extra: Extra {
                dialect: DIALECT,
                ..Extra::default()
            },
        }
    };
    // The same that is asked of a model's answer.
    response
        .verify()
        .map_err(|failure| unusable(failure.message))?;
    Ok(response)
}

fn unusable(message: String) -> ApiError {
    ApiError::bad_request("invalid_value", message, None)
}

async fn change(app: &App, text: &str, wish: Wish) -> Result<Response<Body>, ApiError> {
    if !app.admits_calls() {
        return Err(ApiError::audit_unavailable());
    }
    let action = match &wish {
        Wish::Retry => "retry_ticket",
        Wish::Drop => "drop_ticket",
        Wish::Answer(_) => "answer_ticket",
    };
    let changed = tickets(app)?.change(id(text)?, None, wish).await;
    match changed.map_err(|fault| failed(&fault))? {
        Changed::Done(record) => {
            let operator = app.router.operator(ADMIN);
            operator.acted(action, record.id.as_str());
            Ok(shown(StatusCode::OK, &record))
        }
        Changed::Not(record) => Err(ApiError::ticket_closed(record.state)),
        Changed::Unknown => Err(ApiError::no_such_ticket()),
    }
}
