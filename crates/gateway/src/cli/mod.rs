//! The command line. Usage errors and files that cannot be read by who checks them end with 2,
//! everything else that fails with 1.

mod audit;
mod check;
mod eol;
mod explain;
mod hearers;
mod lines;
mod qualify;
mod serve;
mod signals;
mod status;
mod trial;

use crate::demo;
use anyhow::Context as _;
use clap::{Parser, Subcommand};
use std::process::ExitCode;
use tokio::runtime::{Builder, Runtime};

/// Keeps LLM agents on an even keel: model fallback and graceful degradation.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows a slow primary being replaced and restored, on simulated models.
    Demo(demo::DemoArgs),
    /// Serves the OpenAI API in front of the configured models.
    Serve(serve::ServeArgs),
    /// Says what is wrong with a configuration; ends with 1 if it cannot be used, with 2 if it
    /// cannot be read.
    Check(check::CheckArgs),
    /// Says which model a request of a role would go to, and why no other.
    Explain(explain::ExplainArgs),
    /// Verifies an audit log, or says who answered what, when and why.
    Audit(audit::AuditArgs),
    /// Measures the candidates of a role against a golden dataset, and says which may be fallbacks.
    Qualify(Box<qualify::QualifyArgs>),
    /// Says how a running gateway is: who serves each role, and how well.
    Status(status::StatusArgs),
}

impl Cli {
    /// Does what the arguments ask for.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Demo(args) => runtime()?.block_on(Box::pin(demo::run(args))),
            Command::Serve(args) => runtime()?.block_on(Box::pin(serve::run(args))),
            Command::Check(args) => check::run(&args),
            Command::Explain(args) => runtime()?.block_on(explain::run(args)),
            Command::Audit(args) => audit::run(args),
            Command::Qualify(args) => runtime()?.block_on(Box::pin(qualify::run(*args))),
            Command::Status(args) => runtime()?.block_on(status::run(args)),
        }
    }
}

/// An error with what caused it; a cause that the error itself names is not said twice.
pub(crate) fn words(error: &anyhow::Error) -> String {
    let mut words = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !words.contains(&cause) {
            words += ": ";
            words += &cause;
        }
    }
    words
}

fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(evenkeel_gateway::worker_threads())
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

#[cfg(test)]
mod tests {
    use super::words;
    use anyhow::anyhow;

    #[test]
    fn a_cause_that_the_error_names_is_said_once() {
        let named = anyhow!("no space").context("cannot write x: no space");
        assert_eq!(words(&named), "cannot write x: no space");
        let unnamed = anyhow!("no space").context("cannot write x");
        assert_eq!(words(&unnamed), "cannot write x: no space");
    }
}
