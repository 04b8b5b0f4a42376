//! Requests that cannot be taken.

use super::ApiError;
use evenkeel_core::{TicketError, TicketState};
use http::StatusCode;
use std::time::Duration;

/// How soon the audit log may be written again: it is tried every two seconds.
const AUDIT_RETRY: Duration = Duration::from_secs(2);

impl ApiError {
    /// The request itself; `param` names the field.
    pub(crate) fn bad_request(
        code: &'static str,
        message: impl Into<String>,
        param: Option<String>,
    ) -> Self {
        Self {
            param: param.map(String::into_boxed_str),
            ..Self::new(StatusCode::BAD_REQUEST, code, message)
        }
    }

    /// A header that cannot be read.
    pub(crate) fn bad_header(name: &str, message: impl Into<String>) -> Self {
        Self::bad_request("invalid_header", message, Some(name.to_owned()))
    }

    /// What the request names is not there, or is another caller's; `param` says
    /// which of its fields names it.
    pub(crate) fn not_found(code: &'static str, message: String, param: &str) -> Self {
        Self {
            param: Some(Box::from(param)),
            ..Self::new(StatusCode::NOT_FOUND, code, message)
        }
    }

    /// What the request says contradicts what was said before, or what is.
    pub(crate) fn conflict(code: &'static str, message: String, param: &str) -> Self {
        Self {
            param: Some(Box::from(param)),
            should_retry: Some(false),
            ..Self::new(StatusCode::CONFLICT, code, message)
        }
    }

    /// No key, or a wrong one.
    pub(crate) fn invalid_client_key() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "invalid_client_key",
            "no valid key: send one of `server.client_keys` as `Authorization: Bearer …` or `x-api-key`",
        )
    }

    /// No admin token, or a wrong one.
    pub(crate) fn invalid_admin_token() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "invalid_admin_token",
            "no valid token: send `server.admin.token` as `Authorization: Bearer …`",
        )
    }

    /// The configuration on disk cannot take the place of the running one.
    pub(crate) fn unusable_config(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "config_refused", message)
    }

    /// A pass with no routing, where that is not allowed.
    pub(crate) fn pass_not_allowed() -> Self {
        let message = "`x-evenkeel-off` is not taken here: server.allow_pass is not set";
        Self {
            param: Some(Box::from("x-evenkeel-off")),
            ..Self::new(StatusCode::FORBIDDEN, "pass_not_allowed", message)
        }
    }

    /// No call may go unrecorded, and the audit log cannot be written.
    pub(crate) fn audit_unavailable() -> Self {
        let mut error = Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "audit_unavailable",
            "no calls are taken while the audit log cannot be written",
        );
        error.set_retry_after(AUDIT_RETRY);
        error
    }

    /// No such address.
    pub(crate) fn no_such_path(path: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "unknown_path",
            format!("no such path: {}", shortened(path)),
        )
    }

    /// The address takes other methods.
    pub(crate) fn method_not_allowed(method: &str, path: &str) -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            format!("{} does not take {}", shortened(path), shortened(method)),
        )
    }

    /// The request names a role that is not configured.
    pub(crate) fn unknown_role<'a>(asked: &str, roles: impl Iterator<Item = &'a str>) -> Self {
        let close = close_names(asked, roles);
        let hint = if close.is_empty() {
            "GET /v1/models lists the roles".to_owned()
        } else {
            format!("did you mean {}?", close.join(", "))
        };
        Self {
            param: Some(Box::from("model")),
            ..Self::new(
                StatusCode::NOT_FOUND,
                "role_not_found",
                format!(
                    "`model` must name a role; there is none called `{}`; {hint}",
                    shortened(asked)
                ),
            )
        }
    }

    /// No such ticket, or not this caller's.
    pub(crate) fn no_such_ticket() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "ticket_not_found",
            "there is no such ticket of this caller",
        )
    }

    /// The ticket has come to its end.
    pub(crate) fn ticket_closed(state: TicketState) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "ticket_closed",
            format!("the ticket is {state}"),
        )
    }

    /// The ticket of the request's idempotency key has ended without an answer.
    pub(crate) fn ticket_ended(state: TicketState) -> Self {
        Self {
            should_retry: Some(false),
            ..Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "ticket_ended",
                format!("the ticket of this idempotency key is {state}; ask anew with another key"),
            )
        }
    }

    /// The idempotency key belongs to another request.
    pub(crate) fn key_reused(error: &TicketError) -> Self {
        Self {
            should_retry: Some(false),
            ..Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                error.to_string(),
            )
        }
    }

    /// Tickets cannot be read or changed just now.
    pub(crate) fn ticket_store_failed() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ticket_store_failed",
            "tickets cannot be read just now",
        )
    }

    /// The body is larger than it may be.
    pub(crate) fn body_too_large(limit: usize) -> Self {
        Self {
            should_retry: Some(false),
            ..Self::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "body_too_large",
                format!("the request body is larger than {limit} bytes (server.max_body_bytes)"),
            )
        }
    }

    /// The body did not come in time.
    pub(crate) fn slow_body(limit: Duration) -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "request_timeout",
            format!(
                "the request body was not complete after {} ms",
                limit.as_millis()
            ),
        )
    }

    /// The head did not come in time.
    pub(crate) fn slow_head(limit: Duration) -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "request_timeout",
            format!(
                "the request head was not complete after {} ms",
                limit.as_millis()
            ),
        )
    }

    /// The connection broke within the body.
    pub(crate) fn broken_body() -> Self {
        Self::bad_request("incomplete_body", "the request body ended early", None)
    }

    /// A head that hyper refused with `status`.
    pub(crate) fn unreadable_head(status: u16, limit: usize) -> Self {
        match status {
            414 => Self::new(
                StatusCode::URI_TOO_LONG,
                "uri_too_long",
                "the request's address is too long",
            ),
            431 => Self::new(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "headers_too_large",
                format!("the request head has more than 100 fields or {limit} bytes"),
            ),
            _ => Self::bad_request("invalid_http", "the request is not valid HTTP/1.1", None),
        }
    }

    /// Work of ours ended without a result.
    pub(crate) fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_error",
            "evenkeel could not finish this request",
        )
    }

    /// The server is shutting down.
    pub(crate) fn draining() -> Self {
        Self {
            retry_after: Some(Duration::from_secs(1)),
            ..Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "shutting_down",
                "this server is shutting down",
            )
        }
    }
}

/// Least similarity (Jaro-Winkler, 0..1) for a name to be suggested.
const CLOSE: f64 = 0.8;

/// The up to three names most like `asked`, best first, quoted.
fn close_names<'a>(asked: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut close: Vec<(f64, &str)> = names
        .map(|name| (strsim::jaro_winkler(asked, name), name))
        .filter(|(likeness, _)| *likeness >= CLOSE)
        .collect();
    close.sort_by(|a, b| b.0.total_cmp(&a.0));
    close.truncate(3);
    close
        .into_iter()
        .map(|(_, name)| format!("`{name}`"))
        .collect()
}

/// Longest piece of a client's own text that is repeated to it, in characters.
const LONGEST_ECHO: usize = 120;

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(LONGEST_ECHO).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_repeated_in_part() {
        let error = ApiError::no_such_path(&"ü".repeat(10_000));
        assert!(error.message.len() < 400);
    }
}
