//! What a stream's bytes are framed in.

use crate::wire::gemini::array::Splitter;
use crate::wire::reading::Frames;
use crate::wire::sse::{self, EventTooLarge, Item};

/// The framing, told by the first byte that is no blank.
#[derive(Debug)]
pub(in crate::wire) enum Framing {
    Unknown { limit: usize },
    Events(sse::Decoder),
    Array(Splitter),
}

impl Framing {
    pub(super) fn new(limit: usize) -> Self {
        Self::Unknown { limit }
    }
}

impl Frames for Framing {
    fn push(&mut self, mut bytes: &[u8], items: &mut Vec<Item>) -> Result<(), EventTooLarge> {
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
            Self::Events(decoder) => decoder.push(bytes, items),
            Self::Array(splitter) => {
                let mut elements = Vec::new();
                let result = splitter.push(bytes, &mut elements);
                items.extend(elements.into_iter().map(document));
                result
            }
        }
    }

    fn finish(&mut self, items: &mut Vec<Item>) {
        match self {
            Self::Unknown { .. } => {}
            Self::Events(decoder) => decoder.finish(items),
            Self::Array(splitter) => items.extend(splitter.finish().map(document)),
        }
    }
}

/// White space, or a byte of a byte order mark.
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, 0xEF | 0xBB | 0xBF)
}

/// An element of the array, which is an event of its own.
fn document(text: String) -> Item {
    Item::Event(sse::Event {
        event: None,
        data: text,
        bare: true,
    })
}
