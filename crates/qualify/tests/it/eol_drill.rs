//! What would take over if a model were gone.

use evenkeel_core::ModelId;
use evenkeel_qualify::{Takeover, takeovers};
use evenkeel_roster::{Config, SourceFile, load};
use jiff::civil::date;

fn config() -> Config {
    let text = "providers = { a = { dialect = 'simulated' }, b = { dialect = 'simulated' } }
[defaults]
p95_threshold_ms = 1000
p99_threshold_ms = 2000
evaluation_window_seconds = 10
[agent_roles.alone]
primary = 'a/m'
fallbacks = []
[agent_roles.behind]
primary = 'b/x'
fallbacks = [{ model = 'a/m', quality_score = 0.9 }, { model = 'a/n', quality_score = 0.9 }]
[agent_roles.first]
primary = 'a/m'
fallbacks = [{ model = 'b/old', quality_score = 0.9 }, { model = 'b/x', quality_score = 0.9 }]
[agent_roles.other]
primary = 'b/x'
fallbacks = []
[[models]]
id = 'b/old'
eol_date = '2026-11-29'
";
    let files = [SourceFile::new("evenkeel.toml", text)];
    load(&files, &|_| None, date(2026, 11, 30)).unwrap().config
}

#[test]
fn every_role_that_names_the_model_goes_to_the_best_that_is_left() {
    let id = |model: &str| ModelId::new(model).unwrap();
    let found = takeovers(&config(), &id("a/m"), date(2026, 11, 30));
    let expected = [
        ("alone", 0, None),
        ("behind", 1, Some("a/n")),
        ("first", 0, Some("b/x")),
    ];
    let expected = expected.map(|(role, rung, model)| Takeover {
        role: role.to_owned(),
        rung,
        takes_over: model.map(id),
    });
    assert_eq!(found, expected);
    assert_eq!(takeovers(&config(), &id("c/m"), date(2026, 11, 30)), []);
}
