//! What a caller says in headers.

use crate::demand::{complexity, min_capability, pinned_roster};
use crate::error::ApiError;
use evenkeel_core::{CallContext, ClockOverrides, TraceContext};
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
        trace: trace(headers),
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

/// The inbound trace, if it is well-formed; W3C asks for a broken one to be ignored.
fn trace(headers: &HeaderMap) -> Option<TraceContext> {
    let traceparent = headers.get("traceparent")?.to_str().ok()?.trim();
    if !is_traceparent(traceparent) {
        return None;
    }
    let tracestate = headers
        .get("tracestate")
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    Some(TraceContext {
        traceparent: traceparent.into(),
        tracestate: tracestate.into(),
    })
}

/// W3C Trace Context, section 3.2: version, trace id, parent id, flags in
/// lower-case hex; ids of zeros and version `ff` are invalid.
fn is_traceparent(text: &str) -> bool {
    let mut fields = text.split('-');
    let mut hex = |length: usize| {
        fields.next().filter(|field| {
            field.len() == length
                && field
                    .bytes()
                    .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        })
    };
    let (version, trace, parent, flags) = (hex(2), hex(32), hex(16), hex(2));
    let some = |id: Option<&str>| id.is_some_and(|id| id.bytes().any(|b| b != b'0'));
    version.is_some_and(|v| v != "ff")
        && some(trace)
        && some(parent)
        && flags.is_some()
        && (version != Some("00") || fields.next().is_none())
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

    #[test]
    fn a_broken_traceparent_is_ignored() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert!(trace(&one("traceparent", good)).is_some());
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert!(trace(&one("traceparent", bad)).is_none(), "{bad}");
        }
    }
}
