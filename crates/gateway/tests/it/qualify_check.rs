//! `evenkeel qualify --check`, the binary: whether a roster still holds.

use crate::gateway::upstream;
use crate::qualify::{ENOUGH, Folder, ended, good, item, said};
use serde_json::Value;
use std::process::Output;
use tokio::process::Command;

/// A folder that was measured and whose roster says so.
async fn measured() -> (Folder, [evenkeel_chaos::Upstream; 2]) {
    let upstreams = [
        upstream("north", good()).await,
        upstream("south", good()).await,
    ];
    let folder = Folder::of(&upstreams[0], &upstreams[1], ENOUGH);
    let policy = folder.read("policy.toml") + "golden_dataset = \"golden.jsonl\"\n";
    folder.write("policy.toml", &policy);
    let roster = folder.path("roster.toml");
    let output = folder
        .qualify(&["--output", roster.to_str().unwrap()])
        .await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    (folder, upstreams)
}

async fn check(folder: &Folder, more: &[&str]) -> Output {
    ended(folder.bare(&[&["--check"], more].concat())).await
}

/// What is told to programs.
async fn told(folder: &Folder, code: i32) -> Value {
    let output = check(folder, &["--role", "clerk", "--format", "json"]).await;
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The stale rungs, each with what has changed.
fn changes(told: &Value) -> Vec<(&str, &str)> {
    let stale = told["stale"].as_array().expect("a list");
    stale
        .iter()
        .map(|one| {
            (
                one["model"].as_str().unwrap(),
                one["change"].as_str().unwrap(),
            )
        })
        .collect()
}

#[tokio::test]
async fn a_roster_is_fresh_until_something_changes_and_nobody_is_asked() {
    let (folder, [north, south]) = measured().await;
    let asked = north.stats().started + south.stats().started;
    let output = check(&folder, &["--all-roles"]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(said(&output.stdout).contains("1 roles as of"), "{output:?}");
    assert!(
        said(&output.stdout).contains(": fresh; 0 stale"),
        "{output:?}"
    );
    let fresh = told(&folder, 0).await;
    assert_eq!(fresh["status"], "fresh", "{fresh}");

    let (golden, models) = (folder.read("golden.jsonl"), folder.read("models.toml"));
    folder.write("golden.jsonl", &format!("{golden}{}\n", item(ENOUGH)));
    let stale = told(&folder, 1).await;
    let both = [("north/big", "dataset"), ("south/small", "dataset")];
    assert_eq!(changes(&stale), both);
    let run = stale["stale"][1]["run"].as_str().unwrap().to_owned();
    folder.write("golden.jsonl", &golden);

    let roster = folder.read("roster.toml");
    let qualified = roster.find("qualified_at = ").unwrap() + "qualified_at = ".len();
    let day = &roster[qualified..qualified + 10];
    folder.write("roster.toml", &roster.replace(day, "2020-02-29"));
    let stale = told(&folder, 1).await;
    let both = [("north/big", "age"), ("south/small", "age")];
    assert_eq!(changes(&stale), both);
    let words = stale["stale"][0]["words"].as_str().unwrap();
    assert!(words.contains("requalify_after_days = 90"), "{words}");
    folder.write("roster.toml", &roster);

    let served = "provider = \"south\"\nsnapshot = \"another\"";
    folder.write(
        "models.toml",
        &models.replace("provider = \"south\"", served),
    );
    let stale = told(&folder, 1).await;
    assert_eq!(changes(&stale), [("south/small", "snapshot")]);
    folder.write("models.toml", &models);

    folder.write(
        "prompts.toml",
        "[clerk.system_prompt_variants]\ndefault = 'd.txt'\nsouth = 'd.txt'\n",
    );
    folder.write("d.txt", "Label it.");
    let stale = told(&folder, 1).await;
    let both = [("north/big", "prompt"), ("south/small", "prompt")];
    assert_eq!(changes(&stale), both);
    let output = check(&folder, &["--role", "clerk"]).await;
    let words = said(&output.stdout);
    let line =
        "role `clerk`: `south/small` is stale: its prompt is another one than was measured; run: ";
    assert!(words.contains(line) && words.contains(&run), "{words}");
    assert_eq!(
        north.stats().started + south.stats().started,
        asked,
        "nobody was asked"
    );

    // What it says to run makes it fresh again.
    let mut words = run.split(' ');
    assert_eq!(words.next(), Some("evenkeel"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command
        .args(words)
        .args(["--report", folder.path("report").to_str().unwrap()]);
    let output = ended(command).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(told(&folder, 0).await["status"], "fresh");
}

#[tokio::test]
async fn what_was_never_measured_is_stale_and_what_nobody_knows_is_told() {
    let (north, south) = (
        upstream("north", good()).await,
        upstream("south", good()).await,
    );
    let folder = Folder::of(&north, &south, 2);
    let stale = told(&folder, 1).await;
    assert_eq!(stale["status"], "stale");
    assert_eq!(stale["unverified"][0]["stale"], true, "{stale}");
    let run = stale["unverified"][0]["run"].as_str().unwrap();
    assert!(run.contains("--golden-dataset FILE.jsonl"), "{run}");
    let output = check(&folder, &["--role", "clerk"]).await;
    let words = said(&output.stdout);
    assert!(
        words.contains("`south/small` was never measured; run: "),
        "{words}"
    );
    let by_hand = folder.read("roster.toml") + "quality_score = 0.9\n";
    folder.write("roster.toml", &by_hand);
    let fresh = told(&folder, 0).await;
    assert_eq!(fresh["unverified"][0]["stale"], false, "{fresh}");
    assert_eq!(fresh["unverified"][0]["run"], Value::Null, "{fresh}");
}

#[tokio::test]
async fn what_cannot_be_compared_ends_with_two() {
    let (folder, _upstreams) = measured().await;
    for (more, words) in [
        (vec!["--role", "pilot"], "no role `pilot` is configured"),
        (vec![], "--role"),
        (
            vec!["--all-roles", "--format", "junit"],
            "a table or as json",
        ),
        (vec!["--all-roles", "--resume"], "cannot be used with"),
        (
            vec!["--role", "clerk", "--golden-dataset", "/nowhere.jsonl"],
            "",
        ),
    ] {
        let output = check(&folder, &more).await;
        assert_eq!(output.status.code(), Some(2), "{more:?}: {output:?}");
        let told = said(&output.stderr);
        assert!(told.contains(words), "{more:?}: {told}");
    }
    folder.write("golden.jsonl", "{\n[]\n");
    let unreadable = told(&folder, 2).await;
    assert_eq!(unreadable["status"], "unreadable");
    let problems = unreadable["unreadable"][0]["problems"].as_array().unwrap();
    let told: Vec<&str> = problems.iter().filter_map(Value::as_str).collect();
    for line in ["golden.jsonl:1: ", "golden.jsonl:2: "] {
        assert!(told.iter().any(|told| told.contains(line)), "{told:?}");
    }
    folder.write("policy.toml", "[agent_roles.clerk]\n");
    let output = check(&folder, &["--role", "clerk"]).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(said(&output.stderr).contains("policy.toml:"), "{output:?}");
}
