//! The policy keys about degradation.

use crate::degraded::{DegradedPolicy, NoticeIn, OnDegradedInput};
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
    assign(&mut policy.notice, table.text("notice").map(str::to_owned));
    let notice_in = [("meta", NoticeIn::Meta), ("text", NoticeIn::Text)];
    assign(&mut policy.notice_in, table.word("notice_in", &notice_in));
}
