//! How things are.

use super::{Meters, catalogue, id};
use evenkeel_core::TicketState;
use evenkeel_otel_emit::audit::{AuditStatus, RecordKind};
use evenkeel_otel_emit::metrics::{
    BREAKER_STATES, ModelNow, PercentilesNow, ProviderNow, Quality, QualityNow, RoleNow, RungNow,
    Snapshot, TicketsNow,
};
use std::time::Duration;

fn percentiles(ms: u64) -> PercentilesNow {
    let of = |n: u64| Some(Duration::from_millis(n));
    PercentilesNow {
        p50: of(ms),
        p95: of(2 * ms),
        p99: of(3 * ms),
    }
}

fn role(task: Option<&str>, active: usize, models: [&str; 2]) -> RoleNow {
    let rung = |model: &str| RungNow {
        model: id(model),
        total: percentiles(1_000),
        first_token: PercentilesNow::default(),
    };
    RoleNow {
        role: "planner".into(),
        task: task.map(Into::into),
        active,
        in_flight: 2,
        rungs: models.map(rung).to_vec(),
    }
}

/// Everything has something to show.
pub(super) fn snapshot() -> Snapshot {
    let model = |name: &str, breaker| ModelNow {
        model: id(name),
        breaker,
        cools_down: false,
        is_held: name.starts_with("openai"),
    };
    Snapshot {
        roles: vec![
            role(None, 1, ["openai/gpt", "azure/gpt"]),
            role(Some("review"), 0, ["azure/gpt", "openai/gpt"]),
        ],
        models: vec![
            model("openai/gpt", "half_open"),
            model("azure/gpt", "closed"),
        ],
        providers: vec![ProviderNow {
            provider: "openai".into(),
            breaker: "open",
        }],
        qualities: vec![QualityNow {
            role: "planner".into(),
            primary: id("openai/gpt"),
            fallback: id("azure/gpt"),
            quality: Quality {
                ratio: 0.5,
                delta: -0.25,
            },
        }],
        tickets: Some(vec![TicketsNow {
            role: "planner".into(),
            state: TicketState::Queued,
            count: 3,
        }]),
        audit: Some(AuditStatus {
            written_by_kind: vec![(RecordKind::Answer, 7)],
            write_failures: 2,
            ..AuditStatus::default()
        }),
    }
}

fn shown() -> super::Page {
    let meters = Meters::of(catalogue());
    meters.metrics.show(snapshot());
    meters.page()
}

#[test]
fn exactly_one_state_of_each_breaker_is_one() {
    let page = shown();
    for (provider, model, state) in [
        ("openai", "gpt", "half_open"),
        ("azure", "gpt", "closed"),
        ("openai", "", "open"),
    ] {
        for known in BREAKER_STATES {
            let labels = [("provider", provider), ("model", model), ("state", known)];
            let expected = if known == state { 1.0 } else { 0.0 };
            let value = page.value("evenkeel_breaker_state", &labels);
            assert_eq!(value, Some(expected), "{labels:?}");
        }
    }
}

#[test]
fn a_substitution_is_active_and_then_zero_but_never_gone() {
    let meters = Meters::of(catalogue());
    let active = |primary, fallback| {
        let labels = [("primary", primary), ("fallback", fallback)];
        meters.page().value("evenkeel_substitution_active", &labels)
    };
    meters.metrics.show(snapshot());
    assert_eq!(active("openai/gpt", "azure/gpt"), Some(1.0));
    // The task's own, the other way round.
    assert_eq!(active("azure/gpt", "openai/gpt"), Some(0.0));
    let mut back = snapshot();
    back.roles[0].active = 0;
    meters.metrics.show(back);
    assert_eq!(active("openai/gpt", "azure/gpt"), Some(0.0));
}

#[test]
fn a_window_that_has_run_empty_shows_nothing() {
    let meters = Meters::of(catalogue());
    let p95 = || {
        let labels = [("provider", "openai"), ("measure", "total")];
        meters.page().value("evenkeel_latency_p95_seconds", &labels)
    };
    meters.metrics.show(snapshot());
    assert_eq!(p95(), Some(2.0));
    // Read twice without a new snapshot it is what it was.
    assert_eq!(p95(), Some(2.0));
    let mut empty = snapshot();
    empty.roles[0].rungs[0].total = PercentilesNow::default();
    meters.metrics.show(empty);
    assert_eq!(p95(), None);
    let mut gone = snapshot();
    gone.roles.clear();
    meters.metrics.show(gone);
    assert_eq!(meters.page().find("evenkeel_latency_p95_seconds", &[]), []);
}

#[test]
fn tasks_share_what_is_in_flight_and_no_windows() {
    let page = shown();
    let role = [("role", "planner")];
    assert_eq!(page.value("evenkeel_inflight_requests", &role), Some(4.0));
    // Two rungs of the role; the task's windows would have the same labels.
    assert_eq!(page.find("evenkeel_latency_p50_seconds", &role).len(), 2);
}

#[test]
fn quality_is_told_by_where_it_was_seen() {
    let page = shown();
    for (source, ratio, delta) in [("qualify", 0.93, -0.07), ("online", 0.5, -0.25)] {
        let labels = [("source", source), ("fallback", "azure/gpt")];
        assert_eq!(page.value("evenkeel_quality_ratio", &labels), Some(ratio));
        assert_eq!(page.value("evenkeel_quality_delta", &labels), Some(delta));
    }
}

#[test]
fn tickets_are_zero_where_there_are_none_and_absent_where_nobody_knows() {
    let page = shown();
    let tickets = |state| page.value("evenkeel_tickets", &[("state", state)]);
    assert_eq!(
        (tickets("queued"), tickets("escalated")),
        (Some(3.0), Some(0.0))
    );
    let meters = Meters::of(catalogue());
    let mut unknown = snapshot();
    unknown.tickets = None;
    meters.metrics.show(unknown);
    assert_eq!(meters.page().find("evenkeel_tickets", &[]), []);
}

#[test]
fn audit_records_are_counted_as_the_log_counts_them() {
    let page = shown();
    let records = |kind| page.value("evenkeel_audit_records_total", &[("kind", kind)]);
    assert_eq!(
        (records("answer"), records("hedge")),
        (Some(7.0), Some(0.0))
    );
    assert_eq!(
        page.value("evenkeel_audit_write_failures_total", &[]),
        Some(2.0)
    );
}

#[test]
fn holds_ends_of_life_limits_and_the_build_are_shown() {
    let page = shown();
    let kind = |provider, kind| {
        let labels = [("provider", provider), ("kind", kind)];
        page.value("evenkeel_cooldown_active", &labels)
    };
    assert_eq!(kind("openai", "hold"), Some(1.0));
    assert_eq!(kind("openai", "cooldown"), Some(0.0));
    assert_eq!(kind("azure", "hold"), Some(0.0));
    let eol = page.find("evenkeel_model_eol_timestamp_seconds", &[]);
    assert_eq!(eol.len(), 1);
    assert_eq!((eol[0].0["provider"].as_str(), eol[0].1), ("openai", 1.8e9));
    let limit = [("percentile", "p95"), ("measure", "total")];
    assert_eq!(
        page.value("evenkeel_latency_slo_seconds", &limit),
        Some(5.0)
    );
    let build = [("version", "1.2.3"), ("revision", "abc")];
    assert_eq!(page.value("evenkeel_build_info", &build), Some(1.0));
}
