//! `cargo xtask rules`: what is shipped to watch a gateway with asks for metrics that exist, and
//! Prometheus takes it.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::process::{self, Server};
use crate::{dashboard, deploy, workspace};

/// Where the gateway listens whose metrics are checked.
const PORT: u16 = 18070;

/// How long it has traffic, most of it in an outage, before its metrics are read.
const TRAFFIC: Duration = Duration::from_secs(12);

/// The files that ask for metrics.
const ASKING: [&str; 3] = [
    "deploy/evenkeel.rules.yml",
    "deploy/evenkeel.rules.test.yml",
    "deploy/grafana-dashboard.json",
];

/// The metrics there are: a test of the gateway holds them against what it shows.
const SAMPLE: &str = "fixtures/telemetry/metrics-sample.prom";

/// Whether everything is in order. Without promtool it says so, and checks what it can.
///
/// # Errors
/// When a file cannot be read, or a program cannot be started.
pub(crate) fn run() -> Result<bool> {
    let mut faults = faults()?;
    faults.extend(deploy::faults()?);
    for fault in &faults {
        println!("{fault}");
    }
    println!("rules: {} faults", faults.len());
    let mut passed = faults.is_empty();
    if !is_there("promtool") {
        println!("promtool is not on PATH (Debian: prometheus): it has checked nothing");
        return Ok(passed);
    }
    for (task, file) in [("check", ASKING[0]), ("test", ASKING[1])] {
        let mut command = Command::new("promtool");
        command.current_dir(workspace::root());
        passed &= process::succeeds(command.args([task, "rules", file]))?;
    }
    passed &= dashboard::parses()?;
    Ok(passed & metrics_are_clean()?)
}

/// Whether a program is on PATH.
pub(crate) fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}

/// Lets promtool look at what a gateway shows after some traffic; it is to have no word to say.
fn metrics_are_clean() -> Result<bool> {
    let _gateway = demo(PORT, "outage")?;
    thread::sleep(TRAFFIC);
    let (status, text) = process::get(PORT, "/metrics")?;
    ensure!(status == 200, "/metrics answers {status}");
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot start promtool")?;
    let mut stdin = promtool.stdin.take().context("promtool has no input")?;
    stdin.write_all(text.as_bytes())?;
    drop(stdin);
    let passed = promtool.wait()?.success();
    let word = if passed { "clean" } else { "FAILED" };
    println!("{} lines of metrics: {word}", text.lines().count());
    Ok(passed)
}

/// A gateway with traffic, whose primary will fare as `scenario` says and be well again then.
///
/// # Errors
/// When it cannot be built or does not serve.
pub(crate) fn demo(port: u16, scenario: &str) -> Result<Server> {
    process::port_must_be_free(port, "the gateway")?;
    process::run(workspace::cargo().args(["build", "--locked", "--package", "evenkeel-gateway"]))?;
    let target = workspace::target()?;
    let mut command = Command::new(target.join("debug/evenkeel"));
    let listen = format!("127.0.0.1:{port}");
    command.args(["demo", "--json", "--keep", "--listen", &listen]);
    command.args(["--scenario", scenario]);
    let log = target.join("telemetry").join("demo.log");
    let mut server = Server::start("the gateway", &mut command, &log)?;
    server.wait_until_ready(port, "/readyz", Duration::from_secs(20))?;
    Ok(server)
}

/// Names of metrics that are asked for and do not exist.
fn faults() -> Result<Vec<String>> {
    let read = |file: &str| {
        let path: PathBuf = workspace::root().join(file);
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let rules = read(ASKING[0])?;
    let mut known = families(&read(SAMPLE)?);
    known.extend(recorded(&rules).map(str::to_owned));
    let mut faults = Vec::new();
    for file in ASKING {
        let text = read(file)?;
        let unknown = asked(&text).filter(|name| !known.contains(*name));
        let unknown: BTreeSet<&str> = unknown.collect();
        faults.extend(
            unknown
                .iter()
                .map(|name| format!("{file}: there is no metric {name}")),
        );
    }
    Ok(faults)
}

/// What may be asked for of the families of an exposition.
fn families(exposition: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in exposition.lines() {
        let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' '))
        else {
            continue;
        };
        if kind == "histogram" {
            names.extend(["bucket", "sum", "count"].map(|part| format!("{name}_{part}")));
        } else {
            names.insert(name.to_owned());
        }
    }
    names
}

/// The names that recording rules give.
fn recorded(rules: &str) -> impl Iterator<Item = &str> {
    rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- record: "))
}

/// Every name of a metric of ours in a text, recorded ones included. A prefix alone, as in a
/// pattern, is none.
fn asked(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .filter(|word| {
            let name = word
                .rsplit_once(":evenkeel_")
                .map_or(*word, |(_, name)| name);
            let is_ours = word.starts_with("evenkeel_") || word.starts_with("gen_ai_");
            (is_ours && !word.ends_with('_')) || (name != *word && !name.is_empty())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_dashboard_ask_for_what_there_is() {
        assert_eq!(faults().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn names_are_found_wherever_they_stand() {
        let text = r#"sum by (role) (rate(evenkeel_requests_total{route="none"}[5m])) / on (role)
            role:evenkeel_requests:increase24h{x=~"evenkeel_.+"} and gen_ai_client_token_usage_sum"#;
        let found: Vec<&str> = asked(text).collect();
        assert_eq!(
            found,
            [
                "evenkeel_requests_total",
                "role:evenkeel_requests:increase24h",
                "gen_ai_client_token_usage_sum"
            ]
        );
    }

    #[test]
    fn a_histogram_is_asked_for_by_its_parts() {
        let known = families("# TYPE a_seconds histogram\n# TYPE b_total counter\n");
        let expected = [
            "a_seconds_bucket",
            "a_seconds_count",
            "a_seconds_sum",
            "b_total",
        ];
        assert!(known.iter().eq(expected.iter()));
    }
}
