//! `cargo xtask phoenix`: traces in a real back end. An agent in Python asks the gateway, whose
//! primary is slow; what moved its role is found inside the agent's own trace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::{CannotRun, gateway, process, workspace};

const GATEWAY_PORT: u16 = 18_075;
const PHOENIX: &str = "http://127.0.0.1:16006";
const ROLE: &str = "planner";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    binary: gateway::Binary,
    /// Leave Phoenix running, to look at the traces on <http://127.0.0.1:16006>
    #[arg(long)]
    keep: bool,
}

/// Runs it all; whether Phoenix has what it has to have.
///
/// # Errors
/// [`CannotRun`] when Phoenix can't be installed; others when something cannot be built or
/// started.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let binary = args.binary.ready()?;
    phoenix("start")?;
    let passed = traced(&binary);
    if !args.keep {
        phoenix("stop")?;
    }
    passed
}

fn traced(binary: &Path) -> Result<bool> {
    let folder = workspace::target()?.join("phoenix");
    let config = folder.join("config");
    // One project a run, so that nothing of the last one is found.
    let project = format!("evenkeel-{}", std::process::id());
    write_config(&config, &project)?;
    let log = folder.join("gateway.log");
    let server = gateway::serve(binary, &config, GATEWAY_PORT, &log)?;
    let trace = agent(&project)?;
    // Ended in good order it sends what waits.
    drop(server);
    let request = [
        "evenkeel.request",
        "--event",
        "model_substitution",
        "--attr",
        "agent.role=planner",
        "--parent",
        "POST /v1/chat/completions",
    ];
    let checks: [&[&str]; 4] = [
        &request,
        &["POST /v1/chat/completions", "--parent", "agent.step"],
        &[
            "chat slow",
            "--parent",
            "evenkeel.request",
            "--attr",
            "evenkeel.attempt.outcome=abandoned",
        ],
        &[
            "chat quick",
            "--parent",
            "evenkeel.request",
            "--attr",
            "evenkeel.attempt.outcome=ok",
        ],
    ];
    let mut passed = true;
    for check in checks {
        let mut command = Command::new("python3");
        command
            .arg(script("assert_span.py"))
            .args(check)
            .args(["--trace", &trace, "--project", &project])
            .args(["--base", PHOENIX, "--wait", "20"]);
        passed &= process::succeeds(&mut command)?;
    }
    Ok(passed)
}

fn script(name: &str) -> PathBuf {
    workspace::root().join("bench/otel").join(name)
}

fn phoenix(act: &str) -> Result<()> {
    println!("==> phoenix.sh {act}");
    let mut command = Command::new("bash");
    command.arg(script("phoenix.sh")).arg(act);
    if process::succeeds(&mut command)? {
        return Ok(());
    }
    let needed = "Phoenix could not be installed or started (python3 with venv and the Python registry are needed)";
    Err(CannotRun(needed.to_owned()).into())
}

/// Runs the agent; the id of its trace.
fn agent(project: &str) -> Result<String> {
    println!("==> agent.py");
    let mut command = Command::new(python()?);
    command
        .arg(script("agent.py"))
        .args(["--base", &format!("http://127.0.0.1:{GATEWAY_PORT}")])
        .args(["--role", ROLE, "--collector", PHOENIX, "--project", project]);
    let output = command.output().context("cannot start the agent")?;
    let said = String::from_utf8_lossy(&output.stderr);
    print!("{said}");
    ensure!(output.status.success(), "the agent failed");
    let trace = String::from_utf8(output.stdout).context("the agent printed no text")?;
    Ok(trace.trim().to_owned())
}

/// The Python that Phoenix was installed with.
fn python() -> Result<PathBuf> {
    #[expect(
        clippy::disallowed_methods,
        reason = "where phoenix.sh installs is the environment's to say"
    )]
    let folder = std::env::var("EVENKEEL_REAL_DIR").map(PathBuf::from);
    let folder = match folder {
        Ok(folder) => folder,
        Err(_) => home()?.join(".cache/evenkeel-real"),
    };
    Ok(folder.join("phoenix/bin/python"))
}

fn home() -> Result<PathBuf> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the home folder is the environment's to say"
    )]
    let home = std::env::var("HOME").context("HOME is not set")?;
    Ok(PathBuf::from(home))
}

fn write_config(folder: &Path, project: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let text = CONFIG
        .replace("{port}", &GATEWAY_PORT.to_string())
        .replace("{phoenix}", PHOENIX)
        .replace("{project}", project)
        .replace("{role}", ROLE);
    let path = folder.join("evenkeel.toml");
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

/// A primary that is three times as slow as its role allows.
const CONFIG: &str = r#"version = "phoenix"

[server]
listen = "127.0.0.1:{port}"

[telemetry]
endpoint = "{phoenix}"
# Phoenix takes traces alone.
metrics = false
resource = { "openinference.project.name" = "{project}" }

[providers.north]
dialect = "simulated"
[providers.north.models."slow"]
latency = { median_ms = 1500, p99_ms = 1600 }

[providers.south]
dialect = "simulated"
[providers.south.models."quick"]
latency = { median_ms = 60, p99_ms = 90 }

[agent_roles.{role}]
p95_threshold_ms = 500
p99_threshold_ms = 1000
evaluation_window_seconds = 60
allow_unqualified = true
primary = "north/slow"
fallbacks = [{ model = "south/quick", rank = 1, quality_score = 0.95 }]
"#;
