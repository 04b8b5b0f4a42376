//! What the server allows a client to take: time, connections, size of a head.

use std::time::Duration;

/// Connections that the operators' address serves at once.
const ADMIN_CONNECTIONS: usize = 64;

/// Bounds on clients. The request body's own limit is `server.max_body_bytes`.
///
/// The defaults are meant for clients across a network; a test shortens them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest time from the first byte of a request head to its last.
    pub head: Duration,
    /// Longest silence while a request body is being sent.
    pub body_stall: Duration,
    /// Longest time for a whole request body: what a dripping client gets.
    pub body: Duration,
    /// How long a connection may stay open without a request. Longer than the
    /// 60 s after which common load balancers drop their own side, so that a
    /// request never meets a connection that is just being closed.
    pub idle: Duration,
    /// Longest time in which a client takes nothing of what is written to it.
    pub write_stall: Duration,
    /// Bytes of a request head, and of what is buffered for a client that reads slowly.
    pub head_bytes: usize,
    /// Connections served at once; more wait in the listen queue.
    pub connections: usize,
    /// How long calls in flight may go on after shutdown was asked for. As
    /// long as the longest usual `deadline_ms`, so that none is cut.
    pub drain: Duration,
}

impl Limits {
    /// Of the operators' address: its connections are counted apart, so that
    /// clients in any number leave it reachable, and there are few of them.
    pub(crate) fn for_admin(self) -> Self {
        Self {
            connections: self.connections.min(ADMIN_CONNECTIONS),
            ..self
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            body_stall: Duration::from_secs(10),
            body: Duration::from_secs(60),
            idle: Duration::from_secs(90),
            write_stall: Duration::from_secs(60),
            head_bytes: 64 * 1024,
            connections: 8_192,
            drain: Duration::from_secs(130),
        }
    }
}
