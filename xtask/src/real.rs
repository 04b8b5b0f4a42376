//! `cargo xtask real`: two real models behind the gateway, the official SDK in front of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::process::{self, Server};
use crate::{CannotRun, gateway, workspace};

pub(crate) const PRIMARY: Model = Model {
    name: "smollm2-135m",
    port: 18080,
};
pub(crate) const FALLBACK: Model = Model {
    name: "gemma3-270m",
    port: 18081,
};
const GATEWAY_PORT: u16 = 18070;

/// The role that the clients ask for.
const ROLE: &str = "chat";

/// Checks of `smoke_openai.py` that speak of what the gateway serves. Left out: those about the
/// SDK itself (its own retries), the Responses API, and two whose right answer differs from a bare
/// model's: JSON cut at `max_tokens` is no success here, and a prompt that is too long for every
/// rung names all of them.
const SMOKE: &str =
    "models,chat,stream,tools,tools_stream,tool_roundtrip,json_schema,parse,bad_request";

/// Loading a model took 4 s on an idle machine.
const MODEL_READY: Duration = Duration::from_secs(90);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    binary: gateway::Binary,
    /// Seconds of each phase
    #[arg(long, default_value_t = 15)]
    phase_seconds: u32,
    /// Also write the summary here
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A model of real/llm.
pub(crate) struct Model {
    name: &'static str,
    port: u16,
}

impl Model {
    /// Its id in a roster.
    pub(crate) fn id(&self) -> String {
        format!("{}/{}", provider_of(self), self.name)
    }
}

/// Runs it all; whether every call was answered, by whom it had to be.
///
/// # Errors
/// [`CannotRun`] when models or clients can't be installed; others when something cannot be
/// built, started or read.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let serve_lines = setup("real/llm/setup.sh")?;
    let clients = setup("real/clients/setup.sh")?;
    let python = clients.trim();
    let binary = args.binary.ready()?;
    let folder = workspace::target()?.join("real");
    let primary = serve(&PRIMARY, &serve_lines, &folder)?;
    let _fallback = serve(&FALLBACK, &serve_lines, &folder)?;
    let config = folder.join("config");
    write_config(&config)?;
    let _gateway = gateway::serve(&binary, &config, GATEWAY_PORT, &folder.join("gateway.log"))?;
    let base = format!("http://127.0.0.1:{GATEWAY_PORT}/v1");

    println!("==> smoke_openai.py");
    let mut smoke = client(python, "smoke_openai.py");
    smoke.args([
        "--base",
        &base,
        "--model",
        ROLE,
        "--gateway",
        "--only",
        SMOKE,
    ]);
    let smoke_passed = process::succeeds(&mut smoke)?;

    println!("==> keel_openai.py");
    let mut keel = client(python, "keel_openai.py");
    keel.args(["--base", &base, "--role", ROLE])
        .args(["--primary", PRIMARY.name, "--fallback", FALLBACK.name])
        .args(["--primary-pid", &primary.pid().to_string()])
        .args(["--phase-seconds", &args.phase_seconds.to_string()]);
    if let Some(path) = &args.json {
        keel.arg("--json").arg(path);
    }
    let keel_passed = process::succeeds_leashed(&mut keel)?;
    Ok(smoke_passed && keel_passed)
}

/// Runs a setup script; what it printed.
///
/// # Errors
/// [`CannotRun`] when it fails.
pub(crate) fn setup(script: &str) -> Result<String> {
    println!("==> {script}");
    let output = Command::new("bash")
        .arg(workspace::root().join(script))
        .output()
        .context("cannot start bash")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(CannotRun(format!("{script} failed ({}): {said}", output.status)).into());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{script} printed no text"))
}

/// Starts a model by the command that its setup script printed.
fn serve(model: &Model, serve_lines: &str, folder: &Path) -> Result<Server> {
    serve_with(model, serve_lines, &[], folder)
}

/// Starts both models by the commands that their setup script printed.
pub(crate) fn serve_both(serve_lines: &str, folder: &Path) -> Result<[Server; 2]> {
    Ok([
        serve(&PRIMARY, serve_lines, folder)?,
        serve(&FALLBACK, serve_lines, folder)?,
    ])
}

/// Starts the smaller model on its port, with more arguments than its setup script printed.
pub(crate) fn serve_small(serve_lines: &str, more: &[&str], folder: &Path) -> Result<Server> {
    serve_with(&PRIMARY, serve_lines, more, folder)
}

fn serve_with(model: &Model, serve_lines: &str, more: &[&str], folder: &Path) -> Result<Server> {
    process::port_must_be_free(model.port, model.name)?;
    let words = serve_words(model, serve_lines)?;
    let mut command = Command::new(&words[0]);
    // Of an argument that is there twice the later holds.
    command.args(&words[1..]).args(more);
    let log = folder.join(format!("{}.log", model.name));
    let mut server = Server::start(model.name, &mut command, &log)?;
    server.wait_until_ready(model.port, "/health", MODEL_READY)?;
    Ok(server)
}

fn serve_words(model: &Model, serve_lines: &str) -> Result<Vec<String>> {
    serve_lines
        .lines()
        .map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .find(|words| words.len() > 1 && words.iter().any(|word| word == model.name))
        .with_context(|| format!("real/llm/setup.sh printed no command for {}", model.name))
}

/// A script of real/clients, under the Python that its setup made.
pub(crate) fn client(python: &str, script: &str) -> Command {
    let mut command = Command::new(python);
    command.arg(workspace::root().join("real/clients").join(script));
    command
}

/// One role over the two models.
fn write_config(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let files = [
        ("evenkeel.toml", evenkeel_toml()),
        ("policy.toml", POLICY.replace("{role}", ROLE)),
        ("roster.toml", roster_toml()),
        ("models.toml", models_toml()),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn evenkeel_toml() -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:{GATEWAY_PORT}\"\n\n\
         # A model that was killed or stopped is asked again after a few seconds.\n\
         [breaker]\nopen_ms = 5000\ngrowth = 1.0\n\n{}",
        providers_toml()
    )
}

/// Both models' servers.
pub(crate) fn providers_toml() -> String {
    let provider = |model: Model| {
        format!(
            "[providers.{name}]\ndialect = \"openai\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\n\n",
            name = provider_of(&model),
            port = model.port
        )
    };
    [PRIMARY, FALLBACK].map(provider).concat()
}

/// A few times what the models take on a busy machine (first token 0.3 to 1.1 s), and still short
/// enough that a stopped primary is left within seconds. `full`: a model killed in mid-answer
/// must not show.
const POLICY: &str = r#"[agent_roles.{role}]
p95_threshold_ms = 3000
p99_threshold_ms = 5000
evaluation_window_seconds = 15
signal = "first_token"
commit = "full"
allow_unqualified = true
first_token_ms = 10000
stall_ms = 3000
deadline_ms = 60000
restore = { probe_interval_ms = 2000, restore_after = 2, canary = [], hold_ms = 5000, growth = 1.0 }
"#;

fn roster_toml() -> String {
    format!(
        "[agent_roles.{ROLE}]\nprimary = \"{}/{}\"\n\n\
         [[agent_roles.{ROLE}.fallbacks]]\nmodel = \"{}/{}\"\nrank = 1\nmedian_latency_ms = 600\n",
        provider_of(&PRIMARY),
        PRIMARY.name,
        provider_of(&FALLBACK),
        FALLBACK.name
    )
}

/// Each slot of the server has half of its 4,096 tokens.
pub(crate) fn models_toml() -> String {
    [PRIMARY, FALLBACK]
        .map(|model| {
            format!(
                "[[models]]\nid = \"{}\"\nprovider = \"{}\"\ncontext_window = 2048\n\n",
                model.name,
                provider_of(&model)
            )
        })
        .concat()
}

/// Each model has a server, and so a provider, of its own.
fn provider_of(model: &Model) -> &'static str {
    model.name.split('-').next().unwrap_or(model.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_each_model_is_found_in_what_setup_prints() {
        let printed = "READY_TO_SERVE\n\
                       /v/python /r/serve.py --model /m/smollm2-135m.gguf --port 18080 --alias smollm2-135m\n\
                       /v/python /r/serve.py --model /m/gemma3-270m.gguf --port 18081 --alias gemma3-270m\n";
        let words = serve_words(&FALLBACK, printed).unwrap();
        assert_eq!(words[0], "/v/python");
        assert_eq!(words[5], "18081");
        assert!(serve_words(&FALLBACK, "READY_TO_SERVE\n").is_err());
    }
}
