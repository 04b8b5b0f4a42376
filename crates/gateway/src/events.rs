//! A stream as the body of an answer.

use crate::answer::meta_object;
use crate::clock::unix_seconds;
use crate::error::ApiError;
use crate::heartbeat::Heartbeat;
use bytes::Bytes;
use evenkeel_core::StreamEvent;
use evenkeel_providers::wire::openai::StreamEncoder;
use evenkeel_providers::wire::sse;
use evenkeel_router::{AnswerStream, CallError};
use futures_util::Stream;
use futures_util::future::BoxFuture;
use http_body::{Body, Frame};
use serde_json::Value;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Events that are ready at once go out in one piece, up to about this many bytes.
const PIECE: usize = 16 * 1024;

/// What a stream is written with.
#[derive(Debug)]
pub(crate) struct Wording {
    /// The stream's id where the provider gives none.
    pub(crate) id: String,
    /// The name of the meta object.
    pub(crate) meta_key: String,
    /// Whether a usage chunk was asked for.
    pub(crate) include_usage: bool,
}

/// A stream that has not committed yet.
pub(crate) type Opening = BoxFuture<'static, Result<AnswerStream, CallError>>;

/// Server-sent events of one answer.
///
/// Nothing is read ahead of the client, so a slow reader slows the upstream
/// down and costs no memory. Dropping it closes the upstream connection.
pub(crate) struct EventBody {
    /// The answer until its commit, where its headers went out before.
    opening: Option<Opening>,
    /// None, and not `opening` either: the last event has been written.
    stream: Option<AnswerStream>,
    heartbeat: Option<Heartbeat>,
    meta: Value,
    wording: Wording,
    /// Made at the first event, which names the stream.
    encoder: Option<StreamEncoder>,
    /// Whether the first chunk has been written.
    begun: bool,
    /// Why the answer ended, until it has: the last chunk says what it cost.
    finish: Option<StreamEvent>,
}

impl fmt::Debug for EventBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBody")
            .field("stream", &self.stream)
            .field("wording", &self.wording)
            .finish_non_exhaustive()
    }
}

impl EventBody {
    pub(crate) fn new(stream: AnswerStream, wording: Wording) -> Self {
        Self {
            meta: meta_object(stream.meta()),
            stream: Some(stream),
            ..Self::empty(wording)
        }
    }

    /// Of an answer that has not committed, with a sign of life `every` so often
    /// while there is nothing else to write.
    pub(crate) fn opening(opening: Opening, every: Duration, wording: Wording) -> Self {
        Self {
            opening: Some(opening),
            heartbeat: Some(Heartbeat::new(every)),
            ..Self::empty(wording)
        }
    }

    fn empty(wording: Wording) -> Self {
        Self {
            opening: None,
            stream: None,
            heartbeat: None,
            meta: Value::Null,
            wording,
            encoder: None,
            begun: false,
            finish: None,
        }
    }

    /// Adds what tells of `event` to `out`.
    fn write(&mut self, event: StreamEvent, out: &mut Vec<u8>) {
        match event {
            // Told in the meta object.
            StreamEvent::Adapted(_) => {}
            StreamEvent::Finish(_) => self.finish = Some(event),
            StreamEvent::End => {
                if let Some(stream) = &self.stream {
                    self.meta = meta_object(stream.meta());
                }
                if let Some(finish) = self.finish.take() {
                    self.write_chunks(&finish, out);
                }
                self.write_chunks(&event, out);
                out.extend_from_slice(sse::DONE.as_bytes());
                self.stream = None;
            }
            event => self.write_chunks(&event, out),
        }
    }

    fn write_chunks(&mut self, event: &StreamEvent, out: &mut Vec<u8>) {
        let told = matches!(
            event,
            StreamEvent::Resumed(_) | StreamEvent::Finish(_) | StreamEvent::End
        );
        if let StreamEvent::Resumed(meta) = event {
            self.meta = meta_object(meta);
        }
        for mut chunk in self.encoder(event).push(event) {
            if told || !self.begun {
                self.begun = true;
                chunk[&self.wording.meta_key] = self.meta.clone();
            }
            sse::write_event(None, &chunk.to_string(), out);
        }
    }

    fn encoder(&mut self, event: &StreamEvent) -> &mut StreamEncoder {
        let Self {
            encoder,
            stream,
            wording,
            ..
        } = self;
        encoder.get_or_insert_with(|| {
            let (id, created) = match event {
                StreamEvent::Start { id, created, .. } => (id.as_str(), *created),
                _ => ("", 0),
            };
            let id = if id.is_empty() { &wording.id } else { id };
            let created = if created == 0 {
                unix_seconds()
            } else {
                created
            };
            let model = stream.as_ref().map_or("", |s| s.meta().model_id.as_str());
            StreamEncoder::new(id, created, model, wording.include_usage)
        })
    }

    /// The end of an answer that broke off, or never began: never a clean one.
    fn write_error(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        sse::write_event(None, &error.body().to_string(), out);
        self.stream = None;
    }

    /// The next event of the answer, once it has committed.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<StreamEvent, ApiError>>> {
        if let Some(opening) = &mut self.opening {
            let opened = ready!(opening.as_mut().poll(cx));
            self.opening = None;
            match opened {
                Ok(stream) => {
                    self.meta = meta_object(stream.meta());
                    self.stream = Some(stream);
                }
                Err(error) => return Poll::Ready(Some(Err(ApiError::from_call(&error)))),
            }
        }
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(None);
        };
        let event = ready!(Pin::new(stream).poll_next(cx));
        Poll::Ready(event.map(|event| event.map_err(|failure| ApiError::from_failure(&failure))))
    }

    /// A sign of life, if one is due.
    fn beat(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<()> {
        let heartbeat = self.heartbeat.as_mut();
        heartbeat.map_or(Poll::Pending, |heartbeat| heartbeat.beat(cx, out))
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let mut out = Vec::new();
        while !this.is_end_stream() && out.len() < PIECE {
            match this.poll_event(cx) {
                Poll::Ready(Some(Ok(event))) => this.write(event, &mut out),
                Poll::Ready(Some(Err(error))) => this.write_error(&error, &mut out),
                Poll::Ready(None) => this.stream = None,
                Poll::Pending if out.is_empty() => {
                    ready!(this.beat(cx, &mut out));
                    break;
                }
                Poll::Pending => break,
            }
        }
        if let Some(heartbeat) = &mut this.heartbeat {
            heartbeat.written();
        }
        let piece = (!out.is_empty()).then(|| Ok(Frame::data(Bytes::from(out))));
        Poll::Ready(piece)
    }

    fn is_end_stream(&self) -> bool {
        self.opening.is_none() && self.stream.is_none()
    }
}
