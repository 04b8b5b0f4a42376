//! What all questions together say of a candidate.

use evenkeel_core::{ModelId, Usage};
use std::collections::BTreeMap;
use std::time::Duration;

/// An estimate and the interval it is believed to lie in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate itself.
    pub estimate: f64,
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
}

/// Everything measured of one candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct CandidateMeasures {
    /// The candidate.
    pub candidate: ModelId,
    /// Questions with a score.
    pub items: usize,
    /// Questions nothing was learnt from.
    pub unmeasured: usize,
    /// Mean score, 0..1; none without a scored question.
    pub quality: Option<Interval>,
    /// Quality relative to the primary's on the same items; none for the
    /// primary itself and where the primary's mean is 0.
    pub ratio: Option<Interval>,
    /// Share of answers valid for their schema or tools; none where no item
    /// asks for either.
    pub compliance: Option<Interval>,
    /// Latency under the stated load, of answered questions.
    pub latency: LatencyMeasures,
    /// Share of questions that ended in an error, 0..1.
    pub error_share: f64,
    /// Share of questions the model declined, 0..1.
    pub refusal_share: f64,
    /// Tokens of all questions.
    pub usage: Usage,
    /// US dollars of all questions; none where prices are not known.
    pub cost_usd: Option<f64>,
    /// Mean score and number of questions by tag.
    pub tags: BTreeMap<String, (f64, usize)>,
}

/// Latency of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LatencyMeasures {
    /// To the end of the answer; none without an answer.
    pub total: Option<Quantiles>,
    /// To its first content; none where nothing was streamed.
    pub first_token: Option<Quantiles>,
}

/// Three quantiles of a distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantiles {
    /// Median.
    pub p50: Duration,
    /// 95th percentile.
    pub p95: Duration,
    /// 99th percentile.
    pub p99: Duration,
}
