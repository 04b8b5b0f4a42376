//! What a stream's bytes are framed in.

use crate::wire::gemini::array::Splitter;
use crate::wire::sse::{self, EventTooLarge};

/// A document of the stream, or a sign of life.
#[derive(Debug)]
pub(super) enum Item {
    /// A JSON document, as far as it is one.
    Document {
        /// Its text.
        text: String,
        /// Whether its event was named an error.
        is_error: bool,
    },
    /// A comment.
    Comment,
}

/// The framing, told by the first byte that is no blank.
#[derive(Debug)]
pub(super) enum Framing {
    Unknown { limit: usize },
    Events(sse::Decoder),
    Array(Splitter),
}

impl Framing {
    pub(super) fn new(limit: usize) -> Self {
        Self::Unknown { limit }
    }

    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        items: &mut Vec<Item>,
    ) -> Result<(), EventTooLarge> {
        if let Self::Unknown { limit } = *self {
            let Some(first) = bytes.iter().position(|b| !is_blank(*b)) else {
                return Ok(());
            };
            bytes = &bytes[first..];
            *self = if bytes[0] == b'[' {
                bytes = &bytes[1..];
                Self::Array(Splitter::new(limit))
            } else {
                Self::Events(sse::Decoder::new(limit))
            };
        }
        match self {
            Self::Unknown { .. } => Ok(()),
            Self::Events(decoder) => {
                let mut events = Vec::new();
                let result = decoder.push(bytes, &mut events);
                items.extend(events.into_iter().map(item));
                result
            }
            Self::Array(splitter) => {
                let mut elements = Vec::new();
                let result = splitter.push(bytes, &mut elements);
                items.extend(elements.into_iter().map(document));
                result
            }
        }
    }

    pub(super) fn finish(&mut self, items: &mut Vec<Item>) {
        match self {
            Self::Unknown { .. } => {}
            Self::Events(decoder) => {
                let mut events = Vec::new();
                decoder.finish(&mut events);
                items.extend(events.into_iter().map(item));
            }
            Self::Array(splitter) => items.extend(splitter.finish().map(document)),
        }
    }
}

/// White space, or a byte of a byte order mark.
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, 0xEF | 0xBB | 0xBF)
}

fn document(text: String) -> Item {
    Item::Document {
        text,
        is_error: false,
    }
}

fn item(item: sse::Item) -> Item {
    match item {
        sse::Item::Comment(_) => Item::Comment,
        sse::Item::Event(event) => Item::Document {
            is_error: event.event.as_deref() == Some("error"),
            text: event.data,
        },
    }
}
