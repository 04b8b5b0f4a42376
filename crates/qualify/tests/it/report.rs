//! What is told, in every form.

use crate::banking::measured_on;
use crate::outcomes::{FACTS, id, limits, ones, outcome};
use evenkeel_core::{Class, ModelId};
use evenkeel_qualify::report::{
    Conditions, DatasetSummary, GoldenReport, Report, TableStyle, html, json, junit, markdown,
    table,
};
use evenkeel_qualify::{
    CandidateMeasures, Halt, Interval, LatencyMeasures, Load, ModelFacts, OutcomeKind, Quantiles,
    Resampling, RoleVerdict, ShadowComparison, ShadowCounts, ShadowReport, ShadowVerdict, Takeover,
    Tally, Verdict, WorstItem,
};
use evenkeel_roster::{EolState, RankingPolicy};
use jiff::civil::date;
use proptest::prelude::*;
use std::sync::Arc;

const PLAIN: TableStyle = TableStyle {
    width: 160,
    is_coloured: false,
};

fn report(role: &str, measures: Vec<CandidateMeasures>, worst: Vec<WorstItem>) -> Report {
    let facts = |id: &ModelId| match id.model() {
        "nb-20" => ModelFacts {
            eol: EolState::Ending { days: 12 },
            eol_date: Some(date(2027, 1, 22)),
            ..FACTS
        },
        _ => FACTS,
    };
    let weights = RankingPolicy::default();
    let golden = GoldenReport {
        dataset: DatasetSummary {
            name: "classify-banking8.jsonl".to_owned(),
            sha256: "0f1e2d".to_owned(),
            items: measures[0].items,
        },
        conditions: Conditions {
            load: Load::Open {
                per_second: 20.0,
                at_most: 64,
            },
            repeat: 1,
            resampling: Resampling::new(7),
            today: date(2027, 1, 10),
        },
        limits: limits(),
        verdict: RoleVerdict::of(measures, facts, &limits(), &weights).expect("a primary"),
        stopped: None,
        tags_left_out: 0,
        worst,
        manifest: [("prompt_sha256".to_owned(), "abc".to_owned())].into(),
    };
    Report {
        role: role.to_owned(),
        golden: Some(golden),
        shadows: None,
        drill: None,
    }
}

fn golden(report: &mut Report) -> &mut GoldenReport {
    report.golden.as_mut().expect("it was measured")
}

fn shadowed(candidate: &str, verdict: ShadowVerdict) -> ShadowComparison {
    let interval = |estimate: f64| Interval {
        estimate,
        lower: estimate - 0.02,
        upper: estimate + 0.02,
    };
    let latency = |ms| {
        let p50 = std::time::Duration::from_millis(ms);
        LatencyMeasures {
            total: Some(Quantiles {
                p50,
                p95: p50 * 2,
                p99: p50 * 3,
            }),
            first_token: None,
        }
    };
    ShadowComparison {
        role: "extractor".to_owned(),
        candidate: candidate.to_owned(),
        live: "north/large".to_owned(),
        pairs: 412,
        unmeasured: 3,
        unscored: 1,
        first_unscored: Some("the judge failed".to_owned()),
        answered: Some(interval(-0.01)),
        quality: Some(interval(0.03)),
        compliance: None,
        agreement: Some(interval(0.9)),
        candidate_latency: latency(420),
        live_latency: latency(800),
        candidate_usd: Some(0.25),
        live_usd: None,
        verdict,
        counts: ShadowCounts::default(),
    }
}

fn shadows(verdicts: &[ShadowVerdict]) -> ShadowReport {
    let models = ["south/medium", "north/small", "south/tiny", "south/other"];
    let found = models.iter().zip(verdicts);
    ShadowReport {
        comparisons: found
            .map(|(model, verdict)| shadowed(model, *verdict))
            .collect(),
        faults: Vec::new(),
        margin: 0.05,
        confidence: 0.95,
    }
}

fn banking() -> Report {
    report("classifier", measured_on("banking8"), Vec::new())
}

/// Two candidates on tagged items, one of which fails some calls, with texts.
fn detailed(primary: &str, candidates: [&str; 2], tags: [&str; 2], text: &str) -> Report {
    let ids = candidates.map(id);
    let mut tally = Tally::new(id(primary), ids, 40);
    let mut outcomes = Vec::new();
    for (nth, name) in [primary].iter().chain(&candidates).enumerate() {
        for (index, score) in ones(40 - 3 * nth, 40).into_iter().enumerate() {
            let mut outcome = outcome(name, index, score);
            outcome.tags = Arc::from([tags[index % 2].to_owned()]);
            outcome.item = Arc::from(format!("{text}{index}"));
            outcome.answer = Some(Arc::from(text));
            if nth == 2 && index > 37 {
                outcome.kind = OutcomeKind::Failed(Class::Timeout);
                outcome.answer = None;
            }
            if nth == 1 && index == 0 {
                outcome.kind = OutcomeKind::Unmeasured(Class::RateLimited);
            }
            outcomes.push(outcome);
        }
    }
    for outcome in &outcomes {
        tally.record(outcome).expect("it is measured");
    }
    let mut worst = tally.worst_items(2);
    for outcome in &outcomes {
        worst.record(outcome);
    }
    let places: Vec<usize> = worst.indices().collect();
    for place in places {
        worst.describe(place, Arc::from(text), Some(Arc::from(text)));
    }
    let measures = tally.measures(&Resampling::new(7));
    report("extractor", measures, worst.into_items())
}

fn plain_details() -> Report {
    detailed(
        "north/large",
        ["south/medium", "north/small"],
        ["short", "long"],
        "a reply",
    )
}

#[test]
fn a_terminal_shows_a_table_and_what_is_not_a_plain_pass() {
    insta::assert_snapshot!(table(&[banking(), plain_details()], PLAIN));
}

#[test]
fn a_narrow_terminal_shows_what_matters_most() {
    let narrow = TableStyle {
        width: 72,
        is_coloured: false,
    };
    let shown = table(&[banking()], narrow);
    let widest = shown
        .lines()
        .skip(2)
        .take(9)
        .map(|line| line.chars().count());
    assert!(widest.max() <= Some(72), "{shown}");
    insta::assert_snapshot!(shown);
}

#[test]
fn colours_are_only_for_a_terminal() {
    assert!(!table(&[banking()], PLAIN).contains('\u{1b}'));
    let coloured = TableStyle {
        is_coloured: true,
        ..PLAIN
    };
    let shown = table(&[banking()], coloured);
    assert!(shown.contains("\u{1b}[31mfail\u{1b}[0m"), "{shown}");
}

#[test]
fn a_pull_request_shows_tables_that_fold() {
    insta::assert_snapshot!(markdown(&[banking(), plain_details()]));
}

#[test]
fn programs_read_json() {
    insta::assert_snapshot!(json(&[plain_details()]));
    let value: serde_json::Value = serde_json::from_str(&json(&[banking()])).unwrap();
    assert_eq!(value["passes"], false);
    assert_eq!(value["roles"][0]["candidates"][3]["model"], "south/nb-7");
    assert_eq!(
        value["roles"][0]["candidates"][3]["verdict"],
        "not_enough_data"
    );
}

#[test]
fn a_ci_system_reads_junit() {
    let text = junit(&[plain_details()]);
    insta::assert_snapshot!(text);
    let document = roxmltree::Document::parse(&text).unwrap();
    let failures = document
        .descendants()
        .filter(|node| node.has_tag_name("failure"));
    let suites = document.root_element();
    assert_eq!(
        suites.attribute("failures"),
        Some(&*failures.count().to_string())
    );
}

#[test]
fn one_page_shows_it_all_and_needs_nothing_else() {
    let text = html(&[banking(), plain_details()]);
    insta::assert_snapshot!(text);
    let document = page(&text);
    let plots = document
        .descendants()
        .filter(|node| node.tag_name().name() == "svg");
    assert_eq!(plots.count(), 5);
    for outside in ["<script", "<link", "<img", "url(", "@import", "src="] {
        assert!(!text.contains(outside), "{outside}");
    }
}

#[test]
fn a_run_that_was_stopped_never_passes() {
    let mut measures = measured_on("banking8");
    measures.truncate(2);
    let mut found = report("classifier", measures, Vec::new());
    assert_eq!((found.verdict(), found.exit_code()), (Verdict::Pass, 0));
    golden(&mut found).stopped = Some("the budget is used up".to_owned());
    assert_eq!(
        (found.verdict(), found.exit_code()),
        (Verdict::NotEnoughData, 1)
    );
    let note = "not everything was asked: the budget is used up";
    let all = [
        table(std::slice::from_ref(&found), PLAIN),
        markdown(std::slice::from_ref(&found)),
        html(std::slice::from_ref(&found)),
    ];
    assert!(all.iter().all(|text| text.contains(note)), "{all:?}");
    let shown = junit(&[found]);
    assert!(
        shown.contains(note) && shown.contains("failures=\"1\""),
        "{shown}"
    );
}

#[test]
fn who_was_let_be_and_how_far_judges_agree_is_told_in_every_form() {
    let mut measures = measured_on("banking8");
    measures.truncate(2);
    measures[0].judged = 200;
    measures[0].judges_agree = 187;
    measures[1].questions = 400;
    measures[1].halted = Some(Halt::Limited {
        in_a_row: 3,
        class: Class::RateLimited,
    });
    let found = report("classifier", measures, Vec::new());
    assert_eq!(found.verdict(), Verdict::NotEnoughData);
    let one = std::slice::from_ref(&found);
    let halted = "3 questions in a row were never taken";
    let agreed = "both judgements agree on 187 of 200 answers that models judged";
    for text in [table(one, PLAIN), markdown(one), html(one), junit(one)] {
        assert!(text.contains(halted) && text.contains(agreed), "{text}");
    }
    let value: serde_json::Value = serde_json::from_str(&json(one)).unwrap();
    let role = &value["roles"][0];
    assert_eq!(role["primary"]["halted"], serde_json::Value::Null);
    assert_eq!(role["primary"]["judged_answers"], 200);
    assert_eq!(role["primary"]["judges_agree"], 187);
    let let_be = &role["candidates"][0]["halted"];
    assert_eq!(let_be["kind"], "limited");
    assert_eq!(let_be["class"], "rate_limited");
    assert!(
        let_be["words"].as_str().unwrap().starts_with(halted),
        "{let_be}"
    );
}

#[test]
fn a_job_in_which_nothing_was_answered_is_told_as_such() {
    let nothing = Tally::new(id("north/large"), [id("south/medium")], 3);
    let found = report("r", nothing.measures(&Resampling::new(1)), Vec::new());
    assert_eq!(found.exit_code(), 1);
    let shown = table(std::slice::from_ref(&found), PLAIN);
    assert!(
        shown.contains("there is nothing to compare with"),
        "{shown}"
    );
    page(&html(std::slice::from_ref(&found)));
    assert!(json(&[found]).contains("\"quality\": null"));
}

#[test]
fn pairs_are_told_in_every_form_and_decide_where_nothing_else_does() {
    let all = shadows(&ShadowVerdict::ALL);
    let alone = Report {
        role: "extractor".to_owned(),
        golden: None,
        shadows: Some(all.clone()),
        drill: None,
    };
    assert_eq!(alone.verdict(), Verdict::Fail);
    let one = std::slice::from_ref(&alone);
    insta::assert_snapshot!(table(one, PLAIN));
    let cut_over = "better than `north/large` over 412 pairs: cut over";
    let not_yet = "do not cut over yet";
    let (html, junit) = (html(one), junit(one));
    page(&html);
    roxmltree::Document::parse(&junit).expect("it is XML");
    let markdown = markdown(one).replace('\\', "");
    for text in [&html, &junit, &markdown] {
        assert!(text.contains(cut_over) && text.contains(not_yet), "{text}");
        assert!(text.contains("the judge failed"), "{text}");
    }
    assert!(junit.contains("tests=\"4\" failures=\"2\""), "{junit}");
    let told: serde_json::Value = serde_json::from_str(&json(one)).unwrap();
    let found = &told["roles"][0]["shadow"];
    assert_eq!(found["verdict"], "fail");
    assert_eq!(found["comparisons"][0]["may_cut_over"], true);
    assert_eq!(found["comparisons"][3]["verdict"], "not_enough_data");
    assert_eq!(told["roles"][0]["primary"], serde_json::Value::Null);
    // Beside a gate that holds they are something to look at.
    let mut measures = measured_on("banking8");
    measures.truncate(2);
    let mut beside = report("classifier", measures, Vec::new());
    beside.shadows = Some(all);
    assert_eq!(beside.verdict(), Verdict::Pass);
    let beside = self::junit(&[beside]);
    assert!(beside.contains("failures=\"0\""), "{beside}");
    assert!(beside.contains("warning: worse than"), "{beside}");
    let none = Report {
        shadows: Some(shadows(&[])),
        ..alone
    };
    assert_eq!(none.verdict(), Verdict::NotEnoughData);
    assert!(table(&[none], PLAIN).contains("no shadow pair of the role was found"));
}

#[test]
fn a_drill_is_judged_by_what_takes_over() {
    let mut measures = measured_on("banking8");
    measures.truncate(2);
    let mut drilled = report("classifier", measures, Vec::new());
    let golden = golden(&mut drilled);
    let (primary, takes_over) = (
        golden.verdict.primary.measures.candidate.clone(),
        golden.verdict.candidates[0].measures.candidate.clone(),
    );
    // The life of the model that is played to be gone does not count.
    let of_both = [&golden.verdict.primary, &golden.verdict.candidates[0]];
    let measures = of_both.map(|judged| judged.measures.clone()).to_vec();
    let facts = |id: &ModelId| ModelFacts {
        eol: if *id == primary {
            EolState::Past
        } else {
            EolState::Current
        },
        ..FACTS
    };
    let weights = RankingPolicy::default();
    let judged = RoleVerdict::of(measures, facts, &limits(), &weights).expect("a primary");
    assert_eq!(judged.verdict(), Verdict::Fail);
    golden.verdict = judged.of_takeover();
    let takeover = Takeover {
        role: "classifier".to_owned(),
        gone: primary.clone(),
        rung: 0,
        takes_over: Some(takes_over.clone()),
    };
    drilled.drill = Some(takeover.clone());
    assert_eq!(drilled.verdict(), Verdict::Pass);
    let words =
        format!("without its primary `{primary}`: `{takes_over}` takes over, and qualifies");
    let one = std::slice::from_ref(&drilled);
    for text in [table(one, PLAIN), html(one), junit(one), json(one)] {
        assert!(text.contains(&words), "{text}");
    }
    let unmeasured = Report {
        golden: None,
        ..drilled.clone()
    };
    assert_eq!(unmeasured.verdict(), Verdict::NotEnoughData);
    let nothing = Report {
        golden: None,
        drill: Some(Takeover {
            takes_over: None,
            ..takeover
        }),
        ..drilled
    };
    assert_eq!(nothing.verdict(), Verdict::Fail);
    let shown = junit(&[nothing]);
    assert!(shown.contains("nothing takes over"), "{shown}");
    assert!(shown.contains("tests=\"1\" failures=\"1\""), "{shown}");
}

/// The page is well-formed XML too.
fn page(text: &str) -> roxmltree::Document<'_> {
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..roxmltree::ParsingOptions::default()
    };
    match roxmltree::Document::parse_with_options(text, options) {
        Ok(document) => document,
        Err(error) => panic!("{error}:\n{text}"),
    }
}

/// Names and texts that want to be markup.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        Just("<script>alert(1)</script>".to_owned()),
        Just("\"'><img src=x onerror=alert(1)>&\u{0}\u{1b}[31m\u{fffe}]]>".to_owned()),
        Just("a | b\n\n# c `d` @all ![x](y)".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_names_and_answers_say_every_form_stays_whole(
        name in hostile(),
        tag in hostile(),
        text in hostile(),
    ) {
        // A model's name has no control characters; any other has what it likes.
        let printable = name.replace(char::is_control, "");
        let candidate = format!("south/m{printable}");
        let mut report = detailed(
            "north/large",
            [&candidate, "north/small"],
            [&tag, "other"],
            &text,
        );
        report.role = name.clone();
        golden(&mut report).dataset.name = text.clone();
        golden(&mut report).manifest.insert(tag.clone(), text.clone());
        report.shadows = Some(shadows(&[ShadowVerdict::Worse]));
        if let Some(found) = &mut report.shadows {
            found.comparisons[0].candidate = candidate.clone();
            found.comparisons[0].live = tag;
            found.comparisons[0].first_unscored = Some(text);
        }
        let reports = [report];
        let text = junit(&reports);
        let document = roxmltree::Document::parse(&text);
        prop_assert!(document.is_ok(), "{document:?}");
        let text = html(&reports);
        let found = page(&text);
        let strange = found.descendants().find(|node| {
            ["script", "img"].contains(&node.tag_name().name())
        });
        prop_assert!(strange.is_none());
        prop_assert!(serde_json::from_str::<serde_json::Value>(&json(&reports)).is_ok());
        let shown = table(&reports, PLAIN);
        prop_assert!(!shown.contains(char::from(27)), "{shown:?}");
        let shown = markdown(&reports);
        prop_assert!(!shown.contains("<script") && !shown.contains("<img"));
        prop_assert!(!shown.contains("@all") && !shown.contains("\n# "));
    }
}
