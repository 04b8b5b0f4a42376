//! `cargo xtask deny`: licences, bans and sources of every dependency.

use anyhow::Result;

use crate::{process, python, workspace};

/// What runs everywhere. `advisories` needs a database from the network: the workflow asks for it.
const OFFLINE_CHECKS: &[&str] = &["licenses", "bans", "sources"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Checks of cargo-deny; licenses, bans and sources when none is named
    pub(crate) checks: Vec<String>,
}

/// Runs the checks; whether they passed.
///
/// # Errors
/// When cargo-deny can't be had.
pub(crate) fn run(checks: &[String]) -> Result<bool> {
    let programs = python::with(python::CARGO_DENY)?;
    let mut command = std::process::Command::new(programs.join("cargo-deny"));
    command
        .current_dir(workspace::root())
        .args(["--locked", "check", "--hide-inclusion-graph"]);
    if checks.is_empty() {
        command.args(OFFLINE_CHECKS);
    } else {
        command.args(checks);
    }
    process::succeeds(&mut command)
}
