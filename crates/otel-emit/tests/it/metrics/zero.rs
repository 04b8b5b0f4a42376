//! Before anything has happened.

use super::{Meters, catalogue};

#[test]
fn known_combinations_are_there_and_zero() {
    let page = Meters::of(catalogue()).page();
    let pair = [
        ("role", "planner"),
        ("primary", "openai/gpt"),
        ("fallback", "azure/gpt"),
    ];
    let with = |more: (&'static str, &'static str)| [&pair[..], &[more]].concat();
    let route = |route, outcome| {
        let role = ("role", "planner");
        vec![
            role,
            ("provider", "openai"),
            ("route", route),
            ("outcome", outcome),
        ]
    };
    let mut expected = vec![
        ("evenkeel_requests_total", route("primary", "ok")),
        ("evenkeel_requests_total", route("none", "error")),
        ("evenkeel_restorations_total", pair.to_vec()),
        ("evenkeel_audit_write_failures_total", vec![]),
        ("evenkeel_audit_records_total", vec![("kind", "answer")]),
        ("evenkeel_audit_records_total", vec![("kind", "drill")]),
    ];
    for reason in ["latency_p95_breach", "latency_p99_breach", "latency_spike"] {
        expected.push(("evenkeel_substitutions_total", with(("reason", reason))));
    }
    for reason in ["overloaded", "timeout", "rate_limited"] {
        expected.push(("evenkeel_fallbacks_total", with(("reason", reason))));
    }
    for result in ["won", "lost", "refused"] {
        expected.push(("evenkeel_hedges_total", with(("result", result))));
    }
    for signal in ["span", "event", "log"] {
        let labels = vec![("signal", signal)];
        expected.push(("evenkeel_telemetry_dropped_total", labels));
    }
    for verdict in ["better", "equivalent", "worse", "not_enough_data"] {
        expected.push(("evenkeel_shadow_total", vec![("verdict", verdict)]));
    }
    for outcome in ["success", "partial", "failed"] {
        let labels = vec![("workflow", "research"), ("outcome", outcome)];
        expected.push(("evenkeel_workflows_total", labels));
    }
    for (name, labels) in expected {
        assert_eq!(page.value(name, &labels), Some(0.0), "{name} {labels:?}");
    }
}

/// A call that nobody answers counts on whoever was tried last, and the alert must see the
/// first of them.
#[test]
fn whoever_may_be_the_last_one_tried_has_a_zero_to_rise_from() {
    let page = Meters::of(catalogue()).page();
    for provider in ["openai", "azure"] {
        let labels = [
            ("role", "planner"),
            ("provider", provider),
            ("route", "none"),
            ("outcome", "error"),
        ];
        assert_eq!(page.value("evenkeel_requests_total", &labels), Some(0.0));
    }
}

#[test]
fn kinds_of_task_that_share_the_role_s_roster_have_zeros_of_its_pairs() {
    let mut sharing = catalogue();
    sharing.roles[0].task_types.push("draft".into());
    let page = Meters::of(sharing).page();
    let zeros = |task, primary| {
        let labels = [("task_type", task), ("primary", primary)];
        page.find("evenkeel_fallbacks_total", &labels).len()
    };
    for task in ["", "draft"] {
        assert_eq!(
            (zeros(task, "openai/gpt"), zeros(task, "azure/gpt")),
            (3, 0)
        );
    }
    // One with a roster of its own falls back there alone.
    assert_eq!(
        (zeros("review", "azure/gpt"), zeros("review", "openai/gpt")),
        (3, 0)
    );
}

#[test]
fn a_new_configuration_brings_its_series_and_leaves_the_old_ones() {
    let meters = Meters::of(catalogue());
    let mut other = catalogue();
    other.roles[0].name = "writer".into();
    meters.metrics.replace(other);
    let page = meters.page();
    for role in ["planner", "writer"] {
        let labels = [("role", role), ("route", "primary")];
        assert_eq!(page.value("evenkeel_requests_total", &labels), Some(0.0));
    }
    // Gauges are of what runs now.
    let limits = |role| {
        page.find("evenkeel_latency_slo_seconds", &[("role", role)])
            .len()
    };
    assert_eq!((limits("planner"), limits("writer")), (0, 2));
}
