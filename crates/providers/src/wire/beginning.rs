//! How a stream begins, which tells an answer that broke off from a web page.

use crate::wire::excerpt;
use evenkeel_core::Class;

/// How much of a stream's beginning is kept.
const BEGINNING_BYTES: usize = 512;

/// The first bytes of a stream, as long as no event was seen in it.
#[derive(Debug, Default)]
pub(crate) struct Beginning {
    bytes: Vec<u8>,
    saw_event: bool,
}

impl Beginning {
    /// Takes the next bytes of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if !self.saw_event && self.bytes.len() < BEGINNING_BYTES {
            let room = BEGINNING_BYTES - self.bytes.len();
            self.bytes.extend(bytes.iter().take(room));
        }
    }

    /// An event has come: the stream is one.
    pub(crate) fn saw_event(&mut self) {
        self.saw_event = true;
    }

    /// Why a stream that has ended is no whole answer: `otherwise`, where it
    /// is no page.
    pub(crate) fn why_incomplete(&self, otherwise: &str) -> (Class, String) {
        if self.saw_event || !self.bytes.trim_ascii_start().starts_with(b"<") {
            return (Class::Transient, otherwise.to_owned());
        }
        let page = excerpt::excerpt(&String::from_utf8_lossy(&self.bytes), None);
        (Class::Malformed, format!("the stream is not one: {page}"))
    }
}
