//! What would take over if a model were gone.

use evenkeel_core::ModelId;
use evenkeel_qualify::Takeover;
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
[agent_roles.able]
primary = 'a/m'
min_capability_score = 0.9
fallbacks = [{ model = 'b/x', quality_score = 0.95, capability_score = 0.9 }]
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
    let mut config = config();
    let today = date(2026, 11, 30);
    let takeovers = |config: &Config| -> Vec<(String, usize, Option<String>)> {
        let found = Takeover::of(config, &id("a/m"), today).into_iter();
        let model = |takeover: &Takeover| takeover.takes_over.as_ref().map(ToString::to_string);
        found.map(|t| (t.role.clone(), t.rung, model(&t))).collect()
    };
    let expected = [
        ("able", 0, Some("b/x")),
        ("alone", 0, None),
        ("behind", 1, Some("a/n")),
        ("first", 0, Some("b/x")),
    ];
    let expected =
        expected.map(|(role, rung, model)| (role.to_owned(), rung, model.map(str::to_owned)));
    assert_eq!(takeovers(&config), expected);
    let able = config.roles.get_mut("able").unwrap();
    able.policy.min_capability_score = 0.91;
    assert_eq!(takeovers(&config)[0].2, None, "it can do too little");
    assert_eq!(Takeover::of(&config, &id("c/m"), today), []);
}
