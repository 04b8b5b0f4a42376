//! However many names are thrown at it.

use super::events::{
    attempt, breach, call, fallback, probe, rejected, retry, shadowed, transition,
};
use super::{Meters, catalogue, id};
use evenkeel_core::{Class, EventKind, Route};
use evenkeel_otel_emit::metrics::{Catalogue, MANY, MANY_SERIES};

// Conformance 7, and C153.
#[test]
fn names_that_callers_make_up_have_no_series_of_their_own() {
    let meters = Meters::of(catalogue());
    let made_up = |n: u32| {
        let model = format!("made{n}/up{n}");
        let role = format!("role-{n}");
        for event in [
            call(&role, Some(&model), Route::Fallback),
            fallback(&role, Some(&format!("task-{n}")), id(&model)),
            attempt(&model, "ok", None),
            breach(&model),
            rejected(1, &model),
            shadowed(&model),
            transition(&format!("made{n}"), Some(&model)),
            probe(&[(&role, "ok")]),
            EventKind::WorkflowEnded {
                workflow: format!("run-{n}").into(),
                outcome: None,
                level: Some(evenkeel_core::DegradationLevel::Minor),
            },
        ] {
            meters.tell(event);
        }
    };
    made_up(0);
    let first = meters.page();
    (1..10_000).for_each(made_up);
    let last = meters.page();
    assert_eq!(first.len(), last.len());
    let other = [
        ("role", "_other"),
        ("model", "_unknown"),
        ("provider", "_other"),
    ];
    let counted = last.sum("evenkeel_requests_total", &other);
    assert!((counted - 10_000.0).abs() < 0.5, "{counted}");
    let labels = [("task_type", "_other"), ("fallback", "_unknown")];
    let counted = last.sum("evenkeel_fallbacks_total", &labels);
    assert!((counted - 10_000.0).abs() < 0.5, "{counted}");
}

#[test]
fn over_their_limits_configured_names_share_a_label() {
    let mut many = catalogue();
    let role = many.roles.remove(0);
    let model = many.models[0].clone();
    for n in 0..70 {
        let mut role = role.clone();
        role.name = format!("role-{n:02}").into();
        role.task_types = vec![format!("task-{n:02}").into()];
        many.roles.push(role);
        let mut model = model.clone();
        model.id = id(&format!("p{n:02}/m"));
        many.models.push(model);
        many.providers.push(format!("p{n:02}").into());
    }
    let meters = Meters::of(many);
    let page = meters.page();
    let primary = [("route", "none"), ("provider", "openai")];
    let requests = page.find("evenkeel_requests_total", &primary);
    // 64 of 70 roles, and one for the rest.
    assert_eq!(requests.len(), 65);
    let eol = page.find("evenkeel_model_eol_timestamp_seconds", &[]);
    let known: std::collections::BTreeSet<_> = eol.iter().map(|(l, _)| &l["provider"]).collect();
    // Of 73 providers 16 have a place: 13 made up here and openai have a date to show, and
    // those without a place share one.
    assert_eq!(known.len(), 15);
    // A reload gives no new places.
    let mut next = catalogue();
    next.roles[0].name = "role-new".into();
    meters.metrics.replace(next);
    let named = meters.page();
    let new = named.find("evenkeel_requests_total", &[("role", "role-new")]);
    assert!(new.is_empty(), "{new:?}");
}

#[test]
fn snapshots_that_answers_name_are_sixty_four_at_most() {
    let meters = Meters::of(catalogue());
    for n in 0..500 {
        let mut event = attempt("openai/gpt", "ok", None);
        if let EventKind::AttemptEnded { reported, .. } = &mut event {
            reported.model = Some(format!("gpt-{n}").into());
        }
        meters.tell(event);
    }
    let name = "gen_ai_client_operation_duration_seconds_count";
    let page = meters.page();
    assert_eq!(page.find(name, &[]).len(), 65);
    let rest = page.sum(name, &[("gen_ai_response_model", "_unknown")]);
    assert!((rest - 436.0).abs() < 0.5, "{rest}");
}

/// 64 roles with 32 kinds of task each are more than the SDK keeps of one instrument.
fn crowded() -> Catalogue {
    let mut many = catalogue();
    let role = many.roles.remove(0);
    for n in 0..64 {
        let mut role = role.clone();
        role.name = format!("role-{n:02}").into();
        role.task_types = (0..32).map(|n| format!("task-{n:02}").into()).collect();
        many.roles.push(role);
        if n < 60 {
            let mut model = many.models[0].clone();
            model.id = id(&format!("openai/m-{n:02}"));
            many.models.push(model);
        }
    }
    many
}

#[test]
fn instruments_with_many_combinations_have_room_for_ten_thousand() {
    let meters = Meters::of(crowded());
    for role in 0..64 {
        for task in 0..32 {
            let (role, task) = (format!("role-{role:02}"), format!("task-{task:02}"));
            meters.tell(fallback(&role, Some(&task), id("azure/gpt")));
        }
    }
    let page = meters.page();
    let counted = page.find("evenkeel_fallbacks_total", &[("reason", "overloaded")]);
    let kinds = counted
        .iter()
        .filter(|(labels, _)| labels["task_type"].starts_with("task-"));
    assert_eq!(kinds.count(), 64 * 32);
    let folded = [("otel_metric_overflow", "true")];
    assert!(page.find("evenkeel_fallbacks_total", &folded).is_empty());
    assert!(MANY_SERIES > 64 * 32 && MANY.contains(&"evenkeel.fallbacks"));
}

/// The alert on overflow looks for this label.
#[test]
fn beyond_the_limit_series_are_folded_into_one_that_an_alert_sees() {
    let meters = Meters::of(crowded());
    for role in 0..64 {
        for model in 0..60 {
            let mut event = retry(&format!("openai/m-{model:02}"), Class::Timeout);
            if let EventKind::AttemptStarted { role: of, .. } = &mut event {
                *of = format!("role-{role:02}").into();
            }
            meters.tell(event);
        }
    }
    let page = meters.page();
    let folded = [("otel_metric_overflow", "true")];
    let rest = page.value("evenkeel_retries_total", &folded).unwrap();
    assert!(rest > 1_000.0, "{rest}");
    assert!(page.find("evenkeel_retries_total", &[]).len() <= 2_001);
    assert!((page.sum("evenkeel_retries_total", &[]) - 3_840.0).abs() < 0.5);
}

fn reported_as(name: &str, model: &str) -> EventKind {
    let mut event = attempt(model, "ok", None);
    if let EventKind::AttemptEnded { reported, .. } = &mut event {
        reported.model = Some(name.into());
    }
    event
}

/// A client that may ask for any model may ask for hundreds, and some upstreams call an
/// answer what its request did.
#[test]
fn whoever_makes_up_models_takes_no_place_of_a_real_snapshot() {
    let meters = Meters::of(catalogue());
    for n in 0..500 {
        meters.tell(reported_as(&format!("m-{n}"), &format!("openai/m-{n}")));
    }
    meters.tell(reported_as("gpt-2026", "openai/gpt"));
    let page = meters.page();
    let name = "gen_ai_client_operation_duration_seconds_count";
    let by = |reported| page.sum(name, &[("gen_ai_response_model", reported)]);
    assert!((by("_unknown") - 500.0).abs() < 0.5 && (by("gpt-2026") - 1.0).abs() < 0.5);
    assert_eq!(page.find(name, &[]).len(), 2);
}

#[test]
fn a_name_that_an_answer_reports_is_cut_before_it_has_a_place() {
    let meters = Meters::of(catalogue());
    for end in 0..100 {
        let name = format!("{}{end}", "m".repeat(10_000));
        meters.tell(reported_as(&name, "openai/gpt"));
    }
    let page = meters.page();
    let name = "gen_ai_client_operation_duration_seconds_count";
    let found = page.find(name, &[]);
    let reported = &found[0].0["gen_ai_response_model"];
    assert_eq!((found.len(), reported.len()), (1, 128));
}
