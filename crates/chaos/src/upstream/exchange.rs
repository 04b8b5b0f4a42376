//! Requests and answers on one connection.

use super::http::{AnswerHead, Request};
use super::peer::{Gone, Peer};
use super::route::{Route, route};
use super::{LOG_BODY, SeenRequest, Shared, bomb};
use crate::answer::{Answer, Label};
use crate::dialect::{Addressed, Trouble, Wanted};
use crate::document::Document;
use crate::model::Draw;
use crate::script::{Script, moment};
use crate::stats::{CallGuard, Ending};
use crate::{Dialect, Fault};
use evenkeel_core::{Clock, SystemClock, Value};
use evenkeel_providers::wire::ClientRequest;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tokio::net::TcpStream;
use tokio::time::Instant;

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
                let trouble = Trouble::new(refused.status, None, refused.message);
                let error = Document::error(shared.dialect, &trouble);
                send(&mut peer, &error, false).await
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

/// Sends a whole reply.
pub(super) async fn send(
    peer: &mut Peer,
    document: &Document,
    keep_alive: bool,
) -> Result<After, Gone> {
    let head = AnswerHead {
        status: document.status,
        content_type: &document.content_type,
        length: Some(document.body.len()),
        headers: &document.headers,
        keep_alive,
    };
    let mut bytes = head.to_bytes();
    bytes.extend_from_slice(&document.body);
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
    let keep_alive = request.head.keep_alive;
    let document = match route(&request.head, shared.dialect) {
        Route::Answer(dialect, to) => match dialect.format().decode_request(&to, &request.body) {
            Ok(read) => {
                shared.note(seen(request, connection, dialect, &read, shared));
                let asked = Asked { dialect, to, read };
                return Exchange::begin(peer, asked, keep_alive, shared).run().await;
            }
            Err(error) => Document::refusal(dialect, &error),
        },
        Route::Count(dialect, to) => count(dialect, &to, &request.body),
        Route::Models(dialect) => {
            Document::json(200, &dialect.format().models(&shared.models.names()))
        }
        Route::Unknown(dialect) => no_route(dialect, &request),
    };
    send(peer, &document, keep_alive).await
}

/// A request for the log.
fn seen(
    request: Request,
    connection: u64,
    dialect: Dialect,
    asked: &ClientRequest,
    shared: &Shared,
) -> SeenRequest {
    SeenRequest {
        at: shared.started.elapsed(),
        connection,
        dialect,
        path: request.head.path,
        model: asked.model.clone(),
        stream: asked.stream,
        body: logged(&request.body),
        headers: request.head.headers,
    }
}

/// The estimate of a request's tokens.
fn count(dialect: Dialect, to: &Addressed, body: &[u8]) -> Document {
    let format = dialect.format();
    match format.decode_count(to, body) {
        Ok(asked) => {
            let tokens = asked.request.estimated_input_tokens();
            Document::json(200, &format.count(tokens))
        }
        Err(error) => Document::refusal(dialect, &error),
    }
}

fn no_route(dialect: Dialect, request: &Request) -> Document {
    let message = format!("no route {} {}", request.head.method, request.head.path);
    Document::error(dialect, &Trouble::new(404, Some("not_found"), &message))
}

/// A body for the log; null where it is too long.
fn logged(body: &[u8]) -> Value {
    let short = Some(body).filter(|body| body.len() <= LOG_BODY);
    short
        .and_then(|body| serde_json::from_slice(body).ok())
        .unwrap_or_default()
}

/// A request that was read.
struct Asked {
    dialect: Dialect,
    to: Addressed,
    read: ClientRequest,
}

/// One answer on its way.
pub(super) struct Exchange<'a> {
    pub(super) peer: &'a mut Peer,
    begun: Instant,
    pub(super) keep_alive: bool,
    stream: bool,
    pub(super) wanted: Wanted,
    pub(super) answer: Answer,
    draw: Draw,
    guard: Option<CallGuard>,
}

impl<'a> Exchange<'a> {
    fn begin(peer: &'a mut Peer, asked: Asked, keep_alive: bool, shared: &Shared) -> Self {
        let Asked { dialect, to, read } = asked;
        let begun = Instant::now();
        // A call that ends because the server does has failed.
        let (draw, guard) = shared.model(&read.model).begin(Ending::Failed);
        let created = SystemClock.now().duration_since(UNIX_EPOCH);
        let label = Label {
            provider: Arc::clone(&shared.models.provider),
            model: Arc::from(read.model),
            dialect,
            number: shared.next_answer(),
            created: created.map_or(0, |since| since.as_secs()),
        };
        Self {
            peer,
            begun,
            keep_alive,
            stream: read.stream,
            wanted: Wanted {
                usage: read.include_usage,
                array: to.array,
            },
            answer: Answer::new(label, &draw.behaviour, &read.request),
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
        self.peer
            .wait_until(moment(self.begun, since_request))
            .await
    }

    /// What an answer's head says of the quota.
    pub(super) fn limit_headers(&self) -> Vec<(&'static str, String)> {
        let format = self.answer.label.dialect.format();
        let limits = self.draw.limits.as_ref();
        let said = limits.map(|l| format.limit_headers(&l.requests, SystemClock.now()));
        said.unwrap_or_default()
    }

    /// A fault that comes instead of an answer; none where `fault` is of another kind.
    async fn instead(&mut self, fault: &Fault) -> Result<Option<After>, Gone> {
        let document = match fault {
            Fault::GzipBomb => Some(bomb::document()),
            _ => Document::of(fault, self.answer.label.dialect),
        };
        let end = match fault {
            Fault::Hang => return Err(self.peer.gone().await),
            Fault::Refuse | Fault::Reset => After::Reset,
            Fault::Close => After::Close,
            _ if document.is_some() => After::KeepAlive,
            _ => return Ok(None),
        };
        self.wait(self.draw.behaviour.fault_delay).await?;
        self.settle(Ending::Failed);
        match document {
            Some(mut document) => {
                document.headers.extend(self.limit_headers());
                send(self.peer, &document, self.keep_alive).await.map(Some)
            }
            None => Ok(Some(end)),
        }
    }
}
