//! `cargo xtask bench gateway`: load through the gateway, beside its peers, judged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::options::Options;
use crate::{gateway, process, workspace};

/// Our column in bench/gateway's tables.
const NAME: &str = "evenkeel";

/// First port of run.py's targets; each takes ten: primary, fallback, gateway.
const FIRST_PORT: usize = 9110;

#[derive(clap::Subcommand)]
pub(crate) enum Bench {
    /// Open-loop load under fault (bench/gateway); exit 1 when a limit is missed
    Gateway(Args),
}

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    binary: gateway::Binary,
    /// Options for bench/gateway/run.py, over the defaults `--quick --peers direct`
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "RUN.PY OPTIONS"
    )]
    options: Vec<String>,
    /// Long windows, one target at a time, instead of `--quick`
    #[arg(long)]
    full: bool,
}

/// What one scenario has to show. Shares are of the requests that met the fault.
struct Limit {
    scenario: &'static str,
    /// All answers whole.
    whole: bool,
    /// Least share of whole answers within a second.
    in_budget: Option<f64>,
    /// Nine of ten first tokens within a second.
    first_token: bool,
    /// Most upstream calls per request.
    calls: Option<f64>,
}

const fn whole(scenario: &'static str) -> Limit {
    Limit {
        scenario,
        whole: true,
        in_budget: None,
        first_token: false,
        calls: None,
    }
}

/// Half a text never counts as success, in any scenario; these ask for more.
const LIMITS: &[Limit] = &[
    Limit {
        in_budget: Some(0.9),
        calls: Some(1.25),
        ..whole("spike")
    },
    Limit {
        in_budget: Some(0.9),
        calls: Some(1.25),
        ..whole("hang")
    },
    Limit {
        first_token: true,
        calls: Some(1.4),
        ..whole("stream_hang")
    },
    whole("outage"),
    whole("refused"),
];

/// Runs the bench; whether every limit holds.
///
/// # Errors
/// When something cannot be built, started or read.
pub(crate) fn run(bench: Bench) -> Result<bool> {
    let Bench::Gateway(args) = bench;
    let binary = args.binary.ready()?;
    let options = Options::new(args.options);
    let config = workspace::root().join("fixtures/bench-gateway/peers/evenkeel");
    ensure!(config.is_dir(), "no config folder {}", config.display());
    let out = match options.value("--out") {
        Some(folder) => PathBuf::from(folder),
        None => workspace::target()?.join("bench-gateway"),
    };
    let results = out.join("results.json");
    // Results of an earlier run must not be taken for this one's.
    if results.exists() {
        fs::remove_file(&results)?;
    }
    let mut command = Command::new("python3");
    command
        .arg(workspace::root().join("bench/gateway/run.py"))
        .args(words(&options, args.full, &binary, &config, &out));
    ensure!(
        process::succeeds_leashed(&mut command)?,
        "`{}` failed",
        process::spelled(&command)
    );
    let text = fs::read(&results).with_context(|| format!("reading {}", results.display()))?;
    let results: Value = serde_json::from_slice(&text).context("results.json is no JSON")?;
    let before =
        |scenario: &str| fs::read_to_string(out.join(format!("{scenario}.{NAME}.csv"))).ok();
    let faults = faults(&results, before);
    for fault in &faults {
        println!("limit missed: {fault}");
    }
    println!("{} limits missed", faults.len());
    Ok(faults.is_empty())
}

/// What run.py is called with. Given options come last and so win.
fn words(options: &Options, full: bool, binary: &Path, config: &Path, out: &Path) -> Vec<String> {
    let peers = options.value("--peers").unwrap_or("direct");
    let targets_before_ours = peers.split(',').filter(|peer| !peer.is_empty()).count();
    let port = FIRST_PORT + 10 * targets_before_ours + 2;
    let mut words = vec!["--peers".to_owned(), peers.to_owned()];
    if !full {
        words.push("--quick".to_owned());
    }
    for (name, value) in [
        (
            "gateway",
            format!("http://127.0.0.1:{port}/v1/chat/completions"),
        ),
        (
            "gateway-cmd",
            format!("'{}' serve --config {{config}}", binary.display()),
        ),
        ("gateway-config", config.display().to_string()),
        ("gateway-model", "main".to_owned()),
        ("gateway-header", "authorization: Bearer sk-mock".to_owned()),
    ] {
        words.push(format!("--{name}"));
        words.push(format!("{NAME}={value}"));
    }
    words.push("--out".to_owned());
    words.push(out.display().to_string());
    words.extend(options.words().iter().cloned());
    words
}

/// Every limit that our column misses. `csv` gives a scenario's requests, one a line.
fn faults(results: &Value, csv: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut faults = Vec::new();
    let Some(scenarios) = results.as_object() else {
        return vec!["results.json holds no scenarios".to_owned()];
    };
    for (scenario, targets) in scenarios {
        let ours = &targets[NAME];
        // The overhead is reported, not judged; `meta` is no scenario.
        if ours.get("success_rate").is_none() {
            continue;
        }
        let wrong = ours["wrong"].as_u64().unwrap_or(u64::MAX);
        if wrong > 0 {
            faults.push(format!(
                "{scenario}: {wrong} answers are short or wrong and look like success"
            ));
        }
        if csv(scenario).is_none_or(|rows| !begins_on_the_primary(&rows)) {
            faults.push(format!("{scenario}: does not begin on the primary"));
        }
        let limit = LIMITS.iter().find(|limit| limit.scenario == scenario);
        faults.extend(limit.iter().flat_map(|limit| misses(limit, ours)));
    }
    faults
}

fn misses(limit: &Limit, ours: &Value) -> Vec<String> {
    // A figure that is missing is a miss, whichever way the limit points.
    let or_none = |value: &Value| value.as_f64().unwrap_or(0.0);
    let or_endless = |value: &Value| value.as_f64().unwrap_or(f64::INFINITY);
    let mut misses = Vec::new();
    let mut miss = |text: String| misses.push(format!("{}: {text}", limit.scenario));
    let share = or_none(&ours["success_rate"]);
    if limit.whole && share < 1.0 {
        miss(format!("{:.1}% whole answers, not all", share * 100.0));
    }
    let in_budget = or_none(&ours["in_budget"]);
    if let Some(least) = limit.in_budget.filter(|least| in_budget < *least) {
        miss(format!(
            "{:.1}% whole within a second, not {:.0}%",
            in_budget * 100.0,
            least * 100.0
        ));
    }
    let first = or_endless(&ours["ttft_ms"]["p90"]);
    if limit.first_token && first > 1000.0 {
        miss(format!(
            "nine of ten first tokens within {first:.0} ms, not 1000"
        ));
    }
    let calls = or_endless(&ours["calls_per_request"]);
    if let Some(most) = limit.calls.filter(|most| calls > *most) {
        miss(format!(
            "{calls:.2} upstream calls per request, more than {most}"
        ));
    }
    misses
}

/// Whether most answers to the first requests (due in the first two seconds, before any fault) are
/// the primary's: else what the fault did was not measured.
fn begins_on_the_primary(csv: &str) -> bool {
    let mut lines = csv.lines();
    let columns: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let at = |name: &str| columns.iter().position(|column| *column == name);
    let (Some(due), Some(by)) = (at("due_s"), at("answered_by")) else {
        return false;
    };
    let early: Vec<bool> = lines
        .map(|line| line.split(',').collect::<Vec<_>>())
        .filter(|cells| {
            cells
                .get(due)
                .and_then(|cell| cell.parse::<f64>().ok())
                .is_some_and(|due| due < 2.0)
        })
        .map(|cells| cells.get(by).is_some_and(|who| who.ends_with("-primary")))
        .collect();
    let primary = early.iter().filter(|is_primary| **is_primary).count();
    !early.is_empty() && primary * 2 > early.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ROWS: &str = "due_s,sent_s,ttft_ms,gap_ms,total_ms,status,outcome,answered_by,tokens,note\n\
                        0.0,0.0,200,0,200,200,Full,evenkeel-primary,40,\"\"\n\
                        0.1,0.1,200,0,200,200,Full,evenkeel-primary,40,\"\"\n\
                        0.2,0.2,800,0,800,200,Full,evenkeel-fallback,40,\"\"\n\
                        5.0,5.0,800,0,800,200,Full,evenkeel-fallback,40,\"\"\n";

    fn judged(scenario: &str, figures: &Value, rows: &str) -> Vec<String> {
        let results = json!({"meta": {"quick": true}, scenario: {"evenkeel": figures}});
        faults(&results, |_| Some(rows.to_owned()))
    }

    #[test]
    fn a_spike_within_its_limits_holds() {
        let good =
            json!({"success_rate": 1.0, "wrong": 0, "in_budget": 0.95, "calls_per_request": 1.2});
        assert_eq!(judged("spike", &good, ROWS), [""; 0]);
    }

    #[test]
    fn each_limit_is_missed_by_itself() {
        let bad =
            json!({"success_rate": 0.99, "wrong": 0, "in_budget": 0.89, "calls_per_request": 1.3});
        assert_eq!(
            judged("spike", &bad, ROWS),
            [
                "spike: 99.0% whole answers, not all",
                "spike: 89.0% whole within a second, not 90%",
                "spike: 1.30 upstream calls per request, more than 1.25"
            ]
        );
        let slow = json!({"success_rate": 1.0, "wrong": 0, "ttft_ms": {"p90": 1200.0}, "calls_per_request": 1.0});
        assert_eq!(
            judged("stream_hang", &slow, ROWS),
            ["stream_hang: nine of ten first tokens within 1200 ms, not 1000"]
        );
    }

    #[test]
    fn a_figure_that_is_missing_is_a_miss() {
        let empty = json!({"success_rate": 1.0, "wrong": 0});
        assert_eq!(judged("hang", &empty, ROWS).len(), 2);
    }

    #[test]
    fn half_a_text_as_success_is_a_fault_in_any_scenario() {
        let cut = json!({"success_rate": 0.5, "wrong": 1});
        assert_eq!(
            judged("stream_death", &cut, ROWS),
            ["stream_death: 1 answers are short or wrong and look like success"]
        );
    }

    #[test]
    fn a_scenario_that_begins_on_the_fallback_measures_nothing() {
        let good = json!({"success_rate": 1.0, "wrong": 0});
        let rows = ROWS.replace("evenkeel-primary", "evenkeel-fallback");
        assert_eq!(
            judged("outage", &good, &rows),
            ["outage: does not begin on the primary"]
        );
        let header = ROWS.lines().next().unwrap();
        assert_eq!(
            judged("outage", &good, header),
            ["outage: does not begin on the primary"]
        );
    }

    #[test]
    fn our_port_lies_above_the_peers_and_given_options_win() {
        let options = Options::new(vec![
            "--peers".to_owned(),
            "portkey,litellm,direct".to_owned(),
        ]);
        let words = words(
            &options,
            false,
            Path::new("/t/release/evenkeel"),
            Path::new("/f"),
            Path::new("/o"),
        );
        assert!(words.contains(&"evenkeel=http://127.0.0.1:9142/v1/chat/completions".to_owned()));
        assert!(
            words.contains(&"evenkeel='/t/release/evenkeel' serve --config {config}".to_owned())
        );
        assert_eq!(words.last().unwrap(), "portkey,litellm,direct");
    }
}
