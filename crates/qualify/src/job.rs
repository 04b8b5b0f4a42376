//! The whole job for one role: the run, what it comes to, and what the gate says.

use crate::gate::{GateLimits, ModelFacts};
use crate::golden::Golden;
use crate::outcome::Outcome;
use crate::ranking::RoleVerdict;
use crate::report::{Conditions, DatasetSummary, GoldenReport};
use crate::run::{Ended, Load, Progress, Run, RunError, read_journal};
use crate::statistics::Resampling;
use crate::tally::{Tally, WorstItem};
use evenkeel_core::{ModelId, Value};
use jiff::civil::Date;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Items that are shown side by side, at most.
const WORST: usize = 10;

/// Longest piece of a question that is shown, in characters.
const QUESTION: usize = 2_000;

/// The job for one role.
#[derive(Debug)]
pub struct Job<'a> {
    /// Who is asked what.
    pub run: Run<'a>,
    /// Least share of the primary's score; none: the role's `quality_budget`.
    pub threshold: Option<f64>,
    /// The day that end-of-life dates are judged on.
    pub today: Date,
}

/// What came of it.
#[derive(Debug)]
pub struct Finished {
    /// The role.
    pub role: String,
    /// What was asked.
    pub golden: Arc<Golden>,
    /// Items that were asked.
    pub items: usize,
    /// How questions reached the models.
    pub load: Load,
    /// How often each item was asked.
    pub repeat: u32,
    /// The day of the job.
    pub today: Date,
    /// How the run ended.
    pub ended: Ended,
    /// What the gate asked for.
    pub limits: GateLimits,
    /// What it found.
    pub verdict: RoleVerdict,
    /// Tags that were too many to be told apart, each time one was met.
    pub tags_left_out: usize,
    /// How intervals were made.
    pub resampling: Resampling,
    /// The items at which a candidate loses most, side by side.
    pub worst: Vec<WorstItem>,
}

impl Finished {
    /// What a person or a program is told of it.
    pub fn report(&self) -> GoldenReport {
        let made_of = self.ended.manifest.made_of().iter();
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        GoldenReport {
            dataset: DatasetSummary {
                name: self.golden.path().display().to_string(),
                sha256: self.golden.sha256().to_owned(),
                items: self.items,
            },
            conditions: Conditions {
                load: self.load,
                repeat: self.repeat,
                resampling: self.resampling,
                today: self.today,
            },
            limits: self.limits.clone(),
            verdict: self.verdict.clone(),
            stopped: self.ended.stopped.map(|stop| stop.to_string()),
            tags_left_out: self.tags_left_out,
            worst: self.worst.clone(),
            manifest: made_of
                .map(|(key, value)| (key.clone(), text(value)))
                .collect(),
        }
    }
}

impl Job<'_> {
    /// Runs it, adds up what is heard and judges that.
    ///
    /// # Errors
    /// As [`Run::run`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn finish(
        self,
        progress: &mut dyn Progress,
        stop: CancellationToken,
    ) -> Result<Finished, RunError> {
        let Job {
            run,
            threshold,
            today,
        } = self;
        let config = run.settings.config();
        let role = run.plan.role.clone();
        let policy = config.roles.get(&role).map(|role| &role.policy);
        let policy = policy.ok_or_else(|| RunError::UnknownRole(role.clone()))?;
        let mut limits = GateLimits::of(policy);
        limits.quality = threshold.unwrap_or(limits.quality);
        let facts = |id: &ModelId| {
            let model = config.models.get(id);
            model.map_or_else(ModelFacts::unknown, |model| ModelFacts::of(model, today))
        };
        let (journal, golden) = (run.folder.folder().journal(), run.plan.golden.clone());
        let (items, options) = (run.plan.items, run.plan.options.clone());
        let (primary, candidates) = (run.plan.primary.clone(), run.plan.candidates.clone());
        let questions = run.plan.questions();
        let mut tally = Tally::new(primary.clone(), candidates, golden.count());
        let mut on = |outcome: &Outcome| {
            let is_ours = tally.record(outcome);
            debug_assert_eq!(is_ours, Ok(()), "a run asks what its plan says");
        };
        let ended = Box::pin(run.run(progress, &mut on, stop)).await?;
        let mut worst = tally.worst_items(WORST);
        read_journal(&journal, |outcome| {
            // What has none is asked again, and then answered again; so is the primary
            // where it could not be asked.
            let is_asked_again = outcome.kind.is_of_the_way() && outcome.candidate == primary;
            if outcome.kind.score().is_some() && !is_asked_again {
                worst.record(&outcome);
            }
        })?;
        describe(&golden, &mut worst)?;
        let resampling = Resampling::new(options.seed);
        let mut measures = tally.measures(&resampling);
        for measures in &mut measures {
            measures.questions = questions;
            measures.halted = ended.halted.get(&measures.candidate).copied();
        }
        let verdict = RoleVerdict::of(measures, facts, &limits, &policy.ranking);
        Ok(Finished {
            role,
            golden,
            items,
            load: options.load,
            repeat: options.repeat,
            today,
            ended,
            limits,
            verdict: verdict.expect("a tally is of a primary"),
            tags_left_out: tally.tags_left_out(),
            resampling,
            worst: worst.into_items(),
        })
    }
}

/// Says what was asked and expected at the worst items, from the dataset.
fn describe(golden: &Golden, worst: &mut crate::WorstItems) -> Result<(), RunError> {
    let mut wanted: Vec<usize> = worst.indices().collect();
    wanted.sort_unstable();
    let Some(last) = wanted.last() else {
        return Ok(());
    };
    for item in golden.items(Some(last + 1)) {
        let item = item?;
        if wanted.binary_search(&item.index).is_err() {
            continue;
        }
        let asked = item.request.messages.last();
        let mut question = asked
            .map(evenkeel_core::Message::plain_text)
            .unwrap_or_default();
        if let Some((end, _)) = question.char_indices().nth(QUESTION) {
            question.truncate(end);
            question.push('…');
        }
        let expected = item.expected.map(|expected| match expected {
            Value::String(text) => Arc::from(text),
            other => Arc::from(other.to_string()),
        });
        worst.describe(item.index, question.into(), expected);
    }
    Ok(())
}
