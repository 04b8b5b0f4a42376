//! The course of one answer: what happens and when. In-process model and
//! socket server play the same script.

use crate::answer::Answer;
use crate::model::Draw;
use crate::{Behaviour, Fault};
use std::time::Duration;
use tokio::time::Instant;

/// Stands for times too far ahead for the clock: about thirty years.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// So long after `begun`.
pub(crate) fn moment(begun: Instant, after: Duration) -> Instant {
    begun.checked_add(after).unwrap_or_else(|| begun + FAR)
}

/// One thing that happens in a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// The stream opens: status, headers and what precedes content.
    Open,
    /// A token.
    Token(u32),
    /// A comment.
    KeepAlive,
    /// An event that is no JSON.
    Garbage,
    /// An event with an empty list of choices.
    NoChoices,
    /// Why the answer ended.
    Finish,
    /// That a content filter ended the answer.
    Filtered,
    /// Token counts.
    Usage,
    /// `[DONE]` and the end of the body.
    Done,
    /// The end of the body without `[DONE]` after a finish reason.
    NoDone,
    /// `[DONE]` without a finish reason.
    FalseDone,
    /// The end of the body, nothing else.
    End,
    /// The connection is closed within the body.
    Cut,
    /// The connection is reset within the body.
    Reset,
    /// An error object, then the end of the body.
    Error {
        code: Option<String>,
        message: String,
    },
    /// Nothing ever again.
    Silence,
}

impl Act {
    /// Whether the body of the stream ends with it, as HTTP says.
    pub(crate) fn ends_body(&self) -> bool {
        match self {
            Self::Done | Self::NoDone | Self::FalseDone | Self::End | Self::Error { .. } => true,
            Self::Open
            | Self::Token(_)
            | Self::KeepAlive
            | Self::Garbage
            | Self::NoChoices
            | Self::Finish
            | Self::Filtered
            | Self::Usage
            | Self::Cut
            | Self::Reset
            | Self::Silence => false,
        }
    }
}

/// The acts of one stream in order, each with its time since the request.
#[derive(Debug)]
pub(crate) struct Script {
    first: Duration,
    gap: Duration,
    keep_alive: Option<Duration>,
    late_open: bool,
    opened: bool,
    garbage_due: bool,
    /// Tokens (or keep-alives) so far.
    sent: u32,
    /// Tokens before the ending.
    until: u32,
    ending: std::vec::IntoIter<Act>,
}

impl Script {
    /// The script of `answer` as the dice fell.
    pub(crate) fn new(draw: &Draw, answer: &Answer) -> Self {
        let prefill = draw.behaviour.per_input_token.saturating_mul(answer.input);
        let first = draw.first_token.saturating_add(prefill);
        Self::timed(&draw.behaviour, draw.fault(), first, answer.tokens)
    }

    /// The script of an answer of `tokens` tokens whose first comes after
    /// `first`, with this fault, if any.
    fn timed(behaviour: &Behaviour, fault: Option<&Fault>, first: Duration, tokens: u32) -> Self {
        let whole = || vec![Act::Finish, Act::Usage, Act::Done];
        let (until, ending) = match fault {
            Some(Fault::StallAfter(n)) => (*n, vec![Act::Silence]),
            Some(Fault::CutAfter(n)) => (*n, vec![Act::Cut]),
            Some(Fault::ResetAfter(n)) => (*n, vec![Act::Reset]),
            Some(Fault::EndAfter(n)) => (*n, vec![Act::End]),
            Some(Fault::FalseDoneAfter(n)) => (*n, vec![Act::FalseDone]),
            Some(Fault::NoDone) => (tokens, vec![Act::Finish, Act::Usage, Act::NoDone]),
            Some(Fault::ErrorInStream {
                after,
                code,
                message,
            }) => (
                *after,
                vec![Act::Error {
                    code: code.clone(),
                    message: message.clone(),
                }],
            ),
            Some(Fault::FilteredAfter(n)) => (*n, vec![Act::Filtered, Act::Usage, Act::Done]),
            Some(Fault::Empty) => (0, whole()),
            Some(Fault::NoChoices) => (0, vec![Act::NoChoices, Act::FalseDone]),
            Some(Fault::Endless) => (u32::MAX, vec![Act::Silence]),
            _ => (tokens, whole()),
        };
        let endless = matches!(fault, Some(Fault::Endless));
        Self {
            first,
            gap: behaviour.inter_token,
            keep_alive: match fault {
                Some(Fault::KeepAlivesOnly { every }) => Some(*every),
                _ => None,
            },
            late_open: behaviour.late_open,
            opened: false,
            garbage_due: matches!(fault, Some(Fault::TruncatedJson)),
            sent: 0,
            until: if endless { until } else { until.min(tokens) },
            ending: ending.into_iter(),
        }
    }

    /// Tokens sent so far.
    pub(crate) fn sent(&self) -> u32 {
        self.sent
    }

    /// Tokens the answer will have had when it ends.
    pub(crate) fn length(&self) -> u32 {
        self.until
    }

    /// When the stream opens: at once, or with its first token.
    pub(crate) fn opens(&self) -> Duration {
        if self.late_open && self.keep_alive.is_none() {
            self.first
        } else {
            Duration::ZERO
        }
    }

    /// When the last token is due: when a whole answer comes.
    pub(crate) fn last_token(&self) -> Duration {
        self.due(self.until.saturating_sub(1))
    }

    /// When a token is due.
    pub(crate) fn due(&self, token: u32) -> Duration {
        self.first.saturating_add(self.gap.saturating_mul(token))
    }
}

impl Iterator for Script {
    type Item = (Duration, Act);

    fn next(&mut self) -> Option<Self::Item> {
        if !self.opened {
            self.opened = true;
            return Some((self.opens(), Act::Open));
        }
        if let Some(every) = self.keep_alive {
            self.sent = self.sent.saturating_add(1);
            return Some((every.saturating_mul(self.sent), Act::KeepAlive));
        }
        if self.garbage_due && self.sent == self.until.min(1) {
            self.garbage_due = false;
            return Some((self.due(0), Act::Garbage));
        }
        if self.sent < self.until {
            let token = self.sent;
            self.sent += 1;
            return Some((self.due(token), Act::Token(token)));
        }
        let act = self.ending.next()?;
        Some((self.last_token(), act))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(fault: Option<&Fault>) -> Vec<(u64, Act)> {
        let behaviour = Behaviour::default().with_inter_token(Duration::from_millis(10));
        Script::timed(&behaviour, fault, Duration::from_millis(100), 3)
            .take(8)
            .map(|(at, act)| (u64::try_from(at.as_millis()).unwrap(), act))
            .collect()
    }

    #[test]
    fn a_healthy_stream_opens_at_once_and_paces_its_tokens() {
        let expected = vec![
            (0, Act::Open),
            (100, Act::Token(0)),
            (110, Act::Token(1)),
            (120, Act::Token(2)),
            (120, Act::Finish),
            (120, Act::Usage),
            (120, Act::Done),
        ];
        assert_eq!(play(None), expected);
    }

    #[test]
    fn a_fault_takes_the_place_of_the_rest() {
        for (fault, act) in [
            (Fault::StallAfter(1), Act::Silence),
            (Fault::CutAfter(1), Act::Cut),
            (Fault::ResetAfter(1), Act::Reset),
            (Fault::EndAfter(1), Act::End),
            (Fault::FalseDoneAfter(1), Act::FalseDone),
        ] {
            let expected = vec![(0, Act::Open), (100, Act::Token(0)), (100, act)];
            assert_eq!(play(Some(&fault)), expected);
        }
    }

    #[test]
    fn a_fault_after_the_last_token_waits_for_no_more_tokens() {
        let acts = play(Some(&Fault::CutAfter(40)));
        assert_eq!(acts.last(), Some(&(120, Act::Cut)));
        assert_eq!(acts.len(), 5);
    }

    #[test]
    fn keep_alives_and_endless_tokens_do_not_end() {
        let every = Duration::from_millis(500);
        let acts = play(Some(&Fault::KeepAlivesOnly { every }));
        assert_eq!(acts[7], (3_500, Act::KeepAlive));
        assert_eq!(play(Some(&Fault::Endless))[7], (160, Act::Token(6)));
    }

    #[test]
    fn garbage_stands_between_the_first_two_tokens() {
        let acts: Vec<Act> = play(Some(&Fault::TruncatedJson))
            .into_iter()
            .map(|a| a.1)
            .collect();
        assert_eq!(acts[1..4], [Act::Token(0), Act::Garbage, Act::Token(1)]);
        assert_eq!(acts.last(), Some(&Act::Done));
    }
}
