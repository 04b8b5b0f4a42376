//! An interval against a limit, and what it takes to settle it.

use super::Check;
use crate::Interval;
use crate::statistics::{RatioOutlook, count};
use std::fmt;

/// A dataset that would have to be larger than this is not worth having: the
/// estimate lies too close to the limit.
const MOST_ITEMS: usize = 100_000;

/// An interval wider than this does not tell a limit less 0.05 from one plus
/// 0.05, such as 80% from 90%.
const TELLING: f64 = 0.1;

/// About how many more items would settle a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoreItems {
    /// That many, if the estimate stays where it is.
    About(u64),
    /// It cannot be settled by items: the estimate lies at the limit.
    CannotBeSettled,
}

impl MoreItems {
    /// How many more than `items` bring the end of `found` that faces `limit` to
    /// it, if the estimate stays and the width falls with the root of the items, as a
    /// bootstrap's does: `items × ((width / gap)² − 1)`, where `width` is from the
    /// estimate to that end and `gap` from the estimate to the limit.
    pub fn to_settle(found: Interval, limit: f64, items: usize) -> Self {
        let gap = found.estimate - limit;
        let width = found.estimate - facing(found, limit);
        Self::of_needed(count(items) * (width / gap).powi(2), items)
    }

    /// The same for a share with Wilson's interval, whose end `e` lies where
    /// `(estimate − e)² = z² e (1 − e) / items`: near 0 and 1 its width falls faster.
    pub fn of_share(found: Interval, limit: f64, items: usize) -> Self {
        let distance = |end: f64| (found.estimate - end).powi(2) / (end * (1.0 - end));
        let needed = count(items) * distance(facing(found, limit)) / distance(limit);
        // At a whole number the end meets the limit, whatever the last digit says.
        Self::of_needed(needed - 1e-6, items)
    }

    /// The same for a ratio with MOVER's interval: the least number on which that
    /// interval does not hold the limit any more.
    pub fn of_ratio(found: Interval, limit: f64, items: usize, outlook: &RatioOutlook) -> Self {
        let is_settled = |items: usize| {
            let found = outlook.on(items);
            found.is_some_and(|found| found.lower >= limit || found.upper < limit)
        };
        let most = MOST_ITEMS.max(items);
        let is_at_limit = (found.estimate - limit).abs() <= f64::EPSILON;
        if is_at_limit || !is_settled(most) {
            return Self::CannotBeSettled;
        }
        let (mut unsettled, mut settled) = (items, most);
        while settled - unsettled > 1 {
            let middle = usize::midpoint(unsettled, settled);
            if is_settled(middle) {
                settled = middle;
            } else {
                unsettled = middle;
            }
        }
        Self::About((settled - items).max(1) as u64)
    }

    fn of_needed(needed: f64, items: usize) -> Self {
        if needed.is_nan() || needed > count(MOST_ITEMS) {
            return Self::CannotBeSettled;
        }
        let more = (needed - count(items)).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 1 up to the most items"
        )]
        let more = more.max(1.0) as u64;
        Self::About(more)
    }
}

/// The end of the interval that has to pass the limit.
fn facing(found: Interval, limit: f64) -> f64 {
    if found.estimate < limit {
        found.upper
    } else {
        found.lower
    }
}

impl fmt::Display for MoreItems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::About(more) => write!(f, "about {more} more items would settle it"),
            Self::CannotBeSettled => f.write_str("items cannot settle it: it lies at the limit"),
        }
    }
}

/// Passes when the lower end reaches the limit, fails when the upper end is below
/// it; between the two there is not enough data, and `more` says what would settle it.
pub(super) fn against(
    check: Check,
    found: Interval,
    limit: f64,
    items: usize,
    more: impl FnOnce() -> MoreItems,
) -> Check {
    let check = check.with_measured(found);
    let words = format!(
        "{:.3}, interval {:.3} to {:.3} on {items} items",
        found.estimate, found.lower, found.upper
    );
    if found.lower >= limit {
        return check.pass(format!("{words}, at or above {limit}"));
    }
    if found.upper < limit {
        return check.fail(format!("{words}, below {limit}"));
    }
    let more = more();
    let (below, above) = (limit - TELLING / 2.0, limit + TELLING / 2.0);
    let caveat = if found.width() > TELLING {
        format!("; so few do not tell {below:.2} from {above:.2}")
    } else {
        String::new()
    };
    let words = format!("{words}, spans {limit}: {more}{caveat}");
    check.not_enough(words).with_more(more)
}

/// The same for a ratio.
pub(super) fn ratio_against(
    check: Check,
    found: Interval,
    limit: f64,
    items: usize,
    outlook: Option<&RatioOutlook>,
) -> Check {
    against(check, found, limit, items, || match outlook {
        Some(outlook) => MoreItems::of_ratio(found, limit, items, outlook),
        None => MoreItems::to_settle(found, limit, items),
    })
}
