//! `evenkeel check`.

use evenkeel::{Settings, SettingsError, report};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The config folder, or one `evenkeel.toml` with everything in it.
    path: PathBuf,
}

/// Prints what is wrong, one problem a line.
pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let (problems, code) = match Settings::load(&args.path) {
        Ok(settings) => (settings.warnings().to_vec(), ExitCode::SUCCESS),
        Err(SettingsError::Problems(problems)) => (problems.0, ExitCode::FAILURE),
        Err(error) => return Err(error.into()),
    };
    writeln!(std::io::stdout(), "{}", report(&problems))?;
    Ok(code)
}
