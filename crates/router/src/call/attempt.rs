//! What a call knows of its attempts, made and planned.

use super::cost::Spent;
use crate::amount::Amount;
use crate::health::Permits;
use crate::pace::Pace;
use crate::tailor::Tailored;
use crate::throttle::Booking;
use evenkeel_core::{AttemptKind, ChatResponse, Reported, Usage};
use evenkeel_probe::Observation;
use std::sync::Arc;
use std::time::Instant;

/// A rung that is to be asked at an instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) rung: usize,
    pub(super) kind: AttemptKind,
    pub(super) at: Instant,
    /// What a retry takes over from the attempt it repeats.
    pub(super) repeats: Option<Repeats>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Repeats {
    pub(super) patience: Patience,
    pub(super) asks_again: Option<u64>,
    pub(super) hedge_of: Option<usize>,
    pub(super) race: Option<usize>,
}

/// How long an attempt may run before a hedge starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// None: the whole deadline is the attempt's.
    pub(super) ends_at: Option<Instant>,
    /// It has run out, or the attempt's measure was complete in time.
    pub(super) spent: bool,
    /// Whether the deadline cut it below T95.
    pub(super) projected: bool,
}

impl Patience {
    /// When it runs out, if it still can.
    pub(super) fn due(&self) -> Option<Instant> {
        self.ends_at.filter(|_| !self.spent)
    }
}

/// One attempt of this call.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) rung: usize,
    pub(super) kind: AttemptKind,
    pub(super) started: Instant,
    pub(super) running: bool,
    pub(super) patience: Patience,
    /// Patience ran out and no hedge could start: ask again when the role has
    /// moved on from this epoch.
    pub(super) asks_again: Option<u64>,
    /// The same for what passes by itself: ask again then.
    pub(super) looks_again: Option<Instant>,
    /// What `asks_again` was when the attempt ended, for a retry of it.
    pub(super) asks_again_at_end: Option<u64>,
    /// The rung whose patience ran out, for a hedge or what replaced it.
    pub(super) hedge_of: Option<usize>,
    /// The hedge that it is, or goes on for, of those that the call has begun.
    pub(super) race: Option<usize>,
    /// Whether the role's word named this rung when the attempt began.
    pub(super) by_word: bool,
    pub(super) observation: Option<Observation>,
    /// The stream's clocks; none for an upstream that answers whole.
    pub(super) pace: Option<Pace>,
    pub(super) first_content: Option<Instant>,
    /// Content that is ready for the caller and held until the attempt commits.
    pub(super) ready: Amount,
    /// When it commits at the latest, once some is ready (`commit = "window"`).
    pub(super) window_ends: Option<Instant>,
    /// Its answer is whole and is being validated, since when.
    pub(super) judging: Option<Instant>,
    /// Its answer was refused for what is in it.
    pub(super) rejected: bool,
    pub(super) permits: Option<Permits>,
    /// Of its model's rate limits, where any are known.
    pub(super) booking: Option<Booking>,
    pub(super) usage: Option<Usage>,
    /// Content that came.
    pub(super) came: Amount,
    /// What its answer says of itself, where somebody listens.
    pub(super) reported: Reported,
    /// Its whole answer, where somebody wants content.
    pub(super) content: Option<Arc<ChatResponse>>,
    /// What it used, once it has ended.
    pub(super) spent: Option<Spent>,
    /// What the model was not told, or did not say, as it was meant.
    pub(super) adapted: Vec<String>,
    /// What its rung was asked.
    pub(super) tailored: Arc<Tailored>,
}
