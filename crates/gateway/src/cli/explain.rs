//! `evenkeel explain`.

use anyhow::bail;
use evenkeel::Settings;
use evenkeel::core::NoObserver;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The config folder, or one `evenkeel.toml` with everything in it.
    #[arg(long, value_name = "PATH")]
    config: PathBuf,
    /// The role; all of them without it.
    #[arg(long)]
    role: Option<String>,
}

/// Prints where a request would go in a gateway that starts now.
pub(crate) async fn run(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.config)?;
    let router = settings.router(Arc::new(NoObserver))?;
    let roles: Vec<String> = match args.role {
        Some(role) => vec![role],
        None => router.roles().map(str::to_owned).collect(),
    };
    let mut out = std::io::stdout();
    for role in roles {
        let Some(explanation) = router.explain(&role) else {
            let known: Vec<&str> = router.roles().collect();
            bail!(
                "no role is named `{role}`; the roles are {}",
                known.join(", ")
            );
        };
        write!(out, "{explanation}")?;
    }
    router.shutdown().await;
    Ok(ExitCode::SUCCESS)
}
