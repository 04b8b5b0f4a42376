//! `evenkeel qualify` on models whose worth is known: naive Bayes classifiers, trained on so
//! many rows a label, that are really wrong at known rates (fixtures/golden/README.md).

use crate::qualify::{ended, outcomes};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// Each model's measured credit on the 200 items, and what a gate at 0.85 says of it.
const KNOWN: [(&str, f64, &str); 8] = [
    ("nb-all", 0.990, "pass"),
    ("nb-40", 0.985, "pass"),
    ("nb-20", 0.955, "pass"),
    ("nb-10", 0.900, "pass"),
    ("nb-7", 0.860, "not_enough_data"),
    ("nb-4", 0.775, "fail"),
    ("nb-2", 0.625, "fail"),
    ("nb-1", 0.560, "fail"),
];

fn golden(name: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden");
    fixtures.join(name)
}

/// The classifiers, served; none without Python.
async fn graded() -> Option<(Child, u16)> {
    let free = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("loopback is there");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    let mut command = Command::new("python3");
    command
        .arg(golden("tools/graded.py"))
        .args(["--port", &port.to_string()]);
    command
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let _ = writeln!(stdout(), "skipped: python3 cannot be started: {error}");
            return None;
        }
    };
    // Training takes a second or two.
    for _ in 0..600 {
        if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            return Some((child, port));
        }
        let gone = child.try_wait().expect("it can be asked");
        assert!(gone.is_none(), "graded.py ended: {gone:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("graded.py does not listen");
}

fn config(port: u16) -> String {
    let mut text = format!(
        "[providers.graded]\ndialect = \"openai\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\n"
    );
    for (name, ..) in KNOWN {
        let _ = write!(
            text,
            "[[models]]\nid = \"{name}\"\nprovider = \"graded\"\ncontext_window = 4096\n"
        );
    }
    text + "[agent_roles.classify]\np95_threshold_ms = 20000\np99_threshold_ms = 40000\n\
            evaluation_window_seconds = 15\nallow_same_provider = true\n\
            primary = \"graded/nb-all\"\nfallbacks = []\n"
}

#[tokio::test]
async fn the_gate_tells_classifiers_of_known_quality_apart() {
    let Some((_server, port)) = graded().await else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evenkeel.toml");
    std::fs::write(&path, config(port)).unwrap();
    let report = folder.path().join("report");
    let roster = folder.path().join("roster.toml");
    let candidates = KNOWN[1..].iter().map(|(name, ..)| format!("graded/{name}"));
    let candidates: Vec<String> = candidates.collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command
        .arg("qualify")
        .arg("--config")
        .arg(&path)
        .arg("--report")
        .arg(&report);
    command.args(["--role", "classify", "--min-quality-threshold", "0.85"]);
    command.args(["--candidates", &candidates.join(",")]);
    command
        .arg("--golden-dataset")
        .arg(golden("classify-banking8.jsonl"));
    command
        .arg("--output")
        .arg(&roster)
        .kill_on_drop(true)
        .stdin(Stdio::null());
    let output = ended(command).await;
    assert_eq!(output.status.code(), Some(1), "three fail: {output:?}");

    let mut scores: BTreeMap<String, (f64, u32)> = BTreeMap::new();
    for line in outcomes(&report.join("classify/journal.jsonl")) {
        let candidate = line["candidate"].as_str().unwrap().to_owned();
        let (sum, count) = scores.entry(candidate).or_default();
        *sum += line["score"].as_f64().unwrap_or(0.0);
        *count += 1;
    }
    let told = std::fs::read_to_string(report.join("classify/report.json")).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    let role = &told["roles"][0];
    let models = role["candidates"].as_array().unwrap().iter();
    let models: Vec<&Value> = models.chain([&role["primary"]]).collect();
    for (name, credit, verdict) in KNOWN {
        let (sum, count) = scores[&format!("graded/{name}")];
        assert_eq!(count, 200, "{name}");
        let mean = sum / f64::from(count);
        assert!(
            (mean - credit).abs() < 1e-9,
            "{name}: {mean}, measured {credit}"
        );
        let id = format!("graded/{name}");
        let model = models.iter().find(|model| model["model"] == id.as_str());
        assert_eq!(model.unwrap()["verdict"], verdict, "{name}");
    }
    let roster = std::fs::read_to_string(roster).unwrap();
    let written: Vec<&str> = roster
        .lines()
        .filter(|line| line.starts_with("model"))
        .collect();
    let names = ["nb-40", "nb-20", "nb-10"].map(|name| format!("model = \"graded/{name}\""));
    assert_eq!(written, names, "{roster}");
}
