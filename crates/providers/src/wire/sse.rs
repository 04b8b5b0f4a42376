//! Server-sent events: bytes to events, events to bytes.
//!
//! Why a decoder of our own: real servers step outside the standard, and a
//! strict reader then drops exactly what matters. Builds of llama.cpp of 2025
//! report a failure in a field `error:`; Gemini and some proxies put bare JSON
//! lines into the stream; several servers close right after the last `data:`
//! line without the blank line that would dispatch it. A standard decoder
//! loses all three, and joins what servers write as one `data:` line per event
//! without blank lines. This one also bounds its memory, strips a byte order mark
//! and gives the same events whatever the split into reads.

use crate::wire::brackets::Brackets;
use crate::wire::json;
use std::fmt;

/// A complete event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// Its name, where an `event:` line gave one. A line `error: …` gives
    /// `error`.
    pub event: Option<String>,
    /// Its `data:` lines joined by line feeds; invalid UTF-8 is replaced.
    pub data: String,
    /// Whether it was a bare JSON document rather than `data:` lines.
    pub bare: bool,
}

/// What a stream consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// An event with data.
    Event(Event),
    /// A comment line, without its colon.
    Comment(String),
}

/// An event larger than the decoder's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a stream event is larger than the limit of {limit} bytes")]
pub struct EventTooLarge {
    /// The limit, bytes.
    pub limit: usize,
}

/// Turns bytes into events, in any split.
pub struct Decoder {
    limit: usize,
    /// The line begun in an earlier read.
    line: Vec<u8>,
    /// The last byte was a CR: an LF now belongs to it.
    after_cr: bool,
    first_line: bool,
    event: Option<Name>,
    /// The event's data so far; none before its first `data:` line.
    data: Option<Vec<u8>>,
    bare: Option<Bare>,
    spacing: Spacing,
    overflowed: bool,
}

/// The name of an event, and whether it came behind data.
struct Name {
    text: String,
    is_behind: bool,
}

/// What ends an event.
#[derive(PartialEq, Eq)]
enum Spacing {
    /// A blank line, as the standard has it.
    Blank,
    /// Each whole `data:` line: events came without blank lines.
    Line,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("limit", &self.limit)
            .field("held_bytes", &self.held())
            .finish_non_exhaustive()
    }
}

impl Decoder {
    /// A decoder that holds at most about `max_event_bytes` bytes of one event.
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            limit: max_event_bytes,
            line: Vec::new(),
            after_cr: false,
            first_line: true,
            event: None,
            data: None,
            bare: None,
            spacing: Spacing::Blank,
            overflowed: false,
        }
    }

    /// Takes the next bytes and adds what they complete to `items`.
    ///
    /// # Errors
    /// [`EventTooLarge`]; what was complete before is in `items`, and the
    /// decoder takes no more.
    pub fn push(&mut self, mut bytes: &[u8], items: &mut Vec<Item>) -> Result<(), EventTooLarge> {
        if self.overflowed {
            return Err(EventTooLarge { limit: self.limit });
        }
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.check_size(end)?;
            if self.line.is_empty() {
                self.take_line(&bytes[..end], items);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&bytes[..end]);
                self.take_line(&line, items);
            }
            let cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if cr {
                match bytes.first() {
                    Some(b'\n') => bytes = &bytes[1..],
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
        }
        self.check_size(bytes.len())?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Ends the stream: a last event that lacks its blank line is delivered.
    /// It may be cut; its reader must cope with data that does not parse.
    pub fn finish(&mut self, items: &mut Vec<Item>) {
        if self.overflowed {
            return;
        }
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, items);
        }
        if let Some(bare) = self.bare.take() {
            items.push(bare.into_item());
        }
        self.dispatch(items);
    }

    fn held(&self) -> usize {
        let bare = self.bare.as_ref().map_or(0, |b| b.text.len());
        self.line.len() + self.data.as_ref().map_or(0, Vec::len) + bare
    }

    fn check_size(&mut self, more: usize) -> Result<(), EventTooLarge> {
        if self.held() + more <= self.limit {
            return Ok(());
        }
        self.overflowed = true;
        self.line = Vec::new();
        self.data = None;
        self.bare = None;
        Err(EventTooLarge { limit: self.limit })
    }

    fn take_line(&mut self, mut line: &[u8], items: &mut Vec<Item>) {
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if let Some(bare) = &mut self.bare {
            bare.push(line);
            if bare.is_whole() {
                items.extend(self.bare.take().map(Bare::into_item));
            }
            return;
        }
        match line.first() {
            None => self.dispatch(items),
            Some(b':') => items.push(Item::Comment(text(&line[1..]))),
            Some(b'{' | b'[') => {
                self.dispatch(items);
                let mut bare = Bare::default();
                bare.push(line);
                if bare.is_whole() {
                    items.push(bare.into_item());
                } else {
                    self.bare = Some(bare);
                }
            }
            Some(_) => self.take_field(line, items),
        }
    }

    fn take_field(&mut self, line: &[u8], items: &mut Vec<Item>) {
        let (name, value) = match line.iter().position(|b| *b == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => self.take_data(value, items),
            b"event" => self.take_name(text(value), items),
            b"error" => {
                self.event = Some(Name {
                    text: "error".to_owned(),
                    is_behind: false,
                });
                self.add_data(value);
            }
            // `id`, `retry` and whatever else carry nothing that we use.
            _ => {}
        }
    }

    /// Takes an `event:` line. A second name is that of the next event.
    fn take_name(&mut self, text: String, items: &mut Vec<Item>) {
        if self.event.is_some() && self.data.as_deref().is_some_and(is_object) {
            self.dispatch_unspaced(items);
        }
        let is_behind = self.data.is_some();
        self.event = Some(Name { text, is_behind });
    }

    /// Ends an event whose blank line is missing.
    fn dispatch_unspaced(&mut self, items: &mut Vec<Item>) {
        self.spacing = Spacing::Line;
        self.dispatch(items);
    }

    /// Takes a `data:` line. Two JSON objects in a row are no one event: such
    /// servers put one line break where the format has two.
    fn take_data(&mut self, value: &[u8], items: &mut Vec<Item>) {
        let begins_anew = value.starts_with(b"{") || value.starts_with(b"[DONE]");
        if begins_anew && self.data.as_deref().is_some_and(is_object) {
            let next = self.event.take_if(|name| name.is_behind);
            self.dispatch_unspaced(items);
            self.event = next;
        }
        self.add_data(value);
        let is_whole = |data: &[u8]| is_object(data) || data.starts_with(b"[DONE]");
        if self.spacing == Spacing::Line && self.data.as_deref().is_some_and(is_whole) {
            self.dispatch(items);
        }
    }

    fn add_data(&mut self, value: &[u8]) {
        match &mut self.data {
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            None => self.data = Some(value.to_vec()),
        }
    }

    fn dispatch(&mut self, items: &mut Vec<Item>) {
        let event = self.event.take().map(|name| name.text);
        let Some(data) = self.data.take().filter(|data| !data.is_empty()) else {
            return;
        };
        let data = match String::from_utf8(data) {
            Ok(data) => data,
            Err(e) => text(e.as_bytes()),
        };
        let item = |event, data| {
            Item::Event(Event {
                event,
                data,
                bare: false,
            })
        };
        if are_apart(&data) {
            let lines = data.lines().map(str::to_owned);
            items.extend(lines.map(|line| item(event.clone(), line)));
        } else {
            items.push(item(event, data));
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_object(data: &[u8]) -> bool {
    data.starts_with(b"{") && data.trim_ascii_end().ends_with(b"}") && json::parse(data).is_ok()
}

/// Whether the lines of an event are one each, though some may be broken: they
/// begin like events, and together they are no document.
fn are_apart(data: &str) -> bool {
    let begins = |line: &str| line.starts_with('{') || line.starts_with("[DONE]");
    data.contains('\n')
        && data.lines().all(begins)
        && data.lines().any(|line| is_object(line.as_bytes()))
        && !is_object(data.as_bytes())
}

/// A JSON document that stands in the stream without `data:`.
#[derive(Default)]
struct Bare {
    text: Vec<u8>,
    brackets: Brackets,
}

impl Bare {
    fn push(&mut self, line: &[u8]) {
        if !self.text.is_empty() {
            self.text.push(b'\n');
        }
        self.text.extend_from_slice(line);
        for byte in line {
            self.brackets.push(*byte);
        }
    }

    fn is_whole(&self) -> bool {
        self.brackets.are_closed()
    }

    fn into_item(self) -> Item {
        Item::Event(Event {
            event: None,
            data: text(&self.text),
            bare: true,
        })
    }
}

/// The last event of a stream in `OpenAI`'s dialect.
pub const DONE: &str = "data: [DONE]\n\n";

/// Adds an event to `out`. Line breaks in `data` become several `data:` lines;
/// `event` must hold none.
pub fn write_event(event: Option<&str>, data: &str, out: &mut Vec<u8>) {
    if let Some(name) = event {
        out.extend_from_slice(b"event: ");
        out.extend(name.bytes().filter(|b| !matches!(b, b'\n' | b'\r')));
        out.push(b'\n');
    }
    for line in data.split(['\n', '\r']) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
    out.push(b'\n');
}

/// Adds a comment, which a reader skips: a sign of life.
pub fn write_comment(comment: &str, out: &mut Vec<u8>) {
    for line in comment.split(['\n', '\r']) {
        out.extend_from_slice(b": ");
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(pieces: &[&[u8]]) -> Vec<Item> {
        let mut decoder = Decoder::new(1 << 20);
        let mut items = Vec::new();
        for piece in pieces {
            decoder.push(piece, &mut items).unwrap();
        }
        decoder.finish(&mut items);
        items
    }

    fn event(name: Option<&str>, data: &str) -> Item {
        Item::Event(Event {
            event: name.map(str::to_owned),
            data: data.to_owned(),
            bare: false,
        })
    }

    #[test]
    fn framing_variants_give_the_same_events() {
        // C099: CRLF, bare CR, no space, several data lines, CRLF cut between reads.
        let items = decode(&[
            b"\xEF\xBB\xBFdata:a\r",
            b"\n\r\n",
            b"event:m\r\ndata: b\r\ndata: c\r\n\r\n",
            b"data: d\r\rdata:  e\n\n",
        ]);
        assert_eq!(
            items,
            [
                event(None, "a"),
                event(Some("m"), "b\nc"),
                event(None, "d"),
                event(None, " e")
            ]
        );
    }

    #[test]
    fn comments_ids_retries_and_empty_data_are_no_events() {
        // C100
        let items = decode(&[
            b":\n\n: \n\n:ping\n\nretry: 3000\nid: 7\n\n\n\n\ndata:\n\nevent: x\n\nfoo: 1\nbare\n\n",
        ]);
        assert!(
            items.iter().all(|i| matches!(i, Item::Comment(_))),
            "{items:?}"
        );
        assert_eq!(items.len(), 3);
    }

    #[test]
    fn an_error_field_is_an_event_named_error() {
        assert_eq!(
            decode(&[b"error: {\"code\":400}\n\n"]),
            [event(Some("error"), "{\"code\":400}")]
        );
    }

    #[test]
    fn bare_json_is_an_event_once_its_braces_balance() {
        let items =
            decode(&[b"data: a\n\n{\n \"error\": {\n  \"m\": \"}\\\"{\"\n }\n}\ndata: b\n\n"]);
        let Item::Event(bare) = &items[1] else {
            panic!("{items:?}")
        };
        assert!(bare.bare);
        assert_eq!(bare.data, "{\n \"error\": {\n  \"m\": \"}\\\"{\"\n }\n}");
        assert_eq!(items[2], event(None, "b"));
    }

    #[test]
    fn the_last_event_needs_no_blank_line() {
        assert_eq!(decode(&[b"data: a\n\ndata: b"]).len(), 2);
        assert_eq!(decode(&[b"data: a\n"]).len(), 1);
    }

    #[test]
    fn events_without_blank_lines_between_them_are_one_line_each() {
        let lines = b"data: {\"a\":1}\ndata: {\"a\":2}\ndata: {\"a\":3}\ndata: [DONE]\n";
        let apart = ["{\"a\":1}", "{\"a\":2}", "{\"a\":3}", "[DONE]"].map(|d| event(None, d));
        assert_eq!(decode(&[lines]), apart);
        // Once known, no event waits for the next.
        let mut decoder = Decoder::new(1 << 20);
        let mut items = Vec::new();
        decoder.push(&lines[..30], &mut items).unwrap();
        assert_eq!(items, apart[..2]);
        let named = b"event: a\ndata: {\"a\":1}\nevent: b\ndata: {\"a\":2}\n\n";
        let own = [event(Some("a"), "{\"a\":1}"), event(Some("b"), "{\"a\":2}")];
        assert_eq!(decode(&[named]), own);
        let second = &named["event: a\n".len()..];
        assert_eq!(decode(&[second])[1], own[1]);
        // A broken line takes no whole one with it.
        assert_eq!(
            decode(&[b"data: {\"a\":\ndata: {\"a\":2}\n\n"]),
            [event(None, "{\"a\":"), event(None, "{\"a\":2}")]
        );
        // One document over several lines stays one.
        let pretty = "{\n\"a\": [\n{\"b\":1},\n{\"b\":2}\n]\n}";
        let mut written = Vec::new();
        write_event(None, pretty, &mut written);
        assert_eq!(decode(&[&written]), [event(None, pretty)]);
    }

    #[test]
    fn memory_is_bounded_by_the_limit() {
        // C223: an endless line, an endless event, an endless bare document.
        for (first, more) in [
            (&b"data: "[..], &b"xxxxxxxxxxxxxxxx"[..]),
            (b"data: x\n", b"data: xxxxxxxxx\n"),
            (b"{\n", b"{\"a\":[[[[[[[[[[\n"),
        ] {
            let mut decoder = Decoder::new(1_000);
            let mut items = Vec::new();
            decoder.push(first, &mut items).unwrap();
            let result = (0..100).try_for_each(|_| decoder.push(more, &mut items));
            assert_eq!(result, Err(EventTooLarge { limit: 1_000 }));
            assert_eq!(decoder.held(), 0);
            assert!(decoder.push(b"\n\n", &mut items).is_err());
            decoder.finish(&mut items);
            assert!(items.is_empty());
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut out = Vec::new();
        write_comment("keep-alive", &mut out);
        write_event(Some("error"), "a\nb", &mut out);
        write_event(None, "c", &mut out);
        assert_eq!(
            decode(&[&out]),
            [
                Item::Comment(" keep-alive".into()),
                event(Some("error"), "a\nb"),
                event(None, "c")
            ]
        );
    }

    proptest! {
        #[test]
        fn no_split_changes_the_events(
            lines in proptest::collection::vec(
                prop_oneof![
                    Just(""), Just("data: {\"a\":\"æ🌊\"}"), Just("data:x"), Just("event: e"),
                    Just(": c"), Just("error: {}"), Just("{\"a\":"), Just("1}"), Just("id: 1"),
                ], 0..12),
            ends in proptest::collection::vec(prop_oneof![Just("\n"), Just("\r\n"), Just("\r")], 12),
            cuts in proptest::collection::vec(0usize..200, 0..6),
        ) {
            let bytes: Vec<u8> = lines.iter().zip(&ends).flat_map(|(l, e)| [l.as_bytes(), e.as_bytes()].concat()).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            pieces.push(&bytes[from..]);
            prop_assert_eq!(decode(&pieces), decode(&[&bytes]));
        }
    }
}
