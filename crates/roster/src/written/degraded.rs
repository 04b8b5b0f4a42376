//! The policy keys about degradation.

use crate::degraded::{DegradedPolicy, OnDegradedInput};
use evenkeel_document::{TableReader, assign};

pub(super) fn read_degraded(table: &mut TableReader<'_, '_>, policy: &mut DegradedPolicy) {
    let on_input = [
        ("proceed", OnDegradedInput::Proceed),
        ("wait", OnDegradedInput::Wait),
        ("refuse", OnDegradedInput::Refuse),
    ];
    assign(
        &mut policy.on_input,
        table.word("on_degraded_input", &on_input),
    );
    assign(&mut policy.wait, table.ms("degraded_wait_ms"));
    assign(&mut policy.below, table.number("degraded_below"));
}
