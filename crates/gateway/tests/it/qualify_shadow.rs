//! `evenkeel qualify --shadow`, the binary, on pairs as the gateway writes them.

use crate::gateway::upstream;
use crate::qualify::{ENOUGH, Folder, ended, good, said};
use crate::shadow::pair;
use evenkeel_chaos::{Behaviour, Upstream};
use serde_json::Value;
use std::process::Output;

/// A folder, and the upstreams that nobody has to ask.
async fn folder() -> (Folder, [Upstream; 2]) {
    let upstreams = [
        upstream("north", good()).await,
        upstream("south", good()).await,
    ];
    let folder = Folder::of(&upstreams[0], &upstreams[1], ENOUGH);
    let policy = folder.read("policy.toml") + "golden_dataset = \"role.jsonl\"\n";
    folder.write("policy.toml", &policy);
    (folder, upstreams)
}

/// A dataset all of whose items are scored so.
fn scored_by(folder: &Folder, scorer: &str) {
    let item = |id| format!(r#"{{"id":"{id}","prompt":"p","scorers":[{scorer}]}}"#);
    folder.write("role.jsonl", &format!("{}\n{}\n", item(1), item(2)));
}

/// So many pairs of the role, the live words beside the next ones.
async fn pairs(folder: &Folder, live: &str, next: &str, count: usize) {
    let one = pair(live, next).await.replace("planner", "clerk");
    folder.write("pairs.jsonl", &one.repeat(count));
}

async fn judge(folder: &Folder, more: &[&str]) -> Output {
    let pairs = folder.path("pairs.jsonl");
    let own = ["--role", "clerk", "--shadow", pairs.to_str().unwrap()];
    ended(folder.bare(&[&own, more].concat())).await
}

fn asked([north, south]: &[Upstream; 2]) -> u64 {
    north.stats().started + south.stats().started
}

#[tokio::test]
async fn a_candidate_is_cut_over_to_only_with_confidence() {
    let (folder, upstreams) = folder().await;
    scored_by(&folder, r#"{"kind":"regex","pattern":"words"}"#);
    pairs(&folder, "live words", "live words", 3).await;
    let output = judge(&folder, &[]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let shown = said(&output.stdout);
    assert!(shown.contains("not enough data"), "{shown}");
    assert!(shown.contains("do not cut over yet"), "{shown}");

    pairs(&folder, "live words", "live words", 200).await;
    let output = judge(&folder, &[]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let words = "p1/m1 shadow: as good as `p0/m0` within 0.05 over 200 pairs: cut over if you like";
    let shown = said(&output.stdout);
    assert!(shown.contains(words), "{shown}");
    for form in ["html", "json", "md", "xml"] {
        let report = folder.read(&format!("report/clerk/report.{form}"));
        let plain = report.replace('\\', "");
        assert!(
            plain.contains("200 pairs") || form == "json",
            "{form}: {report}"
        );
        assert!(plain.contains("p1/m1"), "{form}: {report}");
    }

    scored_by(&folder, r#"{"kind":"regex","pattern":"live"}"#);
    pairs(&folder, "live words", "next words", 200).await;
    let output = judge(&folder, &["--format", "json"]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = &told["roles"][0]["shadow"]["comparisons"][0];
    assert_eq!(found["verdict"], "worse", "{told}");
    assert_eq!(found["quality"]["estimate"], -1.0, "{told}");
    assert_eq!(found["may_cut_over"], false);
    assert_eq!(told["roles"][0]["primary"], Value::Null, "nothing was run");
    assert_eq!(asked(&upstreams), 0);
}

#[tokio::test]
async fn pairs_stand_beside_a_golden_dataset_in_one_report() {
    let (folder, _upstreams) = folder().await;
    scored_by(&folder, r#"{"kind":"regex","pattern":"words"}"#);
    pairs(&folder, "live words", "next words", 3).await;
    let golden = folder.path("golden.jsonl");
    let both = ["--golden-dataset", golden.to_str().unwrap()];
    let output = judge(&folder, &both).await;
    // The gate holds, whatever three pairs say.
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown = said(&output.stdout);
    assert!(
        shown.contains("the gate holds; 1 of 1 candidates qualify"),
        "{shown}"
    );
    assert!(shown.contains("do not cut over yet"), "{shown}");
    let html = folder.read("report/clerk/report.html");
    assert!(html.contains("south/small") && html.contains("p1/m1"));
}

#[tokio::test]
async fn only_judges_are_asked_and_their_budget_is_kept() {
    let (folder, upstreams) = folder().await;
    let grades = Behaviour::default().with_text(r#"{"first": 10, "second": 10}"#);
    let referee = upstream("referee", grades).await;
    folder.with_referee(&referee);
    scored_by(
        &folder,
        r#"{"kind":"judge","role":"referee","rubric":"Is it polite?"}"#,
    );
    pairs(&folder, "live words", "next words", 100).await;
    let output = judge(&folder, &["--format", "json"]).await;
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = &told["roles"][0]["shadow"]["comparisons"][0];
    assert_eq!(found["quality"]["estimate"], 0.0, "{told}");
    assert_eq!(found["verdict"], "equivalent", "{told}");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(referee.stats().started, 200, "twice a pair");
    assert_eq!(asked(&upstreams), 0);
    let output = judge(&folder, &["--format", "json", "--budget-usd", "0.5"]).await;
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = &told["roles"][0]["shadow"]["comparisons"][0];
    let unscored = found["unscored"].as_u64().unwrap();
    assert!((1..100).contains(&unscored), "{told}");
    let why = found["first_unscored"].as_str().unwrap();
    assert!(why.contains("the budget is spent"), "{why}");
}

#[tokio::test]
async fn every_line_that_is_no_pair_is_told() {
    let (folder, upstreams) = folder().await;
    scored_by(&folder, r#"{"kind":"regex","pattern":"words"}"#);
    let line = pair("live words", "live words")
        .await
        .replace("planner", "clerk");
    let lines = format!("{line}nonsense\n{line}{{\"role\":\"clerk\"}}\n");
    folder.write("pairs.jsonl", &lines);
    let output = judge(&folder, &["--format", "json"]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let (told, words): (Value, _) = (
        serde_json::from_slice(&output.stdout).unwrap(),
        said(&output.stderr),
    );
    assert_eq!(told["roles"][0]["shadow"]["comparisons"][0]["pairs"], 2);
    let lines = told["roles"][0]["shadow"]["faults"][0]["lines"].as_array();
    let lines = lines.unwrap().iter().map(|fault| fault["line"].as_u64());
    assert!(lines.eq([Some(2), Some(4)]), "{told}");
    for line in [2, 4] {
        assert!(words.contains(&format!("pairs.jsonl:{line}: ")), "{words}");
    }
    assert!(
        folder
            .read("report/clerk/report.md")
            .contains("pairs.jsonl:4: ")
    );

    folder.write("pairs.jsonl", "nonsense\n");
    let output = judge(&folder, &[]).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        said(&output.stderr).contains("pairs.jsonl:1: "),
        "{output:?}"
    );
    folder.write("pairs.jsonl", &line.replace("clerk", "pilot"));
    let output = judge(&folder, &[]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        said(&output.stdout).contains("no shadow pair of the role"),
        "{output:?}"
    );
    let output = judge(&folder, &["--output", "roster.toml"]).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        said(&output.stderr).contains("--output is of a run"),
        "{output:?}"
    );
    assert_eq!(asked(&upstreams), 0);
}

#[tokio::test]
async fn pairs_of_all_roles_are_judged_role_by_role() {
    let (folder, _upstreams) = folder().await;
    scored_by(&folder, r#"{"kind":"regex","pattern":"words"}"#);
    let policy = folder.read("policy.toml");
    folder.write(
        "policy.toml",
        &(policy.clone() + &policy.replace("clerk", "pilot")),
    );
    let roster = folder.read("roster.toml");
    folder.write(
        "roster.toml",
        &(roster.clone() + &roster.replace("clerk", "pilot")),
    );
    pairs(&folder, "live words", "live words", 200).await;
    let pairs = folder.path("pairs.jsonl");
    let all = ["--all-roles", "--shadow", pairs.to_str().unwrap()];
    let output = ended(folder.bare(&all)).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        said(&output.stderr).contains("pilot: no shadow pair"),
        "{output:?}"
    );
    assert!(
        said(&output.stdout).contains("clerk: 1 of 1 shadowed"),
        "{output:?}"
    );
    assert!(!folder.path("report/pilot/report.md").exists());
    folder.write("pairs.jsonl", "");
    let output = ended(folder.bare(&all)).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}
