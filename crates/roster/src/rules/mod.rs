//! The rules that a roster has to keep, as far as they can be told without
//! measuring anything.

mod models;
mod role;
mod task;
mod waivers;

use jiff::civil::Date;

use self::role::RoleCheck;
use self::waivers::Waivers;
use crate::assemble::Draft;
use crate::written::Written;
use evenkeel_document::Findings;

/// Checks every role, then every model.
pub(crate) fn check(draft: &Draft, written: &Written<'_>, today: Date, findings: &mut Findings) {
    let mut waived = Waivers::default();
    for (name, role) in &draft.config.roles {
        let name = name.as_str();
        let Some(roster) = written.rosters.get(name) else {
            continue;
        };
        let policy = written.policies.get(name);
        let mut check = RoleCheck {
            role,
            roster,
            written: policy.map_or(&written.defaults, |(_, policy)| policy),
            findings,
        };
        check.run(draft, today, &mut waived);
    }
    waived.report(findings);
    models::check(draft, written, today, findings);
}

/// Checks the models alone, whatever their rosters make of them.
pub(crate) fn check_models(
    draft: &Draft,
    written: &Written<'_>,
    today: Date,
    findings: &mut Findings,
) {
    models::check(draft, written, today, findings);
}
