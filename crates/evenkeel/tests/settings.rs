//! From files to answers.

use evenkeel::core::NoObserver;
use evenkeel::{CallContext, ChatRequest, Settings, SettingsError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const POLICY: &str = r"
[defaults]
p95_threshold_ms = 1500
p99_threshold_ms = 2500
evaluation_window_seconds = 15
allow_unqualified = true
allow_same_provider = true
";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

#[test]
fn the_folders_of_the_project_load_as_they_stand() {
    for name in ["config", "manifests"] {
        let settings = Settings::load(fixture(name)).unwrap();
        assert!(!settings.config().roles.is_empty(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_folder_gives_a_router_that_answers() {
    let settings = Settings::load(fixture("config")).unwrap();
    let router = settings.router(Arc::new(NoObserver)).unwrap();
    for role in router.roles().map(str::to_owned).collect::<Vec<_>>() {
        let answer = router
            .complete(&role, ChatRequest::user("hi"), CallContext::default())
            .await
            .unwrap();
        assert_eq!(answer.meta.rung, 0, "{role}");
    }
    router.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_rung_whose_dialect_is_not_spoken_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let ranked = r#"
        [agent_roles.planner]
        primary = "anthropic/claude"
        fallbacks = [{ model = "sim/small", rank = 1 }]
    "#;
    std::fs::write(folder.path().join("policy.toml"), POLICY).unwrap();
    std::fs::write(folder.path().join("roster.toml"), ranked).unwrap();
    let main = "[providers.sim]\ndialect = \"simulated\"\n";
    std::fs::write(folder.path().join("evenkeel.toml"), main).unwrap();
    let settings = Settings::load(folder.path()).unwrap();
    let router = settings.router(Arc::new(NoObserver)).unwrap();
    let answer = router
        .complete("planner", ChatRequest::user("hi"), CallContext::default())
        .await
        .unwrap();
    assert_eq!(answer.meta.model_id.as_str(), "sim/small");
    assert_eq!(answer.meta.fallback_reason, Some("model_gone"));
    router.shutdown().await;
}

#[test]
fn what_cannot_be_loaded_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let empty = Settings::load(folder.path()).unwrap_err();
    assert!(matches!(empty, SettingsError::Empty { .. }), "{empty}");
    let missing = Settings::load(folder.path().join("nothing.toml")).unwrap_err();
    assert!(missing.to_string().contains("nothing.toml"), "{missing}");
    let path = folder.path().join("policy.toml");
    std::fs::write(&path, "[defaults]\np95_treshold_ms = 1\n").unwrap();
    let wrong = Settings::load(folder.path()).unwrap_err();
    let SettingsError::Problems(problems) = wrong else {
        panic!("{wrong}");
    };
    let place = format!("{}:2", path.display());
    assert!(problems.to_string().contains(&place), "{problems}");
}
