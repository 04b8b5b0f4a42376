//! The policy keys about what fallbacks are measured against.

use crate::policy::RolePolicy;
use evenkeel_document::{TableReader, assign};

pub(super) fn read_qualification(table: &mut TableReader<'_, '_>, policy: &mut RolePolicy) {
    assign(&mut policy.quality_budget, table.number("quality_budget"));
    for (tag, budget) in table.named_numbers("quality_budget_by_tag") {
        let budgets = &mut policy.quality_budget_by_tag;
        budgets.insert(tag.to_owned(), budget);
    }
    let window = table.large_count("min_context_window");
    policy.min_context_window = window.or(policy.min_context_window);
    let ranking = &mut policy.ranking;
    table.within("ranking", |t| {
        assign(&mut ranking.quality, t.number("quality"));
        assign(&mut ranking.latency, t.number("latency"));
        assign(&mut ranking.compliance, t.number("compliance"));
    });
}
