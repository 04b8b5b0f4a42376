//! `evenkeel qualify`.

mod args;
mod print;
mod role;

pub(super) use args::QualifyArgs;

use super::signals::Signals;
use anyhow::Context as _;
use evenkeel::Settings;
use evenkeel_qualify::{Bars, Lines, Progress, Verdict};
use evenkeel_roster::{Candidates, CandidatesByRole};
use role::Measuring;
use std::io::{IsTerminal, Write, stderr};
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;

/// Something cannot be read, written or understood.
const DATA_ERROR: u8 = 2;

/// Measures what is asked for. Ends with 2 on any error, after saying which.
pub(crate) async fn run(args: QualifyArgs) -> anyhow::Result<ExitCode> {
    match Box::pin(measure(&args)).await {
        Ok(verdict) => Ok(ExitCode::from(u8::from(!verdict.is_pass()))),
        Err(error) => {
            writeln!(stderr(), "evenkeel qualify: {error:#}")?;
            Ok(ExitCode::from(DATA_ERROR))
        }
    }
}

/// The gravest verdict of all roles.
async fn measure(args: &QualifyArgs) -> anyhow::Result<Verdict> {
    let settings = Settings::load_to_measure(&args.config, &candidates(args))?;
    for warning in settings.warnings() {
        writeln!(stderr(), "{warning}")?;
    }
    let roles = roles(args, &settings)?;
    let stop = CancellationToken::new();
    let mut signals = Signals::new()?;
    let mut measuring = Measuring::new(args, &settings, stop.clone())?;
    let jobs = async {
        let mut reports = Vec::new();
        let mut gravest = Verdict::Pass;
        for role in roles {
            if stop.is_cancelled() {
                gravest = gravest.max(Verdict::NotEnoughData);
                break;
            }
            let mut progress = progress();
            let measured = Box::pin(measuring.role(role, &mut *progress));
            let report = measured.await?;
            gravest = gravest.max(report.verdict());
            reports.push(report);
        }
        print::reports(&reports, args.format)?;
        Ok(gravest)
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

/// The roles to measure; those that are passed over are told.
fn roles<'s>(args: &QualifyArgs, settings: &'s Settings) -> anyhow::Result<Vec<&'s str>> {
    let all = &settings.config().roles;
    if let Some(role) = &args.role {
        let found = all.get_key_value(role).context("the role was read")?;
        return Ok(vec![found.0]);
    }
    let mut roles = Vec::new();
    for (name, role) in all {
        if role.policy.golden_dataset.is_none() {
            writeln!(
                stderr(),
                "{name}: its policy names no golden_dataset, so it is not measured"
            )?;
        } else {
            roles.push(name.as_str());
        }
    }
    anyhow::ensure!(!roles.is_empty(), "no role's policy names a golden_dataset");
    Ok(roles)
}

/// Bars on a terminal, else lines.
fn progress() -> Box<dyn Progress> {
    if stderr().is_terminal() {
        Box::new(Bars::on_stderr())
    } else {
        Box::new(Lines::to(stderr()))
    }
}
