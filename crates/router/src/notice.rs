//! A role's notice behind degraded answers of plain text.

use crate::call::Call;
use evenkeel_core::{ChatResponse, Delta, Finish, Meta, Output, Part, StreamEvent};
use evenkeel_roster::NoticeIn;
use std::collections::VecDeque;

/// What JSON and fenced code begin with: whoever parses it must find nothing behind.
const NO_PROSE: [&str; 3] = ["{", "[", "```"];
/// As many signs of an answer's beginning tell.
const TELLING: usize = 3;

/// Puts a role's notice behind an answer, as its last paragraph, where that is
/// plain text from beginning to end.
#[derive(Debug)]
pub(crate) struct Notice {
    /// Whether the role and the request want it in texts, and nothing but text came.
    fits: bool,
    /// The first signs of the answer that are no space.
    beginning: String,
}

impl Notice {
    pub(crate) fn of(call: &Call) -> Self {
        let in_text = call.role.policy.degraded.notice_in == NoticeIn::Text;
        Self {
            fits: in_text && call.request.output == Output::Text,
            beginning: String::new(),
        }
    }

    fn begins(&mut self, text: &str) {
        let have = self.beginning.chars().count();
        let signs = text.chars().skip_while(|c| have == 0 && c.is_whitespace());
        self.beginning
            .extend(signs.take(TELLING.saturating_sub(have)));
    }

    /// What is put behind the answer that ends so, if anything is.
    fn due(&self, finish: Finish, meta: &Meta) -> Option<String> {
        let ended = matches!(finish, Finish::Stop | Finish::StopSequence | Finish::Length);
        let is_prose = !self.beginning.is_empty()
            && !NO_PROSE.iter().any(|sign| self.beginning.starts_with(sign));
        let notice = meta.notice.as_deref()?;
        (self.fits && ended && is_prose).then(|| format!("\n\n{notice}"))
    }

    /// Appends it to a whole answer.
    pub(crate) fn append(mut self, response: &mut ChatResponse, meta: &Meta) {
        for part in &response.parts {
            match part {
                Part::Text(text) => self.begins(text),
                Part::Reasoning(_) => {}
                _ => self.fits = false,
            }
        }
        let Some(notice) = self.due(response.finish, meta) else {
            return;
        };
        match response.parts.last_mut() {
            Some(Part::Text(text)) => text.push_str(&notice),
            _ => response.parts.push(Part::Text(notice)),
        }
    }

    /// The event that goes out in place of `event`: itself, or the notice before
    /// the end, with `event` put back to the front of `ready`.
    pub(crate) fn before(
        &mut self,
        event: StreamEvent,
        meta: &Meta,
        ready: &mut VecDeque<StreamEvent>,
    ) -> StreamEvent {
        if !self.fits {
            return event;
        }
        match &event {
            StreamEvent::Delta(Delta::Text(text)) => self.begins(text),
            StreamEvent::Delta(Delta::Reasoning(_)) => {}
            StreamEvent::Delta(_) => self.fits = false,
            StreamEvent::Finish(finish) => {
                if let Some(notice) = self.due(*finish, meta) {
                    self.fits = false;
                    ready.push_front(event);
                    return StreamEvent::Delta(Delta::Text(notice));
                }
            }
            _ => {}
        }
        event
    }
}
