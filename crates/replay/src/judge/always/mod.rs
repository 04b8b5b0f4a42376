//! What must hold of every run, whatever its scenario expects.

mod course;
mod outcome;

use super::Report;
use crate::record::{End, Record, RequestRecord};
use crate::scenario::{Scenario, Traffic};
use evenkeel_chaos::check_answer;
use evenkeel_core::{AttemptOutcome, EventKind, Finish, ModelId};
use evenkeel_roster::{RoleConfig, RungConfig, TaskPolicy};
use std::collections::BTreeSet;
use std::time::Duration;

/// How much later than its deadline a call may end: the grain of timers.
const GRACE: Duration = Duration::from_millis(50);

pub(super) fn judge(scenario: &Scenario, record: &Record, report: &mut Report) {
    for request in &record.requests {
        let Some(case) = Case::of(scenario, request) else {
            let seen = "a role without configuration".to_owned();
            report.fail(
                format!("request {}", request.nth),
                "a role".to_owned(),
                seen,
            );
            continue;
        };
        one_outcome(&case, report);
        in_time(&case, report);
        course::judge(&case, report);
        outcome::judge(&case, report);
        own_and_whole(&case, report);
    }
    kept_once(record, report);
    nothing_left(record, report);
    alternating(scenario, record, report);
    let drills = record.events.iter();
    let drills = drills.filter(|told| matches!(told.kind, EventKind::DrillStarted { .. }));
    let (wanted, begun) = (scenario.drills.len(), drills.count());
    report.check(
        "drills begun".to_owned(),
        wanted.to_string(),
        begun.to_string(),
        wanted == begun,
    );
}

/// One request beside what it was asked by.
struct Case<'a> {
    scenario: &'a Scenario,
    request: &'a RequestRecord,
    traffic: &'a Traffic,
    role: &'a RoleConfig,
    task: Option<&'a TaskPolicy>,
    /// The rungs in the order of the role, or of its task.
    rungs: Vec<&'a RungConfig>,
    /// The call's own: the role's, or what its caller made of it.
    deadline: Duration,
}

impl<'a> Case<'a> {
    fn of(scenario: &'a Scenario, request: &'a RequestRecord) -> Option<Self> {
        let traffic = scenario.traffic.get(request.traffic)?;
        let role = scenario.config.roles.get(&traffic.role)?;
        let task = traffic.task.as_deref();
        let task = task.and_then(|task| role.policy.tasks.get(task));
        let rungs = match task.and_then(|task| task.order.as_ref()) {
            None => role.rungs.iter().collect(),
            Some(order) => {
                let rung = |model: &ModelId| role.rungs.iter().find(|rung| rung.model == *model);
                order.iter().filter_map(rung).collect()
            }
        };
        let clocks = role.policy.clocks.shortened(traffic.clocks);
        Some(Self {
            scenario,
            request,
            traffic,
            role,
            task,
            rungs,
            deadline: clocks.deadline,
        })
    }

    /// Whether it says what its role does not allow: it is refused before it is a call.
    fn is_bad_from_the_start(&self) -> bool {
        self.traffic.pinned_roster.is_some() && !self.role.policy.allow_pinned_roster
    }

    /// The least capability of a model that may be asked.
    fn least_capability(&self) -> f64 {
        let policy = &self.role.policy;
        let declared = self.traffic.complexity.map(|c| policy.complexity.least(c));
        let standing = self
            .task
            .map_or(policy.min_capability_score, |t| t.least_capability(policy));
        standing
            .max(declared.unwrap_or(0.0))
            .max(self.traffic.min_capability.unwrap_or(0.0))
    }

    /// Reports what does not hold of this request.
    fn wrong(&self, report: &mut Report, part: &str, expected: &str, mut seen: String) {
        for step in &self.request.trail.steps {
            seen.push_str("\n      ");
            seen.push_str(&crate::scenario::pattern_written(step));
        }
        let what = format!("request {}, {part}", self.request.nth);
        report.fail(what, expected.to_owned(), seen);
    }
}

/// Every request has one end, and nothing of it runs on.
fn one_outcome(case: &Case<'_>, report: &mut Report) {
    let request = case.request;
    let ended = |how: fn(&AttemptOutcome) -> bool| {
        let attempts = request.trail.attempts();
        attempts.filter(|a| how(&a.outcome)).count()
    };
    let winners = ended(|outcome| matches!(outcome, AttemptOutcome::Won));
    let running = ended(|outcome| matches!(outcome, AttemptOutcome::Running));
    let wanted = usize::from(request.end == End::Answered);
    let told = usize::from(!case.is_bad_from_the_start());
    if request.ends_told != told || winners != wanted || running > 0 {
        let seen = format!(
            "{}: {} ends told, {winners} winners, {running} running",
            request.end, request.ends_told
        );
        case.wrong(
            report,
            "ends",
            "one, with a winner if it is an answer",
            seen,
        );
    }
}

/// No call outlasts its deadline. A caller that reads slowly makes its own time.
fn in_time(case: &Case<'_>, report: &mut Report) {
    let request = case.request;
    if case.traffic.read_pause.is_zero() && request.ended > case.deadline + GRACE {
        let expected = format!("within {} ms", case.deadline.as_millis());
        case.wrong(
            report,
            "total",
            &expected,
            format!("{} ms", request.ended.as_millis()),
        );
    }
}

/// A numbered answer that its model ended is the caller's own, whole, once and in order.
fn own_and_whole(case: &Case<'_>, report: &mut Report) {
    let request = case.request;
    if request.finish != Some(Finish::Stop) || !request.text.starts_with("[[") {
        return;
    }
    let Some(meta) = &request.meta else {
        return;
    };
    let mut plans = case.scenario.upstream.iter();
    let plan = plans.find(|p| p.model == meta.model_id);
    let tokens = plan.map_or(0, |plan| plan.usual.tokens);
    if let Err(wrong) = check_answer(&request.text, request.nth as u64, tokens) {
        case.wrong(
            report,
            "text",
            "the caller's own, whole and in order",
            wrong.to_string(),
        );
    }
}

/// What a caller was told is kept is kept, once, and has at most one answer.
fn kept_once(record: &Record, report: &mut Report) {
    let queued = record.requests.iter().filter(|r| r.end.is_named("queued"));
    let (told, kept) = (queued.count(), record.kept.len());
    report.check(
        "calls kept".to_owned(),
        told.to_string(),
        kept.to_string(),
        told == kept,
    );
    for call in record.kept.iter().filter(|call| call.answers.len() > 1) {
        let what = format!("answers of ticket {}", call.id);
        report.fail(what, "one".to_owned(), call.answers.len().to_string());
    }
}

/// Once all is over no call is open anywhere, every place is free, and what began has ended.
fn nothing_left(record: &Record, report: &mut Report) {
    let open = record
        .upstream
        .iter()
        .map(|(model, stats)| (model.to_string(), stats.in_flight));
    let held = record
        .held
        .iter()
        .map(|(what, n)| (what.clone(), *n as u64));
    for (what, n) in open.chain(held).filter(|(_, n)| *n > 0) {
        report.fail(
            format!("open calls of {what}"),
            "0".to_owned(),
            n.to_string(),
        );
    }
    let count = |is: fn(&EventKind) -> bool| record.events.iter().filter(|t| is(&t.kind)).count();
    let began = count(|k| matches!(k, EventKind::AttemptStarted { .. }));
    let ended = count(|k| matches!(k, EventKind::AttemptEnded { .. }));
    report.check(
        "attempts that ended".to_owned(),
        began.to_string(),
        ended.to_string(),
        began == ended,
    );
}

/// The moves of a role (those of its tasks are their own) are one chain: each begins where the one before it ended, a
/// substitution leaves a rung that serves, a restoration goes up to one that was left.
fn alternating(scenario: &Scenario, record: &Record, report: &mut Report) {
    for name in scenario.config.roles.keys() {
        let mut active = 0;
        let mut left = BTreeSet::new();
        for told in &record.events {
            let (from, to, sound) = match &told.kind {
                EventKind::ModelSubstitution {
                    role,
                    task: None,
                    from,
                    to,
                    ..
                } if **role == **name => (*from, *to, left.insert(*from)),
                EventKind::ModelRestoration {
                    role,
                    task: None,
                    from,
                    to,
                    ..
                } if **role == **name => {
                    let was_left = left.contains(to);
                    // Whatever lies below the one that serves again is asked like any other.
                    left.retain(|rung| rung < to);
                    (*from, *to, was_left && to < from)
                }
                _ => continue,
            };
            if from != active || to == from || !sound {
                report.fail(
                    format!("moves of {name}"),
                    format!("the next leaves rung {active}, no rung is left twice in a row"),
                    format!("{from} -> {to} at {} ms", told.at.as_millis()),
                );
            }
            active = to;
        }
    }
}
