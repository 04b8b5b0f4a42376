//! An answer as it comes in: what it is, and a stream being read.

use crate::body::{Inbound, undecodable};
use crate::called::Called;
use crate::encoding::Decoding;
use crate::wire::EventDecoder;
use evenkeel_core::{Delta, Failure, StreamEvent};
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// How long the end of the body is waited for once the answer has ended, so
/// that the connection can be used again. It comes with the last event, or
/// right behind it.
const DRAIN_WAIT: Duration = Duration::from_millis(10);

/// What the content type says a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Json,
    Events,
    Page,
    Lines,
    /// Not said, or something vague.
    Unknown,
}

impl Content {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
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
pub(crate) struct Events {
    /// None once everything is read, or the connection given up.
    pub(crate) body: Option<Inbound>,
    pub(crate) decoding: Decoding,
    pub(crate) decoder: Box<dyn EventDecoder>,
    pub(crate) ready: VecDeque<Result<StreamEvent, Failure>>,
    /// Tools' own names by those that went over the wire.
    pub(crate) tool_names: BTreeMap<String, String>,
    pub(crate) called: Called,
    pub(crate) after_finish: Duration,
    /// When a stream that has told its finish reason counts as ended.
    pub(crate) ends: Option<Instant>,
}

impl Events {
    /// The next event; none behind the last.
    pub(crate) async fn next(&mut self) -> Option<Result<StreamEvent, Failure>> {
        loop {
            if let Some(mut event) = self.ready.pop_front() {
                if let Ok(StreamEvent::Delta(Delta::ToolCallStart { id, name, .. })) = &mut event {
                    own_name(&self.tool_names, name);
                    self.called.add(id);
                }
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

/// Puts a tool's own name in place of the one that went over the wire.
pub(crate) fn own_name(names: &BTreeMap<String, String>, name: &mut String) {
    if let Some(own) = names.get(name) {
        name.clone_from(own);
    }
}
