//! Configurations that are read to measure models, not to serve by them.

use crate::folder::{TODAY, env, load_text, split};
use evenkeel_core::ModelId;
use evenkeel_roster::{Candidates, CandidatesByRole, Loaded, Problems, load_to_measure};
use std::path::Path;

/// A folder that nobody may serve by: its fallback has no score, one role has no
/// roster, and another no policy.
const UNFIT: &str = "=== evenkeel.toml
[providers.a]
dialect = 'simulated'
[providers.b]
dialect = 'simulated'
=== policy.toml
[agent_roles.r]
p95_threshold_ms = 1000
p99_threshold_ms = 2000
evaluation_window_seconds = 10
golden_dataset = 'golden/r.jsonl'
[agent_roles.new]
p95_threshold_ms = 1000
p99_threshold_ms = 2000
evaluation_window_seconds = 10
=== roster.toml
[agent_roles.r]
primary = 'a/big'
[[agent_roles.r.fallbacks]]
model = 'a/small'
[agent_roles.policyless]
primary = 'a/big'
fallbacks = []
=== models.toml
[[models]]
id = 'b/new'
context_window = 8192
";

fn model(id: &str) -> ModelId {
    ModelId::new(id).expect("the test names a model")
}

fn measured(role: &str, primary: Option<&str>, models: &[&str]) -> Result<Loaded, Problems> {
    let candidates = Candidates {
        primary: primary.map(model),
        models: models.iter().map(|id| model(id)).collect(),
    };
    let by_role = CandidatesByRole::from([(role.to_owned(), candidates)]);
    load_to_measure(&split(UNFIT), &by_role, &env, TODAY)
}

fn rungs(loaded: &Loaded, role: &str) -> Vec<String> {
    let rungs = loaded.config.roles[role].rungs.iter();
    rungs.map(|rung| rung.model.to_string()).collect()
}

#[test]
fn a_folder_that_cannot_serve_yet_can_be_measured() {
    assert!(load_text(UNFIT).is_err());
    let loaded = measured("r", None, &["b/new", "a/small"]).unwrap();
    assert_eq!(rungs(&loaded, "r"), ["a/big", "a/small", "b/new"]);
    assert_eq!(
        loaded.config.models[&model("b/new")].context_window,
        Some(8_192)
    );
    let names: Vec<&str> = loaded.config.roles.keys().map(String::as_str).collect();
    assert_eq!(names, ["r"], "the others are not asked for");
    let golden = loaded.config.roles["r"].policy.golden_dataset.as_deref();
    assert_eq!(golden, Some(Path::new("golden/r.jsonl")));
}

#[test]
fn another_primary_takes_the_place_of_the_rosters() {
    let loaded = measured("r", Some("b/new"), &[]).unwrap();
    assert_eq!(rungs(&loaded, "r"), ["b/new", "a/big", "a/small"]);
    let former = &loaded.config.roles["r"].rungs[1];
    assert_eq!(former.quality_score, None, "measured against itself");
    let loaded = measured("r", Some("a/small"), &[]).unwrap();
    assert_eq!(rungs(&loaded, "r"), ["a/small", "a/big"]);
}

#[test]
fn a_role_without_a_roster_needs_a_primary_and_nothing_else() {
    let loaded = measured("new", Some("a/big"), &["b/new"]).unwrap();
    assert_eq!(rungs(&loaded, "new"), ["a/big", "b/new"]);
    let refused = measured("new", None, &["b/new"]).unwrap_err().to_string();
    assert!(
        refused.contains("`new` has a policy and no roster"),
        "{refused}"
    );
}

#[test]
fn what_is_not_there_cannot_be_measured() {
    let refused = measured("q", Some("a/big"), &[]).unwrap_err().to_string();
    assert!(
        refused.contains("no role `q`") && refused.contains("the roles are"),
        "{refused}"
    );
    let refused = measured("policyless", None, &[]).unwrap_err().to_string();
    assert!(refused.contains("a roster and no policy"), "{refused}");
    let refused = measured("r", None, &["c/model"]).unwrap_err().to_string();
    assert!(
        refused.contains("provider `c` is not configured"),
        "{refused}"
    );
}

#[test]
fn an_empty_dataset_path_is_not_an_absent_one() {
    let text = UNFIT.replace("golden/r.jsonl", "");
    let refused = load_text(&text).unwrap_err().to_string();
    assert!(
        refused.contains("agent_roles.r.golden_dataset: is empty"),
        "{refused}"
    );
}
