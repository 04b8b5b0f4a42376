//! The markers of an error body, whatever its shape.

use super::{Reply, wait};
use crate::wire::json;
use serde_json::{Map, Value};
use std::time::Duration;

/// What the rules look at.
#[derive(Debug, Default)]
pub(super) struct Detail {
    /// The HTTP status; inside an answer, what the error object says instead.
    pub(super) status: Option<u16>,
    pub(super) kind: String,
    pub(super) code: String,
    /// gRPC status name.
    pub(super) grpc: String,
    /// `details.error_code`.
    pub(super) error_code: String,
    pub(super) inner_code: String,
    pub(super) message: String,
    /// The field of the request that is named as the cause.
    pub(super) param: String,
    /// `ErrorInfo.reason`.
    pub(super) reasons: Vec<String>,
    /// `QuotaFailure.violations[].quotaId`.
    pub(super) quotas: Vec<String>,
    pub(super) retry_delay: Option<Duration>,
    /// `OpenRouter`: whose limit it was.
    pub(super) limit_source: String,
    /// `OpenRouter`: whether moderation gave its reasons.
    pub(super) moderated: bool,
    pub(super) is_json: bool,
}

impl Detail {
    pub(super) fn read(reply: &Reply<'_>) -> Self {
        let mut detail = match json::parse(reply.body) {
            Ok(body) => Self::of(body),
            Err(_) => Self {
                message: String::from_utf8_lossy(reply.body).into_owned(),
                ..Self::default()
            },
        };
        let own = detail.status.take();
        detail.status = if (200..300).contains(&reply.status) {
            status_in_answer(&detail, own)
        } else {
            Some(reply.status)
        };
        detail
    }

    fn of(mut body: Value) -> Self {
        if let Value::Array(items) = &mut body
            && items.len() == 1
        {
            body = items.swap_remove(0);
        }
        let mut fields = match body {
            Value::Object(fields) => fields,
            other => return Self::of_text(other.to_string()),
        };
        let error = match fields.shift_remove("error") {
            Some(Value::String(message)) => return Self::of_text(message),
            Some(Value::Object(error)) => error,
            Some(Value::Array(mut errors)) if errors.len() == 1 => match errors.swap_remove(0) {
                Value::Object(error) => error,
                other => return Self::of_text(other.to_string()),
            },
            Some(other) if !other.is_null() && fields.is_empty() => {
                return Self::of_text(other.to_string());
            }
            _ => fields,
        };
        Self::of_error(&error)
    }

    fn of_text(message: String) -> Self {
        Self {
            message,
            is_json: true,
            ..Self::default()
        }
    }

    fn of_error(error: &Map<String, Value>) -> Self {
        let message = ["message", "detail"]
            .iter()
            .find_map(|name| error.get(*name).filter(|v| !v.is_null()))
            .map(scalar_or_json)
            .unwrap_or_default();
        let mut detail = Self {
            status: ["status_code", "raw_status_code", "code", "status"]
                .iter()
                .find_map(|name| error_status(error.get(*name)?)),
            kind: scalar(error.get("type")),
            code: scalar(error.get("code")),
            grpc: scalar(error.get("status")),
            inner_code: scalar(error.get("innererror").and_then(|e| e.get("code"))),
            message,
            param: param(error),
            is_json: true,
            ..Self::default()
        };
        if let Some(metadata) = error.get("metadata") {
            // What the server behind the router of models said.
            if let Some(raw) = metadata.get("raw").and_then(Value::as_str) {
                detail.message = format!("{}: {raw}", detail.message);
            }
            detail.limit_source = scalar(metadata.get("limit_source"));
            detail.moderated = metadata.get("reasons").is_some();
        }
        match error.get("details") {
            Some(Value::Object(details)) => detail.error_code = scalar(details.get("error_code")),
            Some(Value::Array(details)) => details.iter().for_each(|d| detail.add_google(d)),
            _ => {}
        }
        detail
    }

    fn add_google(&mut self, entry: &Value) {
        self.reasons.extend(
            entry
                .get("reason")
                .and_then(Value::as_str)
                .map(str::to_owned),
        );
        let violations = entry.get("violations").and_then(Value::as_array);
        self.quotas.extend(
            violations
                .into_iter()
                .flatten()
                .filter_map(|v| v.get("quotaId")?.as_str().map(str::to_owned)),
        );
        if let Some(delay) = entry.get("retryDelay").and_then(Value::as_str) {
            self.retry_delay = self.retry_delay.or_else(|| wait::duration(delay));
        }
    }
}

/// The field named as the cause: OpenAI's `param`, the place of a validation
/// error (`detail[].loc`), Google's `fieldViolations[].field`.
fn param(error: &Map<String, Value>) -> String {
    let place = || {
        let loc = error.get("detail")?.get(0)?.get("loc")?.as_array()?;
        let steps: Vec<String> = loc
            .iter()
            .filter(|step| *step != "body")
            .map(|step| scalar(Some(step)))
            .collect();
        Some(steps.join("."))
    };
    let violation = || {
        let details = error.get("details")?.as_array()?;
        let mut fields = details
            .iter()
            .filter_map(|d| d.get("fieldViolations")?.get(0)?.get("field")?.as_str());
        fields.next().map(str::to_owned)
    };
    let named = scalar(error.get("param"));
    if named.is_empty() {
        place().or_else(violation).unwrap_or_default()
    } else {
        named
    }
}

fn scalar(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

fn scalar_or_json(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// An HTTP error status, as a number or in a string; anything else is none.
fn error_status(value: &Value) -> Option<u16> {
    let number = match value {
        Value::Number(number) => number.as_u64()?,
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    u16::try_from(number)
        .ok()
        .filter(|s| (400..=599).contains(s))
}

/// The status that an error inside an answer stands for.
fn status_in_answer(detail: &Detail, own: Option<u16>) -> Option<u16> {
    if detail.code == "rate_limit_exceeded" || detail.kind == "rate_limit_exceeded" {
        return Some(429);
    }
    own.or_else(|| status_of_name(&detail.kind))
        .or_else(|| status_of_name(&detail.code))
        .or_else(|| status_of_grpc(&detail.grpc))
        .or_else(|| status_in_text(&detail.message))
}

fn status_of_name(name: &str) -> Option<u16> {
    Some(match name {
        "rate_limit_error" => 429,
        "overloaded_error" | "server_is_overloaded" | "server_overloaded" => 529,
        "service_unavailable_error" => 503,
        "api_error" | "server_error" | "internal_server_error" | "InternalServerError" => 500,
        "timeout_error" | "timeout" => 504,
        "authentication_error" => 401,
        "permission_error" => 403,
        "not_found_error" | "NotFoundError" => 404,
        "billing_error" => 402,
        "invalid_request_error" | "BadRequestError" => 400,
        _ => return None,
    })
}

/// The HTTP status of a gRPC status. From `google/rpc/code.proto`.
fn status_of_grpc(name: &str) -> Option<u16> {
    Some(match name {
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE" => 400,
        "UNAUTHENTICATED" => 401,
        "PERMISSION_DENIED" => 403,
        "NOT_FOUND" => 404,
        "ABORTED" | "ALREADY_EXISTS" => 409,
        "RESOURCE_EXHAUSTED" => 429,
        "CANCELLED" => 499,
        "INTERNAL" | "UNKNOWN" | "DATA_LOSS" => 500,
        "UNIMPLEMENTED" => 501,
        "UNAVAILABLE" => 503,
        "DEADLINE_EXCEEDED" => 504,
        _ => return None,
    })
}

/// A status that a proxy left only in the text: `[HTTP 502] <!DOCTYPE …`.
fn status_in_text(message: &str) -> Option<u16> {
    let at = message.find("HTTP ")? + "HTTP ".len();
    let digits = message.get(at..at + 3)?;
    let whole = !message[at + 3..].starts_with(|c: char| c.is_ascii_alphanumeric());
    digits
        .parse()
        .ok()
        .filter(|s| whole && (400..=599).contains(s))
}
