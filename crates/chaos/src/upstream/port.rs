//! The listening port: open, closed, open again.

use super::{Shared, exchange};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Connections that wait to be accepted: more than any test opens at once.
const BACKLOG: u32 = 4_096;
/// Pause after a failed accept (out of file handles), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A port that is kept while nobody listens on it.
#[derive(Debug)]
pub(super) struct Port {
    address: SocketAddr,
    /// A bound socket that never listens, so that nobody else is given the
    /// port while it is closed. Linux lets another listen beside it.
    _reserved: Option<TcpSocket>,
}

impl Port {
    pub(super) fn reserve(address: SocketAddr) -> io::Result<Self> {
        let socket = bound(address)?;
        let address = socket.local_addr()?;
        Ok(Self {
            address,
            _reserved: cfg!(target_os = "linux").then_some(socket),
        })
    }

    pub(super) fn listen(&self) -> io::Result<TcpListener> {
        bound(self.address)?.listen(BACKLOG)
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // Connections of the last listener may linger in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

type Done = oneshot::Sender<io::Result<()>>;

/// An order to open or close the port.
#[derive(Debug)]
pub(super) struct Command {
    down: Option<bool>,
    refusing: Option<bool>,
    done: Option<Done>,
}

impl Command {
    /// The operator's own switch.
    pub(super) fn down(down: bool) -> Self {
        Self {
            down: Some(down),
            refusing: None,
            done: None,
        }
    }

    /// The behaviour's switch.
    pub(super) fn refusing(refusing: bool) -> Self {
        Self {
            down: None,
            refusing: Some(refusing),
            done: None,
        }
    }

    pub(super) fn answering(mut self, done: Done) -> Self {
        self.done = Some(done);
        self
    }
}

/// Accepts connections and obeys commands until the commands' sender is gone.
/// Dropping it ends every connection.
pub(super) async fn run(
    port: Port,
    listener: TcpListener,
    shared: Arc<Shared>,
    mut inbox: mpsc::UnboundedReceiver<Command>,
) {
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    let (mut down, mut refusing, mut count) = (false, false, 0);
    loop {
        tokio::select! {
            biased;
            command = inbox.recv() => {
                let Some(command) = command else { return };
                down = command.down.unwrap_or(down);
                refusing = command.refusing.unwrap_or(refusing);
                let outcome = if down || refusing {
                    listener = None;
                    connections.shutdown().await;
                    Ok(())
                } else {
                    open(&port, &mut listener)
                };
                if let Some(done) = command.done {
                    // Whoever asked may have stopped waiting.
                    let _ = done.send(outcome);
                }
            }
            accepted = accept(listener.as_ref()) => match accepted {
                Ok(stream) => {
                    count += 1;
                    connections.spawn(exchange::serve(stream, count, Arc::clone(&shared)));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

fn open(port: &Port, listener: &mut Option<TcpListener>) -> io::Result<()> {
    if listener.is_none() {
        *listener = Some(port.listen()?);
    }
    Ok(())
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}
