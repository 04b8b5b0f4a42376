//! `cargo xtask prometheus`: a real Prometheus scrapes a gateway whose primary gets slow. The alert
//! has to be silent before, fire, and be over when the primary is back.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::process::{self, Server, now};
use crate::{CannotRun, rules, workspace};

const GATEWAY: u16 = 18071;
const PROMETHEUS: u16 = 19090;

/// What has to fire, with its labels; `windows` tells it from the shipped rule of that name.
const ALERTS: [&str; 2] = [
    r#"ALERTS{alertname="EvenkeelSubstitutionRateHigh",alertstate="firing",role="agent",windows="short"}"#,
    r#"ALERTS{alertname="EvenkeelSubstitutionStuck",alertstate="firing",role="agent",windows="short"}"#,
];

/// What the shipped rules have to have recorded by then.
const RECORDED: &str = r#"role:evenkeel_requests:increase24h{role="agent"}"#;

/// The primary slows 12 s after the start, for 12 s, and is back a few seconds later.
const FIRES_WITHIN: Duration = Duration::from_secs(45);
const OVER_WITHIN: Duration = Duration::from_secs(75);
/// The shipped rules are evaluated once a minute.
const RECORDED_WITHIN: Duration = Duration::from_secs(90);

/// Whether the alerts came and went.
///
/// # Errors
/// [`CannotRun`] without Prometheus; when the gateway or Prometheus do not serve.
pub(crate) fn run() -> Result<bool> {
    install()?;
    process::port_must_be_free(PROMETHEUS, "Prometheus")?;
    let folder = workspace::target()?.join("telemetry/prometheus");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("removing what the last run left")?;
    }
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("prometheus.yml"), settings(workspace::root()))?;
    let mut command = Command::new("prometheus");
    command
        .arg(format!(
            "--config.file={}",
            folder.join("prometheus.yml").display()
        ))
        .arg(format!(
            "--storage.tsdb.path={}",
            folder.join("data").display()
        ))
        .arg(format!("--web.listen-address=127.0.0.1:{PROMETHEUS}"));
    let mut prometheus = Server::start("Prometheus", &mut command, &folder.join("log"))?;
    prometheus.wait_until_ready(PROMETHEUS, "/-/ready", Duration::from_secs(30))?;
    let _gateway = rules::demo(GATEWAY, "spike")?;
    let begun = now();
    let scraped = await_that("the gateway is scraped", Duration::from_secs(11), || {
        has("up == 1")
    });
    ensure!(scraped?, "Prometheus does not reach the gateway");
    for alert in ALERTS {
        ensure!(!has(alert)?, "fires before anything happens: {alert}");
    }
    let mut passed = true;
    for (word, limit, fires) in [
        ("fires", FIRES_WITHIN, true),
        ("is over", OVER_WITHIN, false),
    ] {
        for alert in ALERTS {
            let left = limit.saturating_sub(begun.elapsed());
            passed &= await_that(&format!("{word}: {alert}"), left, || {
                Ok(has(alert)? == fires)
            })?;
        }
    }
    let left = RECORDED_WITHIN.saturating_sub(begun.elapsed());
    passed &= await_that("the shipped rules record", left, || has(RECORDED))?;
    Ok(passed)
}

/// Waits until it holds; says whether it did, and when.
fn await_that(what: &str, limit: Duration, holds: impl Fn() -> Result<bool>) -> Result<bool> {
    let begun = now();
    loop {
        if holds()? {
            println!("{:5.1} s  {what}", begun.elapsed().as_secs_f64());
            return Ok(true);
        }
        if begun.elapsed() > limit {
            println!("NOT within {} s: {what}", limit.as_secs());
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(250));
    }
}

/// Whether a query has a result now.
fn has(query: &str) -> Result<bool> {
    let output = Command::new("promtool")
        .args([
            "query",
            "instant",
            &format!("http://127.0.0.1:{PROMETHEUS}"),
            query,
        ])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start promtool")?;
    ensure!(output.status.success(), "promtool cannot ask: {query}");
    Ok(!output.stdout.trim_ascii().is_empty())
}

/// Both sets of rules, and the gateway scraped every second.
fn settings(root: &Path) -> String {
    let rules = |file: &str| root.join(file).display().to_string();
    format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1m}}\n\
         rule_files: [{:?}, {:?}]\n\
         scrape_configs:\n- job_name: evenkeel\n  static_configs: [{{targets: ['127.0.0.1:{GATEWAY}']}}]\n",
        rules("deploy/evenkeel.rules.yml"),
        rules("bench/otel/short.rules.yml"),
    )
}

/// Takes Prometheus from PATH, else from the system's packages.
fn install() -> Result<()> {
    let is_there = || rules::is_there("prometheus") && rules::is_there("promtool");
    if is_there() {
        return Ok(());
    }
    let mut command = Command::new("apt-get");
    command.args(["install", "-y", "--no-install-recommends", "prometheus"]);
    let installed = command.stdout(Stdio::null()).status();
    if installed.is_ok_and(|status| status.success()) && is_there() {
        return Ok(());
    }
    let how =
        "prometheus and promtool, e.g. by `apt-get install --no-install-recommends prometheus`";
    Err(CannotRun(how.to_owned()).into())
}
