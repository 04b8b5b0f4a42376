//! A collector that takes whatever comes, and counts it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Longest head of a request that is read on.
const LONGEST_HEAD: usize = 64 * 1024;

/// Takes OTLP over HTTP until it is dropped.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    taken: Arc<Taken>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Taken {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Receiver {
    /// On a port of loopback.
    ///
    /// # Errors
    /// No port is to be had.
    pub(super) async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let taken = Arc::new(Taken::default());
        let mut tasks = JoinSet::new();
        let counts = taken.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, counts.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self {
            address,
            taken,
            _tasks: tasks,
        })
    }

    /// Requests that came, and the bytes of their bodies.
    pub(super) fn taken(&self) -> (u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.taken.requests), of(&self.taken.bytes))
    }
}

async fn serve(mut stream: TcpStream, counts: Arc<Taken>) {
    let mut read = Vec::new();
    while let Some(length) = head(&mut stream, &mut read).await {
        let mut left = length;
        let here = read.len().min(left);
        read.drain(..here);
        left -= here;
        let mut piece = [0; 8_192];
        while left > 0 {
            let most = left.min(piece.len());
            match stream.read(&mut piece[..most]).await {
                Ok(n) if n > 0 => left -= n,
                _ => return,
            }
        }
        counts.requests.fetch_add(1, Ordering::Relaxed);
        counts.bytes.fetch_add(length as u64, Ordering::Relaxed);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// Reads a request up to its body, whose length it gives; none where no other comes.
async fn head(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<usize> {
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
            let mut lines = text.lines();
            let length = lines.find_map(|line| line.strip_prefix("content-length:"));
            let length = length.and_then(|length| length.trim().parse().ok());
            read.drain(..end + 4);
            return length;
        }
        if read.len() > LONGEST_HEAD {
            return None;
        }
        let n = stream.read_buf(read).await.ok()?;
        (n > 0).then_some(())?;
    }
}
