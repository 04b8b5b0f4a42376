//! Every line of the log, by what it may and may not hold.

use super::tests::{breach, degraded, exhausted, fallback, hedge, id, latency, rejected};
use super::tests::{restoration, substitution, transition, written};
use super::*;
use evenkeel_core::{
    Asked, AttemptKind, Cost, DrillKind, HedgeResult, Meta, PolicyStamp, Reported, Route, Server,
    ShadowAnswer, ShadowPair, Snapshot, SpentOn, TicketId, Trail, Usage,
};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// The members of a line in the order they stand in it, each as often as it does.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut all = Vec::new();
                while let Some(member) = map.next_entry()? {
                    all.push(member);
                }
                Ok(Members(all))
            }
        }
        from.deserialize_map(Each)
    }
}

/// The members of the one line of an event.
fn members(kind: &EventKind) -> Vec<(String, Value)> {
    let text = written(kind, Some(CallId::next()), tracing::Level::DEBUG, 1);
    serde_json::from_str::<Members>(&text).unwrap().0
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// What the contract has an event for.
fn of_the_contract() -> Vec<EventKind> {
    vec![
        substitution(),
        hedge(),
        restoration(),
        breach("p99"),
        fallback(),
        transition(),
        degraded(),
        rejected(),
        exhausted(),
        drift(),
    ]
}

fn drift() -> EventKind {
    let build = |name: &str| Snapshot {
        model: name.into(),
        fingerprint: None,
    };
    EventKind::ModelDrift {
        role: "planner".into(),
        model: id("a/m"),
        reported: build("m-2026"),
        expected: build("m-2025"),
    }
}

/// What befalls roles, models and what operators do, beyond the contract.
fn of_roles_and_models() -> Vec<EventKind> {
    let role: Arc<str> = "planner".into();
    vec![
        EventKind::LatencyBreachEnded {
            role: role.clone(),
            task: Some("plan".into()),
            rung: 0,
            model: id("a/m"),
            measure: "total",
        },
        EventKind::CanaryStarted {
            role: role.clone(),
            task: Some("plan".into()),
            rung: 0,
            model: id("a/m"),
            share: 0.05,
        },
        EventKind::CanaryFailed {
            role: role.clone(),
            task: Some("plan".into()),
            rung: 0,
            model: id("a/m"),
            interval: s(60),
        },
        EventKind::CooldownStarted {
            model: id("a/m"),
            duration: s(1),
        },
        EventKind::HoldStarted {
            provider: "a".into(),
            system: "openai".into(),
            model: Some(id("a/m")),
            class: Class::Auth,
            duration: s(60),
        },
        EventKind::Probed {
            model: id("a/m"),
            duration: s(1),
            latency: Some(s(1)),
            class: None,
            cost: Some(cost()),
            booked_on: role.clone(),
            verdicts: Vec::new(),
        },
        EventKind::ModelStatus {
            model: id("a/m"),
            stage: Some("LEGACY".into()),
            last_day: Some("2027-02-01".into()),
        },
        EventKind::OperatorActed {
            operator: "eve".into(),
            action: "force",
            target: "planner to rung 1".to_owned(),
        },
        EventKind::PolicyChanged {
            policy: Some(Arc::new(stamp())),
            added: vec![role.clone()],
            removed: vec![role.clone()],
            changed: vec![role],
        },
        EventKind::DrillStarted {
            drill: 1,
            kind: DrillKind::Eol,
            model: id("a/m"),
            duration: s(60),
        },
        EventKind::DrillEnded {
            drill: 1,
            kind: DrillKind::Eol,
            model: id("a/m"),
            duration: s(60),
            first_fallback: Some(s(1)),
            answered: 3,
            failed: 1,
        },
    ]
}

/// What becomes of one attempt.
fn of_attempts() -> Vec<EventKind> {
    let role: Arc<str> = "planner".into();
    vec![
        EventKind::AttemptStarted {
            role: role.clone(),
            attempt: 0,
            rung: 0,
            model: id("a/m"),
            kind: AttemptKind::First,
            after: None,
            server: Arc::new(Server::named("a")),
            streams: false,
            asked: Asked::default(),
            breaker: "closed",
            content: None,
        },
        EventKind::AttemptEnded {
            role,
            attempt: 0,
            rung: 0,
            model: id("a/m"),
            server: Arc::new(Server::named("a")),
            streams: false,
            duration: s(1),
            first_token: Some(s(1)),
            usage: Some(Usage::default()),
            usage_estimated: false,
            cost: Some(cost()),
            outcome: "error",
            class: Some(Class::Overloaded),
            status: Some(503),
            reported: Reported::default(),
            kept: false,
            content: None,
        },
    ]
}

/// What happens to calls, beyond the contract.
fn of_calls() -> Vec<EventKind> {
    let role: Arc<str> = "planner".into();
    let lost = EventKind::HedgeEnded {
        role: role.clone(),
        task: None,
        request_id: None,
        from: 0,
        from_model: id("a/m"),
        to: 1,
        to_model: id("b/m"),
        result: HedgeResult::Lost,
        reason: "patience_exceeded",
        patience: s(1),
        latency: latency(None),
    };
    vec![
        EventKind::CallStarted {
            role: role.clone(),
            task: Some("plan".into()),
            request_id: Some("r-1".into()),
            workflow: None,
            session: None,
            caller: None,
            primary: id("a/m"),
            deadline: s(60),
            streams: false,
            policy: None,
            trace: None,
        },
        EventKind::HedgeStarted {
            role: role.clone(),
            from: 0,
            to: 1,
            budgeted: true,
        },
        lost,
        EventKind::StreamInterrupted {
            role: role.clone(),
            from: 0,
            from_model: id("a/m"),
            class: Class::Transient,
            sent_tokens: 7,
            resumed: Some((1, id("b/m"))),
        },
        EventKind::ValidatorFailed {
            role: role.clone(),
            attempt: 0,
            model: id("a/m"),
            validator: "judge".into(),
            why: "timeout",
            passed: false,
        },
        EventKind::Shadowed(Arc::new(ShadowPair {
            role: role.clone(),
            live: shadow("a/m"),
            shadow: shadow("c/m"),
            request: None,
        })),
        EventKind::TicketChanged {
            ticket: TicketId::new("t-1").unwrap(),
            role: role.clone(),
            state: TicketState::Failed,
            request_id: Some("r-1".into()),
            attempts: 2,
            why: Some("internal"),
        },
        EventKind::TicketStoreFailed {
            role,
            doing: "accept",
            error: "the disk is full".to_owned(),
        },
        call_ended(),
    ]
}

fn cost() -> Cost {
    Cost {
        usd: 0.5,
        is_estimate: false,
        spent_on: SpentOn::Answer,
    }
}

fn stamp() -> PolicyStamp {
    PolicyStamp {
        version: Some("v7".into()),
        sha256: "00".into(),
    }
}

fn shadow(model: &str) -> ShadowAnswer {
    ShadowAnswer {
        model: id(model),
        latency: s(1),
        first_token: None,
        usage: None,
        cost: Some(cost()),
        finish: None,
        text_bytes: 0,
        tool_calls: 0,
        is_valid: None,
        failure: Some(Class::Transient),
        content: None,
    }
}

/// A call that the fallback answered, under a name of its provider's.
fn call_ended() -> EventKind {
    EventKind::CallEnded {
        role: "planner".into(),
        task: None,
        request_id: None,
        workflow: None,
        caller: None,
        primary: id("a/m"),
        policy: None,
        outcome: "error",
        meta: Some(Meta {
            role: "planner".to_owned(),
            model_id: id("b/m"),
            rung: 1,
            route: Route::Fallback,
            primary: id("a/m"),
            capability_score: 0.9,
            quality_ratio: 0.9,
            degraded: true,
            fallback_reason: Some("overloaded"),
            notice: None,
            attempts: 2,
            latency_added: s(1),
            adapted: Vec::new(),
            cost_usd: Some(0.5),
            added_cost_usd: Some(0.1),
            cost_is_estimate: false,
        }),
        route: Route::Fallback,
        reason: Some("overloaded"),
        class: Some(Class::Transient),
        error: Some("transient"),
        prompt_variant: None,
        reported: Reported {
            model: Some("m-2026-05-01".into()),
            ..Reported::default()
        },
        depth: 1,
        duration: s(3),
        trail: Arc::new(Trail::default()),
        content: None,
        trace: None,
    }
}

/// The names of all events that the log has a line for, as its sources have them.
fn named() -> BTreeSet<&'static str> {
    let sources = [include_str!("../log.rs"), include_str!("calls.rs")];
    let after = sources.iter().flat_map(|s| s.split("event = \"").skip(1));
    after.filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn no_line_has_a_key_twice() {
    let mut seen = BTreeSet::new();
    let all = [
        of_the_contract(),
        of_roles_and_models(),
        of_attempts(),
        of_calls(),
    ];
    for kind in all.into_iter().flatten() {
        let members = members(&kind);
        let mut keys: Vec<&str> = members.iter().map(|(key, _)| key.as_str()).collect();
        keys.sort_unstable();
        let count = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), count, "{members:?}");
        let event = members.iter().find(|(key, _)| key == "event").unwrap();
        seen.insert(event.1.as_str().unwrap().to_owned());
    }
    let seen: BTreeSet<&str> = seen.iter().map(String::as_str).collect();
    assert_eq!(seen, named(), "every line is looked at");
}

/// What the contract has each event hold, what it may, and what is the log's own.
const CONTRACT: [(&str, &str, &str, &str); 9] = [
    (
        "model_substitution",
        "agent.role model.primary model.fallback substitution.reason latency.p95_ms latency.p99_ms",
        "latency.slo_p95_ms latency.slo_p99_ms latency.samples substitution.scope \
         substitution.mid_flight evenkeel.fallback_depth evenkeel.degradation_depth",
        "evenkeel.task_type evenkeel.epoch",
    ),
    (
        "model_restoration",
        "agent.role model.primary model.fallback restoration.reason restoration.duration_ms \
         latency.p95_ms latency.p99_ms",
        "restoration.probes_ok restoration.share",
        "evenkeel.task_type evenkeel.epoch latency.samples",
    ),
    (
        "latency_breach",
        "agent.role model.primary breach.detector breach.percentile latency.p95_ms \
         latency.p99_ms latency.slo_ms",
        "breach.measure latency.samples breach.window_s",
        "evenkeel.task_type evenkeel.rung",
    ),
    (
        "model_fallback_activated",
        "agent.role task_type primary_model fallback_model reason latency_added_ms",
        "error.type http.response.status_code evenkeel.fallback_depth",
        "",
    ),
    (
        "breaker_transition",
        "gen_ai.provider.name model.primary breaker.from breaker.to",
        "breaker.failures breaker.retry_after_ms error.type",
        "agent.role breaker.cause",
    ),
    (
        "workflow_degraded",
        "workflow degradation.level evenkeel.degradation_depth degradation.roles",
        "quality.expected_ratio",
        "",
    ),
    (
        "quality_rejected",
        "agent.role model.fallback quality.score quality.gate",
        "task_type",
        "attempt model.primary",
    ),
    (
        "roster_exhausted",
        "agent.role model.primary exhausted.tried exhausted.refused",
        "error.type",
        "",
    ),
    (
        "model_drift",
        "agent.role gen_ai.request.model gen_ai.response.model drift.expected",
        "",
        "",
    ),
];

#[test]
fn a_line_of_the_contract_holds_what_it_must_and_nothing_it_may_not() {
    const OF_EVERY_LINE: &str = "timestamp level target event call trace_id span_id";
    for kind in of_the_contract() {
        let members = members(&kind);
        let keys: BTreeSet<&str> = members.iter().map(|(key, _)| key.as_str()).collect();
        let event = &members.iter().find(|(key, _)| key == "event").unwrap().1;
        let (name, must, may, own) = CONTRACT
            .into_iter()
            .find(|(name, ..)| event == name)
            .unwrap();
        let words = |text: &'static str| text.split_whitespace();
        for key in words(must) {
            assert!(keys.contains(key), "{name} without {key}: {members:?}");
        }
        let known: BTreeSet<&str> = [must, may, own, OF_EVERY_LINE]
            .into_iter()
            .flat_map(words)
            .collect();
        let others: Vec<_> = keys.difference(&known).collect();
        assert!(others.is_empty(), "{name} has {others:?}");
    }
}

/// The router tells of the first call of an episode, and of that of the next: whoever
/// counts episodes again loses some.
#[test]
fn every_exhaustion_that_is_told_is_a_line() {
    let lines = written(&exhausted(), None, tracing::Level::INFO, 2);
    assert_eq!(lines.matches("roster_exhausted").count(), 2);
}

#[test]
fn the_end_of_a_call_tells_who_answered_from_what_the_provider_calls_it() {
    let members = members(&call_ended());
    let value = |key: &str| members.iter().find(|(known, _)| known == key).map(|m| &m.1);
    assert_eq!(value("model.answered"), Some(&"b/m".into()));
    assert_eq!(value("gen_ai.response.model"), Some(&"m-2026-05-01".into()));
}
