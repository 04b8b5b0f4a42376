//! `evenkeel qualify`.

mod args;
mod check;
mod print;
mod role;

pub(super) use args::QualifyArgs;

use super::signals::Signals;
use super::words;
use anyhow::Context as _;
use evenkeel::Settings;
use evenkeel_core::ModelId;
use evenkeel_qualify::{Bars, Lines, Progress, Takeover, Verdict};
use evenkeel_roster::{Candidates, CandidatesByRole};
use role::{Measured, Measuring};
use std::io::{IsTerminal, Write, stderr};
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;

/// Something cannot be read, written or understood.
const DATA_ERROR: u8 = 2;

/// Measures what is asked for. Ends with 2 on any error, after saying which.
pub(crate) async fn run(args: QualifyArgs) -> anyhow::Result<ExitCode> {
    let ended = if args.check {
        check::run(&args)
    } else {
        let measured = Box::pin(measure(&args)).await;
        measured.map(|verdict| ExitCode::from(u8::from(!verdict.is_pass())))
    };
    match ended {
        Ok(code) => Ok(code),
        Err(error) => {
            writeln!(stderr(), "evenkeel qualify: {}", words(&error))?;
            Ok(ExitCode::from(DATA_ERROR))
        }
    }
}

/// What is to be done for one role.
enum Task {
    /// Measure its candidates, or judge its pairs, or both.
    Role(String),
    /// Measure what takes over.
    Drill(Takeover),
}

/// The gravest verdict of all roles.
async fn measure(args: &QualifyArgs) -> anyhow::Result<Verdict> {
    args.check_pairs_alone()?;
    let settings = Settings::load_to_measure(args.config(), &candidates(args))?;
    for warning in settings.warnings() {
        writeln!(stderr(), "{warning}")?;
    }
    let tasks = tasks(args, &settings)?;
    let stop = CancellationToken::new();
    let mut signals = Signals::new()?;
    let mut measuring = Measuring::new(args, &settings, stop.clone())?;
    if tasks.len() > 1 {
        for task in &tasks {
            measuring.check(task)?;
        }
    }
    let jobs = async {
        let mut reports = Vec::new();
        let mut gravest = Verdict::Pass;
        let mut failed = Ok(());
        for task in tasks {
            if stop.is_cancelled() {
                break;
            }
            let mut progress = progress();
            let report = match task {
                Task::Role(role) => Box::pin(measuring.role(&role, &mut *progress)).await,
                Task::Drill(takeover) => Box::pin(measuring.drill(takeover, &mut *progress)).await,
            };
            let Measured { report, written } = match report {
                Ok(measured) => measured,
                Err(error) => {
                    failed = Err(error);
                    break;
                }
            };
            if let Some(report) = report {
                gravest = gravest.max(report.verdict());
                reports.push(report);
            }
            if written.is_err() {
                failed = written;
                break;
            }
        }
        if stop.is_cancelled() || reports.is_empty() {
            gravest = gravest.max(Verdict::NotEnoughData);
        }
        // What was paid for is shown, whatever became of the rest.
        print::reports(&reports, args.format)?;
        failed.map(|()| gravest)
    };
    let mut jobs = std::pin::pin!(jobs);
    tokio::select! {
        verdict = &mut jobs => return verdict,
        () = signals.next() => stop.cancel(),
    }
    writeln!(stderr(), "stopping: what was heard is kept")?;
    tokio::select! {
        verdict = jobs => verdict,
        () = signals.next() => anyhow::bail!("stopped before everything was written"),
    }
}

/// What is named on the command line, by role; nothing for all roles.
fn candidates(args: &QualifyArgs) -> CandidatesByRole {
    let named = || Candidates {
        primary: args.primary.clone(),
        models: args.candidates.clone(),
    };
    let role = args.role.iter().map(|role| (role.clone(), named()));
    role.collect()
}

/// What is to be done; roles that are passed over are told.
fn tasks(args: &QualifyArgs, settings: &Settings) -> anyhow::Result<Vec<Task>> {
    if let Some(gone) = &args.eol_drill {
        return drills(args, settings, gone);
    }
    let all = &settings.config().roles;
    if let Some(role) = &args.role {
        let found = all.get_key_value(role).context("the role was read")?;
        return Ok(vec![Task::Role(found.0.clone())]);
    }
    let mut tasks = Vec::new();
    for (name, role) in all {
        if args.asks() && role.policy.golden_dataset.is_none() {
            writeln!(
                stderr(),
                "{name}: its policy names no golden_dataset, so it is not measured"
            )?;
        } else {
            tasks.push(Task::Role(name.clone()));
        }
    }
    anyhow::ensure!(!tasks.is_empty(), "no role's policy names a golden_dataset");
    Ok(tasks)
}

/// A drill for each role that stands on the model, or for the one that is named.
fn drills(args: &QualifyArgs, settings: &Settings, gone: &ModelId) -> anyhow::Result<Vec<Task>> {
    let mut takeovers = Takeover::of(settings.config(), gone, settings.as_of());
    if let Some(role) = &args.role {
        takeovers.retain(|takeover| takeover.role == *role);
        anyhow::ensure!(
            !takeovers.is_empty(),
            "role `{role}` does not stand on `{gone}`"
        );
    }
    anyhow::ensure!(!takeovers.is_empty(), "no role stands on `{gone}`");
    Ok(takeovers.into_iter().map(Task::Drill).collect())
}

/// Bars on a terminal, else lines.
fn progress() -> Box<dyn Progress> {
    if stderr().is_terminal() {
        Box::new(Bars::on_stderr())
    } else {
        Box::new(Lines::to(stderr()))
    }
}
