//! An answer as a stream.

use super::exchange::{After, Exchange};
use super::http::{self, AnswerHead, LAST_CHUNK};
use super::peer::Gone;
use crate::dialect::{JSON, SSE};
use crate::script::{Act, Script};
use crate::stats::Ending;

impl Exchange<'_> {
    /// Plays a script, each act in a write and a chunk of its own.
    pub(super) async fn play_stream(&mut self, mut script: Script) -> Result<After, Gone> {
        let format = self.answer.label.dialect.format();
        let mut writer = format.writer(&self.answer, self.wanted);
        while let Some((at, act)) = script.next() {
            self.wait(at).await?;
            match act {
                Act::Silence => break,
                Act::Cut | Act::Reset => {
                    self.settle(Ending::Failed);
                    return Ok(match act {
                        Act::Cut => After::Close,
                        _ => After::Reset,
                    });
                }
                _ => {}
            }
            let mut bytes = match act {
                Act::Open => self.stream_head(),
                _ => Vec::new(),
            };
            let mut events = Vec::new();
            writer.write(&act, &self.answer, script.sent(), &mut events);
            if !events.is_empty() {
                bytes.extend(http::chunk(&events));
            }
            if act.ends_body() {
                self.settle(match act {
                    Act::Done | Act::NoDone => Ending::Ok,
                    _ => Ending::Failed,
                });
                bytes.extend_from_slice(LAST_CHUNK);
                self.peer.send(&bytes).await?;
                return Ok(After::kept(self.keep_alive));
            }
            self.peer.send(&bytes).await?;
        }
        Err(self.peer.gone().await)
    }

    fn stream_head(&self) -> Vec<u8> {
        let mut headers = self.limit_headers();
        headers.push(("cache-control", "no-cache".to_owned()));
        let head = AnswerHead {
            status: 200,
            content_type: if self.wanted.array { JSON } else { SSE },
            length: None,
            headers: &headers,
            keep_alive: self.keep_alive,
        };
        head.to_bytes()
    }
}
