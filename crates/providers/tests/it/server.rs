//! A server that does to a connection exactly what a test says, and a client
//! for it.

use evenkeel_core::{
    CallContext, ChatRequest, EventStream, Failure, KeySource, MissingKey, ProviderCall,
    StreamEvent,
};
use evenkeel_providers::{Client, ClientConfig, ClientOptions, Dialect, Limits};
use futures_util::StreamExt;
use secrecy::SecretString;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The key that the clients of these tests send.
pub(crate) const KEY: &str = "sk-test-AAAABBBBCCCCDDDD";

/// A listening server; its connections end with it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Serves each connection, numbered from 0, with `serve`.
    pub(crate) async fn new<F, Fut>(serve: F) -> Self
    where
        F: Fn(usize, TcpStream) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut served = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                served.spawn(serve(count.fetch_add(1, Ordering::SeqCst), socket));
            }
        });
        Self {
            address,
            connections,
            _tasks: tasks,
        }
    }

    /// Answers every request on every connection with the same bytes and
    /// closes.
    pub(crate) async fn answering(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes: Arc<Vec<u8>> = Arc::new(bytes.into());
        Self::new(move |_, mut socket| {
            let bytes = Arc::clone(&bytes);
            async move {
                if request(&mut socket).await.is_some() {
                    // The client may have seen enough and gone.
                    let _ = socket.write_all(&bytes).await;
                    let _ = socket.shutdown().await;
                }
            }
        })
        .await
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn client(&self) -> Client {
        client(&self.url(), ClientOptions::default())
    }

    /// A client with narrow limits.
    pub(crate) fn narrow_client(&self, bytes: usize) -> Client {
        let limits = Limits {
            max_answer_bytes: bytes,
            max_event_bytes: bytes,
            after_finish: Duration::from_millis(50),
            ..Limits::default()
        };
        let options = ClientOptions {
            limits,
            ..ClientOptions::default()
        };
        client(&self.url(), options)
    }
}

pub(crate) fn client(url: &str, options: ClientOptions) -> Client {
    let config = ClientConfig {
        dialect: Dialect::OpenAi,
        base_url: url.to_owned(),
        key: Arc::new(Key),
        propagate: true,
    };
    Client::with_options(config, options).unwrap()
}

/// Always gives [`KEY`].
#[derive(Debug)]
pub(crate) struct Key;

impl KeySource for Key {
    fn key(&self) -> Result<Option<SecretString>, MissingKey> {
        Ok(Some(SecretString::from(KEY)))
    }
}

/// A call whose connection may take long enough for any test machine.
pub(crate) fn call() -> ProviderCall {
    ProviderCall {
        model: "small".into(),
        request: Arc::new(ChatRequest::user("Is it high tide?")),
        connect: Duration::from_secs(20),
        context: CallContext::default(),
    }
}

/// A request as it came in.
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// The next request on a connection; none where the peer closed it.
pub(crate) async fn request<S: AsyncRead + Unpin>(socket: &mut S) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = find(&bytes, b"\r\n\r\n") {
            break end + 4;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec())
        .unwrap()
        .to_lowercase();
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.trim().parse().unwrap());
    while bytes.len() < end + length {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(Request {
        head,
        body: bytes[end..end + length].to_vec(),
    })
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Closes with a reset rather than in order.
pub(crate) fn reset(socket: &TcpStream) {
    #[expect(
        deprecated,
        reason = "a linger of zero never blocks; it is how a reset is made"
    )]
    socket.set_linger(Some(Duration::ZERO)).unwrap();
}

/// Waits until the peer has closed the connection.
pub(crate) async fn closed(socket: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset is a way to close, too.
    let _ = socket.read_to_end(&mut rest).await;
}

/// A 200 answer in full, with a body of this content type.
pub(crate) fn ok(content_type: &str, body: &str) -> Vec<u8> {
    response(
        200,
        &format!("content-type: {content_type}\r\n"),
        body.as_bytes(),
    )
}

/// An answer in full.
pub(crate) fn response(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} -\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// The head of a streamed answer in chunks.
pub(crate) const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// One chunk of a chunked body.
pub(crate) fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

/// An event with this text.
pub(crate) fn text_event(text: &str) -> String {
    format!(
        "data: {}\n\n",
        serde_json::json!({"id": "a1", "model": "m", "choices": [{"index": 0, "delta": {"content": text}}]})
    )
}

/// The event that ends an answer.
pub(crate) const STOP_EVENT: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

/// A whole answer's body.
pub(crate) fn answer_body(text: &str) -> String {
    serde_json::json!({
        "id": "a1", "object": "chat.completion", "created": 7, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
    })
    .to_string()
}

/// Everything a stream brings.
pub(crate) async fn all(stream: EventStream) -> Vec<Result<StreamEvent, Failure>> {
    stream.collect().await
}

/// The text of a stream's events.
pub(crate) fn text(events: &[Result<StreamEvent, Failure>]) -> String {
    events
        .iter()
        .filter_map(|event| match event {
            Ok(StreamEvent::Delta(evenkeel_core::Delta::Text(text))) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

/// Bounds a wait that would otherwise hang a broken build.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("this should have happened long ago")
}
