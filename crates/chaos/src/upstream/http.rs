//! HTTP/1.1 by hand: a library would not let go of a body unfinished.

use bytes::BytesMut;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Most headers of a request.
const MAX_HEADERS: usize = 128;

/// A request that is answered with an error and the end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) message: &'static str,
}

const fn refused(status: u16, message: &'static str) -> Refused {
    Refused { status, message }
}

/// How the end of a request's body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(usize),
    Chunked,
}

/// The head of a request.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) method: String,
    /// Path without the query.
    pub(super) path: String,
    /// The query, without its question mark.
    pub(super) query: String,
    /// By lower-case name.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) framing: Framing,
    pub(super) keep_alive: bool,
    pub(super) expects_continue: bool,
}

/// A whole request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) head: Head,
    pub(super) body: Vec<u8>,
}

/// Takes a head off the front of `inbox`; none where it is not whole yet.
pub(super) fn head(inbox: &mut BytesMut, limit: usize) -> Result<Option<Head>, Refused> {
    let mut slots = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut slots);
    let length = match parsed.parse(inbox) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if inbox.len() <= limit => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(refused(431, "the head is too long")),
        Err(httparse::Error::TooManyHeaders) => return Err(refused(431, "too many headers")),
        Err(_) => return Err(refused(400, "not an HTTP/1.1 request")),
    };
    let headers: BTreeMap<String, String> = parsed
        .headers
        .iter()
        .map(|h| {
            let value = String::from_utf8_lossy(h.value).trim().to_owned();
            (h.name.to_ascii_lowercase(), value)
        })
        .collect();
    let has = |name: &str, word: &str| {
        headers
            .get(name)
            .is_some_and(|value| value.to_ascii_lowercase().contains(word))
    };
    let target = parsed.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let head = Head {
        method: parsed.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        framing: framing(&headers)?,
        keep_alive: parsed.version == Some(1) && !has("connection", "close"),
        expects_continue: has("expect", "100-continue"),
        headers,
    };
    let _ = inbox.split_to(length);
    Ok(Some(head))
}

fn framing(headers: &BTreeMap<String, String>) -> Result<Framing, Refused> {
    if headers.contains_key("transfer-encoding") {
        return Ok(Framing::Chunked);
    }
    match headers.get("content-length") {
        None => Ok(Framing::Length(0)),
        Some(text) => text
            .parse()
            .map(Framing::Length)
            .map_err(|_| refused(400, "content-length is no number")),
    }
}

/// Takes a body off the front of `inbox`; none where it is not whole yet.
pub(super) fn body(
    inbox: &mut BytesMut,
    framing: Framing,
    limit: usize,
) -> Result<Option<Vec<u8>>, Refused> {
    const TOO_LONG: Refused = refused(413, "the body is too long");
    match framing {
        Framing::Length(length) if length > limit => Err(TOO_LONG),
        Framing::Length(length) if inbox.len() < length => Ok(None),
        Framing::Length(length) => Ok(Some(inbox.split_to(length).to_vec())),
        // Read again from its start whenever more has come: bodies are small here.
        Framing::Chunked => match dechunked(inbox)? {
            Some((body, _)) if body.len() > limit => Err(TOO_LONG),
            Some((body, used)) => {
                let _ = inbox.split_to(used);
                Ok(Some(body))
            }
            None if inbox.len() > limit => Err(TOO_LONG),
            None => Ok(None),
        },
    }
}

/// A chunked body and how many bytes it takes up; none where it is not whole yet.
fn dechunked(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, Refused> {
    const BAD: Refused = refused(400, "the chunked body is broken");
    let (mut at, mut body) = (0, Vec::new());
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Ok(size) = httparse::parse_chunk_size(rest) else {
            return Err(BAD);
        };
        let httparse::Status::Complete((start, size)) = size else {
            return Ok(None);
        };
        let size = usize::try_from(size).map_err(|_| BAD)?;
        let end = start.checked_add(size).ok_or(BAD)?;
        if size == 0 {
            // No trailers are expected: the closing line is empty.
            return match rest.get(start..start + 2) {
                None => Ok(None),
                Some(b"\r\n") => Ok(Some((body, at + start + 2))),
                Some(_) => Err(BAD),
            };
        }
        match rest.get(end..end.saturating_add(2)) {
            None => return Ok(None),
            Some(b"\r\n") => body.extend_from_slice(&rest[start..end]),
            Some(_) => return Err(BAD),
        }
        at += end + 2;
    }
}

/// The head of an answer.
#[derive(Debug)]
pub(super) struct AnswerHead<'a> {
    pub(super) status: u16,
    pub(super) content_type: &'a str,
    /// Bytes of the body; none means that it is chunked.
    pub(super) length: Option<usize>,
    pub(super) headers: &'a [(&'static str, String)],
    pub(super) keep_alive: bool,
}

impl AnswerHead<'_> {
    /// As it goes over the wire.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let status = self.status;
        let reason = http::StatusCode::from_u16(status)
            .ok()
            .and_then(|status| status.canonical_reason())
            .unwrap_or("Unknown");
        let mut head = format!("HTTP/1.1 {status} {reason}\r\n");
        let mut line = |name: &str, value: &str| {
            let _ = write!(head, "{name}: {value}\r\n");
        };
        line("content-type", self.content_type);
        match self.length {
            Some(length) => line("content-length", &length.to_string()),
            None => line("transfer-encoding", "chunked"),
        }
        for (name, value) in self.headers {
            line(name, value);
        }
        if !self.keep_alive {
            line("connection", "close");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

/// `data` as one chunk of a chunked body.
pub(super) fn chunk(data: &[u8]) -> Vec<u8> {
    let mut framed = format!("{:x}\r\n", data.len()).into_bytes();
    framed.extend_from_slice(data);
    framed.extend_from_slice(b"\r\n");
    framed
}

/// The end of a chunked body.
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1_024;

    /// Feeds `bytes` one at a time; the head and body once both are whole.
    fn trickle(bytes: &[u8]) -> Result<(Head, Vec<u8>), Refused> {
        let mut inbox = BytesMut::new();
        let mut found = None;
        for byte in bytes {
            inbox.extend_from_slice(&[*byte]);
            if found.is_none() {
                found = head(&mut inbox, LIMIT)?;
            }
            if let Some(head) = found.take() {
                match body(&mut inbox, head.framing, LIMIT)? {
                    Some(body) => return Ok((head, body)),
                    None => found = Some(head),
                }
            }
        }
        panic!("not whole: {}", String::from_utf8_lossy(bytes));
    }

    #[test]
    fn a_request_is_read_however_it_is_cut() {
        let (head, body) = trickle(
            b"POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
        )
        .unwrap();
        assert_eq!(
            (head.method.as_str(), head.path.as_str()),
            ("POST", "/v1/chat/completions")
        );
        assert_eq!(head.headers["host"], "a");
        assert!(head.keep_alive);
        assert_eq!(body, b"{}");
    }

    #[test]
    fn a_chunked_request_is_joined() {
        let (_, body) = trickle(
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n",
        )
        .unwrap();
        assert_eq!(body, b"abc0123456789");
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let status = |bytes: &[u8]| trickle(bytes).unwrap_err().status;
        assert_eq!(status(b"\x16\x03\x01\x02\x00 hello"), 400);
        assert_eq!(status(b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n"), 400);
        assert_eq!(
            status(b"POST / HTTP/1.1\r\ncontent-length: 5000\r\n\r\n"),
            413
        );
        assert_eq!(
            status(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n"),
            400
        );
        let flood = format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "x".repeat(2_000));
        assert_eq!(status(flood.as_bytes()), 431);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(150));
        assert_eq!(status(many.as_bytes()), 431);
    }

    #[test]
    fn an_old_or_closing_caller_gets_no_second_answer() {
        for request in [
            &b"GET / HTTP/1.0\r\n\r\n"[..],
            b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n",
        ] {
            assert!(!trickle(request).unwrap().0.keep_alive);
        }
    }
}
