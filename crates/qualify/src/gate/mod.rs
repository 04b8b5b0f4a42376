//! Which candidates may be fallbacks of a role.
//!
//! Every condition is a [`Check`] with a verdict, its numbers and words. What is
//! estimated from items is judged by its interval: it passes when the lower end
//! reaches the limit, fails when the upper end is below it, and between the two
//! there is not enough data.

mod check;
mod limits;
mod measured;
mod model;
mod settle;

pub use check::{Check, CheckName, Unit, Verdict};
pub use limits::{GateLimits, LatencyKind, ModelFacts};
pub use settle::MoreItems;

use crate::{CandidateMeasures, Rank};
use settle::{against, ratio_against};

/// A candidate with what the gate says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// What was measured.
    pub measures: CandidateMeasures,
    /// What is known of the model.
    pub facts: ModelFacts,
    /// Every condition, in a fixed order.
    pub checks: Vec<Check>,
    /// Where it stands among those that passed; of the primary and of one judged alone
    /// there is none.
    pub rank: Option<Rank>,
}

impl Judged {
    /// The gravest of the checks: a candidate passes when all of them do, with or
    /// without a warning.
    pub fn verdict(&self) -> Verdict {
        Check::gravest(&self.checks)
    }

    /// Of a primary: whether others can be measured against it. It may be past its own
    /// last day: what takes its place is measured then too.
    pub fn is_measure(&self) -> bool {
        let mut checks = self.checks.iter();
        checks.all(|check| check.name == CheckName::EndOfLife || check.verdict.is_pass())
    }
}

/// Judges the primary: whether there is something to compare with.
pub fn judge_primary(measures: CandidateMeasures, facts: ModelFacts) -> Judged {
    let mut checks = vec![primary_quality(&measures)];
    checks.extend(measured::coverage(&measures, true));
    checks.extend(measured::yardstick(&measures));
    checks.push(model::end_of_life(&facts));
    Judged {
        measures,
        facts,
        checks,
        rank: None,
    }
}

/// Judges a candidate beside the primary.
pub fn judge(
    measures: CandidateMeasures,
    facts: ModelFacts,
    primary: &Judged,
    limits: &GateLimits,
) -> Judged {
    let why_none = measured::why_none(&primary.checks);
    let why_none = why_none.as_deref();
    let mut checks = vec![quality(&measures, primary, limits, why_none)];
    checks.extend(tag_checks(&measures, limits, why_none));
    checks.extend(measured::coverage(&measures, false));
    checks.push(latency(&measures, limits));
    checks.extend(compliance(&measures, limits));
    checks.push(model::context_window(&facts, &primary.facts, limits));
    checks.push(model::provider(&measures, primary, limits));
    checks.push(model::end_of_life(&facts));
    Judged {
        measures,
        facts,
        checks,
        rank: None,
    }
}

fn primary_quality(measures: &CandidateMeasures) -> Check {
    let check = Check::new(CheckName::Quality, Unit::Score);
    let Some(quality) = measures.quality else {
        return check.not_enough("no item was answered: there is nothing to compare with");
    };
    let check = check.with_measured(quality);
    if quality.estimate > 0.0 {
        check.pass(format!(
            "{:.3} on {} items",
            quality.estimate, measures.items
        ))
    } else {
        check.fail(format!(
            "it scores 0 on all {} items: there is nothing to compare with",
            measures.items
        ))
    }
}

/// `why_none`: why nothing can be measured against the primary, where that is so.
fn quality(
    measures: &CandidateMeasures,
    primary: &Judged,
    limits: &GateLimits,
    why_none: Option<&str>,
) -> Check {
    let check = Check::new(CheckName::Quality, Unit::Ratio).with_limit(limits.quality);
    if let Some(why) = why_none {
        return check.not_enough(why);
    }
    let Some(ratio) = measures.ratio else {
        let is_zero = primary.measures.quality.is_some_and(|q| q.estimate <= 0.0);
        return check.not_enough(if is_zero {
            "the primary scores 0: there is nothing to compare with"
        } else {
            "no item was answered by both it and the primary"
        });
    };
    let outlook = measures.outlook.as_ref();
    ratio_against(check, ratio, limits.quality, measures.paired, outlook)
}

/// A check for each tag that has a limit; items of a tag that nobody has are not
/// enough data, since the limit would be met by leaving them out.
fn tag_checks(
    measures: &CandidateMeasures,
    limits: &GateLimits,
    why_none: Option<&str>,
) -> Vec<Check> {
    let judge = |(tag, limit): (&String, &f64)| {
        let check = Check::new(CheckName::TagQuality(tag.clone()), Unit::Ratio).with_limit(*limit);
        if let Some(why) = why_none {
            return check.not_enough(why);
        }
        let found = measures.tags.get(tag);
        match found.and_then(|found| Some((found, found.ratio?))) {
            Some((found, ratio)) => {
                let outlook = found.outlook.as_ref();
                ratio_against(check, ratio, *limit, found.paired, outlook)
            }
            None => check.not_enough(format!(
                "no item tagged `{tag}` was answered by both it and the primary"
            )),
        }
    };
    limits.quality_by_tag.iter().map(judge).collect()
}

fn latency(measures: &CandidateMeasures, limits: &GateLimits) -> Check {
    let found = measures.latency.of(limits.latency_kind);
    let of = limits.latency_kind.words();
    let limit = limits.latency.as_secs_f64() * 1_000.0;
    let check = Check::new(CheckName::Latency, Unit::Milliseconds).with_limit(limit);
    let Some(found) = found else {
        return check.not_enough(format!("no {of} was measured"));
    };
    let median = found.p50.as_secs_f64() * 1_000.0;
    let check = check.with_value(median);
    if found.p50 < limits.latency {
        check.pass(format!("median {of} {median:.0} ms, below {limit:.0} ms"))
    } else {
        check.fail(format!(
            "median {of} {median:.0} ms, the role's threshold is {limit:.0} ms"
        ))
    }
}

/// Only where an item asks for a schema or tools.
fn compliance(measures: &CandidateMeasures, limits: &GateLimits) -> Option<Check> {
    let found = measures.compliance?;
    let limit = limits.schema_compliance;
    let check = Check::new(CheckName::SchemaCompliance, Unit::Share).with_limit(limit);
    let items = measures.checked;
    let more = || MoreItems::of_share(found, limit, items);
    Some(against(check, found, limit, items, more))
}
