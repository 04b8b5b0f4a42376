//! Models that judge answers, asked as any role is.

use super::RunError;
use super::respondent::{End, Respondent, Way};
use crate::golden::Golden;
use crate::scorers::{Judge, JudgeError};
use async_trait::async_trait;
use evenkeel_core::ChatRequest;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;

/// The primaries of the roles that a dataset has answers judged by. No other model of
/// theirs judges: grades of two judges do not compare.
#[derive(Debug, Default)]
pub(crate) struct Judges(BTreeMap<String, Respondent>);

/// The judges of an answer, or of several, and what they cost.
#[derive(Debug)]
pub(crate) struct Meter {
    judges: Arc<Judges>,
    most_usd: Option<f64>,
    usd: Mutex<f64>,
}

impl Judges {
    /// The judges that `golden` names.
    ///
    /// # Errors
    /// A role that is not there.
    pub(crate) fn of(golden: &Golden, way: &Way<'_>) -> Result<Self, RunError> {
        let mut judges = BTreeMap::new();
        for role in golden.judges() {
            let config = way.settings.config().roles.get(&**role);
            let primary = config.and_then(|config| config.rungs.first());
            let unknown = || RunError::UnknownRole(role.to_string());
            let primary = primary.ok_or_else(unknown)?;
            let respondent = Respondent::new(way, role, &primary.model)?;
            judges.insert(role.to_string(), respondent);
        }
        Ok(Self(judges))
    }
}

impl Meter {
    pub(crate) fn of(judges: &Arc<Judges>) -> Arc<Self> {
        Self::within(judges, None)
    }

    /// The same for judges who are not asked any more once they have cost `most_usd`.
    pub(crate) fn within(judges: &Arc<Judges>, most_usd: Option<f64>) -> Arc<Self> {
        Arc::new(Self {
            judges: judges.clone(),
            most_usd,
            usd: Mutex::new(0.0),
        })
    }

    /// US dollars so far, as far as prices are known.
    pub(crate) fn usd(&self) -> f64 {
        *self.usd.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Judge for Meter {
    async fn ask(&self, role: &str, prompt: String) -> Result<String, JudgeError> {
        let judge = self.judges.0.get(role);
        let judge = judge.ok_or_else(|| JudgeError::new(format!("no role `{role}`")))?;
        if self.most_usd.is_some_and(|most| self.usd() >= most) {
            return Err(JudgeError::new("the budget is spent"));
        }
        let mut request = ChatRequest::user(prompt);
        request.sampling.temperature = Some(0.0);
        let reply = judge.ask(&request, Instant::now(), |_| {}).await;
        *self.usd.lock().unwrap_or_else(PoisonError::into_inner) += reply.cost_usd.unwrap_or(0.0);
        match reply.end {
            End::Answered(answer) => Ok(answer.plain_text()),
            End::Failed(class) | End::Unmeasured(class) => Err(JudgeError::new(format!(
                "`{}` failed: {class}",
                judge.model
            ))),
        }
    }
}
