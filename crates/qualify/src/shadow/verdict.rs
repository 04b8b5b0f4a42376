//! What is concluded of a candidate.

use crate::{Interval, Verdict};

/// What pairs say of a candidate, beside the model that answered live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShadowVerdict {
    /// It is better: the whole interval of the difference is above 0.
    Better,
    /// It is as good: the whole interval is above minus the margin.
    Equivalent,
    /// It is worse: the whole interval is below 0, and reaches below minus the
    /// margin.
    Worse,
    /// It may be either.
    NotEnoughData,
}

impl ShadowVerdict {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Better,
        Self::Equivalent,
        Self::Worse,
        Self::NotEnoughData,
    ];

    /// The name used in files and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Equivalent => "equivalent",
            Self::Worse => "worse",
            Self::NotEnoughData => "not_enough_data",
        }
    }

    /// The words that a person reads.
    pub const fn words(self) -> &'static str {
        match self {
            Self::NotEnoughData => "not enough data",
            other => other.as_str(),
        }
    }

    /// The same among the verdicts of a gate: a candidate that may be cut over to passes.
    pub const fn gate(self) -> Verdict {
        match self {
            Self::Better | Self::Equivalent => Verdict::Pass,
            Self::Worse => Verdict::Fail,
            Self::NotEnoughData => Verdict::NotEnoughData,
        }
    }

    /// Whether the candidate may take the role over: nothing it was judged by is
    /// worse or open.
    pub const fn may_cut_over(self) -> bool {
        matches!(self, Self::Better | Self::Equivalent)
    }

    /// Of the difference between candidate and live.
    pub(super) fn of(difference: Interval, margin: f64) -> Self {
        if difference.lower > 0.0 {
            Self::Better
        } else if difference.lower >= -margin {
            Self::Equivalent
        } else if difference.upper < 0.0 {
            Self::Worse
        } else {
            Self::NotEnoughData
        }
    }

    /// Of how much both agree. What scores an answer by what it says gives the same
    /// to the same: two that agree on a share `a` of their answers are not further
    /// apart than `1 − a`. It never says which one is better.
    pub(super) fn of_agreement(agreement: Interval, margin: f64) -> Self {
        if 1.0 - agreement.lower <= margin {
            Self::Equivalent
        } else {
            Self::NotEnoughData
        }
    }

    /// Of two things a candidate is judged by: it is worse where one of them is,
    /// open where one is, and else better where one is.
    pub(super) fn and(self, other: Self) -> Self {
        let graveness = |verdict| match verdict {
            Self::Equivalent => 0,
            Self::Better => 1,
            Self::NotEnoughData => 2,
            Self::Worse => 3,
        };
        if graveness(self) >= graveness(other) {
            self
        } else {
            other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(lower: f64, upper: f64) -> Interval {
        Interval {
            estimate: f64::midpoint(lower, upper),
            lower,
            upper,
        }
    }

    #[test]
    fn the_interval_decides_and_not_the_estimate() {
        use ShadowVerdict as V;
        for (lower, upper, verdict) in [
            (0.01, 0.2, V::Better),
            (0.0, 0.2, V::Equivalent),
            (-0.05, 0.3, V::Equivalent),
            (-0.04, -0.01, V::Equivalent),
            (-0.06, -0.01, V::Worse),
            (-0.06, 0.2, V::NotEnoughData),
            (-1.0, 1.0, V::NotEnoughData),
        ] {
            let found = V::of(interval(lower, upper), 0.05);
            assert_eq!(found, verdict, "{lower} {upper}");
        }
        assert_eq!(V::of_agreement(interval(0.96, 1.0), 0.05), V::Equivalent);
        assert_eq!(V::of_agreement(interval(0.9, 1.0), 0.05), V::NotEnoughData);
    }

    #[test]
    fn all_that_is_judged_has_to_hold() {
        use ShadowVerdict as V;
        for (a, b, both) in [
            (V::Better, V::Equivalent, V::Better),
            (V::Better, V::Worse, V::Worse),
            (V::NotEnoughData, V::Better, V::NotEnoughData),
            (V::NotEnoughData, V::Worse, V::Worse),
            (V::Equivalent, V::Equivalent, V::Equivalent),
        ] {
            assert_eq!((a.and(b), b.and(a)), (both, both));
        }
        let cuts_over = V::ALL.map(V::may_cut_over);
        assert_eq!(cuts_over, [true, true, false, false]);
        assert_eq!(V::ALL.map(|v| v.gate().is_pass()), cuts_over);
    }
}
