//! Counts corrected by the usage that answers report.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_core::{ChatRequest, Message, ModelId};

use crate::counter::{Estimate, TokenCounter};

/// A ratio of one, in thousandths.
const ONE: u64 = 1_000;
/// Highest ratio, in thousandths: no script and no tokenizer in use needs more than
/// four times the estimate, and a wrong report must not shut a model out.
const MOST: u64 = 4_000;
/// Fewest counted tokens a report is believed on: below, what a chat template adds
/// outweighs the text.
const FEWEST: u64 = 200;
/// Share of a higher report in the new ratio: half, since too low a count costs a call.
const RISE: u64 = 2;
/// Share of a lower report: a sixteenth, since the next conversation may be of another kind.
const FALL: u64 = 16;

/// How much more, or less, a model takes than is counted: a moving average of
/// reported over counted tokens that rises fast, falls slowly and stays within its
/// bounds. Lock-free; one for each model.
#[derive(Debug)]
pub struct Calibration {
    /// In thousandths.
    ratio: AtomicU64,
    least: u64,
}

impl Calibration {
    /// Starts at one. The ratio never goes below `least` nor above 4,000 (thousandths).
    pub fn new(least: u64) -> Self {
        Self {
            ratio: AtomicU64::new(ONE),
            least: least.clamp(1, ONE),
        }
    }

    /// Takes in that a request counted as `counted` tokens (without calibration)
    /// took `reported`. Counts below 200 and reports of 0 say nothing.
    pub fn observe(&self, counted: u64, reported: u64) {
        if counted < FEWEST || reported == 0 {
            return;
        }
        let sample = reported.saturating_mul(ONE).div_ceil(counted);
        let sample = sample.clamp(self.least, MOST);
        let moved = |ratio: u64| {
            if sample > ratio {
                ratio + (sample - ratio).div_ceil(RISE)
            } else {
                ratio - (ratio - sample) / FALL
            }
        };
        let mut seen = self.ratio();
        while let Err(newer) = self.ratio.compare_exchange_weak(
            seen,
            moved(seen),
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            seen = newer;
        }
    }

    /// The ratio as of now, in thousandths.
    pub fn ratio(&self) -> u64 {
        self.ratio.load(Ordering::Relaxed)
    }
}

/// What counts the tokens of one model: its tokenizer where there is one, else the
/// [`Estimate`], calibrated.
pub struct ModelCounter {
    counter: Box<dyn TokenCounter>,
    calibration: Calibration,
}

impl ModelCounter {
    /// The counter for `model`: with the feature `tiktoken` a tokenizer for the
    /// models that have one of OpenAI's, whoever serves them.
    pub fn new(model: &ModelId) -> Self {
        Self::with(tokenizer(model))
    }

    /// A calibrated `counter`.
    pub fn with(counter: Box<dyn TokenCounter>) -> Self {
        let calibration = Calibration::new(counter.least_ratio());
        Self {
            counter,
            calibration,
        }
    }

    /// The counter as it is calibrated now. It does not change while it is held, so
    /// that all counts of one decision agree.
    pub fn counting(&self) -> Counting<'_> {
        Counting {
            counter: &*self.counter,
            ratio: self.calibration.ratio(),
        }
    }

    /// Takes in that an answer to `sent`, the request as it went out, reported
    /// `input` tokens, cached ones included.
    pub fn observe(&self, sent: &ChatRequest, input: u64) {
        self.calibration.observe(self.counter.request(sent), input);
    }
}

impl fmt::Debug for ModelCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelCounter")
            .field("calibration", &self.calibration)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "tiktoken")]
fn tokenizer(model: &ModelId) -> Box<dyn TokenCounter> {
    match crate::Tiktoken::for_model(model) {
        Some(tokenizer) => Box::new(tokenizer),
        None => Box::new(Estimate),
    }
}

#[cfg(not(feature = "tiktoken"))]
fn tokenizer(_: &ModelId) -> Box<dyn TokenCounter> {
    Box::new(Estimate)
}

/// A counter with the ratio of one moment, rounded up for each message.
#[derive(Clone, Copy)]
pub struct Counting<'a> {
    counter: &'a dyn TokenCounter,
    ratio: u64,
}

impl Counting<'_> {
    fn corrected(&self, counted: u64) -> u64 {
        counted.saturating_mul(self.ratio).div_ceil(ONE)
    }
}

impl TokenCounter for Counting<'_> {
    fn message(&self, message: &Message) -> u64 {
        self.corrected(self.counter.message(message))
    }

    fn fixed(&self, request: &ChatRequest) -> u64 {
        self.corrected(self.counter.fixed(request))
    }
}

impl fmt::Debug for Counting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counting")
            .field("ratio", &self.ratio)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_rises_fast_and_falls_slowly() {
        let calibration = Calibration::new(750);
        calibration.observe(1_000, 2_000);
        assert_eq!(calibration.ratio(), 1_500);
        calibration.observe(1_000, 2_000);
        assert_eq!(calibration.ratio(), 1_750);
        calibration.observe(1_000, 950);
        assert_eq!(calibration.ratio(), 1_700);
        for _ in 0..10 {
            calibration.observe(1_000, 2_000);
        }
        assert_eq!(calibration.ratio(), 2_000);
    }

    #[test]
    fn the_ratio_stays_within_its_bounds() {
        let calibration = Calibration::new(750);
        for _ in 0..1_000 {
            calibration.observe(10_000, 1);
        }
        assert!((750..770).contains(&calibration.ratio()), "{calibration:?}");
        for reported in [u64::MAX, 1_000_000] {
            calibration.observe(1_000, reported);
        }
        assert!(calibration.ratio() <= MOST);
        let exact = Calibration::new(ONE);
        exact.observe(1_000, 500);
        assert_eq!(exact.ratio(), ONE);
    }

    #[test]
    fn reports_that_say_nothing_change_nothing() {
        let calibration = Calibration::new(750);
        calibration.observe(199, 10_000);
        calibration.observe(0, 10);
        calibration.observe(1_000, 0);
        assert_eq!(calibration.ratio(), ONE);
    }

    #[test]
    fn a_count_is_corrected_by_what_answers_report() {
        let counter = ModelCounter::new(&ModelId::new("acme/big").unwrap());
        let request = ChatRequest::user("palabra ".repeat(1_000));
        let raw = Estimate.request(&request);
        assert_eq!(counter.counting().request(&request), raw);
        let held = counter.counting();
        counter.observe(&request, raw * 2);
        assert_eq!(held.request(&request), raw);
        let corrected = counter.counting().request(&request);
        assert!((raw * 3 / 2..raw * 3 / 2 + 3).contains(&corrected));
    }
}
