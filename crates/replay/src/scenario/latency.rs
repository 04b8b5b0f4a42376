//! How long a model takes: a number of milliseconds or a table.

use evenkeel_chaos::Latency;
use evenkeel_document::{TableReader, Value};

/// Reads `first_token_ms`: a number, or one of the tables
/// `{ median_ms, p99_ms }`, `{ from_ms, to_ms, over_ms }`,
/// `{ base_ms, peak_ms, after_ms, lasts_ms }`, `{ body_ms, tail_ms, share }`.
pub(super) fn read(table: &mut TableReader<'_, '_>) -> Option<Latency> {
    const KEY: &str = "first_token_ms";
    let entry = table.scope().table.get(KEY);
    if !matches!(entry.map(|e| &e.node.value), Some(Value::Table(_))) {
        return table.ms(KEY).map(Latency::Fixed);
    }
    table.within(KEY, read_table).flatten()
}

fn read_table(table: &mut TableReader<'_, '_>) -> Option<Latency> {
    let mut ms = |key| table.ms(key);
    let (median, p99) = (ms("median_ms"), ms("p99_ms"));
    let (from, to, over) = (ms("from_ms"), ms("to_ms"), ms("over_ms"));
    let (base, peak, after) = (ms("base_ms"), ms("peak_ms"), ms("after_ms"));
    let lasts = ms("lasts_ms");
    let (body, tail) = (ms("body_ms"), ms("tail_ms"));
    let share = table.number("share");
    let found = [
        both(median, p99).map(|(median, p99)| Latency::LogNormal { median, p99 }),
        both(both(from, to), over).map(|((from, to), over)| Latency::Ramp { from, to, over }),
        both(base, peak).map(|(base, peak)| Latency::Spike {
            base,
            peak,
            after: after.unwrap_or_default(),
            lasts,
        }),
        both(both(body, tail), share).map(|((body, tail), share)| Latency::Tail {
            body,
            tail,
            share,
        }),
    ];
    let mut found = found.into_iter().flatten();
    let (one, other) = (found.next(), found.next());
    if one.is_none() || other.is_some() {
        let at = table.scope().place.clone();
        let message =
            "is no distribution: expected median_ms and p99_ms; from_ms, to_ms and over_ms; \
                       base_ms and peak_ms; or body_ms, tail_ms and share"
                .to_owned();
        table.findings.error(&at, message, None);
    }
    one
}

fn both<A, B>(a: Option<A>, b: Option<B>) -> Option<(A, B)> {
    a.zip(b)
}
