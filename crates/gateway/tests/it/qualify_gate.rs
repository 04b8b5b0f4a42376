//! `evenkeel qualify`, the binary, where not everybody could be asked, or nobody knows yet
//! what asking costs.

use crate::gateway::upstream;
use crate::qualify::{Folder, good, item, said, wrong};
use evenkeel_chaos::{Behaviour, Fault, Latency, Upstream};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

/// Seventy items that expect `a`, then thirty that expect `b`.
fn mixed(folder: &Folder) {
    let expects_b =
        |n| item(n).replace(r#""expected":{"label":"a"}"#, r#""expected":{"label":"b"}"#);
    let lines: Vec<String> = (0..100)
        .map(|n| if n < 70 { item(n) } else { expects_b(n) })
        .collect();
    folder.write("golden.jsonl", &(lines.join("\n") + "\n"));
}

fn slowly(behaviour: Behaviour) -> Behaviour {
    Behaviour {
        first_token: Latency::millis(20),
        ..behaviour
    }
}

/// The report of the folder's only role.
fn role(folder: &Folder) -> Value {
    let report = folder.read("report/clerk/report.json");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    report["roles"][0].clone()
}

/// A candidate that is right at 30 of 100 items, beside a primary that is right at 70 and
/// is away from about the tenth on: with zeros there the candidate would be thrice as good.
#[tokio::test]
async fn an_outage_of_the_primary_makes_nobody_better() {
    let (north, south) = (
        upstream("north", slowly(good())).await,
        upstream("south", wrong()).await,
    );
    let folder = Folder::of(&north, &south, 0);
    mixed(&folder);
    let before = folder.read("roster.toml");
    let roster = folder.path("roster.toml");
    let output = ["--output", roster.to_str().unwrap(), "--concurrency", "1"];
    let mut command = folder.command(&output);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    north.wait_until(|stats| stats.started > 9).await;
    north.set(Behaviour::failing(Fault::status(503)));
    let ended = child.wait_with_output().await.unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let told = said(&ended.stderr);
    assert!(
        told.contains("not written, since there is nothing to measure candidates against"),
        "{told}"
    );
    let again = "--resume --role clerk --candidates south/small";
    assert!(told.contains(again), "{told}");
    assert_eq!(folder.read("roster.toml"), before);
    let found = role(&folder);
    assert_eq!(found["verdict"], "not_enough_data", "{found}");
    let candidate = &found["candidates"][0];
    assert_eq!(candidate["verdict"], "not_enough_data");
    let paired = candidate["paired_items"].as_u64().unwrap();
    assert!((8..60).contains(&paired), "{paired}");
    assert_eq!(found["primary"]["halted"]["kind"], "failing");
    assert_eq!(found["primary"]["halted"]["class"], "overloaded");
    // Back again, it is asked what it could not be asked, and no other one anything.
    north.set(good());
    let asked = south.stats().started;
    let ended = folder.qualify(&[&output[..], &["--resume"]].concat()).await;
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(south.stats().started, asked);
    let found = role(&folder);
    let candidate = &found["candidates"][0];
    assert_eq!(candidate["verdict"], "fail");
    assert_eq!(candidate["paired_items"], 100);
    let ratio = candidate["ratio"]["estimate"].as_f64().unwrap();
    assert!((ratio - 30.0 / 70.0).abs() < 1e-9, "{ratio}");
    assert!(!folder.read("roster.toml").contains("south/small"));
}

/// Who was never taken is neither refused nor qualified.
#[tokio::test]
async fn a_candidate_that_was_only_limited_keeps_its_entry_and_gets_none() {
    let limited = Behaviour::failing(Fault::rate_limited(Duration::from_secs(3_600)));
    let (north, south) = (
        upstream("north", good()).await,
        upstream("south", limited).await,
    );
    let folder = Folder::of(&north, &south, 20);
    let roster = folder.path("roster.toml");
    let output = folder
        .qualify(&[
            "--output",
            roster.to_str().unwrap(),
            "--candidates",
            "south/small,south/other",
        ])
        .await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = said(&output.stderr);
    let kept = "`south/small` is not settled (not enough data), and stays as it is";
    assert!(told.contains(kept) && !told.contains("is out"), "{told}");
    let again = "--resume --role clerk --candidates south/small,south/other";
    assert!(told.contains(again), "{told}");
    let roster = folder.read("roster.toml");
    assert!(roster.contains("primary_score"), "{roster}");
    assert!(
        roster.contains("south/small") && !roster.contains("south/other"),
        "{roster}"
    );
    for form in ["html", "json", "md", "xml"] {
        let report = folder.read(&format!("report/clerk/report.{form}"));
        let why = "3 questions in a row were never taken";
        assert!(report.contains(why), "{form}: {report}");
    }
}

/// What a budget was passed by, in questions, with so many under way at a time.
async fn passed_by(north: &Upstream, south: &Upstream) -> f64 {
    let folder = Folder::of(north, south, 200);
    let models = folder.read("models.toml").replace("= 1.0", "= 100.0");
    folder.write("models.toml", &models);
    let output = folder
        .qualify(&["--budget-usd", "0.02", "--concurrency", "64"])
        .await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said(&output.stderr).contains("the budget is spent"));
    let journal = folder.journal();
    let costs = journal
        .iter()
        .map(|line| line["cost_usd"].as_f64().unwrap());
    let (sum, dearest) = costs.fold((0.0, 0.0_f64), |(sum, most), usd| {
        (sum + usd, most.max(usd))
    });
    (sum - 0.02) / dearest
}

#[tokio::test]
async fn a_budget_holds_however_many_questions_are_under_way() {
    let (north, south) = (
        upstream("north", slowly(good())).await,
        upstream("south", slowly(good())).await,
    );
    let passed = passed_by(&north, &south).await;
    assert!(passed < 1.0, "passed by {passed} questions");
}

#[tokio::test]
async fn what_is_no_amount_is_no_budget() {
    let (north, south) = (
        upstream("north", good()).await,
        upstream("south", good()).await,
    );
    let folder = Folder::of(&north, &south, 2);
    for amount in ["nan", "-1", "inf"] {
        let output = folder.qualify(&[&format!("--budget-usd={amount}")]).await;
        assert_eq!(output.status.code(), Some(2), "{amount}: {output:?}");
        let told = said(&output.stderr);
        assert!(told.contains("expected 0 or more"), "{told}");
    }
    assert_eq!(north.stats().started + south.stats().started, 0);
}

/// A budget knows of a judge's prices too, and a report of its agreement with itself.
#[tokio::test]
async fn a_judge_costs_and_agrees_with_itself_or_not() {
    let (north, south) = (
        upstream("north", good()).await,
        upstream("south", good()).await,
    );
    // It prefers what it reads first, whichever that is.
    let first = r#"{"first": 8, "second": 4}"#;
    let judge = Behaviour {
        text: Some(first.into()),
        ..Behaviour::default()
    };
    let referee = upstream("referee", judge).await;
    let folder = Folder::of(&north, &south, 0);
    folder.with_referee(&referee);
    let priced = folder.read("models.toml");
    let without = priced.split("[[models]]\nid = \"wise\"").next().unwrap();
    folder.write("models.toml", without);
    let items = (0..3).fold(String::new(), |all, n| {
        let scorers = r#"[{"kind":"judge","role":"referee","rubric":"Is it right?"}]"#;
        all + &format!(
            "{{\"id\":\"i{n}\",\"prompt\":\"p\",\"expected\":\"e\",\"scorers\":{scorers}}}\n"
        )
    });
    folder.write("golden.jsonl", &items);
    let output = folder.qualify(&["--budget-usd", "1"]).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let told = said(&output.stderr);
    assert!(
        told.contains("the prices of west/wise are not known"),
        "{told}"
    );
    assert_eq!(north.stats().started + referee.stats().started, 0);
    let output = folder.qualify(&[]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let words = "both judgements agree on 0 of 3 answers that models judged";
    assert!(said(&output.stdout).contains(words), "{output:?}");
    for form in ["html", "md", "xml"] {
        let report = folder.read(&format!("report/clerk/report.{form}"));
        assert!(report.contains(words), "{form}: {report}");
    }
    let primary = &role(&folder)["primary"];
    assert_eq!(primary["judged_answers"], 3, "{primary}");
    assert_eq!(primary["judges_agree"], 0, "{primary}");
    let journal = folder.journal();
    assert!(journal.iter().all(|line| line["judges_agree"] == false));
}
