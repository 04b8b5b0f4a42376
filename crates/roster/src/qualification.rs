//! What a role asks of its fallbacks when they are measured, beside the thresholds
//! that it runs by.

use crate::faults::Faults;

/// How fallbacks that pass every check are put in order (`ranking`): the weight of
/// each measure, which lies between 0 and 1 itself. Only the proportions matter.
///
/// The defaults put quality first: who is ranked has passed the latency threshold and
/// the compliance of the role, so more of both is worth little, and what callers of a
/// fallback miss is quality. Among equals the quicker one is first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankingPolicy {
    /// `ranking.quality`: of the score relative to the primary's.
    pub quality: f64,
    /// `ranking.latency`: of the share of the latency threshold that the median leaves.
    pub latency: f64,
    /// `ranking.compliance`: of the share of valid answers; it counts for nothing where
    /// the dataset asks for no schema and no tools.
    pub compliance: f64,
}

impl Default for RankingPolicy {
    fn default() -> Self {
        Self {
            quality: 0.8,
            latency: 0.1,
            compliance: 0.1,
        }
    }
}

impl RankingPolicy {
    pub(crate) fn faults(&self, faults: &mut Faults) {
        let weights = [
            ("ranking.quality", self.quality),
            ("ranking.latency", self.latency),
            ("ranking.compliance", self.compliance),
        ];
        for (key, weight) in weights {
            if !(weight.is_finite() && weight >= 0.0) {
                faults.add(key, format!("is {weight}, expected 0 or more"));
            }
        }
        if weights.iter().all(|(_, weight)| *weight == 0.0) {
            let message = "is 0 as the other weights are, expected one of them above 0";
            faults.add("ranking.quality", message.to_owned());
        }
    }
}
