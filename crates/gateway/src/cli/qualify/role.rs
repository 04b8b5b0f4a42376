//! The job for one role after the other.

use super::args::QualifyArgs;
use super::{Task, print};
use anyhow::Context as _;
use evenkeel::Settings;
use evenkeel::core::{Clock, ModelId, SystemClock};
use evenkeel_gateway::HttpValidators;
use evenkeel_qualify::report::Report;
use evenkeel_qualify::{
    CommandLimits, Finished, Golden, Halt, HttpValidators as EachValidator, Job, Left,
    LockedFolder, Plan, Progress, RosterFileError, Run, RunFolder, ShadowJob, ShadowReport,
    Takeover, check_roster_file, golden_datasets, write_roster,
};
use std::io::{Write, stderr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long an external command may take for a score, and how much it may write.
const COMMAND: (Duration, usize) = (Duration::from_secs(30), 64 * 1024);

/// Time and share of a run that its journal may take before that is told.
const WRITING: (Duration, f64) = (Duration::from_secs(1), 0.05);

/// Variables that an external command sees.
const COMMAND_SEES: [&str; 3] = ["PATH", "HOME", "LANG"];

/// The folder of drills within that of a report.
const DRILLS: &str = "eol-drill";

/// What the jobs of all roles share.
pub(super) struct Measuring<'a> {
    args: &'a QualifyArgs,
    settings: &'a Settings,
    stop: CancellationToken,
    validators: HttpValidators,
    /// US dollars that the roles before have cost.
    spent_usd: f64,
    /// Whether lines that are no pairs have been told.
    has_told_faults: bool,
}

/// What came of a role.
pub(super) struct Measured {
    /// None where it was stopped before anything did.
    pub(super) report: Option<Report>,
    /// Whether it could be written down.
    pub(super) written: anyhow::Result<()>,
}

impl Measured {
    const NOTHING: Self = Self {
        report: None,
        written: Ok(()),
    };
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
            has_told_faults: false,
        })
    }

    /// Whether a task can be begun, as far as that can be known before anything is asked:
    /// the faults of the last role are told before the first has cost anything.
    pub(super) fn check(&self, task: &Task) -> anyhow::Result<()> {
        let role = match task {
            Task::Role(role) => role,
            Task::Drill(takeover) => &takeover.role,
        };
        self.check_output(role)?;
        self.golden(role).map(|_| ())
    }

    /// Whether what is found of a role can be written into the roster, where it is to be.
    fn check_output(&self, role: &str) -> anyhow::Result<()> {
        let Some(path) = &self.args.output else {
            return Ok(());
        };
        check_roster_file(path, role)?;
        self.check_threshold(role)
    }

    /// A roster of scores below the role's budget would be refused by the router.
    fn check_threshold(&self, role: &str) -> anyhow::Result<()> {
        let config = self.settings.config().roles.get(role);
        let budget = config.map_or(0.0, |role| role.policy.quality_budget);
        let threshold = self.args.min_quality_threshold.unwrap_or(budget);
        anyhow::ensure!(
            threshold >= budget,
            "--min-quality-threshold {threshold} is below the quality_budget of role `{role}`, {budget}: \
             a roster of what passes would be refused. Lower quality_budget in policy.toml, or leave --output out"
        );
        Ok(())
    }

    /// Measures a role, judges its pairs, or both, and writes down what came of it.
    pub(super) async fn role(
        &mut self,
        role: &str,
        progress: &mut dyn Progress,
    ) -> anyhow::Result<Measured> {
        self.check_output(role)?;
        let golden = self.golden(role)?;
        let folder = locked(&self.args.report, role)?;
        let finished = if self.args.asks() {
            let golden = golden.with_context(|| no_dataset(role))?;
            let named = &self.args.candidates;
            let named = (!named.is_empty()).then_some(named.as_slice());
            Some(
                self.measured(role, golden, named, &folder, progress)
                    .await?,
            )
        } else {
            None
        };
        let report = Report {
            role: role.to_owned(),
            golden: finished.as_ref().map(Finished::report),
            shadows: self.shadows(role).await?,
            drill: None,
        };
        if self.has_nothing(&report)? {
            return Ok(Measured::NOTHING);
        }
        let written = self.write_down(&report, finished.as_ref(), &folder);
        Ok(Measured {
            report: Some(report),
            written,
        })
    }

    /// Writes the report in every form, and what passed into the roster.
    fn write_down(
        &self,
        report: &Report,
        finished: Option<&Finished>,
        folder: &LockedFolder,
    ) -> anyhow::Result<()> {
        let again =
            "nothing is lost: the same command with --resume asks nobody again and writes it";
        let files = print::files(report, folder).context(again);
        if let Some(finished) = finished {
            tell_rest(finished, &command_again(finished))?;
        }
        files?;
        match (&self.args.output, finished) {
            (Some(path), Some(finished)) => self.write(path, &report.role, finished).context(again),
            _ => Ok(()),
        }
    }

    /// Whether there is nothing to tell: it was stopped, or of all roles this one has no
    /// pair.
    fn has_nothing(&self, report: &Report) -> anyhow::Result<bool> {
        let is_empty = |found: &ShadowReport| found.comparisons.is_empty();
        match &report.shadows {
            None => Ok(report.golden.is_none()),
            Some(found) if self.args.all_roles && is_empty(found) => {
                writeln!(
                    stderr(),
                    "{}: no shadow pair of the role was found",
                    report.role
                )?;
                Ok(report.golden.is_none())
            }
            Some(_) => Ok(false),
        }
    }

    /// Measures what takes over against what it stands in for: without a primary against
    /// that, without a fallback against the primary.
    pub(super) async fn drill(
        &mut self,
        takeover: Takeover,
        progress: &mut dyn Progress,
    ) -> anyhow::Result<Measured> {
        let role = takeover.role.clone();
        // Beside the role's own run, which must not be taken for one of a drill.
        let folder = locked(&self.args.report.join(DRILLS), &role)?;
        let golden = self.golden(&role)?;
        let mut report = Report {
            role,
            golden: None,
            shadows: None,
            drill: Some(takeover.clone()),
        };
        if let (Some(golden), Some(model)) = (golden, &takeover.takes_over) {
            let named = Some(std::slice::from_ref(model));
            let measured = self.measured(&takeover.role, golden, named, &folder, progress);
            let finished = measured.await?;
            let mut found = finished.report();
            found.verdict = found.verdict.of_takeover();
            report.golden = Some(found);
            tell_rest(&finished, "the same command with --resume")?;
        }
        let written = self.write_down(&report, None, &folder);
        Ok(Measured {
            report: Some(report),
            written,
        })
    }

    async fn measured(
        &mut self,
        role: &str,
        golden: Golden,
        candidates: Option<&[ModelId]>,
        folder: &LockedFolder,
        progress: &mut dyn Progress,
    ) -> anyhow::Result<Finished> {
        let args = self.args;
        let options = args.options(self.budget_usd());
        let plan = Plan::new(self.settings, role, candidates, Arc::new(golden), options)?;
        let job = Job {
            threshold: args.min_quality_threshold,
            today: self.settings.as_of(),
            run: Run {
                plan,
                settings: self.settings,
                folder,
                is_resumed: args.resume && self.was_begun(folder),
                http_validators: Some(self.http_validators()),
                commands: args.allow_commands.then(command_limits),
                begun: now()?,
            },
        };
        let finished = Box::pin(job.finish(progress, self.stop.clone())).await?;
        self.spent_usd += finished.ended.spent_usd;
        Ok(finished)
    }

    /// What the role's pairs come to; none where there are none to judge, or it was
    /// stopped.
    async fn shadows(&mut self, role: &str) -> anyhow::Result<Option<ShadowReport>> {
        let args = self.args;
        if args.shadow.is_empty() || self.stop.is_cancelled() {
            return Ok(None);
        }
        let golden = self.golden(role)?;
        let job = ShadowJob {
            role,
            files: &args.shadow,
            golden: golden.as_ref(),
            settings: self.settings,
            http_validators: Some(self.http_validators()),
            commands: args.allow_commands.then(command_limits),
            seed: args.seed,
            patience: args.patience(),
            budget_usd: self.budget_usd(),
        };
        let judged = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Ok(None),
            judged = Box::pin(job.finish()) => judged,
        };
        let (report, usd) = judged?;
        self.spent_usd += usd;
        // Of all roles the same files are read for each.
        if !std::mem::replace(&mut self.has_told_faults, true) {
            for faults in &report.faults {
                writeln!(stderr(), "{faults}")?;
            }
        }
        Ok(Some(report))
    }

    /// Whether there is a run to go on with. Of all roles those that the run did not come to
    /// begin; one that is named has to be there.
    fn was_begun(&self, folder: &LockedFolder) -> bool {
        self.args.role.is_some() || folder.folder().manifest().exists()
    }

    /// What the roles before have left of the budget, where there is one.
    fn budget_usd(&self) -> Option<f64> {
        let all = self.args.budget_usd;
        all.map(|all| (all - self.spent_usd).max(0.0))
    }

    fn http_validators(&self) -> EachValidator {
        let validators = self.validators.clone();
        Arc::new(move |service| validators.validator(service))
    }

    /// The role's dataset; none where neither the command line nor its policy names one.
    fn golden(&self, role: &str) -> anyhow::Result<Option<Golden>> {
        let in_policy = || golden_datasets(self.settings).remove(role).flatten();
        let Some(path) = self.args.golden_dataset.clone().or_else(in_policy) else {
            return Ok(None);
        };
        let golden = Golden::open(path)?;
        anyhow::ensure!(
            self.args.allow_commands || !golden.runs_commands(),
            "{}: its scorers run commands; if you trust it, say --allow-commands",
            golden.path().display()
        );
        Ok(Some(golden))
    }

    /// Puts what passed into the roster, and says what became of it.
    fn write(&self, path: &Path, role: &str, finished: &Finished) -> anyhow::Result<()> {
        let Some(found) = finished.qualified(self.settings) else {
            let why = match finished.ended.stopped {
                Some(_) => "not everything was asked",
                None => "there is nothing to measure candidates against",
            };
            writeln!(stderr(), "{}: not written, since {why}", path.display())?;
            return Ok(());
        };
        let written = match write_roster(path, role, &found) {
            Ok(written) => written,
            // The role's own check says so already.
            Err(error @ RosterFileError::SameProvider { .. }) => {
                writeln!(stderr(), "{error}")?;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let path = path.display();
        for (model, left) in &written.left {
            writeln!(stderr(), "{path}: `{model}` is out: {}", words(*left))?;
        }
        for model in &written.kept {
            let mut candidates = finished.verdict.candidates.iter();
            let is_open = candidates.any(|judged| judged.measures.candidate == *model);
            let why = if is_open {
                "is not settled (not enough data)"
            } else {
                "was not measured"
            };
            writeln!(stderr(), "{path}: `{model}` {why}, and stays as it is")?;
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

/// The role's folder in that of a report, for this run alone.
fn locked(report: &Path, role: &str) -> anyhow::Result<LockedFolder> {
    Ok(RunFolder::of(report, role).lock(now()?)?)
}

fn no_dataset(role: &str) -> String {
    format!("role `{role}` has no golden_dataset in its policy: name one (--golden-dataset)")
}

fn now() -> anyhow::Result<jiff::Timestamp> {
    Ok(jiff::Timestamp::try_from(SystemClock.now())?)
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

/// Whether what was not asked is worth asking another day: of who was limited, and of a
/// primary that was away.
fn may_go_on(finished: &Finished) -> bool {
    let primary = &finished.verdict.primary.measures.candidate;
    let mut halted = finished.ended.halted.iter();
    halted.any(|(model, halt)| model == primary || matches!(halt, Halt::Limited { .. }))
}

/// What goes on with the run, whoever has left the roster by then.
fn command_again(finished: &Finished) -> String {
    let candidates = finished.verdict.candidates.iter();
    let named: Vec<&str> = candidates
        .map(|judged| judged.measures.candidate.as_str())
        .collect();
    let (role, named) = (&finished.role, named.join(","));
    format!("--resume --role {role} --candidates {named}")
}

/// What a report has no place for: why a run is not whole, and how to go on.
fn tell_rest(finished: &Finished, again: &str) -> anyhow::Result<()> {
    let ended = &finished.ended;
    for (model, halt) in &ended.halted {
        writeln!(stderr(), "{model}: {halt}")?;
    }
    if ended.stopped.is_none() && may_go_on(finished) {
        writeln!(stderr(), "what was not measured is asked by: {again}")?;
    }
    if let Some((count, first)) = &ended.unscored {
        writeln!(
            stderr(),
            "{count} answers could not be scored, the first: {first}"
        )?;
    }
    if let Some(words) = slow_journal(ended.took, ended.writing) {
        writeln!(stderr(), "{words}")?;
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

/// What is said of a journal that holds up its run: latencies are then not the models'
/// alone.
fn slow_journal(took: Duration, writing: Duration) -> Option<String> {
    let share = writing.as_secs_f64() / took.as_secs_f64().max(f64::MIN_POSITIVE);
    let is_slow = writing >= WRITING.0 && share > WRITING.1;
    is_slow.then(|| {
        let percent = share * 100.0;
        format!("{percent:.0}% of the time the journal was written: put --report on a quicker disk")
    })
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

#[cfg(test)]
mod tests {
    use super::slow_journal;
    use std::time::Duration;

    #[test]
    fn a_journal_that_holds_up_its_run_is_told() {
        let told = |took, writing| {
            let (took, writing) = (Duration::from_millis(took), Duration::from_millis(writing));
            slow_journal(took, writing).is_some()
        };
        assert!(told(20_000, 1_100));
        assert!(!told(30_000, 1_100), "less than a twentieth");
        assert!(!told(1_000, 900), "too short to tell");
        assert!(!told(0, 0));
    }
}
