//! `evenkeel qualify --eol-drill`, the binary: what takes over if a model is gone.

use crate::gateway::upstream;
use crate::qualify::{ENOUGH, Folder, ended, good, said, wrong};
use evenkeel_chaos::{Behaviour, Upstream};
use serde_json::Value;
use std::process::Output;

async fn folder(south: Behaviour) -> (Folder, [Upstream; 2]) {
    let upstreams = [
        upstream("north", good()).await,
        upstream("south", south).await,
    ];
    let folder = Folder::of(&upstreams[0], &upstreams[1], ENOUGH);
    let policy = folder.read("policy.toml") + "golden_dataset = \"golden.jsonl\"\n";
    folder.write("policy.toml", &policy);
    (folder, upstreams)
}

async fn drill(folder: &Folder, gone: &str, more: &[&str]) -> Output {
    ended(folder.bare(&[&["--eol-drill", gone], more].concat())).await
}

#[tokio::test]
async fn what_takes_over_a_primary_is_measured_against_it() {
    let (folder, [north, south]) = folder(good()).await;
    // Past its last day, as a model is that one drills for.
    let models = folder.read("models.toml");
    let ended = "provider = \"north\"\neol_date = \"2026-01-01\"";
    folder.write(
        "models.toml",
        &models.replace("provider = \"north\"", ended),
    );
    let output = drill(&folder, "north/big", &["--format", "json"]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let role = &told["roles"][0];
    assert_eq!(role["eol_drill"]["takes_over"], "south/small", "{told}");
    let words = "without its primary `north/big`: `south/small` takes over, and qualifies";
    assert_eq!(role["eol_drill"]["words"], words);
    assert_eq!(role["primary"]["model"], "north/big");
    assert_eq!(role["candidates"][0]["ratio"]["estimate"], 1.0);
    let asked = ENOUGH as u64;
    assert_eq!(
        (north.stats().started, south.stats().started),
        (asked, asked)
    );
    for form in ["html", "json", "md", "xml"] {
        let report = folder.read(&format!("report/eol-drill/clerk/report.{form}"));
        assert!(report.replace('\\', "").contains(words), "{form}: {report}");
    }
    assert!(
        !folder.path("report/clerk").exists(),
        "the role's own run is another"
    );
}

#[tokio::test]
async fn nothing_qualified_that_takes_over_ends_with_one() {
    let (folder, [north, south]) = folder(wrong()).await;
    let output = drill(&folder, "north/big", &["--role", "clerk"]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        said(&output.stdout).contains("does not qualify"),
        "{output:?}"
    );
    let asked = north.stats().started + south.stats().started;
    let output = drill(&folder, "south/small", &["--all-roles"]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let words = "clerk: without its fallback `south/small`: nothing takes over";
    assert!(said(&output.stdout).contains(words), "{output:?}");
    assert_eq!(north.stats().started + south.stats().started, asked);
    // Without questions nobody can tell.
    let policy = folder.read("policy.toml");
    folder.write(
        "policy.toml",
        &policy.replace("golden_dataset", "# golden_dataset"),
    );
    let output = drill(&folder, "north/big", &[]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        said(&output.stdout).contains("was not measured"),
        "{output:?}"
    );
}

#[tokio::test]
async fn without_a_fallback_the_next_one_is_measured_against_the_primary() {
    let (folder, [north, south]) = folder(good()).await;
    let next = "\n[[agent_roles.clerk.fallbacks]]\nmodel = \"south/next\"\n";
    let roster = folder.read("roster.toml") + next;
    folder.write("roster.toml", &roster);
    south.set_model("small", wrong());
    let output = drill(&folder, "south/small", &["--format", "json"]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["roles"][0]["eol_drill"]["takes_over"], "south/next");
    assert_eq!(told["roles"][0]["primary"]["model"], "north/big", "{told}");
    let asked: Vec<String> = south.requests().into_iter().map(|r| r.model).collect();
    assert!(asked.iter().all(|model| model == "next"), "{asked:?}");
    assert_eq!(north.stats().started, ENOUGH as u64);
}

#[tokio::test]
async fn a_drill_of_nothing_ends_with_two() {
    let (folder, upstreams) = folder(good()).await;
    for (gone, more, words) in [
        ("north/none", vec![], "no role stands on `north/none`"),
        ("nonsense", vec![], "nonsense"),
        ("north/big", vec!["--role", "pilot"], "no role `pilot`"),
        (
            "north/big",
            vec!["--output", "r.toml"],
            "cannot be used with",
        ),
        ("north/big", vec!["--golden-dataset", "g.jsonl"], "--role"),
    ] {
        let output = drill(&folder, gone, &more).await;
        assert_eq!(output.status.code(), Some(2), "{more:?}: {output:?}");
        assert!(said(&output.stderr).contains(words), "{more:?}: {output:?}");
    }
    let asked: u64 = upstreams
        .iter()
        .map(|upstream| upstream.stats().started)
        .sum();
    assert_eq!(asked, 0);
}
