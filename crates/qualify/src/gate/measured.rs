//! Whether enough was measured to say anything, and against what.

use super::{Check, CheckName, Unit};
use crate::run::Halt;
use crate::{CandidateMeasures, Verdict};

/// Least share of the questions that have to have been measured. What is left out is
/// seldom a fair sample: an outage takes the end of a dataset, a deadline its longest
/// items. A tenth of them moves a ratio by no more than a tenth.
const LEAST_COVERAGE: f64 = 0.9;

/// Largest share of its measured questions that a primary may decline or fail. Each of
/// them is a 0 that any answer is better than: with more of them a candidate whose ratio
/// is 0.85 is worth less than 0.77 of a primary that answers.
const MOST_SPOILT: f64 = 0.1;

/// Only where something was not measured.
pub(super) fn coverage(measures: &CandidateMeasures, is_primary: bool) -> Option<Check> {
    let (scored, of) = (measures.scored, measures.questions);
    if scored >= of && measures.halted.is_none() {
        return None;
    }
    let found = share(scored, of);
    let check = Check::new(CheckName::Coverage, Unit::Share).with_limit(LEAST_COVERAGE);
    let check = check.with_value(found);
    let words = format!("{scored} of {of} questions were measured");
    if let Some(halt) = measures.halted {
        let may_go_on = is_primary || matches!(halt, Halt::Limited { .. });
        let how = if may_go_on {
            "; --resume asks the rest"
        } else {
            ""
        };
        return Some(check.not_enough(format!("{halt}; {words}{how}")));
    }
    Some(if found >= LEAST_COVERAGE {
        check.pass(words)
    } else {
        check.not_enough(format!("{words}, below {LEAST_COVERAGE} of them"))
    })
}

/// Only of the primary, and where it has a score.
pub(super) fn yardstick(measures: &CandidateMeasures) -> Option<Check> {
    if measures.scored == 0 {
        return None;
    }
    let failed: usize = measures.errors.values().sum();
    // Those that it could not be asked have no score, and spoil none.
    let failed = failed - measures.unreached;
    let (refused, of) = (measures.refused, measures.scored);
    let found = share(failed + refused, of);
    let check = Check::new(CheckName::Yardstick, Unit::Share).with_limit(MOST_SPOILT);
    let check = check.with_value(found);
    let words = format!("it failed {failed} and declined {refused} of {of} questions");
    Some(if found <= MOST_SPOILT {
        check.pass(words)
    } else {
        check.fail(format!(
            "{words}, above {MOST_SPOILT} of them: to be better than that says little"
        ))
    })
}

/// Why nothing can be measured against the model that `checks` are of; none where
/// something can. How long it lives says nothing of that.
pub(super) fn why_none(checks: &[Check]) -> Option<String> {
    let is_asked = |check: &&Check| {
        let name = &check.name;
        matches!(name, CheckName::Coverage | CheckName::Yardstick) && !check.verdict.is_pass()
    };
    let found = checks.iter().find(is_asked)?;
    let how = match found.verdict {
        Verdict::Fail => "is no measure",
        _ => "was not measured enough",
    };
    Some(format!("the primary {how}: {}", found.words))
}

#[expect(clippy::cast_precision_loss, reason = "counts of questions")]
fn share(part: usize, of: usize) -> f64 {
    if of == 0 {
        return 0.0;
    }
    part as f64 / of as f64
}
