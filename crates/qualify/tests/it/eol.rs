//! Models at the end of their lives, who uses them and what takes over.

use evenkeel_core::ModelId;
use evenkeel_qualify::{EolReport, ProviderWord};
use evenkeel_roster::{Config, Severity, SourceFile, load};
use jiff::civil::{Date, date};
use serde_json::json;

const TODAY: Date = date(2026, 11, 30);

/// Two roles over `a/*` and `b/*`, with that registry.
fn config(registry: &str) -> Config {
    let main = "providers = { a = { dialect = 'simulated' }, b = { dialect = 'simulated' } }
[defaults]
p95_threshold_ms = 1000
p99_threshold_ms = 2000
evaluation_window_seconds = 10
[agent_roles.reader]
primary = 'b/m'
fallbacks = []
[agent_roles.writer]
primary = 'a/m'
fallbacks = [{ model = 'b/m', quality_score = 0.9 }]
";
    let files = [
        SourceFile::new("evenkeel.toml", main),
        SourceFile::new("models.toml", registry),
    ];
    load(&files, &|_| None, TODAY).unwrap().config
}

fn found(registry: &str) -> Vec<String> {
    lines(&EolReport::of(&config(registry), TODAY))
}

fn lines(report: &EolReport) -> Vec<String> {
    let text = report.to_string();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.pop();
    lines
}

fn id(model: &str) -> ModelId {
    ModelId::new(model).unwrap()
}

/// The registry with `a/m` saying that, and `b/m` nothing.
fn saying(a: &str) -> String {
    format!("models = [{{ id = 'a/m', {a} }}, {{ id = 'b/m' }}]\n")
}

#[test]
fn a_model_is_announced_sixty_days_ahead_and_an_error_once_it_is_past() {
    let told = |day: &str| found(&saying(&format!("eol_date = '{day}', replacement = 'n'")));
    let missing = "used by writer; its replacement `a/n` is not in the model registry";
    assert_eq!(told("2027-01-30"), [""; 0]);
    assert_eq!(
        told("2027-01-29"),
        [format!(
            "warning: `a/m` ends its life on 2027-01-29, in 60 days; {missing}"
        )]
    );
    assert_eq!(
        told("2026-11-30"),
        [format!(
            "warning: `a/m` ends its life today, 2026-11-30; {missing}"
        )]
    );
    assert_eq!(
        told("2026-11-29"),
        [format!(
            "error: `a/m` is past its end of life, 2026-11-29; {missing}"
        )]
    );
}

#[test]
fn a_not_before_date_and_a_model_that_nobody_uses_are_no_errors() {
    let earliest = found(&saying("eol_date = '2026-01-01', eol_kind = 'earliest'"));
    assert_eq!(
        earliest,
        [
            "warning: `a/m` may go any day: it was promised until 2026-01-01; used by writer; no replacement is named"
        ]
    );
    let unused =
        "models = [{ id = 'a/m' }, { id = 'b/m' }, { id = 'a/old', eol_date = '2020-01-01' }]";
    assert_eq!(found(unused), [""; 0]);
}

#[test]
fn a_replacement_is_told_with_its_own_life_and_the_move() {
    let with = |own: &str, replacement: &str| {
        let own = format!("eol_date = '2026-12-10', replacement = '{own}'");
        format!(
            "models = [{{ id = 'a/m', {own}, migration_status = 'in_progress' }}, {{ id = 'b/m' }}, {replacement}]"
        )
    };
    let start =
        "warning: `a/m` ends its life on 2026-12-10, in 10 days; used by writer; its replacement";
    let end = "; migration: in_progress";
    assert_eq!(
        found(&with("n", "{ id = 'a/n' }")),
        [format!("{start} is `a/n`{end}")]
    );
    assert_eq!(
        found(&with("b/n", "{ id = 'b/n', eol_date = '2026-11-01' }")),
        [format!("{start} `b/n` is past its own end of life{end}")]
    );
    assert_eq!(
        found(&with("n", "{ id = 'a/n', eol_date = '2026-12-30' }")),
        [format!(
            "{start} is `a/n`, which ends itself in 30 days{end}"
        )]
    );
    assert_eq!(
        found(&with("b/gone", "{ id = 'a/n' }")),
        [format!(
            "{start} `b/gone` is not in the model registry{end}"
        )]
    );
    // A name with a slash that begins with no provider of ours is one of the same provider.
    assert_eq!(
        found(&with("x/gone", "{ id = 'a/n' }")),
        [format!(
            "{start} `a/x/gone` is not in the model registry{end}"
        )]
    );
}

#[test]
fn who_uses_a_model_is_reckoned_and_compared_with_what_is_said() {
    let registry = "models = [{ id = 'a/m', agents_using = ['writer', 'zoo'] }, { id = 'b/m', agents_using = ['writer'] }]";
    assert_eq!(
        found(registry),
        [
            "warning: `a/m`: agents_using names, and no roster does, zoo",
            "warning: `b/m`: agents_using does not name reader",
        ]
    );
    let report = EolReport::of(&config(registry), TODAY);
    assert_eq!(report.models[1].agents_using, ["reader", "writer"]);
    assert_eq!(
        found("models = [{ id = 'b/m' }]"),
        ["warning: `a/m` is not in the model registry: its end of life is unknown"]
    );
}

/// The report after providers said that of `a/m`.
fn heard(registry: &str, word: ProviderWord) -> EolReport {
    let mut report = EolReport::of(&config(registry), TODAY);
    report.compare([(id("a/m"), word), (id("c/unknown"), ProviderWord::Gone)]);
    report
}

#[test]
fn what_a_provider_says_is_compared_with_the_file() {
    let served = |day: Option<Date>, is_deprecated| ProviderWord::Served {
        last_day: day,
        is_deprecated,
    };
    let day = date(2026, 12, 10);
    let way = "used by writer; no replacement is named";
    let registry = saying("eol_date = '2027-06-30'");
    assert_eq!(
        lines(&heard(&registry, served(Some(day), true))),
        [format!(
            "warning: `a/m`: its provider says that it ends on 2026-12-10 (in 10 days); the model registry says 2027-06-30; {way}"
        )]
    );
    assert_eq!(
        lines(&heard(&saying("tools = true"), served(Some(day), true))),
        [format!(
            "warning: `a/m`: its provider says that it ends on 2026-12-10 (in 10 days); the model registry has no eol_date; {way}"
        )]
    );
    assert_eq!(
        lines(&heard(&saying("tools = true"), served(None, true))),
        [format!(
            "warning: `a/m`: its provider calls it deprecated and names no day; {way}"
        )]
    );
    let same = heard(
        &saying("eol_date = '2027-06-30'"),
        served(Some(date(2027, 6, 30)), true),
    );
    assert_eq!(same.severity(), None);
    let gone = heard(&registry, ProviderWord::Gone);
    assert_eq!(gone.severity(), Some(Severity::Error));
    assert_eq!(
        lines(&gone),
        [format!(
            "error: `a/m` is gone: its provider serves it no more; {way}"
        )]
    );
    let silent = heard(&registry, ProviderWord::Silent("no answer".to_owned()));
    assert_eq!(
        lines(&silent),
        ["warning: `a/m`: its provider says nothing of it: no answer"]
    );
}

#[test]
fn a_day_of_the_providers_own_that_has_passed_is_an_error_for_who_uses_it() {
    let served = |day: Date| ProviderWord::Served {
        last_day: Some(day),
        is_deprecated: true,
    };
    let way = "used by writer; no replacement is named";
    let past = date(2026, 11, 1);
    let over =
        "its provider says that its last day was 2026-11-01 (29 days ago), and serves it still";
    let undated = heard(&saying("tools = true"), served(past));
    assert_eq!(undated.severity(), Some(Severity::Error));
    assert_eq!(
        lines(&undated),
        [format!(
            "error: `a/m`: {over}; the model registry has no eol_date; {way}"
        )]
    );
    let later = heard(&saying("eol_date = '2027-06-30'"), served(past));
    assert_eq!(
        lines(&later),
        [format!(
            "error: `a/m`: {over}; the model registry says 2027-06-30; {way}"
        )]
    );
    let earliest = "eol_date = '2026-11-01', eol_kind = 'earliest'";
    let earliest = heard(&saying(earliest), served(past));
    assert_eq!(earliest.severity(), Some(Severity::Error));
    assert!(
        lines(&earliest)[1].contains("calls that the earliest"),
        "{earliest}"
    );
    let fixed = heard(&saying("eol_date = '2026-11-01'"), served(past));
    assert_eq!(lines(&fixed).len(), 1, "told once: {fixed}");
    let today = heard(&saying("tools = true"), served(TODAY));
    assert_eq!(
        lines(&today),
        [format!(
            "warning: `a/m`: its provider says that it ends today, 2026-11-30; the model registry has no eol_date; {way}"
        )]
    );
}

#[test]
fn of_a_model_that_nobody_uses_it_is_said_so() {
    let registry = "models = [{ id = 'a/m' }, { id = 'b/m' }, { id = 'a/old' }]";
    let said = |word| {
        let mut report = EolReport::of(&config(registry), TODAY);
        report.compare([(id("a/old"), word)]);
        assert_eq!(report.severity(), Some(Severity::Warning), "{report}");
        lines(&report).remove(0)
    };
    let way = "no role uses it; no replacement is named";
    assert_eq!(
        said(ProviderWord::Gone),
        format!("warning: `a/old` is gone: its provider serves it no more; {way}")
    );
    let past = said(ProviderWord::Served {
        last_day: Some(date(2026, 11, 1)),
        is_deprecated: false,
    });
    assert!(past.ends_with(way), "{past}");
}

#[test]
fn machines_are_told_all_of_it() {
    let registry = "models = [
  { id = 'a/m', eol_date = '2026-11-01', replacement = 'n', migration_status = 'pending' },
  { id = 'a/n' },
  { id = 'b/m', eol_date = '2030-01-01', eol_kind = 'earliest' },
]";
    let mut report = EolReport::of(&config(registry), TODAY);
    report.compare([(
        id("b/m"),
        ProviderWord::Served {
            last_day: None,
            is_deprecated: false,
        },
    )]);
    let told = report.to_json();
    assert_eq!(
        (&told["as_of"], &told["status"]),
        (&json!("2026-11-30"), &json!("error"))
    );
    assert_eq!(
        told["models"][0],
        json!({
            "model": "a/m", "state": "past", "status": "error",
            "eol_date": "2026-11-01", "eol_kind": "fixed", "days_left": -29,
            "replacement": { "model": "a/n", "state": "current" },
            "migration_status": "pending", "agents_using": ["writer"], "provider": null,
            "findings": [{
                "severity": "error",
                "message": "`a/m` is past its end of life, 2026-11-01; used by writer; its replacement is `a/n`; migration: pending",
            }],
        })
    );
    assert_eq!(told["models"][1]["state"], "unknown");
    assert_eq!(told["models"][2]["provider"]["served"], true);
    assert_eq!(told["models"][2]["status"], "ok");
}
