//! `cargo xtask failover16 calm|tight`: provider faults against the gateway, judged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::options::Options;
use crate::{gateway, process, python, workspace};

/// Where the policies of fixtures/failover16 listen.
const GATEWAY_PORT: u16 = 4000;

/// Where run.py's fault server listens, and where those policies expect it.
const FAULTS_PORT: u16 = 8601;

/// Fewest of the sixteen that `calm` must pass in each mode.
const FEWEST_PASSES: usize = 12;

/// What `calm` must pass: a slow first token is left in time; after an outage the primary is back.
const MUST_PASS: &[&str] = &["S07", "S15"];

/// Where `tight` may not fail.
const TIGHT: &[&str] = &[
    "E02", "E03", "E04", "E06", "E11", "E12", "E16", "E17", "E20", "E22",
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The config folder in fixtures/failover16
    policy: Policy,
    #[command(flatten)]
    binary: gateway::Binary,
    /// Options for bench/failover16/run.py, over the defaults `--profile full --set sixteen|all`
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "RUN.PY OPTIONS"
    )]
    options: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Policy {
    Calm,
    Tight,
}

impl Policy {
    const fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Tight => "tight",
        }
    }

    /// The scenarios its row is about.
    const fn set(self) -> &'static str {
        match self {
            Self::Calm => "sixteen",
            Self::Tight => "all",
        }
    }
}

/// One scenario's outcome, as run.py judged it.
#[derive(Clone, Debug)]
struct Row {
    id: String,
    mode: String,
    verdict: String,
    why: String,
}

/// Runs each mode against a gateway of its own, prints the gate and, as the last line, the sum;
/// whether the gate holds.
///
/// # Errors
/// When something cannot be built, started or read.
pub(crate) fn run(args: Args) -> Result<bool> {
    let mut options = Options::new(args.options);
    let modes: &[&str] = match options.take("--mode").as_deref() {
        None | Some("both") => &["stream", "plain"],
        Some("stream") => &["stream"],
        Some("plain") => &["plain"],
        Some(other) => anyhow::bail!("--mode is stream, plain or both, not `{other}`"),
    };
    let json = options.take("--json").map(PathBuf::from);
    let narrowed = options.has("--only") || options.has("--set");
    let python = python::with(python::HTTPX)?.join("python");
    let binary = args.binary.ready()?;
    let folder = workspace::target()?.join("failover16");
    let mut reports = Vec::new();
    for mode in modes {
        reports.push(run_mode(
            args.policy,
            mode,
            &options,
            &python,
            &binary,
            &folder,
        )?);
    }
    let report = merged(reports)?;
    if let Some(path) = json {
        fs::write(&path, format!("{report:#}\n"))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    let rows = rows(&report)?;
    let faults = gate(args.policy, modes, &rows, narrowed);
    println!();
    for fault in &faults {
        println!("{}: gate fails: {fault}", args.policy.name());
    }
    if faults.is_empty() {
        let of = if narrowed { ", for what was run" } else { "" };
        println!("{}: gate holds{of}", args.policy.name());
    }
    println!("{}", tally(&rows));
    Ok(faults.is_empty())
}

/// One mode: both modes share a route, so a system that remembers starts afresh for each.
fn run_mode(
    policy: Policy,
    mode: &str,
    options: &Options,
    python: &Path,
    binary: &Path,
    folder: &Path,
) -> Result<Value> {
    let name = policy.name();
    println!("{name}, {mode}");
    let config = workspace::root().join("fixtures/failover16").join(name);
    let log = folder.join(format!("{name}.{mode}.log"));
    process::port_must_be_free(FAULTS_PORT, "the fault server")?;
    let _gateway = gateway::serve(binary, &config, GATEWAY_PORT, &log)?;
    let json = folder.join(format!("{name}.{mode}.json"));
    // A report of an earlier run must not be taken for this one's.
    if json.exists() {
        fs::remove_file(&json)?;
    }
    let mut command = Command::new(python);
    command
        .arg(workspace::root().join("bench/failover16/run.py"))
        .args(["--base-url", &format!("http://127.0.0.1:{GATEWAY_PORT}/v1")])
        .args(["--model-map", "{fault}", "--spawn", "--profile", "full"])
        .args(["--set", policy.set()])
        .args(options.words())
        .args(["--mode", mode, "--json"])
        .arg(&json);
    anyhow::ensure!(
        process::succeeds_leashed(&mut command)?,
        "`{}` failed",
        process::spelled(&command)
    );
    let text = fs::read(&json).with_context(|| format!("reading {}", json.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", json.display()))
}

/// One report of all modes, which `run.py --rescore` takes too.
fn merged(reports: Vec<Value>) -> Result<Value> {
    let mut reports = reports.into_iter();
    let mut first = reports.next().context("no mode was run")?;
    for next in reports {
        let took = first["took_s"].as_f64().unwrap_or(0.0) + next["took_s"].as_f64().unwrap_or(0.0);
        first["took_s"] = took.into();
        let more = next["rows"].as_array().cloned().unwrap_or_default();
        first["rows"]
            .as_array_mut()
            .context("the report has no rows")?
            .extend(more);
    }
    Ok(first)
}

fn rows(report: &Value) -> Result<Vec<Row>> {
    let text = |row: &Value, key: &str| {
        row[key]
            .as_str()
            .map(str::to_owned)
            .with_context(|| format!("a row of the report has no `{key}`"))
    };
    report["rows"]
        .as_array()
        .context("the report has no rows")?
        .iter()
        .map(|row| {
            Ok(Row {
                id: text(row, "id")?,
                mode: text(row, "mode")?,
                verdict: text(row, "verdict")?,
                why: text(row, "why")?,
            })
        })
        .collect()
}

/// What the policy promises and these rows do not show. A narrowed run is judged by what it ran.
fn gate(policy: Policy, modes: &[&str], rows: &[Row], narrowed: bool) -> Vec<String> {
    match policy {
        Policy::Calm => modes
            .iter()
            .flat_map(|mode| calm(mode, rows, narrowed))
            .collect(),
        Policy::Tight => tight(modes, rows, narrowed),
    }
}

fn calm(mode: &str, rows: &[Row], narrowed: bool) -> Vec<String> {
    let of_mode: Vec<&Row> = rows
        .iter()
        .filter(|row| row.mode == mode && row.id.starts_with('S'))
        .collect();
    let mut faults: Vec<String> = of_mode.iter().filter_map(|row| failed(row)).collect();
    for id in MUST_PASS {
        match of_mode.iter().find(|row| row.id == *id) {
            Some(row) if row.verdict != "pass" => faults.push(format!(
                "{id} {mode} is {}, and must pass: {}",
                row.verdict, row.why
            )),
            None if !narrowed => faults.push(format!("{id} {mode} was not run")),
            _ => {}
        }
    }
    if of_mode.len() == 16 || !narrowed {
        let passes = of_mode.iter().filter(|row| row.verdict == "pass").count();
        if passes < FEWEST_PASSES {
            faults.push(format!(
                "{passes} of the sixteen pass ({mode}); at least {FEWEST_PASSES} must"
            ));
        }
    }
    faults
}

fn tight(modes: &[&str], rows: &[Row], narrowed: bool) -> Vec<String> {
    let mut faults = Vec::new();
    for id in TIGHT {
        let mut of_id = rows.iter().filter(|row| row.id == *id).peekable();
        // Some exist in one mode only: with both modes each must have been run in one.
        if of_id.peek().is_none() && !narrowed && modes.len() == 2 {
            faults.push(format!("{id} was not run"));
        }
        faults.extend(of_id.filter_map(failed));
    }
    faults
}

fn failed(row: &Row) -> Option<String> {
    (row.verdict == "fail").then(|| format!("{} {} fails: {}", row.id, row.mode, row.why))
}

fn tally(rows: &[Row]) -> String {
    ["pass", "partial", "safe", "fail"]
        .map(|verdict| {
            let count = rows.iter().filter(|row| row.verdict == verdict).count();
            format!("{count} {verdict}")
        })
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(id: &str, mode: &str, verdict: &str) -> Row {
        Row {
            id: id.to_owned(),
            mode: mode.to_owned(),
            verdict: verdict.to_owned(),
            why: "no end in time".to_owned(),
        }
    }

    /// The sixteen in one mode: the first `passes` and the two that must pass, the rest safe.
    fn sixteen(mode: &str, passes: usize) -> Vec<Row> {
        (1..=16)
            .map(|n| {
                let id = format!("S{n:02}");
                let pass = n <= passes || MUST_PASS.contains(&id.as_str());
                row(&id, mode, if pass { "pass" } else { "safe" })
            })
            .collect()
    }

    #[test]
    fn calm_holds_with_twelve_passes_and_no_fail() {
        // S01 to S11 pass, and S15.
        let mut rows = sixteen("stream", 11);
        assert_eq!(gate(Policy::Calm, &["stream"], &rows, false), [""; 0]);
        rows[15].verdict = "fail".to_owned();
        assert_eq!(
            gate(Policy::Calm, &["stream"], &rows, false),
            ["S16 stream fails: no end in time"]
        );
        assert_eq!(
            gate(Policy::Calm, &["stream"], &sixteen("stream", 10), false),
            ["11 of the sixteen pass (stream); at least 12 must"]
        );
    }

    #[test]
    fn calm_wants_the_slow_first_token_and_the_way_back() {
        let mut rows = sixteen("plain", 16);
        rows[6].verdict = "partial".to_owned();
        assert_eq!(
            gate(Policy::Calm, &["plain"], &rows, false),
            ["S07 plain is partial, and must pass: no end in time"]
        );
    }

    #[test]
    fn each_mode_has_to_hold_by_itself() {
        let rows = sixteen("stream", 16);
        let faults = gate(Policy::Calm, &["stream", "plain"], &rows, false);
        assert_eq!(
            faults,
            [
                "S07 plain was not run",
                "S15 plain was not run",
                "0 of the sixteen pass (plain); at least 12 must"
            ]
        );
    }

    #[test]
    fn a_narrowed_run_is_judged_by_what_it_ran() {
        let rows = [row("S01", "stream", "safe"), row("S02", "stream", "pass")];
        assert_eq!(gate(Policy::Calm, &["stream"], &rows, true), [""; 0]);
        assert_eq!(
            gate(
                Policy::Calm,
                &["stream"],
                &[row("S03", "stream", "fail")],
                true
            )
            .len(),
            1
        );
    }

    #[test]
    fn tight_judges_its_list_alone() {
        let mut rows: Vec<Row> = TIGHT
            .iter()
            .map(|id| row(id, "stream", "partial"))
            .collect();
        rows.push(row("E15", "stream", "fail"));
        assert_eq!(
            gate(Policy::Tight, &["stream", "plain"], &rows, false),
            [""; 0]
        );
        rows[0].verdict = "fail".to_owned();
        rows.remove(7);
        assert_eq!(
            gate(Policy::Tight, &["stream", "plain"], &rows, false),
            ["E02 stream fails: no end in time", "E17 was not run"]
        );
    }

    #[test]
    fn modes_are_summed_in_one_report_and_one_line() {
        let report = |mode: &str, verdict: &str| json!({"took_s": 1.5, "rows": [{"id": "S01", "mode": mode, "verdict": verdict, "why": ""}]});
        let sum = merged(vec![report("stream", "pass"), report("plain", "safe")]).unwrap();
        assert!((sum["took_s"].as_f64().unwrap() - 3.0).abs() < 1e-9);
        assert_eq!(
            tally(&rows(&sum).unwrap()),
            "1 pass, 0 partial, 1 safe, 0 fail"
        );
    }
}
