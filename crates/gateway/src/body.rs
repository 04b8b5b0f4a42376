//! Reading request bodies from clients that may be slow, huge or gone.

use crate::error::ApiError;
use crate::limits::Limits;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long bytes of a refused body are read and thrown away before the
/// refusal is sent: clients write the whole body before they look for an
/// answer, and a socket closed under them takes the answer with it.
const DISCARD_FOR: Duration = Duration::from_secs(5);

/// The whole body.
///
/// # Errors
/// `body_too_large` past `most` bytes, `request_timeout` past the limits,
/// `incomplete_body` where the connection broke.
pub(crate) async fn read(
    mut body: Body,
    headers: &HeaderMap,
    most: usize,
    limits: &Limits,
) -> Result<Bytes, ApiError> {
    let declared = body_size(&body);
    if declared.is_some_and(|size| size > most) {
        discard(body, headers).await;
        return Err(ApiError::body_too_large(most));
    }
    let ends = Instant::now() + limits.body;
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    loop {
        let data = match next(&mut body, ends, limits).await? {
            Some(data) => data,
            None if whole.is_empty() => return Ok(first),
            None => return Ok(whole.freeze()),
        };
        if first.len() + whole.len() + data.len() > most {
            discard(body, headers).await;
            return Err(ApiError::body_too_large(most));
        }
        // The usual body comes in one piece and is not copied.
        if first.is_empty() && whole.is_empty() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            whole.reserve(declared.unwrap_or(0).max(first.len() + data.len()));
            whole.extend_from_slice(&first);
            first = Bytes::new();
        }
        whole.extend_from_slice(&data);
    }
}

/// The next piece of data; none at the end.
async fn next(body: &mut Body, ends: Instant, limits: &Limits) -> Result<Option<Bytes>, ApiError> {
    loop {
        let stalls = Instant::now() + limits.body_stall;
        let Ok(frame) = timeout_at(stalls.min(ends), body.frame()).await else {
            let limit = if stalls < ends {
                limits.body_stall
            } else {
                limits.body
            };
            return Err(ApiError::slow_body(limit));
        };
        match frame {
            None => return Ok(None),
            Some(Err(_)) => return Err(ApiError::broken_body()),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data()
                    && !data.is_empty()
                {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Reads what is left of a refused body and throws it away, for a while. A
/// client that waits for leave to send (`Expect: 100-continue`) is not given it.
pub(crate) async fn discard(mut body: Body, headers: &HeaderMap) {
    if headers.contains_key(header::EXPECT) {
        return;
    }
    let ends = Instant::now() + DISCARD_FOR;
    while let Ok(Some(Ok(_))) = timeout_at(ends, body.frame()).await {}
}

/// The size the client declared.
fn body_size(body: &Body) -> Option<usize> {
    let exact = http_body::Body::size_hint(body).exact()?;
    Some(usize::try_from(exact).unwrap_or(usize::MAX))
}
