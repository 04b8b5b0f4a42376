//! What must come of a scenario.

use super::band::{self, Band};
use super::pattern::StepPattern;
use evenkeel_document::{Scope, TableReader};
use std::time::Duration;

/// Everything that is expected; what is not said may be anything.
#[derive(Debug, Clone, Default)]
pub struct Expectations {
    /// `calls`: upstream calls by model, probes included, and of all as `total`.
    pub calls: Vec<(String, Band)>,
    /// `[[expect.phase]]`.
    pub phases: Vec<PhaseExpectation>,
    /// `[[expect.event]]`.
    pub events: Vec<EventExpectation>,
    /// `[[expect.trail]]`.
    pub trails: Vec<TrailExpectation>,
}

/// What is expected of the requests asked within a span of time. Shares are of
/// these requests, 0 to 1; times are in milliseconds.
#[derive(Debug, Clone)]
pub struct PhaseExpectation {
    /// `from_ms`: requests asked then or later.
    pub from: Duration,
    /// `until_ms`: and before then; to the end where it is not said.
    pub until: Option<Duration>,
    /// `outcomes`: share by how they ended: `ok`, `exhausted`, `failed:auth`,
    /// `broke:timeout`, `left`, or what stands before the colon for all of its kind.
    pub outcomes: Vec<(String, Band)>,
    /// `answered_by`: share of the answered by model.
    pub answered_by: Vec<(String, Band)>,
    /// `total_ms`: quantiles `p50`, `p95`, `p99`, `max` of the whole time of the answered.
    pub total: Vec<(String, Band)>,
    /// `first_token_ms`: the same of the first content.
    pub first_token: Vec<(String, Band)>,
    /// `longest_ms` of all of them, however they ended.
    pub longest: Option<Band>,
    /// `attempts_per_request`.
    pub attempts: Option<Band>,
}

/// What is expected of events whose line begins with some words.
#[derive(Debug, Clone)]
pub struct EventExpectation {
    /// `line`: the line or the words it begins with.
    pub line: String,
    /// `count`: how many; at least one where it is not said.
    pub count: Band,
    /// `first_ms`: when the first comes, since the beginning.
    pub first: Option<Band>,
}

/// What is expected of one request.
#[derive(Debug, Clone)]
pub struct TrailExpectation {
    /// `request`: which, in the order they were asked, from 0.
    pub request: usize,
    /// `outcome`, as in a phase's `outcomes`.
    pub outcome: Option<String>,
    /// `answered_by`: the model.
    pub answered_by: Option<String>,
    /// `route` of the answer.
    pub route: Option<String>,
    /// `reason`: why another than the primary answered, or the class a failure is
    /// told as; the empty text where there is none.
    pub reason: Option<String>,
    /// `total_ms`: until it ended.
    pub total: Option<Band>,
    /// `retry_after_ms` of a failure.
    pub retry_after: Option<Band>,
    /// `steps`: every step of its trail.
    pub steps: Option<Vec<StepPattern>>,
}

/// More than any count.
const ANY: f64 = 1e12;

/// Reads `expect`.
pub(super) fn read(table: &mut TableReader<'_, '_>) -> Expectations {
    let expect = table.within("expect", |t| Expectations {
        calls: band::read_named(t, "calls"),
        phases: each(t, "phase", read_phase),
        events: each(t, "event", read_event),
        trails: each(t, "trail", read_trail),
    });
    let expect = expect.unwrap_or_default();
    let says_nothing = expect.calls.is_empty()
        && expect.phases.is_empty()
        && expect.events.is_empty()
        && expect.trails.is_empty();
    if says_nothing {
        let at = table.place("expect");
        let message = "expects nothing: it could not fail".to_owned();
        table.findings.error(&at, message, None);
    }
    expect
}

fn each<T>(
    table: &mut TableReader<'_, '_>,
    key: &'static str,
    read: fn(&mut TableReader<'_, '_>) -> T,
) -> Vec<T> {
    if !table.has(key) {
        table.know(key);
        return Vec::new();
    }
    let scopes = table.listed_tables(key).unwrap_or_default();
    let read = |scope: Scope<'_>| {
        let mut own = TableReader::new(scope, table.findings);
        let one = read(&mut own);
        own.finish();
        one
    };
    scopes.into_iter().map(read).collect()
}

fn read_phase(table: &mut TableReader<'_, '_>) -> PhaseExpectation {
    PhaseExpectation {
        from: table.ms("from_ms").unwrap_or_default(),
        until: table.ms("until_ms"),
        outcomes: band::read_named(table, "outcomes"),
        answered_by: band::read_named(table, "answered_by"),
        total: quantiles(table, "total_ms"),
        first_token: quantiles(table, "first_token_ms"),
        longest: band::read(table, "longest_ms"),
        attempts: band::read(table, "attempts_per_request"),
    }
}

fn quantiles(table: &mut TableReader<'_, '_>, key: &'static str) -> Vec<(String, Band)> {
    let bands = band::read_named(table, key);
    for (name, _) in &bands {
        if crate::judge::quantile_named(name).is_none() {
            let at = table.place(key);
            let message = format!("`{name}` is not one of p50, p95, p99, max");
            table.findings.error(&at, message, None);
        }
    }
    bands
}

fn read_event(table: &mut TableReader<'_, '_>) -> EventExpectation {
    let count = band::read(table, "count");
    EventExpectation {
        line: super::required(table, "line"),
        count: count.unwrap_or(Band {
            least: 1.0,
            most: ANY,
        }),
        first: band::read(table, "first_ms"),
    }
}

fn read_trail(table: &mut TableReader<'_, '_>) -> TrailExpectation {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let request = table.count("request").unwrap_or(0);
    TrailExpectation {
        request: usize::try_from(request).unwrap_or(usize::MAX),
        outcome: owned(table.text("outcome")),
        answered_by: owned(table.text("answered_by")),
        route: owned(table.text("route")),
        reason: owned(table.text("reason")),
        total: band::read(table, "total_ms"),
        retry_after: band::read(table, "retry_after_ms"),
        steps: read_steps(table),
    }
}

fn read_steps(table: &mut TableReader<'_, '_>) -> Option<Vec<StepPattern>> {
    if !table.has("steps") {
        table.know("steps");
        return None;
    }
    let mut steps = Vec::new();
    for item in table.texts("steps")? {
        match StepPattern::parse(item.text) {
            Ok(step) => steps.push(step),
            Err(message) => table.findings.error(&item.place, message, None),
        }
    }
    Some(steps)
}
