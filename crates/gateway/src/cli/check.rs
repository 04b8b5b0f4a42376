//! `evenkeel check`.

use super::eol::{self, EolArgs};
use evenkeel::roster::{CandidatesByRole, Severity};
use evenkeel::{Problem, Problems, Settings, SettingsError, report};
use evenkeel_qualify::Staleness;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The config folder, or one `evenkeel.toml` with everything in it.
    path: PathBuf,
    #[command(flatten)]
    eol: EolArgs,
}

/// Prints what is wrong, one problem a line.
pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    // Whether a roster may be served is not asked of a list of what ends, and when.
    let loaded = if args.eol.eol {
        Settings::load_to_measure(&args.path, &CandidatesByRole::new())
    } else {
        Settings::load(&args.path)
    };
    let settings = match loaded {
        Ok(settings) => settings,
        Err(SettingsError::Problems(problems)) => return refuse(args, &problems),
        Err(error) => return Err(error.into()),
    };
    if args.eol.eol {
        return super::runtime()?.block_on(eol::run(&args.eol, &settings));
    }
    let stale = out_of_date(&settings, &args.path);
    let code = if stale.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    let mut problems = settings.warnings().to_vec();
    problems.extend(stale);
    writeln!(std::io::stdout(), "{}", report(&problems))?;
    Ok(code)
}

fn refuse(args: &CheckArgs, problems: &Problems) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    if args.eol.json {
        let problems = problems.0.iter().map(ToString::to_string);
        let problems: Vec<Value> = problems.map(Value::from).collect();
        let told = json!({ "status": "error", "problems": problems });
        writeln!(out, "{told:#}")?;
    } else {
        writeln!(out, "{}", report(&problems.0))?;
    }
    Ok(ExitCode::FAILURE)
}

/// Scores that may not hold any more: the configuration can be served, and should be
/// measured anew.
pub(super) fn out_of_date(settings: &Settings, path: &Path) -> Vec<Problem> {
    let found = Staleness::with_datasets(settings, settings.as_of());
    let stale = found.stale.iter().map(ToString::to_string);
    let unreadable = found.unreadable.iter().map(ToString::to_string);
    let problem = |message| Problem {
        file: path.display().to_string(),
        line: 0,
        key: String::new(),
        message,
        suggestion: None,
        severity: Severity::Error,
    };
    stale.chain(unreadable).map(problem).collect()
}
