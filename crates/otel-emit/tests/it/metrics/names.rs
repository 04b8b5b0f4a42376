//! What there is, under which names.

use super::events::{
    attempt, breach, call, fallback, hedge, interrupted, probe, rejected, restoration, retry,
    shadowed, substitution, transition,
};
use super::page::Page;
use super::{Meters, catalogue, gauges::snapshot, id};
use evenkeel_core::{Class, DegradationLevel, EventKind, HedgeResult, Route, WorkflowOutcome};

const SAMPLE: &str = include_str!("../../../../../fixtures/telemetry/metrics-sample.prom");

/// Everything has happened once.
pub(super) fn eventful() -> Meters {
    let meters = Meters::of(catalogue());
    for event in [
        attempt("openai/gpt", "ok", None),
        attempt("openai/gpt", "error", Some(Class::Overloaded)),
        attempt("azure/gpt", "abandoned", None),
        call("planner", Some("openai/gpt"), Route::Primary),
        call("planner", None, Route::None),
        substitution(None, "openai/gpt", "azure/gpt"),
        restoration(0),
        retry("openai/gpt", Class::RateLimited),
        hedge(HedgeResult::Won),
        fallback("planner", None, id("azure/gpt")),
        probe(&[("planner", "ok")]),
        shadowed("new/one"),
        transition("openai", None),
        breach("openai/gpt"),
        rejected(1, "azure/gpt"),
        interrupted(true),
        EventKind::WorkflowEnded {
            workflow: "research".into(),
            outcome: Some(WorkflowOutcome::Success),
            level: Some(DegradationLevel::Minor),
        },
    ] {
        meters.tell(event);
    }
    meters.metrics.show(snapshot());
    meters
}

#[test]
fn what_is_shown_is_what_is_promised_and_the_other_way_round() {
    let (shown, promised) = (eventful().page(), Page::read(SAMPLE));
    assert_eq!(shown.types, promised.types);
    assert_eq!(shown.shapes(), promised.shapes());
}

#[test]
fn no_value_is_not_a_number_and_every_family_has_its_words() {
    let meters = eventful();
    for (name, value) in meters.page().values() {
        assert!(value.is_finite(), "{name}");
    }
    let text = meters.exposition.text().unwrap();
    for family in meters.page().types.keys() {
        let help = format!("# HELP {family} ");
        let words = text.lines().find_map(|line| line.strip_prefix(&help));
        assert!(words.is_some_and(|words| words.ends_with('.')), "{family}");
    }
}

#[test]
fn histograms_have_boundaries_of_their_own() {
    let page = eventful().page();
    let bounds = |family: &str| {
        let name = format!("{family}_bucket");
        let first = page.find(&name, &[])[0].0.clone();
        let of_first = |labels: &&super::page::Labels| {
            let same =
                |(key, value): (&String, &String)| key == "le" || first.get(key) == Some(value);
            labels.len() == first.len() && labels.iter().all(same)
        };
        let found = page.find(&name, &[]);
        let mut bounds: Vec<f64> = found
            .iter()
            .map(|(labels, _)| *labels)
            .filter(of_first)
            .map(|labels| labels["le"].parse().unwrap())
            .collect();
        bounds.sort_by(f64::total_cmp);
        (bounds.len(), bounds[0])
    };
    for (family, expected) in [
        ("evenkeel_request_duration_seconds", (23, 0.025)),
        ("evenkeel_time_to_restoration_seconds", (12, 10.0)),
        ("evenkeel_fallback_depth", (8, 0.0)),
        ("gen_ai_client_operation_duration_seconds", (15, 0.01)),
        ("gen_ai_client_token_usage", (15, 1.0)),
    ] {
        assert_eq!(bounds(family), expected, "{family}");
    }
}
