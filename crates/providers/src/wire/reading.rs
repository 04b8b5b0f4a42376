//! What reading a stream is in every wire format: frames to items, items to
//! events, one end.

use crate::wire::beginning::Beginning;
use crate::wire::classify::{Reply, classify};
use crate::wire::sse::{self, EventTooLarge, Item};
use crate::wire::{EventDecoder, Server, StreamLimits};
use evenkeel_core::{Class, Failure, Finish, StreamEvent};
use secrecy::SecretString;
use std::fmt;

/// What comes of a stream's bytes.
pub(in crate::wire) type Out = Vec<Result<StreamEvent, Failure>>;

/// Turns bytes into items, in any split.
pub(in crate::wire) trait Frames {
    /// Takes the next bytes and adds what they complete to `items`.
    ///
    /// # Errors
    /// [`EventTooLarge`]; what was complete before is in `items`.
    fn push(&mut self, bytes: &[u8], items: &mut Vec<Item>) -> Result<(), EventTooLarge>;

    /// Ends the stream: a last item that lacks its end is added to `items`.
    fn finish(&mut self, items: &mut Vec<Item>);
}

impl Frames for sse::Decoder {
    fn push(&mut self, bytes: &[u8], items: &mut Vec<Item>) -> Result<(), EventTooLarge> {
        Self::push(self, bytes, items)
    }

    fn finish(&mut self, items: &mut Vec<Item>) {
        Self::finish(self, items);
    }
}

/// How far the reading of one stream is.
pub(in crate::wire) struct Reading<F> {
    server: Server,
    limits: StreamLimits,
    key: Option<SecretString>,
    frames: F,
    beginning: Beginning,
    /// Why the answer ended, once that was seen.
    pub(in crate::wire) finish: Option<Finish>,
    answer_bytes: usize,
    over: bool,
}

impl<F> fmt::Debug for Reading<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading")
            .field("server", &self.server)
            .field("finish", &self.finish)
            .field("answer_bytes", &self.answer_bytes)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

impl<F> Reading<F> {
    /// The reading of a stream of `server`, whose bytes `frames` takes.
    pub(in crate::wire) fn new(server: Server, limits: StreamLimits, frames: F) -> Self {
        Self {
            server,
            limits,
            key: None,
            frames,
            beginning: Beginning::default(),
            finish: None,
            answer_bytes: 0,
            over: false,
        }
    }

    /// Takes the key that was sent, so that errors that echo it are masked.
    pub(in crate::wire) fn set_key(&mut self, key: Option<SecretString>) {
        self.key = key;
    }

    /// Whose stream it is.
    pub(in crate::wire) fn server(&self) -> Server {
        self.server
    }

    /// Whether the last event or the failure has been given.
    pub(in crate::wire) fn is_over(&self) -> bool {
        self.over
    }

    /// An event of the stream as a reply of its own.
    pub(in crate::wire) fn reply<'a>(&'a self, data: &'a str) -> Reply<'a> {
        Reply::in_answer(self.server, data.as_bytes()).with_key(self.key.as_ref())
    }

    /// Ends with a failure of `class`.
    pub(in crate::wire) fn fail_as(&mut self, class: Class, message: &str, out: &mut Out) {
        let failure = self.reply("").failure(class, message);
        self.fail(failure, out);
    }

    /// Ends with what an event that is an error says.
    pub(in crate::wire) fn fail_with(&mut self, data: &str, out: &mut Out) {
        let failure = classify(&self.reply(data));
        self.fail(failure, out);
    }

    /// Ends with a failure.
    pub(in crate::wire) fn fail(&mut self, failure: Failure, out: &mut Out) {
        self.over = true;
        out.push(Err(failure));
    }

    /// Ends well.
    pub(in crate::wire) fn succeed(&mut self, out: &mut Out) {
        self.over = true;
        out.push(Ok(StreamEvent::End));
    }

    /// Ends with the failure of an answer that is not whole: `otherwise`, where
    /// the stream is no web page.
    pub(in crate::wire) fn fail_incomplete(&mut self, otherwise: &str, out: &mut Out) {
        let (class, why) = self.beginning.why_incomplete(otherwise);
        self.fail_as(class, &why, out);
    }

    /// Counts bytes of the answer towards its limit.
    pub(in crate::wire) fn count(&mut self, bytes: usize) {
        self.answer_bytes = self.answer_bytes.saturating_add(bytes);
    }

    /// Ends with a failure where the answer is larger than its limit.
    pub(in crate::wire) fn check_size(&mut self, out: &mut Out) {
        let limit = self.limits.max_answer_bytes;
        if self.answer_bytes > limit && !self.over {
            let message = format!("the answer is larger than the limit of {limit} bytes");
            self.fail_as(Class::Malformed, &message, out);
        }
    }
}

/// The words of one wire format; the rest is what all streams share.
pub(in crate::wire) trait StreamFormat: fmt::Debug + Send {
    /// What its bytes are framed in.
    type Frames: Frames;

    /// How far the stream is.
    fn reading(&self) -> &Reading<Self::Frames>;

    /// How far the stream is.
    fn reading_mut(&mut self) -> &mut Reading<Self::Frames>;

    /// Takes an event. One of which nothing is told is a sign of life.
    fn take_event(&mut self, event: &sse::Event, out: &mut Out);

    /// Ends the stream: well where a reason for the answer's end was seen, and
    /// else with a failure that says `if_incomplete`.
    fn end(&mut self, if_incomplete: &str, out: &mut Out) {
        let reading = self.reading_mut();
        match reading.finish {
            Some(_) => reading.succeed(out),
            None => reading.fail_incomplete(if_incomplete, out),
        }
    }
}

impl<S: StreamFormat> EventDecoder for S {
    fn push(&mut self, bytes: &[u8]) -> Vec<Result<StreamEvent, Failure>> {
        let mut out = Out::new();
        let reading = self.reading_mut();
        if reading.over {
            return out;
        }
        reading.beginning.push(bytes);
        let mut items = Vec::new();
        let result = reading.frames.push(bytes, &mut items);
        take_items(self, items, &mut out);
        let reading = self.reading_mut();
        if let Err(e) = result
            && !reading.over
        {
            let failure = reading
                .reply("")
                .failure(Class::Malformed, &e.to_string())
                .with_source(e);
            reading.fail(failure, &mut out);
        }
        out
    }

    fn finish(&mut self) -> Vec<Result<StreamEvent, Failure>> {
        let mut out = Out::new();
        let reading = self.reading_mut();
        if reading.over {
            return out;
        }
        let mut items = Vec::new();
        reading.frames.finish(&mut items);
        take_items(self, items, &mut out);
        if !self.reading().over {
            self.end("the stream ended before the answer was complete", &mut out);
        }
        out
    }

    fn is_complete(&self) -> bool {
        self.reading().finish.is_some()
    }

    fn is_over(&self) -> bool {
        self.reading().over
    }
}

fn take_items<S: StreamFormat + ?Sized>(format: &mut S, items: Vec<Item>, out: &mut Out) {
    for item in items {
        if format.reading().over {
            return;
        }
        let before = out.len();
        if let Item::Event(event) = &item {
            format.reading_mut().beginning.saw_event();
            format.take_event(event, out);
        }
        if out.len() == before {
            out.push(Ok(StreamEvent::KeepAlive));
        }
    }
}
