//! A caller that sees every byte and every end of a connection.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// How a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As its framing says; the connection goes on.
    Whole,
    /// The connection was closed within it.
    Closed,
    /// The connection was reset.
    Reset,
}

/// Status and headers.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
}

/// A connection and what was read ahead.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    ahead: Vec<u8>,
}

pub(crate) fn chat(prompt: &str, stream: bool) -> Value {
    json!({
        "model": "m",
        "messages": [{"role": "user", "content": prompt}],
        "stream": stream,
    })
}

impl Client {
    pub(crate) async fn connect(upstream: &evenkeel_chaos::Upstream) -> Self {
        let stream = TcpStream::connect(upstream.address()).await;
        Self {
            stream: stream.expect("the port is open"),
            ahead: Vec::new(),
        }
    }

    /// Sends a chat completion.
    pub(crate) async fn ask(&mut self, body: &Value) {
        self.post("/v1/chat/completions", body).await;
    }

    /// Sends a request to `path`.
    pub(crate) async fn post(&mut self, path: &str, body: &Value) {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nX-Trace: abc\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.send(request.as_bytes()).await;
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream
            .write_all(bytes)
            .await
            .expect("the connection stands");
    }

    async fn more(&mut self) -> Result<(), End> {
        match self.stream.read_buf(&mut self.ahead).await {
            Ok(0) => Err(End::Closed),
            Ok(_) => Ok(()),
            Err(e) if e.kind() == ErrorKind::ConnectionReset => Err(End::Reset),
            Err(e) => panic!("neither closed nor reset: {e}"),
        }
    }

    fn take(&mut self, n: usize) -> Vec<u8> {
        self.ahead.drain(..n).collect()
    }

    /// The head of the answer.
    pub(crate) async fn head(&mut self) -> Result<Head, End> {
        loop {
            let mut slots = [httparse::EMPTY_HEADER; 32];
            let mut parsed = httparse::Response::new(&mut slots);
            if let httparse::Status::Complete(n) = parsed.parse(&self.ahead).expect("a head") {
                let text = |b: &[u8]| String::from_utf8(b.to_vec()).expect("text");
                let head = Head {
                    status: parsed.code.expect("a status"),
                    headers: parsed
                        .headers
                        .iter()
                        .map(|h| (h.name.to_lowercase(), text(h.value)))
                        .collect(),
                };
                self.take(n);
                return Ok(head);
            }
            self.more().await?;
        }
    }

    /// A body with a length: its bytes and how it ended.
    pub(crate) async fn sized(&mut self, head: &Head) -> (Vec<u8>, End) {
        let length: usize = head.headers["content-length"].parse().expect("a number");
        while self.ahead.len() < length {
            if let Err(end) = self.more().await {
                return (std::mem::take(&mut self.ahead), end);
            }
        }
        (self.take(length), End::Whole)
    }

    /// The next chunk of a chunked body, none after the last one.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Vec<u8>>, End> {
        loop {
            let size = httparse::parse_chunk_size(&self.ahead).expect("a chunk size");
            if let httparse::Status::Complete((start, size)) = size {
                let size = usize::try_from(size).expect("a small chunk");
                if self.ahead.len() >= start + size + 2 {
                    self.take(start);
                    let data = self.take(size);
                    assert_eq!(self.take(2), b"\r\n");
                    return Ok((size > 0).then_some(data));
                }
            }
            self.more().await?;
        }
    }

    /// All chunks with the time each came, and how the body ended.
    pub(crate) async fn chunks(&mut self) -> (Vec<(Instant, String)>, End) {
        let mut chunks = Vec::new();
        loop {
            match self.chunk().await {
                Ok(Some(data)) => {
                    let text = String::from_utf8(data).expect("text");
                    chunks.push((Instant::now(), text));
                }
                Ok(None) => return (chunks, End::Whole),
                Err(end) => return (chunks, end),
            }
        }
    }

    /// The rest of a body, of either framing: its bytes and how it ended.
    pub(crate) async fn body(&mut self, head: &Head) -> (Vec<u8>, End) {
        if head.headers.contains_key("content-length") {
            return self.sized(head).await;
        }
        let mut bytes = Vec::new();
        loop {
            match self.chunk().await {
                Ok(Some(data)) => bytes.extend(data),
                Ok(None) => return (bytes, End::Whole),
                Err(end) => return (bytes, end),
            }
        }
    }

    /// Asks for a whole answer: status, headers, body and its end.
    pub(crate) async fn whole(&mut self, body: &Value) -> Result<(Head, Vec<u8>, End), End> {
        self.ask(body).await;
        let head = self.head().await?;
        let (bytes, end) = self.sized(&head).await;
        Ok((head, bytes, end))
    }

    /// Asks for a stream: the data of its events and how it ended.
    pub(crate) async fn stream(&mut self, body: &Value) -> Result<(Vec<String>, End), End> {
        self.ask(body).await;
        let head = self.head().await?;
        assert_eq!(head.status, 200);
        assert!(head.headers["content-type"].starts_with("text/event-stream"));
        let (chunks, end) = self.chunks().await;
        Ok((chunks.into_iter().map(|c| data(&c.1)).collect(), end))
    }
}

/// The data of an event in OpenAI's form, a comment as it stands.
pub(crate) fn data(event: &str) -> String {
    let line = event.strip_suffix("\n\n").expect("a whole event");
    assert!(!line.contains('\n'), "one line: {line}");
    line.strip_prefix("data: ").unwrap_or(line).to_owned()
}

/// The text that the chunks of a stream add up to.
pub(crate) fn joined(events: &[String]) -> String {
    let json = events
        .iter()
        .filter_map(|e| serde_json::from_str::<Value>(e).ok());
    json.filter_map(|e| {
        let text = &e["choices"][0]["delta"]["content"];
        text.as_str().map(str::to_owned)
    })
    .collect()
}
