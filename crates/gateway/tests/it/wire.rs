//! A client that shows every byte: what a real one hides is what is tested here.

use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer as it came.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// Whether the body ended as its framing says.
    pub(crate) complete: bool,
}

impl Reply {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("no JSON ({e}): {}", self.body))
    }

    /// The error object of an answer in OpenAI's shape: its four fields are there.
    pub(crate) fn error(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"));
        let error = self.json()["error"].clone();
        for field in ["message", "type", "code"] {
            assert!(error[field].is_string(), "{field} in {error}");
        }
        assert!(error.get("param").is_some(), "param in {error}");
        error
    }

    /// The data of each server-sent event; comments are none.
    pub(crate) fn events(&self) -> Vec<String> {
        let mut events = Vec::new();
        let blocks = self.body.split("\n\n");
        for event in blocks.filter(|e| !e.is_empty() && !e.starts_with(':')) {
            let data = event.strip_prefix("data: ");
            events.push(
                data.unwrap_or_else(|| panic!("no data line: {event}"))
                    .to_owned(),
            );
        }
        events
    }

    /// The JSON events of a stream, without `[DONE]`.
    pub(crate) fn chunks(&self) -> Vec<Value> {
        self.events()
            .iter()
            .filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

/// Bytes of a request: its head from `line` and `headers`, and its body.
pub(crate) fn request(line: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{line} HTTP/1.1\r\nhost: gateway\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Sends bytes on a new connection and reads one answer.
pub(crate) async fn send(address: SocketAddr, bytes: &[u8]) -> Reply {
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(bytes).await.unwrap();
    receive(&mut connection).await
}

/// Reads one answer, of any framing.
pub(crate) async fn receive(connection: &mut TcpStream) -> Reply {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = find(&bytes, b"\r\n\r\n") {
            break end;
        }
        let n = connection.read_buf(&mut bytes).await.unwrap();
        assert!(
            n > 0,
            "closed within the head: {}",
            String::from_utf8_lossy(&bytes)
        );
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap();
    let status = status_line.split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_owned(), value.trim().to_owned())
        })
        .collect();
    let mut reply = Reply {
        status,
        headers,
        body: String::new(),
        complete: true,
    };
    let rest = bytes.split_off(head_end + 4);
    let body = if let Some(length) = reply.header("content-length") {
        let length: usize = length.parse().unwrap();
        sized_body(connection, rest, length, &mut reply.complete).await
    } else {
        chunked_body(connection, rest, &mut reply.complete).await
    };
    reply.body = String::from_utf8(body).unwrap();
    reply
}

async fn sized_body(
    connection: &mut TcpStream,
    mut body: Vec<u8>,
    length: usize,
    complete: &mut bool,
) -> Vec<u8> {
    while body.len() < length {
        if connection.read_buf(&mut body).await.unwrap_or(0) == 0 {
            *complete = false;
            break;
        }
    }
    body
}

async fn chunked_body(
    connection: &mut TcpStream,
    mut raw: Vec<u8>,
    complete: &mut bool,
) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        while let Some(line) = find(&raw, b"\r\n") {
            let size = std::str::from_utf8(&raw[..line]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            let chunk = line + 2..line + 2 + size;
            if raw.len() < chunk.end + 2 {
                break;
            }
            body.extend_from_slice(&raw[chunk.clone()]);
            raw.drain(..chunk.end + 2);
            if size == 0 {
                return body;
            }
        }
        if connection.read_buf(&mut raw).await.unwrap_or(0) == 0 {
            *complete = false;
            return body;
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
