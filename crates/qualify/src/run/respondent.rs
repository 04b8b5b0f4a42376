//! A model that questions are put to, on the path that production uses.

use super::RunError;
use super::alone::alone;
use super::pause::Pause;
use evenkeel::Settings;
use evenkeel_core::{
    AttemptOutcome, CallContext, ChatRequest, ChatResponse, Class, ModelId, NoObserver, Trail,
    TrailStep, Usage, Validator, ValidatorError,
};
use evenkeel_roster::HttpValidatorConfig;
use evenkeel_router::Router;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Makes the validators that policies name with `kind = "http"`.
pub type HttpValidators =
    Arc<dyn Fn(&HttpValidatorConfig) -> Result<Arc<dyn Validator>, ValidatorError> + Send + Sync>;

/// What a model is asked through.
#[derive(Clone)]
pub(crate) struct Way<'s> {
    pub(crate) settings: &'s Settings,
    pub(crate) http_validators: Option<HttpValidators>,
    /// Seed of the router's jitter.
    pub(crate) seed: u64,
    /// Whether upstreams are asked for streams.
    pub(crate) is_streamed: bool,
    /// How long a question may wait for rate limits.
    pub(crate) patience: Duration,
}

/// A model that questions are put to.
pub(crate) struct Respondent {
    pub(crate) model: ModelId,
    role: Arc<str>,
    router: Router,
    pause: Pause,
    patience: Duration,
}

/// What came of a question.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) end: End,
    /// From when it was due, waits for rate limits left out.
    pub(crate) total: Duration,
    /// The same to its first content.
    pub(crate) first_token: Option<Duration>,
    /// Tokens of all its attempts, where any were told.
    pub(crate) usage: Option<Usage>,
    /// What they cost, where prices are known.
    pub(crate) cost_usd: Option<f64>,
    /// Whether an answer was thrown away because it was not valid.
    pub(crate) was_invalid: bool,
}

/// How a question ended.
#[derive(Debug)]
pub(crate) enum End {
    /// With an answer that the role would give its caller.
    Answered(Box<ChatResponse>),
    /// With an error that the role's caller would get.
    Failed(Class),
    /// It was never taken: rate limits or quota.
    Unmeasured(Class),
}

impl fmt::Debug for Respondent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Respondent")
            .field("role", &self.role)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl Respondent {
    /// `model`, asked as a request of `role` would ask it.
    ///
    /// # Errors
    /// Where the role is not there, or no router can be built of it.
    pub(crate) fn new(way: &Way<'_>, role: &str, model: &ModelId) -> Result<Self, RunError> {
        let failed = |source| RunError::Candidate {
            candidate: model.clone(),
            source,
        };
        let config = way.settings.config();
        let config = alone(config, role, model, way.is_streamed);
        let config = config.ok_or_else(|| RunError::UnknownRole(role.to_owned()))?;
        let settings = way.settings.with_config(config);
        let builder = settings.router_builder(Arc::new(NoObserver));
        let mut builder = builder.map_err(failed)?.seed(way.seed).without_tickets();
        if let Some(make) = way.http_validators.clone() {
            builder = builder.http_validators(move |service| make(service));
        }
        let router = builder.build().map_err(|error| failed(error.into()))?;
        Ok(Self::over(router, role, model, way.patience))
    }

    /// The same over a router whose only rung of `role` is `model`.
    pub(crate) fn over(router: Router, role: &str, model: &ModelId, patience: Duration) -> Self {
        Self {
            model: model.clone(),
            role: Arc::from(role),
            router,
            pause: Pause::default(),
            patience,
        }
    }

    /// Puts a question that is due at `due`. One that meets a rate limit is asked
    /// again when that is over, which `waits` is told, and is due then: the limit is
    /// the account's, and says nothing of how quick the model is.
    ///
    /// Cancel safe: dropping it closes the upstream connection.
    pub(crate) async fn ask(
        &self,
        request: &ChatRequest,
        mut due: Instant,
        waits: impl Fn(Duration),
    ) -> Reply {
        let mut patience_ends = None;
        loop {
            let ends = || Instant::now() + self.patience;
            if self.pause.is_on() {
                // It has not been asked, and waits for the same all the same.
                patience_ends.get_or_insert_with(ends);
                self.pause.wait().await;
                due = Instant::now();
            }
            let asked = Instant::now();
            let context = CallContext::default();
            let called = self.router.complete(&self.role, request.clone(), context);
            let (end, trail) = match Box::pin(called).await {
                Ok(answer) => {
                    self.pause.answered();
                    (End::Answered(Box::new(answer.response)), answer.trail)
                }
                Err(error) => {
                    // A lone rung's call ends with its failure, whatever the way.
                    let class = error.kind.class().unwrap_or(Class::BadRequest);
                    if matches!(class, Class::RateLimited | Class::QuotaExhausted) {
                        let ends = *patience_ends.get_or_insert_with(ends);
                        if let Some(wait) = self.wait(class, error.retry_after, ends) {
                            waits(wait);
                            continue;
                        }
                        (End::Unmeasured(class), error.trail)
                    } else {
                        (End::Failed(class), error.trail)
                    }
                }
            };
            return Reply::of(end, &trail, due, asked);
        }
    }
}

impl Respondent {
    /// How long to wait for the end of a limit; none where that is after `ends`, or
    /// nobody knows of a used-up quota when it is filled again.
    fn wait(&self, class: Class, asked: Option<Duration>, ends: Instant) -> Option<Duration> {
        let is_known = class == Class::RateLimited || asked.is_some();
        let limited = || self.pause.limited(asked, Instant::now(), ends);
        is_known.then(limited).flatten()
    }
}

impl Reply {
    fn of(end: End, trail: &Trail, due: Instant, asked: Instant) -> Self {
        let lead = asked.saturating_duration_since(due);
        let limited = limited(trail);
        let won = trail
            .attempts()
            .find(|attempt| matches!(attempt.outcome, AttemptOutcome::Won));
        let since_due = |moment: Duration| (lead + moment).saturating_sub(limited);
        let first_token = won.and_then(|attempt| attempt.first_token);
        let usage = trail.spent().usage;
        Self {
            total: since_due(asked.elapsed()),
            first_token: first_token.map(since_due),
            usage: (usage.input > 0 || usage.output > 0).then_some(usage),
            cost_usd: cost_usd(trail),
            was_invalid: trail.attempts().any(|attempt| match &attempt.outcome {
                AttemptOutcome::Failed(failure) => {
                    matches!(failure.class, Class::Semantic | Class::Malformed)
                }
                _ => false,
            }),
            end,
        }
    }
}

/// What the call waited for rate limits.
fn limited(trail: &Trail) -> Duration {
    let waits = trail.steps.iter().filter_map(|step| match step {
        TrailStep::Waited { wait, reason, .. } => {
            matches!(*reason, "rate_limited" | "rate_limit_near" | "cooldown").then_some(*wait)
        }
        _ => None,
    });
    waits.sum()
}

/// None where the price of any attempt is not known.
fn cost_usd(trail: &Trail) -> Option<f64> {
    let costs = trail
        .attempts()
        .map(|attempt| attempt.cost.map(|cost| cost.usd));
    costs.sum()
}
