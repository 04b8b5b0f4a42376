//! Plays every file of `fixtures/scenarios`.

use evenkeel_document::SourceFile;
use evenkeel_replay::{Report, Scenario, judge, replay};
use std::fs;
use std::path::PathBuf;

/// The files, by name.
fn files() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/scenarios");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    files.sort();
    files
}

fn scenario(path: &PathBuf) -> Result<Scenario, String> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let text = fs::read_to_string(path).unwrap();
    Scenario::parse(&SourceFile::new(name, text)).map_err(|problems| problems.to_string())
}

fn play(path: &PathBuf) -> Result<Report, String> {
    let scenario = scenario(path)?;
    let record = replay(&scenario).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(judge(&scenario, &record))
}

#[test]
fn every_scenario_comes_out_as_it_says() {
    let mut wrong = Vec::new();
    let files = files();
    assert!(!files.is_empty());
    for path in &files {
        match play(path) {
            Ok(report) if report.holds() => {}
            Ok(report) => wrong.push(format!("{}: {report}", path.file_name().unwrap().display())),
            Err(message) => wrong.push(message),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} scenarios fail\n\n{}",
        wrong.len(),
        files.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_same_scenario_gives_the_same_record() {
    for path in files().iter().take(5) {
        let scenario = scenario(path).unwrap();
        let told = || {
            let record = replay(&scenario).unwrap();
            let ends = record.requests.iter().map(|r| {
                let steps: Vec<String> = r.trail.steps.iter().map(ToString::to_string).collect();
                (r.began, r.ended, r.end.to_string(), steps)
            });
            ends.collect::<Vec<_>>()
        };
        assert_eq!(told(), told(), "{}", scenario.name);
    }
}
