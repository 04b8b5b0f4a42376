//! From files to answers.

use evenkeel::core::ModelId;
use evenkeel::core::NoObserver;
use evenkeel::prompts::Mode;
use evenkeel::roster::Candidates;
use evenkeel::{CallContext, ChatRequest, Settings, SettingsError};
use std::collections::BTreeMap;
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
    for role in router.roles() {
        let answer = router
            .complete(&role, ChatRequest::user("hi"), CallContext::default())
            .await
            .unwrap();
        assert_eq!(answer.meta.rung, 0, "{role}");
    }
    router.shutdown().await;
}

/// A folder of one role over a simulated model, with this `prompts.toml`.
fn prompted(prompts: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder can be made");
    for (name, text) in [
        ("policy.toml", POLICY),
        (
            "roster.toml",
            "[agent_roles.planner]\nprimary = \"sim/big\"\nfallbacks = []\n",
        ),
        (
            "evenkeel.toml",
            "[providers.sim]\ndialect = \"simulated\"\n",
        ),
        ("prompts.toml", prompts),
    ] {
        std::fs::write(folder.path().join(name), text).expect("it can be written to");
    }
    folder
}

const VARIANTS: &str = "[planner.system_prompt_variants]\ndefault = \"prompts/planner.txt\"\n";

#[test]
fn prompts_are_read_beside_the_files_that_name_them() {
    let folder = prompted(VARIANTS);
    let missing = Settings::load(folder.path()).unwrap_err().to_string();
    assert!(
        missing.contains("prompts/planner.txt") && missing.contains("does not exist"),
        "{missing}"
    );
    std::fs::create_dir(folder.path().join("prompts")).unwrap();
    std::fs::write(
        folder.path().join("prompts/planner.txt"),
        "Plan with {{model}}.",
    )
    .unwrap();
    let settings = Settings::load(folder.path()).unwrap();
    let model = ModelId::new("sim/big").unwrap();
    let prompt = settings
        .prompts()
        .for_rung("planner", &model, Mode::Full, &BTreeMap::new());
    assert_eq!(prompt.unwrap().text, "Plan with big.");
}

#[cfg(unix)]
#[test]
fn a_link_does_not_lead_out_of_the_folder() {
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("secret.txt"), "a secret").unwrap();
    let folder = prompted(VARIANTS);
    std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("prompts")).unwrap();
    std::fs::write(elsewhere.path().join("planner.txt"), "a secret").unwrap();
    let refused = Settings::load(folder.path()).unwrap_err().to_string();
    assert!(
        refused.contains("leads out of the config folder"),
        "{refused}"
    );
    assert!(!refused.contains("a secret"), "{refused}");
}

#[test]
fn a_model_to_be_measured_gets_the_prompt_its_role_would_give_it() {
    let folder = prompted("[planner.system_prompt_variants]\n\"sim/new\" = \"new.txt\"\n");
    std::fs::write(folder.path().join("new.txt"), "Plan anew.").unwrap();
    let refused = Settings::load(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("sim/new"), "it is in no roster: {refused}");
    let model = ModelId::new("sim/new").unwrap();
    let candidates = Candidates {
        primary: None,
        models: vec![model.clone()],
    };
    let by_role = BTreeMap::from([("planner".to_owned(), candidates)]);
    let settings = Settings::load_to_measure(folder.path(), &by_role).unwrap();
    let prompts = settings.with_config(settings.config().clone());
    let prompts = prompts.prompts();
    let prompt = prompts.for_rung("planner", &model, Mode::Full, &BTreeMap::new());
    assert_eq!(prompt.unwrap().text, "Plan anew.");
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
