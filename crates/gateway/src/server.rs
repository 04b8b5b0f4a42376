//! The listening server: accepts connections, serves them, ends them well.

use crate::admin;
use crate::alerts::AlertFacts;
use crate::app::App;
use crate::held::Held;
use crate::limits::Limits;
use crate::live::{Live, Reloader};
use crate::metrics::{GatewayMetrics, Pusher};
use crate::routes;
use crate::socket::{Serving, Socket};
use crate::telemetry::Tracing;
use crate::tickets::Tickets;
use crate::trust::{Peer, is_open};
use evenkeel::Settings;
use evenkeel_otel_emit::audit::AuditSink;
use evenkeel_roster::ServerConfig;
use evenkeel_router::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

/// Connections the kernel queues while none is accepted.
const BACKLOG: u32 = 1024;

/// Pause after a failed `accept` (usually: no file descriptor left), so that
/// the loop does not spin until one is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// A `listen` is no address.
    #[error("{key}: `{listen}` is not an address with a port, e.g. 127.0.0.1:4000")]
    Address {
        /// `server.listen` or `server.admin.listen`.
        key: &'static str,
        /// What it says.
        listen: String,
        /// Why it is none.
        #[source]
        source: io::Error,
    },
    /// Everyone in reach could use the server.
    #[error(
        "server.listen: {listen} can be reached from other machines and server.client_keys is empty: \
         configure a key, listen on 127.0.0.1, or set server.allow_open = true"
    )]
    Open {
        /// The address.
        listen: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("{key}: cannot listen on {listen}: {source}")]
    Listen {
        /// `server.listen` or `server.admin.listen`.
        key: &'static str,
        /// The address.
        listen: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// A gateway that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    /// The operators' address.
    admin: Option<(TcpListener, SocketAddr)>,
    app: Arc<App>,
    limits: Limits,
    ends: Ends,
}

impl Server {
    /// Listens on `config.listen` and serves the roles of `router`; on
    /// `config.admin.listen`, where there is one, it serves operators. Port 0
    /// takes a free one ([`Server::local_addr`], [`Server::admin_addr`]).
    /// Connections wait until [`Server::run`].
    ///
    /// # Errors
    /// [`BindError`]: the address is none, is taken, or is open to other
    /// machines without client keys.
    pub fn bind(config: &ServerConfig, router: Router, limits: Limits) -> Result<Self, BindError> {
        let address = address("server.listen", &config.listen)?;
        if is_open(config, address) {
            return Err(BindError::Open { listen: address });
        }
        let (listener, address) = listen("server.listen", address)?;
        let admin = config.admin.as_ref().map(|admin| {
            const KEY: &str = "server.admin.listen";
            listen(KEY, self::address(KEY, &admin.listen)?)
        });
        Ok(Self {
            listener,
            address,
            admin: admin.transpose()?,
            app: Arc::new(App::new(config, router, limits)),
            limits,
            ends: Ends::default(),
        })
    }

    /// Shows callers and operators these tickets, which are the store of the router.
    ///
    /// # Panics
    /// Never: nobody has what it serves before it runs.
    #[must_use]
    pub fn with_tickets(mut self, tickets: Arc<Tickets>) -> Self {
        let app = Arc::get_mut(&mut self.app);
        app.expect("nothing is served yet").tickets = Some(tickets);
        self
    }

    /// Shows how the audit log is, and takes calls only while it does.
    ///
    /// # Panics
    /// Never: nobody has what it serves before it runs.
    #[must_use]
    pub fn with_audit(mut self, audit: Arc<dyn AuditSink>) -> Self {
        let app = Arc::get_mut(&mut self.app);
        app.expect("nothing is served yet").audit = Some(audit);
        self
    }

    /// A reload tells alerts what they know of models from then on.
    ///
    /// # Panics
    /// Never: nobody has what it serves before it runs.
    #[must_use]
    pub fn with_alerts(mut self, facts: AlertFacts) -> Self {
        let app = Arc::get_mut(&mut self.app);
        app.expect("nothing is served yet").alerts = Some(facts);
        self
    }

    /// Shows these metrics, which hear what the router tells, at `/metrics`.
    ///
    /// # Panics
    /// Never: nobody has what it serves before it runs.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Arc<GatewayMetrics>) -> Self {
        let app = Arc::get_mut(&mut self.app);
        app.expect("nothing is served yet").metrics = Some(metrics);
        self
    }

    /// Makes a span of each request, whose call is then below it.
    ///
    /// # Panics
    /// Never: nobody has what it serves before it runs.
    #[must_use]
    pub fn with_tracing(mut self, tracing: &Tracing) -> Self {
        let app = Arc::get_mut(&mut self.app);
        app.expect("nothing is served yet").spans = Some(tracing.spans());
        self
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The address that operators use, where there is one.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(|(_, address)| *address)
    }

    /// Says that `settings`, read from `path`, are what this server and its
    /// router run on: from then on they can be [reloaded](Server::reloader).
    #[must_use]
    pub fn reading(self, path: PathBuf, settings: Settings) -> Self {
        let live = Live::new(path, settings, self.address);
        // Said twice, the first holds.
        let _ = self.app.live.set(live);
        self
    }

    /// What reloads the configuration while the server runs.
    pub fn reloader(&self) -> Reloader {
        Reloader(self.app.clone())
    }

    /// What pushes the metrics while the server runs.
    pub fn pusher(&self) -> Pusher {
        Pusher::new(self.app.clone())
    }

    /// Cuts the calls in flight when it is cancelled, once [`Server::run`] has been told to
    /// end: it does not wait for them then.
    pub fn cut(&self) -> CancellationToken {
        self.ends.now.clone()
    }

    /// Serves until `shutdown` resolves, then accepts no more, lets the calls
    /// in flight end (streams included, at most `limits.drain`) and returns.
    /// The router is left as it is: shut it down afterwards.
    ///
    /// Dropping the future closes the port and cuts every connection.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self {
            listener,
            admin,
            app,
            limits,
            ends,
            ..
        } = self;
        let connections = TaskTracker::new();
        let _cut = [
            ends.soon.clone().drop_guard(),
            ends.now.clone().drop_guard(),
        ];
        let serve = Connections {
            routes: routes::routes(app.clone()),
            limits,
            ends: ends.clone(),
        };
        let operate = Connections {
            routes: admin::routes(app.clone()),
            limits: limits.for_admin(),
            ends: ends.clone(),
        };
        let operators = async {
            match &admin {
                Some((listener, _)) => operate.accept(listener, &connections).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = serve.accept(&listener, &connections) => {}
            () = operators => {}
            () = shutdown => {}
        }
        app.drain();
        drop((listener, admin));
        ends.soon.cancel();
        connections.close();
        tokio::select! {
            () = connections.wait() => {}
            () = ends.now.cancelled() => {}
            () = tokio::time::sleep(limits.drain) => {
                tracing::warn!(
                    event = "drain_cut",
                    connections = connections.len(),
                    "calls in flight outlived the drain time and were cut"
                );
                ends.now.cancel();
            }
        }
        connections.wait().await;
    }
}

fn address(key: &'static str, listen: &str) -> Result<SocketAddr, BindError> {
    let none = |source| BindError::Address {
        key,
        listen: listen.to_owned(),
        source,
    };
    let mut found = listen.to_socket_addrs().map_err(none)?;
    found
        .next()
        .ok_or_else(|| none(io::Error::from(io::ErrorKind::NotFound)))
}

fn listen(key: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), BindError> {
    bound(address).map_err(|source| BindError::Listen {
        key,
        listen: address,
        source,
    })
}

fn bound(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A restart must not wait until the old connections' ports are forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// How connections are told to end.
#[derive(Debug, Clone, Default)]
struct Ends {
    /// After the answer that is being given.
    soon: CancellationToken,
    /// At once.
    now: CancellationToken,
}

/// Serves connections.
#[derive(Debug, Clone)]
struct Connections {
    routes: axum::Router,
    limits: Limits,
    ends: Ends,
}

impl Connections {
    /// Accepts for ever.
    async fn accept(&self, listener: &TcpListener, tasks: &TaskTracker) {
        let places = Arc::new(Semaphore::new(self.limits.connections));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let connections = self.clone();
                    tasks.spawn(async move {
                        connections.serve(stream, Peer(peer.ip())).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(event = "accept_failed", %error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves one connection to its end. Its errors are the client's: a
    /// broken head has been answered, a client that left needs no answer.
    async fn serve(self, stream: TcpStream, peer: Peer) {
        // Events of a stream must not wait for the client's acknowledgement.
        let _ = stream.set_nodelay(true);
        let serving = Serving::default();
        let socket = Socket::new(stream, serving.clone(), self.limits);
        let routes = self.routes;
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            let served = serving.begin();
            let answer = routes.clone().call(request);
            async move {
                let answer = answer.await;
                // It ends the request when it ends or is dropped.
                answer.map(|answer| answer.map(|body| Held::new(body, served)))
            }
        });
        let mut connection = pin!(
            http1::Builder::new()
                .header_read_timeout(None)
                .max_buf_size(self.limits.head_bytes)
                .serve_connection(TokioIo::new(socket), service)
        );
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.ends.soon.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    () = self.ends.now.cancelled() => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(event = "connection_ended", %error, "a connection ended early");
        }
    }
}

/// How many worker threads serve best: one less than there are cores, at least
/// one. The core left over belongs to the kernel's network work and to
/// whoever shares the machine; with a worker on every core, calls at low load
/// are handed from one sleeping thread to the next (measured on two cores: a
/// third more latency, and 15% fewer whole answers a second at full load).
pub fn worker_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    cores.saturating_sub(1).max(1)
}
