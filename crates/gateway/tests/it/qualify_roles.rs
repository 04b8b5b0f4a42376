//! `evenkeel qualify --all-roles`, and what is told before money is spent or after it was.

use crate::gateway::upstream;
use crate::qualify::{Folder, ended, outcomes, said};
use evenkeel_chaos::{Behaviour, Upstream};
use tokio::process::Command;

/// Items of each role, enough for the gate.
const ITEMS: usize = 80;

fn good() -> Behaviour {
    Behaviour {
        text: Some(r#"{"label":"a"}"#.into()),
        ..Behaviour::default()
    }
}

async fn both() -> (Upstream, Upstream) {
    (
        upstream("north", good()).await,
        upstream("south", good()).await,
    )
}

/// Two roles over the same models, `clerk` before `writer`, each with its dataset.
fn two_roles(north: &Upstream, south: &Upstream) -> Folder {
    let folder = Folder::of(north, south, ITEMS);
    let golden = folder.read("golden.jsonl");
    folder.write("writer.jsonl", &golden);
    folder.write(
        "policy.toml",
        "[defaults]\np95_threshold_ms = 1500\np99_threshold_ms = 2500\n\
         evaluation_window_seconds = 15\n\
         [agent_roles.clerk]\ngolden_dataset = \"golden.jsonl\"\n\
         [agent_roles.writer]\ngolden_dataset = \"writer.jsonl\"\n",
    );
    let roster = folder.read("roster.toml");
    let writer = "\n[agent_roles.writer]\nprimary = \"north/big\"\n\n\
         [[agent_roles.writer.fallbacks]]\nmodel = \"south/small\"\n";
    folder.write("roster.toml", &(roster + writer));
    folder
}

#[tokio::test]
async fn a_fault_of_the_last_role_is_told_before_the_first_is_asked() {
    let (north, south) = both().await;
    let folder = two_roles(&north, &south);
    let all = ["--all-roles"];
    folder.write("writer.jsonl", "{\"id\":\"a\"}\n");
    let output = ended(folder.bare(&all)).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(said(&output.stderr).contains("writer.jsonl"), "{output:?}");

    // A role that has a dataset and no roster is not passed over.
    let policy = folder.read("policy.toml");
    folder.write("writer.jsonl", &folder.read("golden.jsonl"));
    folder.write(
        "policy.toml",
        &(policy + "[agent_roles.zoo]\ngolden_dataset = \"golden.jsonl\"\n"),
    );
    let output = ended(folder.bare(&all)).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let told = said(&output.stderr);
    assert!(
        told.contains("role `zoo` has a policy and no roster"),
        "{told}"
    );
    assert_eq!((north.requests().len(), south.requests().len()), (0, 0));
}

#[tokio::test]
async fn all_roles_go_on_where_they_were_and_begin_where_they_were_not() {
    let (north, south) = both().await;
    let folder = two_roles(&north, &south);
    let first = ended(folder.bare(&["--role", "clerk"])).await;
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    let asked = north.requests().len();
    let output = ended(folder.bare(&["--all-roles", "--resume"])).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        north.requests().len(),
        asked + ITEMS,
        "only the second role is asked"
    );
    let journal = outcomes(&folder.path("report/writer/journal.jsonl"));
    assert_eq!(journal.len(), 2 * ITEMS);
}

#[tokio::test]
async fn a_roster_that_would_be_refused_is_not_asked_for() {
    let (north, south) = both().await;
    let folder = two_roles(&north, &south);
    let roster = folder.path("roster.toml");
    let low = ["--role", "clerk", "--min-quality-threshold", "0.5"];
    let mut command = folder.bare(&low);
    command.arg("--output").arg(&roster);
    let output = ended(command).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let told = said(&output.stderr);
    assert!(
        told.contains("below the quality_budget of role `clerk`"),
        "{told}"
    );
    assert!(north.requests().is_empty());
}

#[tokio::test]
async fn the_configuration_is_where_the_roster_is_unless_it_is_named() {
    let (north, south) = both().await;
    let folder = two_roles(&north, &south);
    let mut least = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    least.args([
        "qualify",
        "--role",
        "clerk",
        "--min-quality-threshold",
        "0.85",
    ]);
    least
        .arg("--golden-dataset")
        .arg(folder.path("golden.jsonl"));
    least.arg("--output").arg(folder.path("roster.toml"));
    least.current_dir(folder.path("."));
    let output = ended(least).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(folder.read("roster.toml").contains("quality_score"));
    assert!(folder.path("qualification/clerk/report.html").exists());
}

#[tokio::test]
async fn what_was_paid_for_is_shown_and_kept_where_its_report_cannot_be_written() {
    let (north, south) = both().await;
    let folder = two_roles(&north, &south);
    let in_the_way = folder.path("report/clerk/report.html");
    std::fs::create_dir_all(&in_the_way).unwrap();
    let output = ended(folder.bare(&["--role", "clerk"])).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(said(&output.stdout).contains("south/small"), "{output:?}");
    let told = said(&output.stderr);
    assert!(
        told.contains("report.html") && told.contains("--resume"),
        "{told}"
    );

    std::fs::remove_dir(&in_the_way).unwrap();
    let asked = north.requests().len();
    let output = ended(folder.bare(&["--role", "clerk", "--resume"])).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(north.requests().len(), asked);
    assert!(in_the_way.is_file());
}
