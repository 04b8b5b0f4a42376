//! `cargo xtask fidelity`: a real model behind the gateway, asked for JSON in two ways and for an
//! answer to a history that is far too long for it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::process;
use crate::real::{client, serve_small, setup};
use crate::{gateway, workspace};

const MODEL_PORT: u16 = 18080;
const GATEWAY_PORT: u16 = 18070;
/// A port of loopback where nobody listens: the large model that is down.
const GONE_PORT: u16 = 18079;
/// Tokens of the one slot that the model serves.
const WINDOW: &str = "8192";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    binary: gateway::Binary,
    /// Questions of each kind
    #[arg(long, default_value_t = 50)]
    questions: u32,
    /// Also write the summary here
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs it; whether nothing wrong was passed on, and the long history was answered.
///
/// # Errors
/// [`CannotRun`](crate::CannotRun) when model or client can't be installed; others when something
/// cannot be built, started or read.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let serve_lines = setup("real/llm/setup.sh")?;
    let clients = setup("real/clients/setup.sh")?;
    let binary = args.binary.ready()?;
    let folder = workspace::target()?.join("fidelity");
    let more = ["--ctx", WINDOW, "--parallel", "1"];
    let _model = serve_small(&serve_lines, &more, &folder)?;
    let config = folder.join("config");
    write_config(&config)?;
    let _gateway = gateway::serve(&binary, &config, GATEWAY_PORT, &folder.join("gateway.log"))?;
    println!("==> keel_fidelity.py");
    let mut script = client(clients.trim(), "keel_fidelity.py");
    script
        .args(["--base", &format!("http://127.0.0.1:{GATEWAY_PORT}/v1")])
        .args([
            "--native",
            "native",
            "--prompted",
            "prompted",
            "--long",
            "long",
        ])
        .args(["--questions", &args.questions.to_string()]);
    if let Some(path) = &args.json {
        script.arg("--json").arg(path);
    }
    process::succeeds_leashed(&mut script)
}

fn write_config(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    for (name, text) in [
        ("evenkeel.toml", providers()),
        ("policy.toml", POLICY.to_owned()),
        ("roster.toml", ROSTER.to_owned()),
        ("models.toml", models()),
    ] {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// One server under a name for each way it is asked, since what a model supports is its entry's to
/// say. Invalid answers are the measure here and must not open a breaker.
fn providers() -> String {
    let provider = |name: &str, port: u16| {
        format!(
            "[providers.{name}]\ndialect = \"openai\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\n\n"
        )
    };
    format!(
        "[server]\nlisten = \"127.0.0.1:{GATEWAY_PORT}\"\n\n\
         [breaker]\nfailure_threshold = 1000\nfailure_rate = 1.0\nmin_calls = 1000\n\n{}{}{}{}",
        provider("native", MODEL_PORT),
        provider("prompted", MODEL_PORT),
        provider("small", MODEL_PORT),
        provider("gone", GONE_PORT),
    )
}

/// Far above what the model takes: nothing is to be moved for slowness here.
const POLICY: &str = "\
[defaults]
p95_threshold_ms = 120000
p99_threshold_ms = 180000
evaluation_window_seconds = 60
allow_unqualified = true
commit = \"full\"
deadline_ms = 300000
first_token_ms = 250000
stall_ms = 60000
retry = { semantic = 0, malformed = 0 }

[agent_roles.native]
[agent_roles.prompted]
[agent_roles.long]
";

const ROSTER: &str = "\
[agent_roles.native]
primary = \"native/smollm2-135m\"
fallbacks = []

[agent_roles.prompted]
primary = \"prompted/smollm2-135m\"
fallbacks = []

[agent_roles.long]
primary = \"gone/large\"

[[agent_roles.long.fallbacks]]
model = \"small/smollm2-135m\"
rank = 1
";

fn models() -> String {
    let model = |id: &str, window: &str, more: &str| {
        format!("[[models]]\nid = \"{id}\"\ncontext_window = {window}\n{more}\n")
    };
    [
        model(
            "native/smollm2-135m",
            WINDOW,
            "schema_dialect = \"llamacpp\"\n",
        ),
        model(
            "prompted/smollm2-135m",
            WINDOW,
            "schema_dialect = \"none\"\n",
        ),
        model("small/smollm2-135m", WINDOW, ""),
        model("gone/large", "128000", ""),
    ]
    .concat()
}
