//! Callers that stream, each its next request as soon as the last has ended.

use super::faults::TOKENS;
use bytes::Bytes;
use evenkeel_chaos::check_answer;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, interval, timeout};

/// One request in so many is left by its caller, some time into it.
const LEAVES: u64 = 12;
/// Longer than any call may take.
const PATIENCE: Duration = Duration::from_secs(40);

/// How the requests ended.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    pub(super) asked: u64,
    /// With a whole answer, the caller's own.
    pub(super) answered: u64,
    /// With an error as the last event of a stream.
    pub(super) error_events: u64,
    /// With an error status.
    pub(super) refused: u64,
    /// By their caller.
    pub(super) left: u64,
    /// In any other way, the first few in words.
    pub(super) unsound: Vec<String>,
}

/// How one request ended.
enum Outcome {
    Answered,
    ErrorEvent,
    Refused,
    Left,
    Unsound(String),
}

/// The callers.
pub(super) struct Callers {
    client: Client<HttpConnector, Full<Bytes>>,
    url: Uri,
    until: Instant,
    numbers: AtomicU64,
}

impl Callers {
    /// Callers of `url` who begin nothing more after `until`.
    pub(super) fn new(url: Uri, until: Instant) -> Arc<Self> {
        Arc::new(Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            url,
            until,
            numbers: AtomicU64::new(0),
        })
    }

    /// So many at a time.
    pub(super) async fn run(self: Arc<Self>, streams: u64) -> Outcomes {
        let mut tasks = JoinSet::new();
        for _ in 0..streams {
            tasks.spawn(self.clone().ask_on());
        }
        let mut all = Outcomes::default();
        while let Some(outcomes) = tasks.join_next().await {
            all.take(outcomes);
        }
        all
    }

    /// So many a second, whether or not those before have ended.
    pub(super) async fn run_at(self: Arc<Self>, rate: u64) -> Outcomes {
        let mut tasks = JoinSet::new();
        let mut all = Outcomes::default();
        let mut beats = interval(Duration::from_secs(1) / u32::try_from(rate).unwrap_or(u32::MAX));
        while Instant::now() < self.until {
            beats.tick().await;
            let callers = self.clone();
            tasks.spawn(async move {
                let mut outcomes = Outcomes::default();
                callers.ask_once(&mut outcomes).await;
                outcomes
            });
            while let Some(ended) = tasks.try_join_next() {
                all.take(ended);
            }
        }
        while let Some(ended) = tasks.join_next().await {
            all.take(ended);
        }
        all
    }

    async fn ask_on(self: Arc<Self>) -> Outcomes {
        let mut outcomes = Outcomes::default();
        while Instant::now() < self.until {
            self.ask_once(&mut outcomes).await;
        }
        outcomes
    }

    async fn ask_once(&self, outcomes: &mut Outcomes) {
        let nth = self.numbers.fetch_add(1, Ordering::Relaxed);
        outcomes.asked += 1;
        let patience = if nth.is_multiple_of(LEAVES) {
            Duration::from_millis(nth * 37 % 2_500)
        } else {
            PATIENCE
        };
        let outcome = match timeout(patience, self.ask(nth)).await {
            Ok(outcome) => outcome,
            Err(_) if patience < PATIENCE => Outcome::Left,
            Err(_) => Outcome::Unsound(format!("request {nth} never ended")),
        };
        outcomes.count(outcome);
    }

    async fn ask(&self, nth: u64) -> Outcome {
        let body = json!({
            "model": "chat", "stream": true,
            "messages": [{"role": "user", "content": format!("say something, n{nth}")}],
        });
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body.to_string()));
        let request = match request {
            Ok(request) => request,
            Err(error) => return Outcome::Unsound(error.to_string()),
        };
        match self.client.request(request).await {
            Ok(response) if response.status().is_success() => read(nth, response).await,
            Ok(response) => refused(nth, response).await,
            Err(error) => Outcome::Unsound(format!("request {nth}: {error}")),
        }
    }
}

impl Outcomes {
    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Answered => self.answered += 1,
            Outcome::ErrorEvent => self.error_events += 1,
            Outcome::Refused => self.refused += 1,
            Outcome::Left => self.left += 1,
            Outcome::Unsound(what) => self.unsound.push(what),
        }
    }

    fn take(&mut self, ended: Result<Self, JoinError>) {
        match ended {
            Ok(outcomes) => self.add(outcomes),
            Err(error) => self.unsound.push(format!("a caller panicked: {error}")),
        }
    }

    fn add(&mut self, other: Self) {
        self.asked += other.asked;
        self.answered += other.answered;
        self.error_events += other.error_events;
        self.refused += other.refused;
        self.left += other.left;
        self.unsound.extend(other.unsound);
    }
}

/// An error must say what it is.
async fn refused(nth: u64, response: Response<Incoming>) -> Outcome {
    let status = response.status();
    let body = match response.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Outcome::Unsound(format!("request {nth}, {status}: {error}")),
    };
    match serde_json::from_slice::<Value>(&body) {
        Ok(body) if body["error"]["message"].is_string() => Outcome::Refused,
        _ => Outcome::Unsound(format!("request {nth}: {status} without an error")),
    }
}

/// What a stream has said so far.
#[derive(Default)]
struct Read {
    rest: Vec<u8>,
    text: String,
    finished: bool,
    errors: u32,
    done: u32,
}

async fn read(nth: u64, response: Response<Incoming>) -> Outcome {
    let mut body = response.into_body();
    let mut read = Read::default();
    while let Some(frame) = body.frame().await {
        let bytes = match frame.map(http_body::Frame::into_data) {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(_)) => continue,
            Err(error) => return Outcome::Unsound(format!("request {nth} was cut: {error}")),
        };
        if let Err(what) = read.take(&bytes) {
            return Outcome::Unsound(format!("request {nth}: {what}"));
        }
    }
    read.outcome(nth)
}

impl Read {
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            if let Some(data) = line.trim_end().strip_prefix("data: ") {
                self.event(data)?;
            }
        }
        Ok(())
    }

    fn event(&mut self, data: &str) -> Result<(), String> {
        if self.done > 0 || self.errors > 0 && data != "[DONE]" {
            return Err(format!("more after its end: {data}"));
        }
        if data == "[DONE]" {
            self.done += 1;
            return Ok(());
        }
        let event: Value = serde_json::from_str(data).map_err(|e| format!("{e} in {data}"))?;
        if !event["error"].is_null() {
            self.errors += 1;
            return Ok(());
        }
        let choice = &event["choices"][0];
        self.text += choice["delta"]["content"].as_str().unwrap_or_default();
        self.finished |= choice["finish_reason"].is_string();
        Ok(())
    }

    /// One end: a whole answer that says so, or an error that is no clean end.
    fn outcome(&self, nth: u64) -> Outcome {
        match (self.errors, self.done, self.finished) {
            (1, _, false) => Outcome::ErrorEvent,
            (0, 1, true) => match check_answer(&self.text, nth, TOKENS) {
                Ok(_) => Outcome::Answered,
                Err(wrong) => Outcome::Unsound(format!("request {nth}: {wrong}")),
            },
            ends => Outcome::Unsound(format!("request {nth} ended as {ends:?}: {}", self.text)),
        }
    }
}
