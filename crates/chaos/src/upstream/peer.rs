//! One connection to a caller.

use super::http::{self, Head, Refused, Request};
use bytes::BytesMut;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

/// Longest head of a request in bytes.
const MAX_HEAD: usize = 64 * 1_024;
/// Longest body of a request in bytes.
const MAX_BODY: usize = 64 * 1_024 * 1_024;
/// Most bytes taken in while an answer is still going out.
const MAX_AHEAD: usize = MAX_HEAD + MAX_BODY;

/// The caller closed the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

impl From<io::Error> for Gone {
    /// Whatever the error is, the connection is of no more use.
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// A connection, and what was read from it ahead of time.
#[derive(Debug)]
pub(super) struct Peer {
    stream: TcpStream,
    inbox: BytesMut,
}

impl Peer {
    pub(super) fn new(stream: TcpStream) -> Self {
        // Each event is to leave at once; where that fails it is only later.
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            inbox: BytesMut::new(),
        }
    }

    /// The next request; what is wrong with it where it cannot be read.
    pub(super) async fn request(&mut self) -> Result<Result<Request, Refused>, Gone> {
        let head = loop {
            match http::head(&mut self.inbox, MAX_HEAD) {
                Ok(Some(head)) => break head,
                Ok(None) => self.read().await?,
                Err(refused) => return Ok(Err(refused)),
            }
        };
        if head.expects_continue {
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        self.body(head).await
    }

    async fn body(&mut self, head: Head) -> Result<Result<Request, Refused>, Gone> {
        loop {
            match http::body(&mut self.inbox, head.framing, MAX_BODY) {
                Ok(Some(body)) => return Ok(Ok(Request { head, body })),
                Ok(None) => self.read().await?,
                Err(refused) => return Ok(Err(refused)),
            }
        }
    }

    async fn read(&mut self) -> Result<(), Gone> {
        match self.stream.read_buf(&mut self.inbox).await? {
            0 => Err(Gone),
            _ => Ok(()),
        }
    }

    /// Returns when the caller has closed the connection.
    pub(super) async fn gone(&mut self) -> Gone {
        while self.inbox.len() < MAX_AHEAD {
            if self.read().await.is_err() {
                return Gone;
            }
        }
        std::future::pending().await
    }

    /// Waits; ends early where the caller goes away.
    pub(super) async fn wait_until(&mut self, due: Instant) -> Result<(), Gone> {
        if due <= Instant::now() {
            return Ok(());
        }
        tokio::select! {
            biased;
            gone = self.gone() => Err(gone),
            () = sleep_until(due) => Ok(()),
        }
    }

    /// Sends all of `bytes`; ends early where the caller goes away.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        let Self { stream, inbox } = self;
        let (mut reader, mut writer) = stream.split();
        let write = writer.write_all(bytes);
        let mut write = std::pin::pin!(write);
        loop {
            tokio::select! {
                biased;
                written = &mut write => return Ok(written?),
                read = reader.read_buf(inbox), if inbox.len() < MAX_AHEAD => {
                    if read? == 0 {
                        return Err(Gone);
                    }
                }
            }
        }
    }

    /// Makes the end of this connection a reset.
    pub(super) fn reset(self) {
        let socket = socket2::SockRef::from(&self.stream);
        // Where this fails the caller sees an orderly end; there is nobody to tell.
        let _ = socket.set_linger(Some(Duration::ZERO));
    }

    /// Closes in good order: what was sent arrives before the end.
    pub(super) async fn close(mut self) {
        // The caller may have left already.
        let _ = self.stream.shutdown().await;
    }
}
