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

/// What `calm` must pass: a slow first token is left in time; after an outage the primary is back.
const MUST_PASS: &[&str] = &["S07", "S15"];

/// What scenarios of ours must show under `tight`, beside no fail: a measure and its limit in
/// seconds. Patience is 1.5 s there; E22's caller leaves after 1 s.
const LIMITS: &[(&str, &str, f64)] = &[
    ("E02", "first_s", 2.0),
    ("E03", "first_s", 2.0),
    ("E15", "worst_first_s", 2.5),
    ("E21", "first_s", 1.0),
    ("E22", "released_s", 1.2),
];

/// Rows of our scenarios in both modes, and the fewest that must pass. E19 is partial: the wait
/// that it asks for is longer than patience.
const TIGHT: (usize, usize) = (39, 36);

/// Most attempts at S15's primary while it is down, and the longest way back, in seconds.
const OUTAGE: (f64, f64) = (10.0, 14.0);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The config folder in fixtures/failover16
    policy: Policy,
    #[command(flatten)]
    binary: gateway::Binary,
    /// Options for bench/failover16/run.py, over the defaults `--profile full --set sixteen|extra`
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
            Self::Tight => "extra",
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
    /// Everything that was measured.
    measures: Value,
}

/// What is run, and so what it is judged by.
#[derive(Clone, Copy, Debug)]
struct Run<'a> {
    policy: Policy,
    modes: &'a [&'a str],
    /// Whether the answers are held whole (`EVENKEEL_COMMIT=full`).
    held: bool,
    /// Whether only a part is run.
    narrowed: bool,
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
    let faults = gate(
        Run {
            policy: args.policy,
            modes,
            held: std::env::var_os("EVENKEEL_COMMIT").is_some_and(|commit| commit == "full"),
            narrowed,
        },
        &rows,
    );
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
                measures: row["measures"].clone(),
            })
        })
        .collect()
}

/// What the policy promises and these rows do not show. A narrowed run is judged by what it ran.
fn gate(run: Run<'_>, rows: &[Row]) -> Vec<String> {
    let mut faults: Vec<String> = rows.iter().filter_map(failed).collect();
    match run.policy {
        Policy::Calm => {
            for mode in run.modes {
                calm(run, mode, rows, &mut faults);
            }
        }
        Policy::Tight => tight(run, rows, &mut faults),
    }
    faults
}

fn calm(run: Run<'_>, mode: &str, rows: &[Row], faults: &mut Vec<String>) {
    let of_mode: Vec<&Row> = rows
        .iter()
        .filter(|row| row.mode == mode && row.id.starts_with('S'))
        .collect();
    for id in MUST_PASS {
        match of_mode.iter().find(|row| row.id == *id) {
            Some(row) if row.verdict != "pass" => faults.push(format!(
                "{id} {mode} is {}, and must pass: {}",
                row.verdict, row.why
            )),
            None if !run.narrowed => faults.push(format!("{id} {mode} was not run")),
            _ => {}
        }
    }
    for outage in of_mode.iter().filter(|row| row.id == "S15") {
        let (probes, back) = OUTAGE;
        faults.extend(above(outage, "probes", probes));
        faults.extend(above(outage, "returned_s", back));
    }
    if of_mode.len() == 16 || !run.narrowed {
        // Streams that go out as they come may lose one to a break.
        let fewest = if run.held { 16 } else { 15 };
        let passes = of_mode.iter().filter(|row| row.verdict == "pass").count();
        if passes < fewest {
            faults.push(format!(
                "{passes} of the sixteen pass ({mode}); at least {fewest} must"
            ));
        }
    }
}

fn tight(run: Run<'_>, rows: &[Row], faults: &mut Vec<String>) {
    for (id, measure, limit) in LIMITS {
        let of_id = rows.iter().filter(|row| row.id == *id);
        faults.extend(of_id.filter_map(|row| above(row, measure, *limit)));
    }
    let storms = rows.iter().filter(|row| row.id == "E16");
    faults.extend(storms.filter_map(calls_over_3s));
    if !run.narrowed && run.modes.len() == 2 {
        let (all, fewest) = TIGHT;
        let passes = rows.iter().filter(|row| row.verdict == "pass").count();
        if rows.len() != all || passes < fewest {
            faults.push(format!(
                "{passes} of {} rows pass; at least {fewest} of {all} must",
                rows.len()
            ));
        }
    }
}

/// A measure that is not there or above its limit.
fn above(row: &Row, measure: &str, limit: f64) -> Option<String> {
    let measured = row.measures[measure].as_f64();
    let holds = measured.is_some_and(|measured| measured <= limit);
    (!holds).then(|| {
        let seen = &row.measures[measure];
        format!(
            "{} {}: {measure} is {seen}, at most {limit}",
            row.id, row.mode
        )
    })
}

/// More than one call in twenty of a spike without a first token within three seconds.
fn calls_over_3s(row: &Row) -> Option<String> {
    let calls = row.measures["storm"].as_array()?;
    let quick = calls
        .iter()
        .filter_map(Value::as_f64)
        .filter(|first| *first < 3.0);
    let quick = quick.count();
    (quick * 20 < calls.len() * 19).then(|| {
        let all = calls.len();
        format!("E16 {}: {quick} of {all} calls within 3 s", row.mode)
    })
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
            measures: json!({"probes": 9, "returned_s": 6.0}),
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

    fn calm_faults(modes: &[&str], rows: &[Row], held: bool, narrowed: bool) -> Vec<String> {
        let run = Run {
            policy: Policy::Calm,
            modes,
            held,
            narrowed,
        };
        gate(run, rows)
    }

    #[test]
    fn calm_holds_with_fifteen_passes_and_no_fail_and_held_answers_with_all() {
        let mut rows = sixteen("stream", 15);
        assert_eq!(calm_faults(&["stream"], &rows, false, false), [""; 0]);
        assert_eq!(
            calm_faults(&["stream"], &rows, true, false),
            ["15 of the sixteen pass (stream); at least 16 must"]
        );
        rows[15].verdict = "fail".to_owned();
        assert_eq!(
            calm_faults(&["stream"], &rows, false, false),
            ["S16 stream fails: no end in time"]
        );
        let rows = sixteen("stream", 13);
        assert_eq!(
            calm_faults(&["stream"], &rows, false, false),
            ["14 of the sixteen pass (stream); at least 15 must"]
        );
    }

    #[test]
    fn calm_wants_the_slow_first_token_and_the_way_back() {
        let mut rows = sixteen("plain", 16);
        rows[6].verdict = "partial".to_owned();
        assert_eq!(
            calm_faults(&["plain"], &rows, false, false),
            ["S07 plain is partial, and must pass: no end in time"]
        );
        let mut rows = sixteen("plain", 16);
        rows[14].measures = json!({"probes": 11, "returned_s": null});
        assert_eq!(
            calm_faults(&["plain"], &rows, false, false),
            [
                "S15 plain: probes is 11, at most 10",
                "S15 plain: returned_s is null, at most 14"
            ]
        );
    }

    #[test]
    fn each_mode_has_to_hold_by_itself() {
        let rows = sixteen("stream", 16);
        let faults = calm_faults(&["stream", "plain"], &rows, false, false);
        assert_eq!(
            faults,
            [
                "S07 plain was not run",
                "S15 plain was not run",
                "0 of the sixteen pass (plain); at least 15 must"
            ]
        );
    }

    #[test]
    fn a_narrowed_run_is_judged_by_what_it_ran() {
        let rows = [row("S01", "stream", "safe"), row("S02", "stream", "pass")];
        assert_eq!(calm_faults(&["stream"], &rows, true, true), [""; 0]);
        let rows = [row("S03", "stream", "fail")];
        assert_eq!(calm_faults(&["stream"], &rows, true, true).len(), 1);
    }

    fn tight_faults(rows: &[Row], narrowed: bool) -> Vec<String> {
        let run = Run {
            policy: Policy::Tight,
            modes: &["stream", "plain"],
            held: false,
            narrowed,
        };
        gate(run, rows)
    }

    #[test]
    fn tight_wants_its_rows_and_their_measures() {
        let mut rows: Vec<Row> = (0..39).map(|_| row("E01", "stream", "pass")).collect();
        rows[0] = row("E02", "stream", "pass");
        rows[0].measures = json!({"first_s": 2.1});
        rows[1] = row("E16", "plain", "pass");
        rows[1].measures = json!({"storm": [1.0, null, 3.5, 0.5]});
        for row in &mut rows[2..6] {
            row.verdict = "partial".to_owned();
        }
        assert_eq!(
            tight_faults(&rows, false),
            [
                "E02 stream: first_s is 2.1, at most 2",
                "E16 plain: 2 of 4 calls within 3 s",
                "35 of 39 rows pass; at least 36 of 39 must"
            ]
        );
        assert_eq!(tight_faults(&rows[2..], true), [""; 0]);
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
