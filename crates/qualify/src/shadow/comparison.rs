//! What the pairs of a candidate add up to.

use super::pair::{Key, Pair, Side};
use super::{ShadowOptions, ShadowVerdict};
use crate::latencies::Latencies;
use crate::statistics::{Resampling, mean_interval, paired_difference};
use crate::{Interval, LatencyMeasures};
use evenkeel_core::Class;

/// Resamples behind a verdict that only stands until the next.
const STANDING_RESAMPLES: usize = 200;

/// A candidate beside a model that answered live, over their pairs.
#[derive(Debug, Clone, PartialEq)]
pub struct ShadowComparison {
    /// The role that was asked.
    pub role: String,
    /// The candidate, as `provider/model`.
    pub candidate: String,
    /// Who answered live.
    pub live: String,
    /// Pairs that say something of the candidate.
    pub pairs: usize,
    /// Pairs that do not: it was at its rate limit or quota, or the copy was
    /// cancelled.
    pub unmeasured: usize,
    /// Pairs whose scorers could not do their work.
    pub unscored: usize,
    /// Why, of the first of them.
    pub first_unscored: Option<String>,
    /// By how much the candidate answers more calls than the live model, −1 to 1.
    /// Only calls that were answered live are copied: it is at most 0.
    pub answered: Option<Interval>,
    /// By how much it scores higher by the role's scorers, −1 to 1; none where the
    /// role has none or does not keep texts.
    pub quality: Option<Interval>,
    /// By how much more of its answers are valid for their schema or tools, −1 to
    /// 1; none where no call asked for either.
    pub compliance: Option<Interval>,
    /// How much its answers say what the live ones say, 0 to 1; none where the role
    /// does not keep texts.
    pub agreement: Option<Interval>,
    /// Latency of the candidate's answers.
    pub candidate_latency: LatencyMeasures,
    /// Latency of the live answers.
    pub live_latency: LatencyMeasures,
    /// US dollars of the candidate's answers; none where a price is not known.
    pub candidate_usd: Option<f64>,
    /// US dollars of the live answers.
    pub live_usd: Option<f64>,
    /// Whether the candidate is as good, by all of the above but latency and cost.
    pub verdict: ShadowVerdict,
    /// What stood after each pair, in counts.
    pub counts: ShadowCounts,
}

/// How many pairs each verdict stood after: what `evenkeel_shadow_total` counts.
/// It is judged anew when there are a twentieth more pairs than when it last was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShadowCounts([u64; ShadowVerdict::ALL.len()]);

impl ShadowCounts {
    /// The pairs after which `verdict` stood.
    pub fn of(&self, verdict: ShadowVerdict) -> u64 {
        self.0[verdict as usize]
    }
}

/// What the texts of a pair show.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// The candidate's score and the live one's.
    pub(super) quality: Option<(f64, f64)>,
    pub(super) agreement: Option<f64>,
    /// Why there is no score, where there should be one.
    pub(super) unscored: Option<String>,
}

/// The pairs of a comparison so far, some numbers of each.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    unmeasured: usize,
    unscored: usize,
    first_unscored: Option<String>,
    answered: Vec<(f64, f64)>,
    quality: Vec<(f64, f64)>,
    valid: Vec<(f64, f64)>,
    agreement: Vec<f64>,
    candidate: Took,
    live: Took,
    counts: ShadowCounts,
    standing: Option<ShadowVerdict>,
    judged_at: usize,
}

/// What one side's answers took.
#[derive(Debug, Default)]
struct Took {
    latencies: Latencies,
    usd: f64,
    has_unknown_price: bool,
}

/// The four intervals that a candidate is judged by.
struct Intervals {
    answered: Option<Interval>,
    quality: Option<Interval>,
    compliance: Option<Interval>,
    agreement: Option<Interval>,
}

impl Gathered {
    /// Adds a pair up.
    pub(super) fn take(&mut self, pair: &Pair, shown: Shown, options: &ShadowOptions) {
        let failed = pair.shadow.failed;
        if failed.is_some_and(says_nothing) {
            self.unmeasured += 1;
            return;
        }
        let score = |is_right: bool| if is_right { 1.0 } else { 0.0 };
        self.answered.push((score(failed.is_none()), 1.0));
        if let Some(live) = pair.live.is_valid {
            let shadow = failed.is_none() && pair.shadow.is_valid == Some(true);
            self.valid.push((score(shadow), score(live)));
        }
        self.quality.extend(shown.quality);
        self.agreement.extend(shown.agreement);
        if let Some(why) = shown.unscored {
            self.unscored += 1;
            self.first_unscored.get_or_insert(why);
        }
        if failed.is_none() {
            self.candidate.take(&pair.shadow);
            self.live.take(&pair.live);
        }
        self.count(options);
    }

    /// Judges anew where there is enough more to judge by, and counts what stands.
    fn count(&mut self, options: &ShadowOptions) {
        let pairs = self.answered.len();
        let standing = match self.standing {
            Some(standing) if pairs < self.judged_at + self.judged_at.div_ceil(20) => standing,
            _ => {
                let few = options.resampling.with_resamples(STANDING_RESAMPLES);
                self.judged_at = pairs;
                self.intervals(&few).verdict(options.margin)
            }
        };
        self.standing = Some(standing);
        self.counts.0[standing as usize] += 1;
    }

    fn intervals(&self, resampling: &Resampling) -> Intervals {
        Intervals {
            answered: paired_difference(&self.answered, resampling),
            quality: paired_difference(&self.quality, resampling),
            compliance: paired_difference(&self.valid, resampling),
            agreement: mean_interval(&self.agreement, resampling),
        }
    }

    pub(super) fn finish(self, key: Key, options: &ShadowOptions) -> ShadowComparison {
        let intervals = self.intervals(&options.resampling);
        let (role, candidate, live) = key;
        ShadowComparison {
            role,
            candidate,
            live,
            pairs: self.answered.len(),
            unmeasured: self.unmeasured,
            unscored: self.unscored,
            first_unscored: self.first_unscored,
            verdict: intervals.verdict(options.margin),
            answered: intervals.answered,
            quality: intervals.quality,
            compliance: intervals.compliance,
            agreement: intervals.agreement,
            candidate_latency: self.candidate.latencies.measures(),
            live_latency: self.live.latencies.measures(),
            candidate_usd: self.candidate.usd(),
            live_usd: self.live.usd(),
            counts: self.counts,
        }
    }
}

impl Intervals {
    /// What the answers say has to be known, whatever else is: from their scores,
    /// or else from how they agree.
    fn verdict(&self, margin: f64) -> ShadowVerdict {
        let of = |difference| ShadowVerdict::of(difference, margin);
        let by_score = self.quality.map_or(ShadowVerdict::NotEnoughData, of);
        let content = match (by_score, self.agreement) {
            (ShadowVerdict::NotEnoughData, Some(agreement)) => {
                ShadowVerdict::of_agreement(agreement, margin)
            }
            (by_score, _) => by_score,
        };
        let form = [self.answered, self.compliance];
        let form = form.into_iter().flatten().map(of);
        form.fold(content, ShadowVerdict::and)
    }
}

impl Took {
    fn take(&mut self, side: &Side) {
        self.latencies.record(side.latency, side.first_token);
        match side.cost_usd {
            Some(usd) => self.usd += usd,
            None => self.has_unknown_price = true,
        }
    }

    fn usd(&self) -> Option<f64> {
        (!self.has_unknown_price && self.usd.is_finite()).then_some(self.usd)
    }
}

/// Whether a failure is none of the model's.
fn says_nothing(class: Class) -> bool {
    matches!(
        class,
        Class::RateLimited | Class::QuotaExhausted | Class::Cancelled
    )
}
