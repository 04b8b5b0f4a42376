//! What a caller says in headers.

use crate::demand::{complexity, min_capability, pinned_roster};
use crate::error::ApiError;
use crate::telemetry::inbound;
use evenkeel_core::{CallContext, ClockOverrides};
use http::HeaderMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest session, workflow or request id that is taken over, in bytes.
const LONGEST_ID: usize = 256;

/// Gives requests without an id one of their own.
#[derive(Debug)]
pub(crate) struct RequestIds {
    prefix: u64,
    next: AtomicU64,
}

impl RequestIds {
    /// `prefix` tells this process from others that write to the same log.
    pub(crate) fn new(prefix: u64) -> Self {
        Self {
            prefix,
            next: AtomicU64::new(1),
        }
    }

    /// The caller's `x-request-id` where it is printable and short, else a new one.
    pub(crate) fn of(&self, headers: &HeaderMap) -> Arc<str> {
        if let Ok(Some(id)) = id(headers, "x-request-id") {
            return id;
        }
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        Arc::from(format!("evk-{:016x}-{n:x}", self.prefix))
    }
}

/// The call's context as the headers tell it.
///
/// # Errors
/// A clock that is not a positive whole number, a session, workflow or task that
/// is not printable ASCII or too long, a complexity, capability or list of models
/// that cannot be read.
pub(crate) fn call_context(
    headers: &HeaderMap,
    request_id: Arc<str>,
) -> Result<CallContext, ApiError> {
    Ok(CallContext {
        request_id: Some(request_id),
        idempotency_key: id(headers, "idempotency-key")?,
        session: id(headers, "x-evenkeel-session")?,
        workflow: id(headers, "x-evenkeel-workflow")?,
        task: id(headers, "x-evenkeel-task")?,
        complexity: complexity(headers)?,
        min_capability: min_capability(headers)?,
        pinned_roster: pinned_roster(headers)?,
        clocks: ClockOverrides {
            connect: clock(headers, "x-evenkeel-connect-ms")?,
            first_token: clock(headers, "x-evenkeel-first-token-ms")?,
            stall: clock(headers, "x-evenkeel-stall-ms")?,
            deadline: clock(headers, "x-evenkeel-deadline-ms")?,
        },
        trace: inbound(headers),
        ..CallContext::default()
    })
}

/// Whether the caller wants its role's primary with no routing.
///
/// # Errors
/// A value that is neither `true` nor `false`.
pub(crate) fn is_off(headers: &HeaderMap) -> Result<bool, ApiError> {
    const NAME: &str = "x-evenkeel-off";
    match headers.get(NAME).map(|value| value.as_bytes().trim_ascii()) {
        None | Some(b"false") => Ok(false),
        Some(b"true") => Ok(true),
        Some(_) => {
            let message = format!("`{NAME}` must be `true` or `false`");
            Err(ApiError::bad_header(NAME, message))
        }
    }
}

fn clock(headers: &HeaderMap, name: &'static str) -> Result<Option<Duration>, ApiError> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok())
        .filter(|ms| *ms > 0)
        .map(|ms| Some(Duration::from_millis(ms)))
        .ok_or_else(|| {
            ApiError::bad_header(
                name,
                format!("`{name}` must be a whole number of milliseconds, at least 1"),
            )
        })
}

fn id(headers: &HeaderMap, name: &'static str) -> Result<Option<Arc<str>>, ApiError> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    match value.to_str().map(str::trim) {
        Ok("") => Ok(None),
        Ok(text) if text.len() <= LONGEST_ID => Ok(Some(Arc::from(text))),
        _ => Err(ApiError::bad_header(
            name,
            format!("`{name}` must be printable ASCII of at most {LONGEST_ID} bytes"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn one(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        headers
    }

    #[test]
    fn clocks_are_whole_milliseconds() {
        let context = call_context(&one("x-evenkeel-stall-ms", "250"), "r".into()).unwrap();
        assert_eq!(context.clocks.stall, Some(Duration::from_millis(250)));
        for junk in [
            "",
            "0",
            "-1",
            "1.5",
            "soon",
            "1e3",
            "99999999999999999999999",
        ] {
            let error = call_context(&one("x-evenkeel-stall-ms", junk), "r".into()).unwrap_err();
            assert_eq!(error.code(), "invalid_header", "{junk}");
        }
    }

    #[test]
    fn a_request_id_of_the_caller_is_kept_and_an_unfit_one_replaced() {
        let ids = RequestIds::new(7);
        assert_eq!(&*ids.of(&one("x-request-id", "mine")), "mine");
        let own = ids.of(&HeaderMap::new());
        assert_eq!(&*own, "evk-0000000000000007-1");
        let long = "x".repeat(LONGEST_ID + 1);
        assert_eq!(
            &*ids.of(&one("x-request-id", &long)),
            "evk-0000000000000007-2"
        );
    }
}
