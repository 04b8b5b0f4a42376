//! `cargo xtask qualify`: the command of the same name of the `evenkeel` binary, and what it
//! makes of models whose worth is known.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::process::{self, Server};
use crate::real::{self, setup};
use crate::{gateway, workspace};

const GRADED_PORT: u16 = 18082;

/// Naive Bayes classifiers by the number of rows a label that they were trained on.
const GRADED: [&str; 8] = [
    "nb-all", "nb-40", "nb-20", "nb-10", "nb-7", "nb-4", "nb-2", "nb-1",
];

/// The golden files of the project, by role.
const GOLDEN: [(&str, &str); 6] = [
    ("classify", "classify-banking8"),
    ("classify77", "classify-banking77"),
    ("extract", "extract-restaurant"),
    ("qa", "qa-gsm8k"),
    ("tools", "tools-bfcl-simple"),
    ("choice", "tools-bfcl-multiple"),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    binary: gateway::Binary,
    /// Classifiers of known quality behind the gate at 0.85: three pass, three fail, of one there is
    /// not enough data (needs python3)
    #[arg(long, conflicts_with = "models")]
    shown: bool,
    /// Two real language models, the first 50 items of each golden file: they fail, and the report
    /// says why; exit 77 when they can't be installed
    #[arg(long)]
    models: bool,
    /// What `evenkeel qualify` is to do; `-- --help` lists it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Runs it; ends as the command ends.
///
/// # Errors
/// When the binary does not build, or what is asked cannot be started.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let binary = args.binary.ready()?;
    if args.shown {
        return shown(&binary, &args.rest);
    }
    if args.models {
        return models(&binary, &args.rest);
    }
    let status = Command::new(&binary)
        .arg("qualify")
        .args(&args.rest)
        .status()
        .with_context(|| format!("cannot start {}", binary.display()))?;
    ended(status)
}

fn ended(status: std::process::ExitStatus) -> Result<ExitCode> {
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) => Ok(ExitCode::from(code)),
        None => bail!("evenkeel qualify was ended by a signal"),
    }
}

fn shown(binary: &Path, rest: &[String]) -> Result<ExitCode> {
    let folder = workspace::target()?.join("qualify");
    let tools = workspace::root().join("fixtures/golden/tools");
    process::port_must_be_free(GRADED_PORT, "graded.py")?;
    let mut command = Command::new("python3");
    command
        .arg(tools.join("graded.py"))
        .args(["--port", &GRADED_PORT.to_string()]);
    let mut graded = Server::start("graded.py", &mut command, &folder.join("graded.log"))?;
    graded.wait_until_ready(GRADED_PORT, "/v1/models", Duration::from_secs(30))?;
    let config = folder.join("shown");
    let text = format!(
        "[providers.graded]\ndialect = \"openai\"\nbase_url = \"http://127.0.0.1:{GRADED_PORT}/v1\"\n\
         {}[agent_roles.classify]\n{LIMITS}allow_same_provider = true\n\
         primary = \"graded/nb-all\"\nfallbacks = []\n",
        GRADED.map(|name| known(name, "graded")).concat()
    );
    write_config(&config, &text)?;
    let candidates = GRADED[1..].iter().map(|name| format!("graded/{name}"));
    let candidates: Vec<String> = candidates.collect();
    let golden = golden("classify-banking8");
    let status = Command::new(binary)
        .arg("qualify")
        .arg("--config")
        .arg(&config)
        .args(["--role", "classify", "--min-quality-threshold", "0.85"])
        .args(["--candidates", &candidates.join(",")])
        .arg("--golden-dataset")
        .arg(golden)
        .arg("--report")
        .arg(folder.join("shown-report"))
        .args(rest)
        .status()
        .context("cannot start the binary")?;
    ended(status)
}

fn models(binary: &Path, rest: &[String]) -> Result<ExitCode> {
    let lines = setup("real/llm/setup.sh")?;
    let folder = workspace::target()?.join("qualify");
    let _models = real::serve_both(&lines, &folder)?;
    let config = folder.join("models");
    fs::create_dir_all(&config).with_context(|| format!("making {}", config.display()))?;
    let mut roles = String::new();
    for (role, file) in GOLDEN {
        let dataset = config.join(format!("{file}.jsonl"));
        fs::write(&dataset, capped(&golden(file))?)
            .with_context(|| format!("writing {}", dataset.display()))?;
        write!(
            roles,
            "[agent_roles.{role}]\n{LIMITS}golden_dataset = \"{file}.jsonl\"\n\
             primary = \"{}\"\nfallbacks = [{{ model = \"{}\" }}]\n",
            real::PRIMARY.id(),
            real::FALLBACK.id()
        )?;
    }
    let text = format!("{}{}{roles}", real::providers_toml(), real::models_toml());
    write_config(&config, &text)?;
    // One at a time for each: they have a thread each, and the machine is shared.
    let status = Command::new(binary)
        .arg("qualify")
        .arg("--config")
        .arg(&config)
        .args(["--all-roles", "--concurrency", "1"])
        .arg("--report")
        .arg(folder.join("models-report"))
        .args(rest)
        .status()
        .context("cannot start the binary")?;
    ended(status)
}

/// The role's limits: far above what the models take, so that quality decides.
const LIMITS: &str =
    "p95_threshold_ms = 20000\np99_threshold_ms = 40000\nevaluation_window_seconds = 60\n";

/// Items of each golden file that language models are asked.
const ITEMS: usize = 50;

/// The first items of a golden file for models that may talk without end: no role, and no more
/// tokens than a right answer needs.
fn capped(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let mut lines = String::new();
    for line in text.lines().take(ITEMS) {
        let mut item: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line)
            .with_context(|| format!("{}: a line is no item", path.display()))?;
        item.remove("role");
        let is_sum = item.get("check").is_some_and(|check| check == "number");
        item.insert(
            "max_tokens".to_owned(),
            if is_sum { 300 } else { 120 }.into(),
        );
        lines += &serde_json::to_string(&item)?;
        lines.push('\n');
    }
    Ok(lines)
}

fn golden(name: &str) -> PathBuf {
    workspace::root().join(format!("fixtures/golden/{name}.jsonl"))
}

/// A model that the registry knows, so that nothing is told of what is not known.
fn known(model: &str, provider: &str) -> String {
    format!("[[models]]\nid = \"{model}\"\nprovider = \"{provider}\"\ncontext_window = 4096\n")
}

fn write_config(folder: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let path = folder.join("evenkeel.toml");
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_talk_without_end_are_held_to_what_an_answer_needs() {
        let lines = capped(&golden("qa-gsm8k")).unwrap();
        assert_eq!(lines.lines().count(), ITEMS);
        let item: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert_eq!(item["max_tokens"], 300);
        assert!(item.get("role").is_none() && item.get("expected").is_some());
    }
}
