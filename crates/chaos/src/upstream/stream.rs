//! An answer as server-sent events.

use super::exchange::{After, Exchange};
use super::http::{self, AnswerHead, LAST_CHUNK};
use super::openai::{self, DONE, GARBAGE, KEEP_ALIVE};
use super::peer::Gone;
use crate::script::{Act, Script};
use crate::stats::Ending;
use serde_json::{Value, json};

const SSE: &str = "text/event-stream; charset=utf-8";

/// Whether and how a stream ends with an act.
enum End {
    /// It goes on.
    No,
    /// The body ends as HTTP says.
    Orderly(Ending),
    /// The connection ends within the body.
    Abrupt(After),
    /// Nothing ever again.
    Silence,
}

impl Exchange<'_> {
    /// Plays a script, each event in a write and a chunk of its own.
    pub(super) async fn play_stream(&mut self, mut script: Script) -> Result<After, Gone> {
        while let Some((at, act)) = script.next() {
            self.wait(at).await?;
            let (mut bytes, end) = self.on_the_wire(&act, script.sent());
            match end {
                End::No => self.peer.send(&bytes).await?,
                End::Silence => break,
                End::Abrupt(after) => {
                    self.settle(Ending::Failed);
                    return Ok(after);
                }
                End::Orderly(ending) => {
                    self.settle(ending);
                    bytes.extend_from_slice(LAST_CHUNK);
                    self.peer.send(&bytes).await?;
                    return Ok(After::kept(self.keep_alive));
                }
            }
        }
        Err(self.peer.gone().await)
    }

    /// Status, headers and who speaks: all that precedes content.
    fn opening(&self) -> Vec<u8> {
        let head = AnswerHead {
            status: 200,
            content_type: SSE,
            length: None,
            headers: &[("cache-control", "no-cache".to_owned())],
            keep_alive: self.keep_alive,
        };
        let role = json!({"role": "assistant", "content": "", "refusal": null});
        let mut bytes = head.to_bytes();
        bytes.extend(http::chunk(&openai::event(
            &self.envelope.chunk(&role, None),
        )));
        bytes
    }

    /// What an act is on the wire, and whether the stream ends with it.
    fn on_the_wire(&self, act: &Act, sent: u32) -> (Vec<u8>, End) {
        let event = |value: &Value| http::chunk(&openai::event(value));
        let envelope = &self.envelope;
        let bytes = match act {
            Act::Open => self.opening(),
            Act::Token(index) => {
                let delta = json!({"content": self.answer.piece(*index)});
                event(&envelope.chunk(&delta, None))
            }
            Act::KeepAlive => http::chunk(KEEP_ALIVE),
            Act::Garbage => http::chunk(GARBAGE),
            Act::NoChoices => event(&envelope.no_choices(None)),
            Act::Finish => event(&envelope.chunk(&json!({}), Some(self.answer.finish))),
            Act::Usage if self.include_usage => {
                event(&envelope.no_choices(Some(self.answer.usage(sent))))
            }
            Act::Done | Act::FalseDone => http::chunk(DONE),
            Act::Error { code, message } => event(&openai::error(500, code.as_deref(), message)),
            Act::Usage | Act::NoDone | Act::End | Act::Cut | Act::Reset | Act::Silence => vec![],
        };
        let end = match act {
            Act::Done | Act::NoDone => End::Orderly(Ending::Ok),
            Act::FalseDone | Act::End | Act::Error { .. } => End::Orderly(Ending::Failed),
            Act::Cut => End::Abrupt(After::Close),
            Act::Reset => End::Abrupt(After::Reset),
            Act::Silence => End::Silence,
            _ => End::No,
        };
        (bytes, end)
    }
}
