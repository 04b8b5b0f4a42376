//! A committed stream as the body of an answer.

use crate::answer::meta_object;
use crate::app::unix_seconds;
use crate::error::ApiError;
use bytes::Bytes;
use evenkeel_core::{Failure, StreamEvent};
use evenkeel_providers::wire::openai::StreamEncoder;
use evenkeel_providers::wire::sse;
use evenkeel_router::AnswerStream;
use futures_util::Stream;
use http_body::{Body, Frame};
use serde_json::Value;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

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

/// Server-sent events of one answer.
///
/// Nothing is read ahead of the client, so a slow reader slows the upstream
/// down and costs no memory. Dropping it closes the upstream connection.
#[derive(Debug)]
pub(crate) struct EventBody {
    /// None: the last event has been written.
    stream: Option<AnswerStream>,
    meta: Value,
    wording: Wording,
    /// Made at the first event, which names the stream.
    encoder: Option<StreamEncoder>,
    /// Whether the first chunk has been written.
    begun: bool,
    /// Why the answer ended, until it has: the last chunk says what it cost.
    finish: Option<StreamEvent>,
}

impl EventBody {
    pub(crate) fn new(stream: AnswerStream, wording: Wording) -> Self {
        Self {
            meta: meta_object(stream.meta()),
            stream: Some(stream),
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
        let last = matches!(event, StreamEvent::Finish(_) | StreamEvent::End);
        for mut chunk in self.encoder(event).push(event) {
            if last || !self.begun {
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

    /// The end of an answer that broke off: never a clean one.
    fn write_failure(&mut self, failure: &Failure, out: &mut Vec<u8>) {
        let error = ApiError::from_failure(failure).body();
        sse::write_event(None, &error.to_string(), out);
        self.stream = None;
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
        while let Some(stream) = &mut this.stream
            && out.len() < PIECE
        {
            match Pin::new(stream).poll_next(cx) {
                Poll::Ready(Some(Ok(event))) => this.write(event, &mut out),
                Poll::Ready(Some(Err(failure))) => this.write_failure(&failure, &mut out),
                Poll::Ready(None) => this.stream = None,
                Poll::Pending if out.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        let piece = (!out.is_empty()).then(|| Ok(Frame::data(Bytes::from(out))));
        Poll::Ready(piece)
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_none()
    }
}
