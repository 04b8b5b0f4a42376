//! `on_exhausted` and `queue` of a policy.

use crate::policy::RolePolicy;
use crate::queue::{OnExhausted, QueuePolicy};
use evenkeel_document::{TableReader, assign};

/// Reads both on top of `policy`.
pub(super) fn read_exhausted(table: &mut TableReader<'_, '_>, policy: &mut RolePolicy) {
    let words = [
        ("error", OnExhausted::Error),
        ("queue", OnExhausted::Queue),
        ("escalate", OnExhausted::Escalate),
    ];
    assign(&mut policy.on_exhausted, table.word("on_exhausted", &words));
    table.within("queue", |t| read_queue(t, &mut policy.queue));
}

fn read_queue(table: &mut TableReader<'_, '_>, queue: &mut QueuePolicy) {
    assign(&mut queue.max_age, table.ms("max_age_ms"));
    assign(&mut queue.base, table.ms("base_ms"));
    assign(&mut queue.cap, table.ms("cap_ms"));
    queue.max_attempts = table.count("max_attempts").or(queue.max_attempts);
    assign(&mut queue.max_open, table.count("max_open"));
    assign(&mut queue.max_concurrency, table.count("max_concurrency"));
}
