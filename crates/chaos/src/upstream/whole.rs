//! An answer in one piece.

use super::exchange::{After, Exchange, send};
use super::http::{self, AnswerHead};
use super::peer::Gone;
use crate::Fault;
use crate::dialect::JSON;
use crate::document::{Document, answer_body};
use crate::script::Script;
use crate::stats::Ending;
use std::time::Duration;

impl Exchange<'_> {
    /// Answers in one piece when the last token is due.
    pub(super) async fn play_whole(
        &mut self,
        script: &Script,
        fault: Option<&Fault>,
    ) -> Result<After, Gone> {
        match fault {
            Some(Fault::KeepAlivesOnly { every }) => return self.blank_lines(*every).await,
            Some(Fault::Endless) => return self.endless_body(script).await,
            _ => self.wait(script.last_token()).await?,
        }
        let tokens = match fault {
            // All of it is declared, and a part is sent.
            Some(Fault::StallAfter(_) | Fault::CutAfter(_) | Fault::ResetAfter(_)) => {
                self.answer.tokens
            }
            _ => script.length(),
        };
        let dialect = self.answer.label.dialect;
        let body = answer_body(&self.answer.response(tokens), fault, dialect);
        let cut = cut_at(body.len(), script.length(), self.answer.tokens);
        match fault {
            None | Some(Fault::NoDone) => self.settle(Ending::Ok),
            Some(Fault::StallAfter(_)) => {
                self.send_part(&body, 0).await?;
                return Err(self.peer.gone().await);
            }
            Some(_) => self.settle(Ending::Failed),
        }
        match fault {
            Some(Fault::CutAfter(_)) => {
                self.send_part(&body, cut).await?;
                return Ok(After::Close);
            }
            Some(Fault::ResetAfter(_)) => {
                self.send_part(&body, cut).await?;
                return Ok(After::Reset);
            }
            _ => {}
        }
        let mut document = Document::answer(body);
        document.headers = self.limit_headers();
        send(self.peer, &document, self.keep_alive).await
    }

    /// The head of an answer of this length, chunked where there is none.
    fn json_head(&self, length: Option<usize>) -> Vec<u8> {
        let head = AnswerHead {
            status: 200,
            content_type: JSON,
            length,
            headers: &self.limit_headers(),
            keep_alive: self.keep_alive,
        };
        head.to_bytes()
    }

    /// Declares all of `body` and sends its first bytes.
    async fn send_part(&mut self, body: &[u8], bytes: usize) -> Result<(), Gone> {
        let mut part = self.json_head(Some(body.len()));
        part.extend_from_slice(&body[..bytes]);
        self.peer.send(&part).await
    }

    /// Blank lines before a body that never comes.
    async fn blank_lines(&mut self, every: Duration) -> Result<After, Gone> {
        let head = self.json_head(None);
        self.peer.send(&head).await?;
        let mut due = every;
        loop {
            self.wait(due).await?;
            self.peer.send(&http::chunk(b"\n")).await?;
            due = due.saturating_add(every);
        }
    }

    /// A body that never ends.
    async fn endless_body(&mut self, script: &Script) -> Result<After, Gone> {
        let opening = self.answer.label.dialect.format().opening();
        let head = self.json_head(None);
        self.peer.send(&head).await?;
        self.peer.send(&http::chunk(opening.as_bytes())).await?;
        let mut token = 0_u32;
        loop {
            self.wait(script.due(token)).await?;
            let piece = format!(" t{token}");
            self.peer.send(&http::chunk(piece.as_bytes())).await?;
            token = token.saturating_add(1);
        }
    }
}

/// Where a body is cut after `tokens` of its tokens: never at its end.
fn cut_at(body: usize, tokens: u32, all: u32) -> usize {
    let share = body as u64 * u64::from(tokens) / u64::from(all.max(1));
    usize::try_from(share).map_or(0, |n| n.min(body.saturating_sub(1)))
}
