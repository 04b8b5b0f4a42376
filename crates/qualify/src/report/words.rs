//! Numbers as a person reads them.

use crate::run::Load;
use crate::{Interval, OutcomeKind};
use std::time::Duration;

/// What stands where there is nothing.
pub(super) const NONE: &str = "–";

/// `0.965 [0.935, 0.990]`.
pub(super) fn interval(found: Option<Interval>) -> String {
    found.map_or_else(
        || NONE.to_owned(),
        |found| {
            let Interval {
                estimate,
                lower,
                upper,
            } = found;
            format!("{estimate:.3} [{lower:.3}, {upper:.3}]")
        },
    )
}

/// `+0.012 [-0.004, +0.027]`.
pub(super) fn difference(found: Option<Interval>) -> String {
    found.map_or_else(
        || NONE.to_owned(),
        |found| {
            let Interval {
                estimate,
                lower,
                upper,
            } = found;
            format!("{estimate:+.3} [{lower:+.3}, {upper:+.3}]")
        },
    )
}

/// `98.5%`.
pub(super) fn share(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// `87 ms`, `1.25 s`, and below ten milliseconds `3.1 ms`.
pub(super) fn time(time: Option<Duration>) -> String {
    let Some(time) = time else {
        return NONE.to_owned();
    };
    let ms = time.as_secs_f64() * 1_000.0;
    if ms < 9.95 {
        format!("{ms:.1} ms")
    } else if ms < 999.5 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.2} s", ms / 1_000.0)
    }
}

/// US dollars; four digits behind the point where there are few of them.
pub(super) fn dollars(usd: Option<f64>) -> String {
    match usd {
        None => NONE.to_owned(),
        Some(usd) if usd < 1.0 => format!("${usd:.4}"),
        Some(usd) => format!("${usd:.2}"),
    }
}

pub(super) fn load(load: Load) -> String {
    match load {
        Load::Closed { concurrency } => format!("{concurrency} at a time"),
        Load::Open { per_second, .. } => format!("{per_second} a second, open loop"),
    }
}

/// How one answer ended.
pub(super) fn ending(kind: Option<OutcomeKind>) -> String {
    match kind {
        None => "not asked".to_owned(),
        Some(OutcomeKind::Answered(score)) => format!("scored {score:.2}"),
        Some(OutcomeKind::Refused) => "refused".to_owned(),
        Some(OutcomeKind::Failed(class)) => format!("failed: {}", class.as_str()),
        Some(OutcomeKind::Unscored) => "could not be scored".to_owned(),
        Some(OutcomeKind::Unmeasured(class)) => format!("not measured: {}", class.as_str()),
    }
}
