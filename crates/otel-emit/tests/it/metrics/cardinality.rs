//! However many names are thrown at it.

use super::events::{attempt, breach, call, fallback, probe, rejected, shadowed, transition};
use super::{Meters, catalogue, id};
use evenkeel_core::{EventKind, Route};

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
    let requests = page.find("evenkeel_requests_total", &[("route", "none")]);
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
