//! What all questions together say of a candidate.

use crate::LatencyKind;
use crate::run::Halt;
use crate::statistics::RatioOutlook;
use evenkeel_core::{Class, ModelId, Usage};
use std::collections::BTreeMap;
use std::time::Duration;

/// An estimate and the interval it is believed to lie in. All three are finite,
/// and the interval holds the estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate itself.
    pub estimate: f64,
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
}

impl Interval {
    /// From end to end.
    pub fn width(&self) -> f64 {
        self.upper - self.lower
    }

    /// Whether `value` lies in it, ends included.
    pub fn contains(&self, value: f64) -> bool {
        (self.lower..=self.upper).contains(&value)
    }
}

/// Everything measured of one candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct CandidateMeasures {
    /// The candidate.
    pub candidate: ModelId,
    /// Items with a score.
    pub items: usize,
    /// Items with a score from both this candidate and the primary: what the ratio
    /// is over. The primary's own are its `items`.
    pub paired: usize,
    /// Questions there were to put to it, repeats counted.
    pub questions: usize,
    /// Questions with a score, repeats counted.
    pub scored: usize,
    /// Questions nothing was learnt from, repeats counted.
    pub unmeasured: usize,
    /// Of the primary, questions that it could not be asked
    /// ([`OutcomeKind::is_of_the_way`](crate::OutcomeKind::is_of_the_way)), repeats
    /// counted: they have no score. Of any other 0.
    pub unreached: usize,
    /// Questions that it declined, repeats counted.
    pub refused: usize,
    /// Why it was not asked further; none where it was asked to the end.
    pub halted: Option<Halt>,
    /// Answers that models judged, repeats counted.
    pub judged: usize,
    /// Of those the ones of which both judgements of every judge agree.
    pub judges_agree: usize,
    /// Answers that no scorer could score, repeats counted.
    pub unscored: usize,
    /// Mean score, 0..1; none without a scored item.
    pub quality: Option<Interval>,
    /// Quality relative to the primary's on the same items; none for the
    /// primary itself and where the primary's mean is 0.
    pub ratio: Option<Interval>,
    /// What the ratio's interval would be on more items; none where its width falls with
    /// the root of their number.
    pub outlook: Option<RatioOutlook>,
    /// Share of answers valid for their schema or tools; none where no item
    /// asks for either.
    pub compliance: Option<Interval>,
    /// Items that ask for either and were answered: what compliance is over.
    pub checked: usize,
    /// Latency under the stated load, of answered questions.
    pub latency: LatencyMeasures,
    /// Share of questions that ended in an error, 0..1, with or without a score.
    pub error_share: f64,
    /// How many of them, by class.
    pub errors: BTreeMap<Class, usize>,
    /// Share of questions the model declined, 0..1.
    pub refusal_share: f64,
    /// Tokens of all questions.
    pub usage: Usage,
    /// US dollars of all questions; none where prices are not known.
    pub cost_usd: Option<f64>,
    /// The same by tag.
    pub tags: BTreeMap<String, TagMeasures>,
}

/// What the items of one tag say of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TagMeasures {
    /// Items of the tag with a score.
    pub items: usize,
    /// Items of the tag with a score from both this candidate and the primary.
    pub paired: usize,
    /// Mean score, 0..1.
    pub quality: Option<Interval>,
    /// Quality relative to the primary's on the same items.
    pub ratio: Option<Interval>,
    /// What the ratio's interval would be on more items, as above.
    pub outlook: Option<RatioOutlook>,
}

/// Latency of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LatencyMeasures {
    /// To the end of the answer; none without an answer.
    pub total: Option<Quantiles>,
    /// To its first content; none where nothing was streamed.
    pub first_token: Option<Quantiles>,
}

impl LatencyMeasures {
    /// The one of a kind.
    pub fn of(&self, kind: LatencyKind) -> Option<Quantiles> {
        match kind {
            LatencyKind::Total => self.total,
            LatencyKind::FirstToken => self.first_token,
        }
    }
}

/// Three quantiles of a distribution, by nearest rank: never below the exact
/// value, and above it by at most one in a thousand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantiles {
    /// Median.
    pub p50: Duration,
    /// 95th percentile.
    pub p95: Duration,
    /// 99th percentile.
    pub p99: Duration,
}
