//! Reading an answer's body: bounded, and honest about how it ended.

use crate::connection::Line;
use crate::encoding::{Decoding, DecodingError};
use crate::transport::cause;
use bytes::Bytes;
use evenkeel_core::{Class, Failure};
use http::HeaderMap;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::fmt;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// How much of an error's body is read: more than any provider writes.
const MAX_ERROR_BYTES: usize = 256 * 1024;
/// How long an error's body is waited for. Its status is known already, and
/// the call has better things to do.
const ERROR_BODY_WAIT: Duration = Duration::from_secs(2);

/// A body as it arrives. Dropping it before its end closes the connection.
pub(crate) struct Inbound {
    body: Incoming,
    /// What was read ahead.
    ahead: Option<Bytes>,
    line: Option<Line>,
    /// The right to a connection, given back with this.
    turn: Option<OwnedSemaphorePermit>,
}

impl fmt::Debug for Inbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbound").finish_non_exhaustive()
    }
}

impl Inbound {
    pub(crate) fn new(body: Incoming, line: Option<Line>) -> Self {
        Self {
            body,
            ahead: None,
            line,
            turn: None,
        }
    }

    /// Holds `turn` for as long as the exchange lasts.
    pub(crate) fn in_turn(mut self, turn: Option<OwnedSemaphorePermit>) -> Self {
        self.turn = turn;
        self
    }

    /// Whether the first byte that is no blank is `byte`; nothing but blanks
    /// before it is lost.
    pub(crate) async fn begins_with(&mut self, byte: u8) -> Result<bool, Failure> {
        while let Some(bytes) = self.next().await? {
            let first = bytes.iter().find(|b| !b.is_ascii_whitespace()).copied();
            if let Some(first) = first {
                self.ahead = Some(bytes);
                return Ok(first == byte);
            }
        }
        Ok(false)
    }

    /// The next bytes; none at an orderly end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        if let Some(bytes) = self.ahead.take() {
            return Ok(Some(bytes));
        }
        loop {
            match self.body.frame().await {
                None => {
                    if let Some(line) = &self.line {
                        line.answered();
                    }
                    return Ok(None);
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => {
                    let message =
                        format!("the connection broke inside the answer: {}", cause(&error));
                    return Err(Failure::new(Class::Transient, message).with_source(error));
                }
            }
        }
    }

    /// The whole body, decoded, at most `limit` bytes.
    pub(crate) async fn collect(
        mut self,
        headers: &HeaderMap,
        limit: usize,
    ) -> Result<Vec<u8>, Failure> {
        let mut decoding = Decoding::of(headers, limit).map_err(undecodable)?;
        let mut whole = Vec::new();
        while let Some(bytes) = self.next().await? {
            decoding
                .decode(&bytes, |decoded| {
                    whole.extend_from_slice(decoded);
                    whole.len() <= limit
                })
                .map_err(undecodable)?;
            if whole.len() > limit {
                let message = format!("the answer is larger than the limit of {limit} bytes");
                return Err(Failure::new(Class::Malformed, message));
            }
        }
        Ok(whole)
    }

    /// What can be had of an error's body: its beginning, and no error of its
    /// own, since the status says already what happened.
    pub(crate) async fn collect_error(mut self, headers: &HeaderMap) -> Vec<u8> {
        let mut whole = Vec::new();
        let reading = async {
            let Ok(mut decoding) = Decoding::of(headers, MAX_ERROR_BYTES) else {
                return;
            };
            while let Ok(Some(bytes)) = self.next().await {
                let decoded = decoding.decode(&bytes, |decoded| {
                    let room = MAX_ERROR_BYTES - whole.len();
                    whole.extend(decoded.iter().take(room));
                    whole.len() < MAX_ERROR_BYTES
                });
                if decoded.is_err() || whole.len() >= MAX_ERROR_BYTES {
                    return;
                }
            }
        };
        // A time-out is no failure here: what came so far is used.
        let _ = tokio::time::timeout(ERROR_BODY_WAIT, reading).await;
        whole
    }
}

pub(crate) fn undecodable(error: DecodingError) -> Failure {
    Failure::new(Class::Malformed, error.to_string()).with_source(error)
}
