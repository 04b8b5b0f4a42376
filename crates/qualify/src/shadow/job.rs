//! Pairs of one role, scored as its golden dataset says.

use super::{ShadowOptions, ShadowReport, compare_shadows};
use crate::golden::Golden;
use crate::run::{HttpValidators, Judges, Meter, RunError, Way};
use crate::scorers::{CommandLimits, Judge, ScoringContext};
use crate::statistics::Resampling;
use evenkeel::Settings;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The pairs of one role, ready to be judged. No model is asked but those that judge.
pub struct ShadowJob<'a> {
    /// The role.
    pub role: &'a str,
    /// Where its pairs are; those of other roles are passed over.
    pub files: &'a [PathBuf],
    /// Whose scorers they are scored by ([`Golden::role_scorers`]); none: by the
    /// validity of answers and by how they agree.
    pub golden: Option<&'a Golden>,
    /// The configuration that judges are asked by.
    pub settings: &'a Settings,
    /// What makes validators of kind `http`, where judges have any.
    pub http_validators: Option<HttpValidators>,
    /// Limits of external commands that score; none: none may run.
    pub commands: Option<CommandLimits>,
    /// Seed of all that is drawn.
    pub seed: u64,
    /// How long a judge may be waited for while it is limited.
    pub patience: Duration,
    /// US dollars that judges may cost; none: no limit. Pairs beyond it are not scored.
    pub budget_usd: Option<f64>,
}

impl fmt::Debug for ShadowJob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShadowJob")
            .field("role", &self.role)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl ShadowJob<'_> {
    /// Judges them; with what judges cost in US dollars, as far as prices are known.
    /// Blocks while it reads a file. Dropping the future gives it up.
    ///
    /// # Errors
    /// [`RunError`] where a judge cannot be asked at all, or the files cannot be read
    /// or hold no pair.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn finish(self) -> Result<(ShadowReport, f64), RunError> {
        let way = Way {
            settings: self.settings,
            http_validators: self.http_validators,
            seed: self.seed,
            is_streamed: false,
            patience: self.patience,
        };
        let judges = self.golden.map(|golden| Judges::of(golden, &way));
        let judges = Arc::new(judges.transpose()?.unwrap_or_default());
        let meter = Meter::within(&judges, self.budget_usd);
        let context = ScoringContext {
            judge: Some(meter.clone() as Arc<dyn Judge>),
            commands: self.commands,
        };
        let mut options = ShadowOptions::new(Resampling::new(self.seed));
        options.role = Some(self.role.to_owned());
        if let Some(golden) = self.golden {
            let scorers = golden.role_scorers(self.role);
            options.scorers.insert(self.role.to_owned(), scorers);
        }
        let report = compare_shadows(self.files, &options, &context).await?;
        Ok((report, meter.usd()))
    }
}
