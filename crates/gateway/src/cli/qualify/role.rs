//! The job for one role after the other.

use super::args::QualifyArgs;
use super::print;
use anyhow::Context as _;
use evenkeel::Settings;
use evenkeel::core::{Clock, SystemClock};
use evenkeel_gateway::HttpValidators;
use evenkeel_qualify::report::Report;
use evenkeel_qualify::{
    CommandLimits, Finished, Golden, Job, Left, Plan, Progress, Run, RunFolder, check_roster_file,
    write_roster,
};
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long an external command may take for a score, and how much it may write.
const COMMAND: (Duration, usize) = (Duration::from_secs(30), 64 * 1024);

/// Variables that an external command sees.
const COMMAND_SEES: [&str; 3] = ["PATH", "HOME", "LANG"];

/// What the jobs of all roles share.
pub(super) struct Measuring<'a> {
    args: &'a QualifyArgs,
    settings: &'a Settings,
    stop: CancellationToken,
    validators: HttpValidators,
    /// US dollars that the roles before have cost.
    spent_usd: f64,
}

impl<'a> Measuring<'a> {
    pub(super) fn new(
        args: &'a QualifyArgs,
        settings: &'a Settings,
        stop: CancellationToken,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            args,
            settings,
            stop,
            validators: HttpValidators::new()?,
            spent_usd: 0.0,
        })
    }

    /// Measures a role and writes down what came of it.
    pub(super) async fn role(
        &mut self,
        role: &str,
        progress: &mut dyn Progress,
    ) -> anyhow::Result<Report> {
        if let Some(path) = &self.args.output {
            check_roster_file(path, role)?;
        }
        let job = self.job(role)?;
        let finished = Box::pin(job.finish(progress, self.stop.clone())).await?;
        self.spent_usd += finished.ended.spent_usd;
        let report = finished.report();
        let folder = &self.args.report;
        let written = print::files(&report, folder);
        written.with_context(|| format!("{}: no report can be written", folder.display()))?;
        tell_rest(&finished)?;
        if let Some(path) = &self.args.output {
            self.write(path, role, &finished)?;
        }
        Ok(report)
    }

    fn job(&self, role: &str) -> anyhow::Result<Job<'a>> {
        let args = self.args;
        let golden = Arc::new(Golden::open(self.dataset(role)?)?);
        if golden.runs_commands() && !args.allow_commands {
            anyhow::bail!(
                "{}: its scorers run commands; if you trust it, say --allow-commands",
                golden.path().display()
            );
        }
        let budget = args.budget_usd.map(|all| (all - self.spent_usd).max(0.0));
        let named = (!args.candidates.is_empty()).then_some(args.candidates.as_slice());
        let options = args.options(budget);
        let plan = Plan::new(self.settings, role, named, golden, options)?;
        let now = jiff::Timestamp::try_from(SystemClock.now())?;
        let validators = self.validators.clone();
        Ok(Job {
            threshold: args.min_quality_threshold,
            today: jiff::tz::Offset::UTC.to_datetime(now).date(),
            run: Run {
                plan,
                settings: self.settings,
                folder: RunFolder::of(&args.report, role),
                is_resumed: args.resume,
                http_validators: Some(Arc::new(move |service| validators.validator(service))),
                commands: args.allow_commands.then(command_limits),
                begun: now,
            },
        })
    }

    fn dataset(&self, role: &str) -> anyhow::Result<PathBuf> {
        if let Some(path) = &self.args.golden_dataset {
            return Ok(path.clone());
        }
        let config = self.settings.config().roles.get(role);
        let path = config.and_then(|config| config.policy.golden_dataset.as_ref());
        let path = path.with_context(|| {
            format!(
                "role `{role}` has no golden_dataset in its policy: name one (--golden-dataset)"
            )
        })?;
        Ok(self.settings.folder().join(path))
    }

    /// Puts what passed into the roster, and says what became of it.
    fn write(&self, path: &Path, role: &str, finished: &Finished) -> anyhow::Result<()> {
        let Some(found) = finished.qualified(self.settings) else {
            writeln!(
                stderr(),
                "{}: not written, since nothing is settled",
                path.display()
            )?;
            return Ok(());
        };
        let written = write_roster(path, role, &found)?;
        let path = path.display();
        for (model, left) in &written.left {
            writeln!(stderr(), "{path}: `{model}` is out: {}", words(*left))?;
        }
        for model in &written.kept {
            writeln!(
                stderr(),
                "{path}: `{model}` was not measured, and stays as it is"
            )?;
        }
        let changed = if written.is_changed {
            "written"
        } else {
            "unchanged"
        };
        writeln!(stderr(), "{path}: {changed}")?;
        Ok(())
    }
}

/// Why a fallback is out of a roster.
const fn words(left: Left) -> &'static str {
    match left {
        Left::Refused => "it was measured and did not pass",
        Left::IsPrimary => "it is the primary now",
        Left::OtherPrimary => "it was measured against another primary, on another dataset",
        _ => "it is refused",
    }
}

/// What a report has no place for: why a run is not whole, and how to go on.
fn tell_rest(finished: &Finished) -> anyhow::Result<()> {
    let ended = &finished.ended;
    for (model, halt) in &ended.halted {
        writeln!(stderr(), "{model}: {halt}")?;
    }
    if let Some((count, first)) = &ended.unscored {
        writeln!(
            stderr(),
            "{count} answers could not be scored, the first: {first}"
        )?;
    }
    if let Some(stop) = ended.stopped {
        let usd = ended.spent_usd;
        writeln!(
            stderr(),
            "not everything was asked: {stop} (spent so far: {usd:.4} US dollars). Go on with --resume"
        )?;
    }
    Ok(())
}

/// An external command sees where programs are, and none of the keys of providers.
fn command_limits() -> CommandLimits {
    let seen = COMMAND_SEES.into_iter();
    CommandLimits {
        timeout: COMMAND.0,
        output_bytes: COMMAND.1,
        environment: seen
            .filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
            .collect(),
    }
}
