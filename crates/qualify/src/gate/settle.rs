//! An interval against a limit, and what it takes to settle it.

use super::Check;
use crate::Interval;
use crate::statistics::count;
use std::fmt;

/// A dataset that would have to be larger than this is not worth having: the
/// estimate lies too close to the limit.
const MOST_ITEMS: f64 = 100_000.0;

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
    /// it, if the estimate stays and the width falls with the root of the items:
    /// `items × ((width / gap)² − 1)`, where `width` is from the estimate to that
    /// end and `gap` from the estimate to the limit.
    pub fn to_settle(found: Interval, limit: f64, items: usize) -> Self {
        let gap = found.estimate - limit;
        let width = if gap < 0.0 {
            found.upper - found.estimate
        } else {
            found.estimate - found.lower
        };
        let needed = count(items) * (width / gap).powi(2);
        let more = (needed - count(items)).ceil();
        if needed.is_nan() || needed > MOST_ITEMS {
            return Self::CannotBeSettled;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 1 up to the most items"
        )]
        let more = more.max(1.0) as u64;
        Self::About(more)
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
/// it; between the two there is not enough data.
pub(super) fn against(check: Check, found: Interval, limit: f64, items: usize) -> Check {
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
    let more = MoreItems::to_settle(found, limit, items);
    let (below, above) = (limit - TELLING / 2.0, limit + TELLING / 2.0);
    let caveat = if found.width() > TELLING {
        format!("; so few do not tell {below:.2} from {above:.2}")
    } else {
        String::new()
    };
    let words = format!("{words}, spans {limit}: {more}{caveat}");
    check.not_enough(words).with_more(more)
}
