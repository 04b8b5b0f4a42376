//! A server on a real socket that misbehaves on command.

mod bomb;
mod exchange;
mod http;
mod peer;
mod port;
mod route;
mod stream;
mod whole;

use crate::model::{Model, Models};
use crate::{Behaviour, Dialect, Fault, Stats};
use port::{Command, Port};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Requests kept in the log: enough for every call of a test, small enough for a long run.
const LOG_REQUESTS: usize = 1_024;
/// Longest request body kept in the log, in bytes.
const LOG_BODY: usize = 64 * 1_024;

/// How an [`Upstream`] starts.
#[derive(Debug, Clone)]
pub struct UpstreamConfig {
    /// Where it listens; port 0 takes a free one.
    pub bind: SocketAddr,
    /// The provider's name, used in the text of answers.
    pub name: String,
    /// Seed of its latencies and of which calls get a fault.
    pub seed: u64,
    /// What a model does that has no behaviour of its own.
    pub behaviour: Behaviour,
    /// The dialect where a path does not tell: of `…/chat/completions`, which
    /// several share, of `…/models`, and of an error for an unknown path.
    pub dialect: Dialect,
}

impl Default for UpstreamConfig {
    /// A free port on 127.0.0.1, name `upstream`, healthy and immediate.
    fn default() -> Self {
        Self {
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            name: "upstream".to_owned(),
            seed: 0,
            behaviour: Behaviour::default(),
            dialect: Dialect::default(),
        }
    }
}

impl UpstreamConfig {
    /// The default under this name.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// With this seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// With this behaviour at the start.
    #[must_use]
    pub fn with_behaviour(mut self, behaviour: Behaviour) -> Self {
        self.behaviour = behaviour;
        self
    }

    /// With this dialect where a path does not tell.
    #[must_use]
    pub fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct SeenRequest {
    /// When it was read, counted from the start of the server.
    pub at: Duration,
    /// Which connection it came on, counted from 1.
    pub connection: u64,
    /// The dialect it speaks.
    pub dialect: Dialect,
    /// Its path, without the query.
    pub path: String,
    /// The model it asks for.
    pub model: String,
    /// Whether it asks for a stream.
    pub stream: bool,
    /// Its headers by lower-case name; of a repeated one, the last.
    pub headers: BTreeMap<String, String>,
    /// Its body; null where it was longer than 64 KiB.
    pub body: Value,
}

/// A server that speaks every [`Dialect`] over HTTP/1.1 and answers as its
/// [`Behaviour`] says, which can be replaced while it runs.
///
/// The path tells the dialect: `…/chat/completions`, `…/messages`,
/// `…/models/{model}:generateContent` and `:streamGenerateContent` (events
/// with `alt=sse`, else a JSON array), each below any version. Beside them it
/// lists its models and counts tokens. Any key is taken, wherever it stands.
/// The status, headers and role of a stream go out at once, before its first
/// token, unless [`Behaviour::late_open`] holds them back.
/// A caller that closes its connection, or its sending half, counts as gone.
///
/// Every task ends when it is stopped or dropped.
#[derive(Debug)]
pub struct Upstream {
    shared: Arc<Shared>,
    address: SocketAddr,
    commands: mpsc::UnboundedSender<Command>,
    tasks: JoinSet<()>,
}

impl Upstream {
    /// Starts listening.
    ///
    /// # Errors
    /// Where the address cannot be bound.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn start(config: UpstreamConfig) -> std::io::Result<Self> {
        let port = Port::reserve(config.bind)?;
        let listener = port.listen()?;
        let address = listener.local_addr()?;
        let refusing = closes_port(&config.behaviour);
        let shared = Arc::new(Shared::new(config));
        let (commands, inbox) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(port::run(port, listener, Arc::clone(&shared), inbox));
        let upstream = Self {
            shared,
            address,
            commands,
            tasks,
        };
        if refusing {
            upstream.ask(Command::refusing(true)).await;
        }
        Ok(upstream)
    }

    /// Base URL for a client, with `/v1`.
    pub fn base_url(&self) -> String {
        self.base_url_of(Dialect::OpenAi)
    }

    /// Base URL for a client of this dialect, with the version.
    pub fn base_url_of(&self, dialect: Dialect) -> String {
        format!("http://{}{}", self.address, dialect.version_path())
    }

    /// The address it listens on, the same after [`Self::down`] and [`Self::up`].
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the behaviour of every model that has none of its own. Calls
    /// in flight keep the one they began with.
    ///
    /// With [`Fault::Refuse`] on every call the port closes as soon as the
    /// runtime gets to it; a request that comes before is reset. Another
    /// behaviour opens it again.
    pub fn set(&self, behaviour: Behaviour) {
        let refusing = closes_port(&behaviour);
        self.shared.default.set(behaviour);
        // The receiver lives as long as `tasks`, that is, as long as `self`.
        let _ = self.commands.send(Command::refusing(refusing));
    }

    /// Gives `model` a behaviour of its own, or replaces it. Here
    /// [`Fault::Refuse`] is a reset: other models use the same port.
    pub fn set_model(&self, model: &str, behaviour: Behaviour) {
        self.shared.models.set(model, behaviour);
    }

    /// Closes the port and cuts every connection; calls in flight fail. When
    /// it returns, a connection is refused.
    pub async fn down(&self) {
        self.ask(Command::down(true)).await;
    }

    /// Opens the same port again. With [`Fault::Refuse`] set it stays closed
    /// until another behaviour is.
    ///
    /// # Errors
    /// Where another process has taken the port meanwhile.
    pub async fn up(&self) -> std::io::Result<()> {
        self.ask(Command::down(false)).await.unwrap_or(Ok(()))
    }

    async fn ask(&self, command: Command) -> Option<std::io::Result<()>> {
        let (answer, done) = oneshot::channel();
        self.commands.send(command.answering(answer)).ok()?;
        done.await.ok()
    }

    /// The calls of all models so far. A call is counted before its last byte
    /// goes out, so whoever has the answer finds it counted; a caller that
    /// left is counted as soon as that is seen.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Waits until the counts are as `wanted` says, and returns them.
    ///
    /// Dropping the future has no effect.
    pub async fn wait_until(&self, wanted: impl Fn(&Stats) -> bool) -> Stats {
        loop {
            let changed = self.shared.models.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let stats = self.stats();
            if wanted(&stats) {
                return stats;
            }
            changed.await;
        }
    }

    /// The last 1,024 requests, oldest first.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.shared.log().iter().cloned().collect()
    }

    /// Closes the port, cuts every connection and waits until all tasks have ended.
    pub async fn stop(mut self) {
        self.down().await;
        self.tasks.shutdown().await;
    }
}

/// Whether every call is refused, so that the port can be closed.
fn closes_port(behaviour: &Behaviour) -> bool {
    behaviour.fault == Some(Fault::Refuse)
        && behaviour.error_rate >= 1.0
        && behaviour.fault_times.is_none()
}

/// What the connections of one server share.
#[derive(Debug)]
struct Shared {
    started: Instant,
    /// Those that have a behaviour of their own.
    models: Models,
    default: Arc<Model>,
    dialect: Dialect,
    log: Mutex<VecDeque<SeenRequest>>,
    answers: AtomicU64,
}

impl Shared {
    fn new(config: UpstreamConfig) -> Self {
        let models = Models::new(&config.name, config.seed);
        let default = models.make("*", config.behaviour);
        Self {
            started: Instant::now(),
            models,
            default: Arc::new(default),
            dialect: config.dialect,
            log: Mutex::default(),
            answers: AtomicU64::new(0),
        }
    }

    /// The model whose behaviour a request for `name` gets.
    fn model(&self, name: &str) -> Arc<Model> {
        let own = self.models.find(name);
        own.unwrap_or_else(|| Arc::clone(&self.default))
    }

    fn next_answer(&self) -> u64 {
        self.answers.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn stats(&self) -> Stats {
        self.default.stats() + self.models.stats()
    }

    fn note(&self, seen: SeenRequest) {
        let mut log = self.log();
        if log.len() == LOG_REQUESTS {
            log.pop_front();
        }
        log.push_back(seen);
    }

    fn log(&self) -> MutexGuard<'_, VecDeque<SeenRequest>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
