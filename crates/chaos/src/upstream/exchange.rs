//! Requests and answers on one connection.

use super::http::{self, Head, Request};
use super::openai::{self, Asked, Envelope};
use super::peer::{Gone, Peer};
use super::{LOG_BODY, SeenRequest, Shared, bomb};
use crate::Fault;
use crate::answer::Answer;
use crate::fault::PROVIDER_FAILED;
use crate::model::Draw;
use crate::script::Script;
use crate::stats::{CallGuard, Ending};
use evenkeel_core::{Clock, SystemClock};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tokio::net::TcpStream;
use tokio::time::Instant;

pub(super) const JSON: &str = "application/json";
/// A proxy's error page.
const PAGE: &str = "<html><head><title>Bad gateway</title></head>\
    <body><center><h1>Bad gateway</h1></center><hr><center>edge</center></body></html>";

/// What becomes of a connection after an answer.
pub(super) enum After {
    KeepAlive,
    Close,
    Reset,
}

impl After {
    /// After an answer that ended in good order.
    pub(super) fn kept(keep_alive: bool) -> Self {
        if keep_alive {
            Self::KeepAlive
        } else {
            Self::Close
        }
    }
}

/// Serves one connection until either side ends it.
pub(super) async fn serve(stream: TcpStream, number: u64, shared: Arc<Shared>) {
    let mut peer = Peer::new(stream);
    loop {
        let after = match peer.request().await {
            Ok(Ok(request)) => respond(&mut peer, request, number, &shared).await,
            Ok(Err(refused)) => {
                let body = openai::error(refused.status, None, refused.message);
                reply(&mut peer, refused.status, &body, &[], false)
                    .await
                    .map(|_| After::Close)
            }
            Err(gone) => Err(gone),
        };
        match after {
            Ok(After::KeepAlive) => {}
            Ok(After::Close) => return peer.close().await,
            Ok(After::Reset) => return peer.reset(),
            Err(Gone) => return,
        }
    }
}

/// Sends a JSON body.
async fn reply(
    peer: &mut Peer,
    status: u16,
    body: &Value,
    extra: &[(&str, String)],
    keep_alive: bool,
) -> Result<After, Gone> {
    send_body(
        peer,
        status,
        JSON,
        body.to_string().as_bytes(),
        extra,
        keep_alive,
    )
    .await
}

pub(super) async fn send_body(
    peer: &mut Peer,
    status: u16,
    content_type: &str,
    body: &[u8],
    extra: &[(&str, String)],
    keep_alive: bool,
) -> Result<After, Gone> {
    let mut bytes = http::answer_head(status, content_type, Some(body.len()), extra, keep_alive);
    bytes.extend_from_slice(body);
    peer.send(&bytes).await?;
    Ok(After::kept(keep_alive))
}

/// Answers one request.
async fn respond(
    peer: &mut Peer,
    request: Request,
    connection: u64,
    shared: &Shared,
) -> Result<After, Gone> {
    let Request { head, body } = request;
    let keep_alive = head.keep_alive;
    if head.method == "GET" && head.path.ends_with("/models") {
        let models = openai::models(&shared.model_names());
        return reply(peer, 200, &models, &[], keep_alive).await;
    }
    if head.method != "POST" || !head.path.ends_with("/chat/completions") {
        let message = format!("no route {} {}", head.method, head.path);
        let error = openai::error(404, Some("not_found"), &message);
        return reply(peer, 404, &error, &[], keep_alive).await;
    }
    let asked = serde_json::from_slice(&body)
        .map_err(|e| format!("the body is not JSON: {e}"))
        .and_then(|value| Ok((Asked::read(&value)?, value)));
    match asked {
        Err(message) => {
            let error = openai::error(400, None, &message);
            reply(peer, 400, &error, &[], keep_alive).await
        }
        Ok((asked, value)) => {
            let value = if body.len() > LOG_BODY {
                Value::Null
            } else {
                value
            };
            shared.note(seen(&asked, value, &head, connection, shared.started));
            Exchange::begin(peer, asked, keep_alive, shared).run().await
        }
    }
}

fn seen(asked: &Asked, body: Value, head: &Head, connection: u64, started: Instant) -> SeenRequest {
    SeenRequest {
        at: started.elapsed(),
        connection,
        model: asked.model.clone(),
        stream: asked.stream,
        headers: head.headers.clone(),
        body,
    }
}

/// One chat completion on its way.
pub(super) struct Exchange<'a> {
    pub(super) peer: &'a mut Peer,
    begun: Instant,
    pub(super) keep_alive: bool,
    stream: bool,
    pub(super) include_usage: bool,
    pub(super) envelope: Envelope,
    pub(super) answer: Answer,
    pub(super) draw: Draw,
    guard: Option<CallGuard>,
}

impl<'a> Exchange<'a> {
    fn begin(peer: &'a mut Peer, asked: Asked, keep_alive: bool, shared: &Shared) -> Self {
        let begun = Instant::now();
        // A call that ends because the server does has failed.
        let (draw, guard) = shared.model(&asked.model).begin(Ending::Failed);
        let who = Arc::from(format!("{}/{}", shared.name, asked.model));
        let created = SystemClock.now().duration_since(UNIX_EPOCH);
        Self {
            peer,
            begun,
            keep_alive,
            stream: asked.stream,
            include_usage: asked.include_usage,
            envelope: Envelope {
                id: format!("chatcmpl-{}-{}", shared.name, shared.next_answer()),
                model: asked.model,
                created: created.map_or(0, |since| since.as_secs()),
            },
            answer: Answer::new(who, &draw.behaviour, &asked.request),
            draw,
            guard: Some(guard),
        }
    }

    async fn run(mut self) -> Result<After, Gone> {
        let outcome = self.play().await;
        if outcome.is_err() {
            self.settle(Ending::Cancelled);
        }
        outcome
    }

    async fn play(&mut self) -> Result<After, Gone> {
        let fault = self.draw.fault().cloned();
        if let Some(fault) = &fault
            && let Some(after) = self.instead(fault).await?
        {
            return Ok(after);
        }
        let script = Script::new(&self.draw, &self.answer);
        if self.stream {
            self.play_stream(script).await
        } else {
            self.play_whole(&script, fault.as_ref()).await
        }
    }

    /// Counts how the call ends. Called before its last bytes go out, so that
    /// a caller who has them finds it counted; later calls change nothing.
    pub(super) fn settle(&mut self, ending: Ending) {
        if let Some(guard) = self.guard.take() {
            guard.end(ending);
        }
    }

    /// Waits until so long after the request.
    pub(super) async fn wait(&mut self, since_request: Duration) -> Result<(), Gone> {
        self.peer.wait_until(self.begun + since_request).await
    }

    /// A fault that comes instead of an answer; none where `fault` is of another kind.
    async fn instead(&mut self, fault: &Fault) -> Result<Option<After>, Gone> {
        let delay = self.draw.behaviour.fault_delay;
        match fault {
            Fault::Hang => return Err(self.peer.gone().await),
            Fault::Refuse | Fault::Reset | Fault::Close => {
                self.wait(delay).await?;
                self.settle(Ending::Failed);
                return Ok(Some(match fault {
                    Fault::Close => After::Close,
                    _ => After::Reset,
                }));
            }
            _ => {}
        }
        let Some((status, content_type, body, extra)) = document(fault) else {
            return Ok(None);
        };
        self.wait(delay).await?;
        self.settle(Ending::Failed);
        send_body(
            self.peer,
            status,
            content_type,
            &body,
            &extra,
            self.keep_alive,
        )
        .await
        .map(Some)
    }
}

type Headers = Vec<(&'static str, String)>;

/// Status, content type, body and headers of a fault that is an answer of its own.
fn document(fault: &Fault) -> Option<(u16, &str, Vec<u8>, Headers)> {
    Some(match fault {
        Fault::Status {
            status,
            code,
            message,
            retry_after,
        } => {
            let error = openai::error(*status, code.as_deref(), message);
            let extra = retry_after.map(retry_after_headers).unwrap_or_default();
            (*status, JSON, error.to_string().into_bytes(), extra)
        }
        Fault::Html { status } => (*status, "text/html", PAGE.as_bytes().to_vec(), vec![]),
        Fault::Raw {
            status,
            content_type,
            body,
        } => (*status, content_type, body.clone(), vec![]),
        Fault::ErrorIn200 => {
            let error = json!({"error": {"message": PROVIDER_FAILED, "code": 502}});
            (200, JSON, error.to_string().into_bytes(), vec![])
        }
        Fault::GzipBomb => {
            let extra = vec![("content-encoding", "gzip".to_owned())];
            (200, JSON, bomb::gzip(), extra)
        }
        _ => return None,
    })
}

/// Whole seconds, rounded up, and milliseconds, as large providers send them.
fn retry_after_headers(wait: Duration) -> Headers {
    let millis = wait.as_millis();
    vec![
        ("retry-after", millis.div_ceil(1_000).to_string()),
        ("retry-after-ms", millis.to_string()),
    ]
}
