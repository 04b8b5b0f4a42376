//! One exchange with an endpoint: connect, send, receive.

use crate::body::Inbound;
use crate::connection::{Connector, Line, Pooling};
use bytes::Bytes;
use evenkeel_core::{Class, Failure, Phase};
use http::{Extensions, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::error::Error as _;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

type Http = Client<Connector, Full<Bytes>>;

/// Sends requests, over pooled connections where it can.
pub(crate) struct Transport {
    pooled: Http,
    /// Opens a connection for each request: for the one repeat of a request
    /// whose reused connection turned out dead. Taken from the pool again, it
    /// might draw another dead one.
    fresh: Http,
    /// Who is asked, for messages: host and port, and the proxy before it.
    authority: String,
    /// One permit an exchange, as many as connections may be open: each serves
    /// one exchange at a time. The wait for one thus happens here, outside of
    /// the time a connection may take to stand.
    room: Arc<Semaphore>,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("authority", &self.authority)
            .finish_non_exhaustive()
    }
}

/// A failed exchange, and whether it may be repeated at once.
struct Broken {
    failure: Failure,
    /// The connection was reused, and no byte of an answer came.
    was_stale: bool,
}

impl Transport {
    pub(crate) fn new(connector: &Connector, pooling: Pooling, authority: String) -> Self {
        let client = |max_idle: usize| {
            Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(pooling.idle)
                .pool_max_idle_per_host(max_idle)
                .build(connector.clone())
        };
        Self {
            pooled: client(pooling.max_idle),
            fresh: client(0),
            authority,
            room: Arc::new(Semaphore::new(pooling.max_connections)),
        }
    }

    /// Sends `request` once there is room; the connection must stand within
    /// `connect`.
    ///
    /// A reused connection that turns out dead before any byte of an answer
    /// came says nothing about the endpoint: the request is sent once more, on
    /// a fresh connection, and nothing is told.
    pub(crate) async fn send(
        &self,
        request: &Request<Full<Bytes>>,
        connect: Duration,
    ) -> Result<Response<Inbound>, Failure> {
        // Waiting for a turn is bounded by the caller's clocks, not by `connect`:
        // it says nothing about the endpoint. The semaphore is never closed.
        let turn = Arc::clone(&self.room).acquire_owned().await.ok();
        let result = match self.exchange(&self.pooled, request.clone(), connect).await {
            Err(broken) if broken.was_stale => {
                self.exchange(&self.fresh, request.clone(), connect).await
            }
            result => result,
        };
        match result {
            Ok(response) => Ok(response.map(|body| body.in_turn(turn))),
            Err(broken) => Err(broken.failure),
        }
    }

    async fn exchange(
        &self,
        client: &Http,
        mut request: Request<Full<Bytes>>,
        connect: Duration,
    ) -> Result<Response<Inbound>, Broken> {
        let mut captured = capture_connection(&mut request);
        let result = {
            let mut response = pin!(client.request(request));
            let connected = async { drop(captured.wait_for_connection_metadata().await) };
            tokio::select! {
                biased;
                result = &mut response => result,
                () = connected => response.await,
                () = tokio::time::sleep(connect) => return Err(self.no_connection(connect)),
            }
        };
        let line = line(&captured);
        match result {
            Ok(response) => Ok(response.map(|body: Incoming| Inbound::new(body, line))),
            Err(error) => {
                let was_stale =
                    !error.is_connect() && line.is_some_and(|l| l.is_reused_and_silent());
                Err(Broken {
                    failure: self.failure(error),
                    was_stale,
                })
            }
        }
    }

    fn no_connection(&self, connect: Duration) -> Broken {
        let message = format!("no connection within {} ms", connect.as_millis());
        let at = At {
            authority: self.authority.clone(),
            source: None,
        };
        Broken {
            failure: Failure::timeout(Phase::Connect, message).with_source(at),
            was_stale: false,
        }
    }

    fn failure(&self, error: Error) -> Failure {
        let why = cause(&error);
        let not_http = find::<hyper::Error>(&error).is_some_and(hyper::Error::is_parse);
        let (class, what) = if error.is_connect() {
            (Class::Unreachable, "cannot connect")
        } else if not_http {
            (Class::Malformed, "the provider did not answer in HTTP")
        } else {
            let what = "the provider closed the connection before it answered";
            (Class::Transient, what)
        };
        let at = At {
            authority: self.authority.clone(),
            source: Some(error),
        };
        Failure::new(class, format!("{what}: {why}")).with_source(at)
    }
}

/// Where it was. A failure's message may go to a client, whose it is not to know.
#[derive(Debug, thiserror::Error)]
#[error("at {authority}")]
struct At {
    authority: String,
    source: Option<Error>,
}

/// What is known of the connection a request was given.
fn line(captured: &CaptureConnection) -> Option<Line> {
    let mut extras = Extensions::new();
    captured
        .connection_metadata()
        .as_ref()?
        .get_extras(&mut extras);
    extras.remove()
}

fn find<E: std::error::Error + 'static>(error: &Error) -> Option<&E> {
    let mut below = error.source();
    while let Some(error) = below {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        below = error.source();
    }
    None
}

/// The innermost error: the others say only where it passed.
pub(crate) fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(below) = innermost.source() {
        innermost = below;
    }
    innermost.to_string()
}
