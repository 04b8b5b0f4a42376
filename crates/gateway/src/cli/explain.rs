//! `evenkeel explain`.

use super::trial;
use anyhow::bail;
use evenkeel::CallContext;
use evenkeel::Settings;
use evenkeel::core::Complexity;
use evenkeel_router::CallErrorKind;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The config folder, or one `evenkeel.toml` with everything in it.
    #[arg(long, value_name = "PATH")]
    config: PathBuf,
    /// The role; all of them without it.
    #[arg(long)]
    role: Option<String>,
    /// The kind of task, in the words of the role's policy.
    #[arg(long, requires = "role")]
    task: Option<String>,
    /// How hard the request is.
    #[arg(long, value_parser = complexity, value_name = "low|medium|high")]
    complexity: Option<Complexity>,
    /// The least capability of the model that may answer, 0 to 1.
    #[arg(long, value_name = "SHARE")]
    min_capability: Option<f64>,
}

fn complexity(word: &str) -> Result<Complexity, String> {
    let expected = || Complexity::ALL.map(Complexity::as_str).join(", ");
    Complexity::named(word).ok_or_else(|| format!("expected one of {}", expected()))
}

/// Prints where a request would go in a gateway that starts now.
pub(crate) async fn run(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.config)?;
    let router = trial::router(&settings)?;
    let roles: Vec<String> = match args.role {
        Some(role) => vec![role],
        None => router.roles(),
    };
    let context = CallContext {
        task: args.task.map(Into::into),
        complexity: args.complexity,
        min_capability: args.min_capability,
        ..CallContext::default()
    };
    let mut out = std::io::stdout();
    for role in roles {
        match router.explain_call(&role, &context) {
            Ok(explanation) => write!(out, "{explanation}")?,
            Err(error) if matches!(error.kind, CallErrorKind::UnknownRole(_)) => {
                bail!("{error}; the roles are {}", router.roles().join(", "));
            }
            Err(error) => return Err(error.into()),
        }
        if let Some(task) = &context.task
            && let known = router.tasks(&role)
            && !known.iter().any(|known| **known == **task)
        {
            let known = if known.is_empty() {
                "it has none".to_owned()
            } else {
                format!("it has {}", known.join(", "))
            };
            writeln!(
                out,
                "  the policy has no task `{task}` ({known}): it changes nothing"
            )?;
        }
    }
    router.shutdown().await;
    Ok(ExitCode::SUCCESS)
}
