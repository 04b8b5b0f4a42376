#![doc = include_str!("../README.md")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its terminal"
)]

mod bench;
mod ci;
mod clients;
mod dashboard;
mod deny;
mod deploy;
mod failover16;
mod fidelity;
mod gateway;
mod layers;
mod loom;
mod options;
mod phoenix;
mod process;
mod prometheus;
mod python;
mod qualify;
mod real;
mod rules;
mod soak;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Exit status when a run could not take place because something it needs cannot be had:
/// neither success nor failure (the convention of automake's test driver).
const CANNOT_RUN: u8 = 77;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project tasks of evenkeel")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything the CI asks: tidy, fmt, deny, clippy, docs, tests, each crate alone
    Ci(ci::Args),
    /// Rules over the tree: READMEs, descriptions, lints, links, and who may depend on whom
    Tidy,
    /// cargo-deny, pinned; `cargo xtask deny advisories` needs the network
    Deny(deny::Args),
    /// Loom models of the lock-free paths: every crate with a src/proofs.rs
    Loom(loom::Args),
    /// Provider faults against a fresh gateway (bench/failover16); exit 1 when the policy's gate fails
    Failover16(failover16::Args),
    /// Load against running gateways
    #[command(subcommand)]
    Bench(bench::Bench),
    /// The official SDKs against the chaos upstream, every dialect; exit 77 when they can't be installed
    Clients,
    /// Two real models behind the gateway, the official `OpenAI` SDK in front; exit 77 when they can't be installed
    Real(real::Args),
    /// An agent's own traces in Phoenix, with what the gateway decided; exit 77 when it can't be installed
    Phoenix(phoenix::Args),
    /// Hundreds of streams for minutes while faults change every second; exit 1 when anything leaks
    Soak(soak::Args),
    /// Alert rules and dashboard: every metric they ask for exists, and promtool takes them
    Rules,
    /// A real Prometheus scrapes a gateway whose primary gets slow: the alert fires and ends; exit 77 as above
    Prometheus,
    /// Measures candidates as `evenkeel qualify` does; with --shown ones of known quality
    Qualify(qualify::Args),
    /// A real model asked for JSON in two ways, and a history too long for it; exit 77 as above
    Fidelity(fidelity::Args),
}

/// A run that could not take place; says what was needed.
#[derive(Debug)]
struct CannotRun(String);

impl std::fmt::Display for CannotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot run here: {}", self.0)
    }
}

impl std::error::Error for CannotRun {}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Ci(args) => ci::run(&args),
        Task::Tidy => tidy::run(),
        Task::Deny(args) => deny::run(&args.checks),
        Task::Loom(args) => loom::run(&args),
        Task::Failover16(args) => failover16::run(args),
        Task::Bench(bench) => bench::run(bench),
        Task::Clients => clients::run(),
        Task::Real(args) => real::run(&args),
        Task::Phoenix(args) => phoenix::run(&args),
        Task::Soak(args) => soak::run(&args),
        Task::Rules => rules::run(),
        Task::Prometheus => prometheus::run(),
        Task::Fidelity(args) => fidelity::run(&args),
        Task::Qualify(args) => return qualify::run(&args).unwrap_or_else(|error| told(&error)),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => told(&error),
    }
}

/// The exit status of a task that went wrong, which it tells.
fn told(error: &anyhow::Error) -> ExitCode {
    eprintln!("xtask: {error:#}");
    if error.downcast_ref::<CannotRun>().is_some() {
        ExitCode::from(CANNOT_RUN)
    } else {
        ExitCode::FAILURE
    }
}
