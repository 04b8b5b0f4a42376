//! What becomes of what happens.

use super::events::{
    attempt, call, fallback, half_way_back, hedge, interrupted, moves_on, probe, rejected,
    restoration, retry, shadowed, substitution,
};
use super::{Meters, catalogue, id};
use evenkeel_core::{
    Class, Cost, DegradationLevel, EventKind, HedgeResult, Route, WorkflowOutcome,
};
use std::time::Duration;

fn after(events: impl IntoIterator<Item = EventKind>) -> super::Page {
    let meters = Meters::of(catalogue());
    for event in events {
        meters.tell(event);
    }
    meters.page()
}

#[test]
fn an_answer_counts_on_who_gave_it_and_by_which_route() {
    let page = after([
        call("planner", Some("azure/gpt"), Route::Substitute),
        call("planner", None, Route::None),
    ]);
    let substitute = [
        ("route", "substitute"),
        ("provider", "azure"),
        ("model", "gpt"),
    ];
    assert_eq!(
        page.value("evenkeel_requests_total", &substitute),
        Some(1.0)
    );
    // Nobody was tried: it counts on the primary.
    let none = [
        ("route", "none"),
        ("provider", "openai"),
        ("outcome", "error"),
    ];
    assert_eq!(page.value("evenkeel_requests_total", &none), Some(1.0));
    let name = "evenkeel_request_duration_seconds_sum";
    assert_eq!(page.value(name, &[("route", "substitute")]), Some(3.0));
    // Depths are those of answers.
    assert_eq!(page.value("evenkeel_fallback_depth_count", &[]), Some(1.0));
    assert_eq!(page.value("evenkeel_degradation_depth_sum", &[]), Some(2.0));
}

#[test]
fn censored_times_are_kept_apart_and_their_tokens_are_waste() {
    let page = after([
        attempt("openai/gpt", "ok", None),
        attempt("openai/gpt", "abandoned", None),
        attempt("openai/gpt", "cancelled", None),
        attempt("openai/gpt", "error", Some(Class::Transient)),
        attempt("openai/gpt", "rejected_quality", Some(Class::Semantic)),
    ]);
    let count = |name| page.value(name, &[("provider", "openai")]);
    assert_eq!(count("evenkeel_attempt_duration_seconds_count"), Some(3.0));
    let left = "evenkeel_abandoned_attempt_duration_seconds_count";
    assert_eq!(count(left), Some(2.0));
    let output = [("type", "output")];
    assert_eq!(page.value("evenkeel_tokens_total", &output), Some(100.0));
    assert_eq!(
        page.value("evenkeel_wasted_tokens_total", &output),
        Some(400.0)
    );
    let semantic = [("outcome", "rejected_quality"), ("error_type", "semantic")];
    assert_eq!(page.value("evenkeel_attempts_total", &semantic), Some(1.0));
    let fine = [("outcome", "ok"), ("error_type", "")];
    assert_eq!(page.value("evenkeel_attempts_total", &fine), Some(1.0));
    // The conventions' durations are of operations that ended by themselves.
    let name = "gen_ai_client_operation_duration_seconds_count";
    let found = page.find(name, &[("server_port", "443")]);
    assert!((found.iter().map(|(_, n)| n).sum::<f64>() - 3.0).abs() < 0.5);
    let error = [("error_type", "transient")];
    assert_eq!(page.value(name, &error), Some(1.0));
}

#[test]
fn chunks_are_timed_on_average_and_only_in_streams() {
    let mut whole = attempt("openai/gpt", "ok", None);
    if let EventKind::AttemptEnded { streams, .. } = &mut whole {
        *streams = false;
    }
    let page = after([attempt("openai/gpt", "ok", None), whole]);
    // Eleven chunks: ten after the first, in the second that was left.
    let name = "gen_ai_client_operation_time_per_output_chunk_seconds";
    assert_eq!(page.value(&format!("{name}_sum"), &[]), Some(0.1));
    for name in [
        &format!("{name}_count"),
        "gen_ai_client_operation_time_to_first_chunk_seconds_count",
        "evenkeel_time_to_first_token_seconds_count",
    ] {
        assert_eq!(page.value(name, &[]), Some(1.0), "{name}");
    }
}

#[test]
fn estimated_tokens_are_ours_alone() {
    let mut guess = attempt("openai/gpt", "ok", None);
    if let EventKind::AttemptEnded {
        usage_estimated, ..
    } = &mut guess
    {
        *usage_estimated = true;
    }
    let page = after([guess]);
    let output = [("type", "output")];
    assert_eq!(page.value("evenkeel_tokens_total", &output), Some(100.0));
    assert!(page.find("gen_ai_client_token_usage_count", &[]).is_empty());
}

#[test]
fn a_count_that_is_none_spoils_no_sum() {
    let mut absurd = attempt("openai/gpt", "ok", None);
    if let EventKind::AttemptEnded {
        usage: Some(usage), ..
    } = &mut absurd
    {
        usage.output = u64::MAX;
    }
    let page = after([absurd.clone(), absurd, attempt("openai/gpt", "ok", None)]);
    let output = [("type", "output")];
    let sum = 2e9 + 100.0;
    assert_eq!(page.value("evenkeel_tokens_total", &output), Some(sum));
    let output = [("gen_ai_token_type", "output")];
    assert_eq!(
        page.value("gen_ai_client_token_usage_sum", &output),
        Some(sum)
    );
}

#[test]
fn a_cost_that_is_no_number_is_not_recorded() {
    let mut odd = attempt("openai/gpt", "ok", None);
    if let EventKind::AttemptEnded {
        cost: Some(Cost { usd, .. }),
        ..
    } = &mut odd
    {
        *usd = f64::NAN;
    }
    let page = after([odd, attempt("openai/gpt", "ok", None)]);
    let answer = [("kind", "answer"), ("provider", "openai")];
    assert_eq!(page.value("evenkeel_cost_usd_total", &answer), Some(0.25));
}

#[test]
fn moves_are_told_from_the_primary_of_the_role_or_task() {
    let page = after([
        substitution(None, "openai/gpt", "azure/gpt"),
        substitution(Some("review"), "azure/gpt", "openai/gpt"),
    ]);
    for (primary, fallback) in [("openai/gpt", "azure/gpt"), ("azure/gpt", "openai/gpt")] {
        let labels = [
            ("primary", primary),
            ("fallback", fallback),
            ("reason", "latency_p95_breach"),
        ];
        assert_eq!(
            page.value("evenkeel_substitutions_total", &labels),
            Some(1.0)
        );
    }
}

#[test]
fn a_restoration_is_timed_when_the_primary_is_back() {
    let page = after([moves_on(), half_way_back(), restoration(0)]);
    let name = "evenkeel_restorations_total";
    let pair = |fallback| [("primary", "openai/gpt"), ("fallback", fallback)];
    assert_eq!(page.value(name, &pair("azure/gpt")), Some(1.0));
    assert!(
        (page.sum(name, &[]) - 1.0).abs() < 0.5,
        "half way is not back"
    );
    // The pairs are those of the gauge that says where the role stands.
    for fallback in ["new/one", "azure/gpt"] {
        let moved = page.sum("evenkeel_substitutions_total", &pair(fallback));
        assert!((moved - 1.0).abs() < 0.5, "{fallback}: {moved}");
    }
    let name = "evenkeel_time_to_restoration_seconds";
    assert_eq!(page.value(&format!("{name}_count"), &[]), Some(1.0));
    assert_eq!(page.value(&format!("{name}_sum"), &[]), Some(42.0));
}

#[test]
fn each_end_of_a_hedge_counts() {
    let ends = [HedgeResult::Won, HedgeResult::Lost, HedgeResult::Refused];
    let page = after(ends.map(hedge));
    let pair = ("fallback", "azure/gpt");
    for result in ["won", "lost", "refused"] {
        let labels = [pair, ("result", result), ("primary", "openai/gpt")];
        assert_eq!(page.value("evenkeel_hedges_total", &labels), Some(1.0));
    }
    assert!(page.sum("evenkeel_substitutions_total", &[]) < 0.5);
}

#[test]
fn a_fallback_counts_with_its_kind_of_task_and_what_it_added() {
    let page = after([
        fallback("planner", Some("review"), id("azure/gpt")),
        fallback("planner", None, id("azure/gpt")),
    ]);
    for task in ["review", ""] {
        let labels = [
            ("task_type", task),
            ("reason", "overloaded"),
            ("primary", "openai/gpt"),
        ];
        assert_eq!(page.value("evenkeel_fallbacks_total", &labels), Some(1.0));
    }
    let added = "evenkeel_fallback_added_latency_seconds_sum";
    assert_eq!(page.value(added, &[("role", "planner")]), Some(2.0));
}

#[test]
fn a_probe_counts_once_for_each_role() {
    let judged = [("planner", "slow"), ("planner", "ok"), ("writer", "ok")];
    let page = after([probe(&judged)]);
    let results = page.find("evenkeel_probes_total", &[("model", "openai/gpt")]);
    assert_eq!(results.len(), 2, "{results:?}");
    let cost = [("kind", "probe"), ("role", "planner")];
    assert_eq!(page.value("evenkeel_cost_usd_total", &cost), Some(0.125));
}

#[test]
fn only_answers_of_fallbacks_are_rejections_of_one() {
    let page = after([rejected(0, "openai/gpt"), rejected(1, "azure/gpt")]);
    let sum = page.sum("evenkeel_quality_rejections_total", &[]);
    assert!((sum - 1.0).abs() < 0.5, "{sum}");
}

#[test]
fn retries_and_breaks_count_on_the_model_that_failed() {
    let page = after([
        retry("openai/gpt", Class::RateLimited),
        interrupted(true),
        interrupted(false),
    ]);
    let reason = [("reason", "rate_limited"), ("provider", "openai")];
    assert_eq!(page.value("evenkeel_retries_total", &reason), Some(1.0));
    for resumed in ["true", "false"] {
        let labels = [("resumed", resumed), ("provider", "openai")];
        let name = "evenkeel_stream_interruptions_total";
        assert_eq!(page.value(name, &labels), Some(1.0));
    }
}

#[test]
fn runs_of_a_workflow_are_counted_by_its_name() {
    let end = |run: &str, outcome, level| EventKind::WorkflowEnded {
        workflow: run.into(),
        outcome,
        level,
    };
    let success = Some(WorkflowOutcome::Success);
    let page = after([
        end("research", success, None),
        end(
            "research/2026-11-30",
            success,
            Some(DegradationLevel::Major),
        ),
        end("research-deep-7", success, None),
        end("researchers", success, None),
        // Nobody said how it went.
        end("research#9", None, Some(DegradationLevel::Minor)),
    ]);
    let ended = |workflow| page.sum("evenkeel_workflows_total", &[("workflow", workflow)]);
    let counts = [ended("research"), ended("research-deep"), ended("_other")];
    assert!(
        counts
            .iter()
            .zip([2.0, 1.0, 1.0])
            .all(|(a, b)| (a - b).abs() < 0.5)
    );
    let degraded = page.sum(
        "evenkeel_degraded_workflows_total",
        &[("workflow", "research")],
    );
    assert!((degraded - 2.0).abs() < 0.5, "{degraded}");
}

#[test]
fn a_shadow_is_scored_from_thirty_pairs_on() {
    let page = after((0..100).map(|_| shadowed("new/one")));
    let verdict = |word| page.value("evenkeel_shadow_total", &[("verdict", word)]);
    assert_eq!(verdict("worse"), Some(0.0));
    let (early, late) = (
        verdict("not_enough_data").unwrap(),
        verdict("better").unwrap(),
    );
    assert!(early >= 29.0 && late >= 20.0, "{early} {late}");
}

#[test]
fn losses_are_counted_by_those_who_know() {
    let meters = Meters::of(catalogue());
    let losses = meters.metrics.losses();
    losses.lost(evenkeel_otel_emit::metrics::Signal::Span, 3);
    let span = [("signal", "span")];
    assert_eq!(
        meters
            .page()
            .value("evenkeel_telemetry_dropped_total", &span),
        Some(3.0)
    );
}

#[test]
fn durations_are_seconds() {
    let mut quick = call("planner", Some("openai/gpt"), Route::Primary);
    if let EventKind::CallEnded { duration, .. } = &mut quick {
        *duration = Duration::from_millis(40);
    }
    let page = after([quick, call("planner", Some("openai/gpt"), Route::Primary)]);
    let below = |le| page.value("evenkeel_request_duration_seconds_bucket", &[("le", le)]);
    assert_eq!(
        (below("0.025"), below("0.05"), below("3")),
        (Some(0.0), Some(1.0), Some(2.0))
    );
}
