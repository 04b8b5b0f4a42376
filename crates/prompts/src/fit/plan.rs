//! What may be cut of a history, and in which order.

use std::ops::Range;

use evenkeel_core::{Message, Role};

use super::group::{Group, groups};
use super::marker::marker;
use crate::counter::TokenCounter;

/// A history divided into what is kept in any case and what may be cut.
pub(crate) struct Plan {
    /// Whether each message must be kept.
    is_kept: Vec<bool>,
    /// What is cut, first to last. No message twice.
    units: Vec<Range<usize>>,
}

/// How far a plan is carried out.
pub(crate) struct Cut {
    /// How many of the plan's units are cut.
    units: usize,
    /// How many messages these hold.
    pub(crate) messages: usize,
    /// Tokens of what is left, the marker included.
    pub(crate) tokens: u64,
    has_marker: bool,
}

impl Plan {
    pub(crate) fn of(messages: &[Message]) -> Self {
        let groups = groups(messages);
        let is_system = |m: &Message| matches!(m.role, Role::System | Role::Developer);
        let mut is_kept: Vec<bool> = messages.iter().map(is_system).collect();
        let latest = groups.iter().rposition(|group| group.is_turn);
        let tail = tail(&groups, latest);
        let ends = latest.into_iter().chain(tail..groups.len());
        for group in ends.filter_map(|index| groups.get(index)) {
            is_kept[group.range.clone()].fill(true);
        }
        let units = units(&groups, latest, tail);
        Self { is_kept, units }
    }

    /// The fewest units whose cutting brings `before` tokens down to `room`; with a
    /// marker where it fits in, else without. `None` if nothing does.
    pub(crate) fn cut(
        &self,
        costs: &[u64],
        before: u64,
        room: u64,
        counter: &dyn TokenCounter,
    ) -> Option<Cut> {
        let mut bare = None;
        let mut cut = Cut {
            units: 0,
            messages: 0,
            tokens: before,
            has_marker: false,
        };
        for unit in &self.units {
            cut.units += 1;
            for at in unit.clone().filter(|at| !self.is_kept[*at]) {
                cut.messages += 1;
                cut.tokens -= costs[at];
            }
            if cut.messages == 0 || cut.tokens > room {
                continue;
            }
            let marked = cut
                .tokens
                .saturating_add(counter.message(&marker(cut.messages)));
            if marked <= room {
                return Some(Cut {
                    tokens: marked,
                    has_marker: true,
                    ..cut
                });
            }
            bare.get_or_insert(Cut { ..cut });
        }
        bare
    }

    /// What is left when everything that may be is cut, tokens.
    pub(crate) fn protected_tokens(&self, costs: &[u64], fixed: u64) -> u64 {
        let kept = costs.iter().zip(&self.is_kept).filter(|(_, kept)| **kept);
        kept.fold(fixed, |sum, (cost, _)| sum.saturating_add(*cost))
    }

    /// The messages that are left, in their order, the marker where the first was cut.
    pub(crate) fn kept(&self, messages: &[Message], cut: &Cut) -> Vec<Message> {
        let mut is_cut = vec![false; messages.len()];
        for unit in &self.units[..cut.units] {
            for at in unit.clone() {
                is_cut[at] = !self.is_kept[at];
            }
        }
        let first = is_cut.iter().position(|is_cut| *is_cut);
        let mut left = Vec::with_capacity(messages.len() + 1 - cut.messages);
        for (at, message) in messages.iter().enumerate() {
            if cut.has_marker && Some(at) == first {
                left.push(marker(cut.messages));
            }
            if !is_cut[at] {
                left.push(message.clone());
            }
        }
        left
    }
}

/// Where the groups begin that are kept at the end: the last tool results behind the
/// latest user message, else the last group.
fn tail(groups: &[Group], latest: Option<usize>) -> usize {
    let behind = latest.map_or(0, |index| index + 1);
    let results = groups[behind..].iter().rposition(|g| g.has_results);
    results.map_or(groups.len().saturating_sub(1), |index| behind + index)
}

/// See the order in [`fit`](super::fit).
fn units(groups: &[Group], latest: Option<usize>, tail: usize) -> Vec<Range<usize>> {
    let one_by_one = |indices: Range<usize>| {
        let inside = groups.get(indices).unwrap_or_default();
        inside.iter().map(|group| group.range.clone())
    };
    let turns: Vec<usize> = (0..groups.len()).filter(|i| groups[*i].is_turn).collect();
    let (Some(&first), Some(latest)) = (turns.first(), latest) else {
        return one_by_one(0..tail).collect();
    };
    let start = |group: usize| groups[group].range.start;
    let mut units = Vec::with_capacity(groups.len());
    if first > 0 {
        units.push(0..start(first));
    }
    if let Some(&second) = turns.get(1) {
        let between = turns[1..].windows(2);
        units.extend(between.map(|turn| start(turn[0])..start(turn[1])));
        units.extend(one_by_one(first + 1..second));
        units.extend(one_by_one(latest + 1..tail));
        units.push(groups[first].range.clone());
    } else {
        units.extend(one_by_one(latest + 1..tail));
    }
    units
}
