//! Holds back what a call that is still open keeps from being said.
//!
//! Blocks of this format come one after the other, while other formats may
//! bring the pieces of several calls in turn.

use evenkeel_core::Delta;
use serde_json::Value;
use std::collections::VecDeque;

/// The pieces of content in an order in which each call ends before the next
/// content begins.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// The open call and its arguments so far.
    open: Option<(usize, String)>,
    held: VecDeque<Delta>,
}

impl Sequence {
    /// What may be said now, `delta` among it or not.
    pub(super) fn push(&mut self, delta: Delta) -> Vec<Delta> {
        if !self.held.is_empty() && !self.continues(&delta) {
            self.held.push_back(delta);
            return Vec::new();
        }
        let mut ready = Vec::new();
        self.say(delta, &mut ready);
        self.drain(false, &mut ready);
        ready
    }

    /// What is left, as the answer ends.
    pub(super) fn finish(&mut self) -> Vec<Delta> {
        let mut ready = Vec::new();
        self.drain(true, &mut ready);
        ready
    }

    /// Whether a piece belongs to the open call.
    fn continues(&self, delta: &Delta) -> bool {
        let open = self.open.as_ref().map(|(index, _)| *index);
        match delta {
            Delta::ToolCallArguments { index, .. } | Delta::ToolCallExtra { index, .. } => {
                open == Some(*index)
            }
            _ => false,
        }
    }

    /// Says a piece, or holds it.
    fn say(&mut self, delta: Delta, ready: &mut Vec<Delta>) {
        if self.continues(&delta) {
            if let (Delta::ToolCallArguments { fragment, .. }, Some((_, text))) =
                (&delta, &mut self.open)
            {
                text.push_str(fragment);
            }
            ready.push(delta);
        } else if self.is_open() {
            self.held.push_back(delta);
        } else {
            self.begin(delta, ready);
        }
    }

    /// Says a piece that begins something else than the open call.
    fn begin(&mut self, delta: Delta, ready: &mut Vec<Delta>) {
        match &delta {
            // A late piece of a call that ended has no place.
            Delta::ToolCallArguments { .. } | Delta::ToolCallExtra { .. } => return,
            Delta::ToolCallStart { index, .. } => self.open = Some((*index, String::new())),
            _ => self.open = None,
        }
        ready.push(delta);
    }

    /// Whether the open call's arguments are not whole yet.
    fn is_open(&self) -> bool {
        self.open.as_ref().is_some_and(|(_, text)| {
            !text.trim_end().ends_with('}') || serde_json::from_str::<Value>(text).is_err()
        })
    }

    /// Says what is held, as far as calls are whole, or all of it at the `end`:
    /// pieces of one call first, whatever came between.
    fn drain(&mut self, end: bool, ready: &mut Vec<Delta>) {
        while !self.held.is_empty() {
            if self.is_open() && !end {
                return;
            }
            let Some(next) = self.held.pop_front() else {
                return;
            };
            self.begin(next, ready);
            let held = std::mem::take(&mut self.held);
            for delta in held {
                if self.continues(&delta) {
                    self.say(delta, ready);
                } else {
                    self.held.push_back(delta);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(index: usize) -> Delta {
        Delta::ToolCallStart {
            index,
            id: format!("c{index}"),
            name: "t".into(),
        }
    }

    fn piece(index: usize, fragment: &str) -> Delta {
        Delta::ToolCallArguments {
            index,
            fragment: fragment.into(),
        }
    }

    #[test]
    fn calls_that_come_in_turn_are_said_one_after_the_other() {
        let mut sequence = Sequence::default();
        let mut said = Vec::new();
        for delta in [
            start(0),
            start(1),
            piece(0, "{\"a\":"),
            piece(1, "{}"),
            piece(0, "1}"),
            Delta::Text("after".into()),
        ] {
            said.extend(sequence.push(delta));
        }
        said.extend(sequence.finish());
        assert_eq!(
            said,
            [
                start(0),
                piece(0, "{\"a\":"),
                piece(0, "1}"),
                start(1),
                piece(1, "{}"),
                Delta::Text("after".into()),
            ]
        );
    }

    #[test]
    fn whole_calls_wait_for_nothing() {
        let mut sequence = Sequence::default();
        assert_eq!(sequence.push(start(0)), [start(0)]);
        assert_eq!(sequence.push(piece(0, "{}")), [piece(0, "{}")]);
        assert_eq!(sequence.push(start(1)), [start(1)]);
        assert!(sequence.push(Delta::Text("held".into())).is_empty());
        assert_eq!(sequence.finish(), [Delta::Text("held".into())]);
    }
}
