//! Events, as a router tells them.

use super::{id, s};
use evenkeel_core::{
    Asked, AttemptKind, Away, Class, Cost, EventKind, HedgeResult, Latency, Meta, ModelId,
    ProbeVerdict, Reported, RestorationReason, Route, Server, ShadowAnswer, ShadowPair, SpentOn,
    SubstitutionReason, Trail, Usage,
};
use std::sync::Arc;
use std::time::Duration;

pub(super) fn server() -> Arc<Server> {
    Arc::new(Server {
        provider: "openai".into(),
        system: "openai".into(),
        address: Some("api.example.com".into()),
        port: Some(443),
        in_process: false,
    })
}

/// An attempt that ended as `outcome` says.
pub(super) fn attempt(model: &str, outcome: &'static str, class: Option<Class>) -> EventKind {
    EventKind::AttemptEnded {
        role: "planner".into(),
        attempt: 0,
        rung: 0,
        model: id(model),
        server: server(),
        streams: true,
        duration: s(2),
        first_token: Some(s(1)),
        usage: Some(Usage {
            input: 800,
            output: 100,
            ..Usage::default()
        }),
        usage_estimated: false,
        cost: Some(Cost {
            usd: 0.25,
            is_estimate: false,
            spent_on: SpentOn::Answer,
        }),
        outcome,
        class,
        status: None,
        reported: Reported {
            model: Some("gpt-2026".into()),
            chunks: 11,
            ..Reported::default()
        },
        kept: false,
        content: None,
    }
}

/// An answer of `model` by `route`; none where there is no model.
pub(super) fn call(role: &str, model: Option<&str>, route: Route) -> EventKind {
    let meta = model.map(|model| Meta {
        role: role.to_owned(),
        model_id: id(model),
        rung: usize::from(route != Route::Primary),
        route,
        primary: id("openai/gpt"),
        capability_score: 1.0,
        quality_ratio: 1.0,
        degraded: route != Route::Primary,
        fallback_reason: None,
        notice: None,
        attempts: 1,
        latency_added: Duration::ZERO,
        adapted: Vec::new(),
        cost_usd: None,
        added_cost_usd: None,
        cost_is_estimate: false,
    });
    EventKind::CallEnded {
        role: role.into(),
        task: None,
        request_id: None,
        workflow: None,
        caller: None,
        primary: id("openai/gpt"),
        policy: None,
        outcome: if meta.is_some() { "ok" } else { "error" },
        meta,
        route,
        reason: None,
        class: None,
        error: None,
        prompt_variant: None,
        reported: Reported::default(),
        depth: 2,
        duration: s(3),
        trail: Arc::new(Trail::default()),
        content: None,
        trace: None,
    }
}

pub(super) fn latency() -> Latency {
    Latency {
        measure: "total",
        p95: Some(s(6)),
        p99: Some(s(9)),
        slo_p95: s(5),
        slo_p99: s(8),
        samples: 20,
    }
}

pub(super) fn substitution(task: Option<&str>, from: &str, to: &str) -> EventKind {
    EventKind::ModelSubstitution {
        role: "planner".into(),
        task: task.map(Into::into),
        epoch: 1,
        primary: id(from),
        from: 0,
        from_model: id(from),
        to: 1,
        to_model: id(to),
        reason: SubstitutionReason::LatencyP95Breach,
        latency: latency(),
    }
}

/// The role `planner` moves on from its fallback `azure/gpt` to `new/one`.
pub(crate) fn moves_on() -> EventKind {
    let mut moved = substitution(None, "azure/gpt", "new/one");
    if let EventKind::ModelSubstitution { primary, .. } = &mut moved {
        *primary = id("openai/gpt");
    }
    moved
}

/// It comes back from there to `azure/gpt`, and is still without its primary.
pub(crate) fn half_way_back() -> EventKind {
    let mut back = restoration(1);
    if let EventKind::ModelRestoration {
        from_model,
        to_model,
        away,
        ..
    } = &mut back
    {
        (*from_model, *to_model) = (id("new/one"), id("azure/gpt"));
        *away = Some(Away {
            primary: id("openai/gpt"),
            reason: SubstitutionReason::LatencyP95Breach,
        });
    }
    back
}

pub(super) fn restoration(to: usize) -> EventKind {
    EventKind::ModelRestoration {
        role: "planner".into(),
        task: None,
        epoch: 2,
        from: to + 1,
        from_model: id("azure/gpt"),
        to,
        to_model: id("openai/gpt"),
        duration: s(42),
        reason: RestorationReason::Recovered,
        latency: latency(),
        away: None,
    }
}

pub(super) fn retry(model: &str, after: Class) -> EventKind {
    EventKind::AttemptStarted {
        role: "planner".into(),
        attempt: 1,
        rung: 0,
        model: id(model),
        kind: AttemptKind::Retry,
        after: Some(after),
        server: server(),
        streams: false,
        asked: Asked::default(),
        breaker: "closed",
        content: None,
    }
}

pub(super) fn hedge(result: HedgeResult) -> EventKind {
    EventKind::HedgeEnded {
        role: "planner".into(),
        task: None,
        request_id: None,
        from: 0,
        from_model: id("openai/gpt"),
        to: 1,
        to_model: id("azure/gpt"),
        result,
        reason: "patience_exceeded",
        patience: s(1),
        latency: latency(),
    }
}

pub(super) fn fallback(role: &str, task: Option<&str>, fallback: ModelId) -> EventKind {
    EventKind::ModelFallback {
        role: role.into(),
        task: task.map(Into::into),
        request_id: None,
        primary: id("openai/gpt"),
        fallback,
        rung: 1,
        reason: "overloaded",
        class: Some(Class::Overloaded),
        status: Some(503),
        latency_added: s(1),
    }
}

pub(super) fn probe(results: &[(&str, &'static str)]) -> EventKind {
    let verdict = |(role, result): &(&str, &'static str)| ProbeVerdict {
        role: (*role).into(),
        task: None,
        result,
    };
    EventKind::Probed {
        model: id("openai/gpt"),
        duration: s(1),
        latency: Some(s(1)),
        class: None,
        cost: Some(Cost {
            usd: 0.125,
            is_estimate: false,
            spent_on: SpentOn::Probe,
        }),
        booked_on: "planner".into(),
        verdicts: results.iter().map(verdict).collect(),
    }
}

pub(super) fn shadowed(model: &str) -> EventKind {
    let answer = |model: &str, ms| ShadowAnswer {
        model: id(model),
        latency: Duration::from_millis(ms),
        first_token: None,
        usage: None,
        cost: None,
        finish: None,
        text_bytes: 3,
        tool_calls: 0,
        is_valid: None,
        failure: None,
        content: None,
    };
    EventKind::Shadowed(Arc::new(ShadowPair {
        role: "planner".into(),
        live: answer("openai/gpt", 900),
        shadow: answer(model, 300),
        request: None,
    }))
}

pub(super) fn transition(provider: &str, model: Option<&str>) -> EventKind {
    EventKind::BreakerTransition {
        provider: provider.into(),
        system: "gcp.gemini".into(),
        model: model.map(id),
        role: None,
        from: "closed",
        to: "open",
        retry_in: None,
        cause: "consecutive_failures",
        failures: Some(5),
        class: None,
    }
}

pub(super) fn breach(model: &str) -> EventKind {
    EventKind::LatencyBreach {
        role: "planner".into(),
        task: None,
        rung: 0,
        model: id(model),
        detector: "p95",
        measure: "total",
        p95: Some(s(6)),
        p99: None,
        slo: s(5),
        samples: 20,
        window: s(15),
    }
}

pub(super) fn rejected(rung: usize, model: &str) -> EventKind {
    EventKind::QualityRejected {
        role: "planner".into(),
        task: None,
        attempt: 0,
        rung,
        model: id(model),
        gate: "schema".into(),
    }
}

pub(super) fn interrupted(resumed: bool) -> EventKind {
    EventKind::StreamInterrupted {
        role: "planner".into(),
        from: 0,
        from_model: id("openai/gpt"),
        class: Class::Transient,
        sent_tokens: 3,
        resumed: resumed.then(|| (1, id("azure/gpt"))),
    }
}
