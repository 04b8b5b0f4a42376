//! `evenkeel check`.

use super::eol::{self, EolArgs};
use super::trial;
use evenkeel::roster::{CandidatesByRole, Severity};
use evenkeel::{Problem, Settings, SettingsError, report};
use evenkeel_qualify::Staleness;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The files cannot be read.
const UNREADABLE: u8 = 2;

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
        Err(error) => return refuse(args, &error),
    };
    if args.eol.eol {
        return super::runtime()?.block_on(eol::run(&args.eol, &settings));
    }
    let faults = super::runtime()?.block_on(async { trial::faults(&settings) });
    let mut problems = settings.warnings().to_vec();
    problems.extend(
        faults
            .into_iter()
            .map(|fault| of_all(&args.path, fault, Severity::Error)),
    );
    problems.extend(out_of_date(&settings, &args.path));
    let is_error = |problem: &Problem| problem.severity == Severity::Error;
    let code = if problems.iter().any(is_error) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    };
    writeln!(std::io::stdout(), "{}", report(&problems))?;
    Ok(code)
}

/// Says what is wrong with the files. That they cannot be read at all ends with 2, and for
/// a list of what ends so does that they contradict themselves: 1 says there that a model
/// is at its end.
fn refuse(args: &CheckArgs, error: &SettingsError) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    let (problems, is_unreadable) = match error {
        SettingsError::Problems(problems) => {
            let all = problems.0.iter().map(ToString::to_string);
            (all.map(Value::from).collect::<Vec<_>>(), false)
        }
        other => (vec![Value::from(other.to_string())], true),
    };
    if args.eol.json {
        let told = json!({ "status": "error", "problems": problems });
        writeln!(out, "{told:#}")?;
    } else if let SettingsError::Problems(problems) = error {
        writeln!(out, "{}", report(&problems.0))?;
    } else {
        writeln!(std::io::stderr(), "evenkeel check: {error}")?;
    }
    Ok(if is_unreadable || args.eol.eol {
        ExitCode::from(UNREADABLE)
    } else {
        ExitCode::FAILURE
    })
}

/// Scores that may not hold any more: the configuration can be served, and should be
/// measured anew.
pub(super) fn out_of_date(settings: &Settings, path: &Path) -> Vec<Problem> {
    let found = Staleness::with_datasets(settings, settings.as_of());
    let stale = found.stale.iter().map(ToString::to_string);
    let unreadable = found.unreadable.iter().map(ToString::to_string);
    let errors = stale
        .chain(unreadable)
        .map(|message| (message, Severity::Error));
    // Of the others it is said when the files are read.
    let undated = found.unverified.iter().filter(|one| one.is_undated);
    let undated = undated.map(|one| (one.to_string(), Severity::Warning));
    let all = errors.chain(undated);
    all.map(|(message, severity)| of_all(path, message, severity))
        .collect()
}

/// A problem of the configuration as a whole.
fn of_all(path: &Path, message: String, severity: Severity) -> Problem {
    Problem {
        file: path.display().to_string(),
        line: 0,
        key: String::new(),
        message,
        suggestion: None,
        severity,
    }
}
