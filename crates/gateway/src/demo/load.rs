//! The callers: 20 requests per second through HTTP, whole and streamed in
//! turn, on connections that are kept alive.
//!
//! The load is *open*: a request is sent when it is due, whether or not those
//! before it have been answered, and its time counts from the moment it was
//! due. So a stall is seen by every request it would have met.

use super::reply;
use bytes::Bytes;
use evenkeel_chaos::check_answer;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

const SESSION: HeaderName = HeaderName::from_static("x-evenkeel-session");
const SERVED_BY: &str = "x-evenkeel-model";
const ATTEMPTS: &str = "x-evenkeel-attempts";

/// What is sent, where to, and how often.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The gateway's chat completions endpoint.
    pub(super) url: Uri,
    /// The role asked for as `model`.
    pub(super) role: &'static str,
    /// The time between two requests.
    pub(super) interval: Duration,
    /// How many tokens a whole answer has.
    pub(super) tokens: u32,
    /// How long answers are waited for once sending has stopped.
    pub(super) drain: Duration,
}

/// What became of one request.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// When it was due to be sent.
    pub(super) due: Instant,
    /// When its answer was complete, or it was known that none comes.
    pub(super) ended: Instant,
    /// How it ended.
    pub(super) outcome: Outcome,
}

impl Answer {
    /// The caller's total time.
    pub(super) fn total(&self) -> Duration {
        self.ended.saturating_duration_since(self.due)
    }
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With its own whole answer.
    Answered {
        /// Who answered, `provider/model`.
        model: String,
        /// How many attempts the gateway had made by then.
        attempts: usize,
    },
    /// With something else that was given as a success: another request's
    /// answer, a cut one, one that came twice.
    Wrong {
        /// Who is said to have answered.
        model: String,
        /// What is wrong with it.
        what: String,
    },
    /// With an error in the gateway's own form.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The error's machine code.
        code: String,
    },
    /// With a broken connection, a stream that did not end well, or an answer
    /// that cannot be read.
    Broken {
        /// What was seen.
        what: String,
    },
}

impl Outcome {
    /// Who answered; none where nobody did, or not rightly.
    pub(super) fn model(&self) -> Option<&str> {
        match self {
            Self::Answered { model, .. } => Some(model),
            _ => None,
        }
    }
}

/// The callers.
#[derive(Clone, Debug)]
pub(super) struct Callers {
    client: Client<HttpConnector, Full<Bytes>>,
    plan: Plan,
}

impl Callers {
    /// Callers for `plan`; their connections are opened when first needed.
    pub(super) fn new(plan: Plan) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Self { client, plan }
    }

    /// Sends until `stop`, then waits for the answers under way, for at most
    /// the plan's drain time. What has not been answered by then is broken.
    ///
    /// Dropping the future ends all requests under way.
    pub(super) async fn run(self, stop: CancellationToken, answers: UnboundedSender<Answer>) {
        let mut ticks = tokio::time::interval(self.plan.interval);
        // A tick that comes late is made up for at once: no request is left out.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut under_way = JoinSet::new();
        let drained = CancellationToken::new();
        // From 1: 0 is the number of a request that has none.
        let mut number = 1;
        loop {
            let due = tokio::select! {
                () = stop.cancelled() => break,
                due = ticks.tick() => due.into_std(),
            };
            let request = self.clone().request(number, due, drained.clone());
            let answers = answers.clone();
            under_way.spawn(async move {
                // The reader is gone only when the run was cut short.
                let _ = answers.send(request.await);
            });
            while under_way.try_join_next().is_some() {}
            number += 1;
        }
        let all = async { while under_way.join_next().await.is_some() {} };
        if tokio::time::timeout(self.plan.drain, all).await.is_err() {
            drained.cancel();
            while under_way.join_next().await.is_some() {}
        }
    }

    async fn request(self, number: u64, due: Instant, drained: CancellationToken) -> Answer {
        let outcome = tokio::select! {
            outcome = self.ask(number) => outcome,
            () = drained.cancelled() => Outcome::Broken {
                what: "no answer by the end of the run".to_owned(),
            },
        };
        Answer {
            due,
            ended: tokio::time::Instant::now().into_std(),
            outcome,
        }
    }

    async fn ask(&self, number: u64) -> Outcome {
        let streamed = number.is_multiple_of(2);
        let response = match self.client.request(self.order(number, streamed)).await {
            Ok(response) => response,
            Err(error) => return broken(&error),
        };
        let (head, body) = response.into_parts();
        let body = match read(body).await {
            Ok(body) => body,
            Err(error) => return broken(&error),
        };
        if head.status != http::StatusCode::OK {
            return refusal(head.status.as_u16(), &body);
        }
        let read = if streamed {
            reply::streamed(&body)
        } else {
            reply::whole(&body)
        };
        match read {
            Err(what) => Outcome::Broken { what },
            Ok(text) => self.judge(&head.headers, &text, number),
        }
    }

    /// Request `number`, which the answer has to repeat, in a session of its own.
    fn order(&self, number: u64, streamed: bool) -> Request<Full<Bytes>> {
        let body = json!({
            "model": self.plan.role,
            "messages": [{"role": "user", "content": format!("What is next? n{number}")}],
            "stream": streamed,
        });
        let mut request = Request::new(Full::new(Bytes::from(body.to_string())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.plan.url.clone();
        let headers = request.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            http::HeaderValue::from_static("application/json"),
        );
        headers.insert(SESSION, http::HeaderValue::from(number));
        request
    }

    fn judge(&self, headers: &HeaderMap, text: &str, number: u64) -> Outcome {
        let model = header(headers, SERVED_BY);
        let attempts = header(headers, ATTEMPTS).and_then(|n| n.parse().ok());
        let (Some(model), Some(attempts)) = (model, attempts) else {
            return Outcome::Broken {
                what: format!("an answer without `{SERVED_BY}` or `{ATTEMPTS}`"),
            };
        };
        match check_answer(text, number, self.plan.tokens) {
            Ok(who) if who == model => Outcome::Answered { model, attempts },
            Ok(who) => Outcome::Wrong {
                what: format!("`{who}` gave the answer that `{model}` is said to have given"),
                model,
            },
            Err(wrong) => Outcome::Wrong {
                what: wrong.to_string(),
                model,
            },
        }
    }
}

async fn read(body: Incoming) -> Result<Bytes, hyper::Error> {
    Ok(body.collect().await?.to_bytes())
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// An error with the errors below it, in one line.
fn broken(error: &dyn std::error::Error) -> Outcome {
    let mut what = error.to_string();
    let mut below = error.source();
    while let Some(cause) = below {
        what = format!("{what}: {cause}");
        below = cause.source();
    }
    Outcome::Broken { what }
}

fn refusal(status: u16, body: &[u8]) -> Outcome {
    match reply::error_code(body) {
        Some(code) => Outcome::Refused { status, code },
        None => Outcome::Broken {
            what: format!("status {status} without an error code"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::routing::post;
    use http::{Response, StatusCode};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    /// Callers of `app`, which is served on a free port for as long as the set lives.
    async fn callers(app: axum::Router) -> (Callers, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await.unwrap() });
        let plan = Plan {
            url: url.parse().unwrap(),
            role: "agent",
            interval: Duration::from_millis(1),
            tokens: 2,
            drain: Duration::from_secs(30),
        };
        (Callers::new(plan), server)
    }

    fn answer(status: u16, body: String) -> Response<Body> {
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        let headers = response.headers_mut();
        headers.insert(SERVED_BY, "a/x".parse().unwrap());
        headers.insert(ATTEMPTS, "1".parse().unwrap());
        response
    }

    fn whole(text: &str) -> String {
        json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).to_string()
    }

    /// With callers that wait for each other this would never end: nobody is
    /// answered before forty have asked.
    #[tokio::test]
    async fn requests_are_sent_when_due_whether_or_not_those_before_are_answered() {
        let (asked, open) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        let gate = open.clone();
        let app = axum::Router::new().route(
            "/",
            post(move || async move {
                if asked.fetch_add(1, Ordering::Relaxed) + 1 == 40 {
                    gate.cancel();
                }
                gate.cancelled().await;
                answer(200, whole("hello"))
            }),
        );
        let (callers, _server) = callers(app).await;
        let (sender, mut answers) = mpsc::unbounded_channel();
        callers.run(open, sender).await;
        let mut ended = 0;
        while answers.recv().await.is_some() {
            ended += 1;
        }
        assert!(ended >= 40, "{ended}");
    }

    #[tokio::test]
    async fn an_answer_that_never_comes_is_broken_when_the_run_ends() {
        let stop = CancellationToken::new();
        let asked = stop.clone();
        let app = axum::Router::new().route(
            "/",
            post(move || async move {
                asked.cancel();
                std::future::pending::<Response<Body>>().await
            }),
        );
        let (mut callers, _server) = callers(app).await;
        callers.plan.drain = Duration::from_millis(1);
        let (sender, mut answers) = mpsc::unbounded_channel();
        callers.run(stop, sender).await;
        let outcome = answers.recv().await.unwrap().outcome;
        assert!(matches!(outcome, Outcome::Broken { .. }), "{outcome:?}");
    }

    /// What the server of the next test answers to request `number`; even
    /// numbers ask for a stream.
    fn canned(number: &str) -> Response<Body> {
        let chunk = |text: &str| {
            let choice = json!({"delta": {"content": text}, "finish_reason": null});
            format!("data: {}\n\n", json!({"id": "c", "choices": [choice]}))
        };
        let end = "data: {\"id\":\"c\",\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        let error = r#"{"error":{"code":"roster_exhausted","message":"none left"}}"#;
        match number {
            "n1" => answer(200, whole("[[a/x]] n1 t0 t1")),
            "n2" => answer(200, chunk("[[a/x]] n2 t0") + &chunk(" t1") + end),
            "n3" => answer(200, whole("[[a/x]] n2 t0 t1")),
            "n4" => answer(200, chunk("[[a/x]] n4 t0") + end),
            "n5" => answer(200, whole("[[b/y]] n5 t0 t1")),
            "n6" => answer(200, chunk("[[a/x]] n6 t0")),
            "n7" => answer(503, error.to_owned()),
            _ => answer(502, "<html>".to_owned()),
        }
    }

    #[tokio::test]
    async fn each_request_ends_as_what_came_back_for_it() {
        let app = axum::Router::new().route(
            "/",
            post(|body: String| async move {
                let asked: serde_json::Value = serde_json::from_str(&body).unwrap();
                let text = asked["messages"][0]["content"].as_str().unwrap();
                canned(text.split(' ').next_back().unwrap())
            }),
        );
        let (callers, _server) = callers(app).await;
        let mut seen = Vec::new();
        for number in 1..=8 {
            seen.push(match callers.ask(number).await {
                Outcome::Answered { model, attempts } => format!("{model} {attempts}"),
                Outcome::Refused { status, code } => format!("{status} {code}"),
                Outcome::Wrong { what, .. } | Outcome::Broken { what } => what,
            });
        }
        assert_eq!(
            seen,
            [
                "a/x 1",
                "a/x 1",
                "the answer is to request n2, expected n3",
                "the answer has 1 tokens, expected 2",
                "`b/y` gave the answer that `a/x` is said to have given",
                "the stream ended without [DONE]",
                "503 roster_exhausted",
                "status 502 without an error code",
            ]
        );
    }
}
