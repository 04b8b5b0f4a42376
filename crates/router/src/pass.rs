//! The plain pass: one model is asked, once, whatever is known of it.

use crate::answer::{Answer, AnswerStream};
use crate::build::BuildError;
use crate::call::{Call, Mode};
use crate::demand::Demand;
use crate::drive::{Won, drive, now};
use crate::error::{CallError, CallErrorKind};
use crate::generation::Generation;
use crate::role::Role;
use crate::router::{Inner, Router};
use evenkeel_core::{CallContext, ChatRequest, ModelId, Route, Trail};
use evenkeel_roster::{
    Config, HedgeMode, OnDegradedInput, OnExhausted, OnStreamBreak, RetryPolicy, RoleConfig,
    RolePolicy, RungConfig,
};
use std::sync::Arc;
use std::time::Duration;

/// A pass has no limits on latency: nothing is done about a slow one. These are
/// beyond every deadline.
const NO_LIMIT: Duration = Duration::from_secs(86_400);

/// Which model a pass goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PassTo {
    /// This one, of a provider that was handed in; it need be in no roster.
    Model(ModelId),
    /// A role's primary, with the role's prompts and clocks.
    PrimaryOf(String),
}

impl Router {
    /// Asks one model for a whole answer, with no routing: one attempt, no
    /// hedge, no failover. Breakers, cooldowns, holds, drills and concurrency
    /// limits do not keep it away, and what becomes of it counts on none of
    /// them and in no window.
    ///
    /// Cancel safe, as [`Router::complete`].
    ///
    /// # Errors
    /// [`CallError`] where the model gives no answer in time, or the role or
    /// provider is unknown.
    pub async fn pass(
        &self,
        to: &PassTo,
        request: ChatRequest,
        context: CallContext,
    ) -> Result<Answer, CallError> {
        let won = self.passed(to, request, context, Mode::Whole).await?;
        Ok(Answer::new(won))
    }

    /// Asks one model for a stream, with no routing; see [`Router::pass`].
    ///
    /// Cancel safe, as [`Router::complete`].
    ///
    /// # Errors
    /// As [`Router::pass`]; after the first token a break is an event.
    pub async fn pass_stream(
        &self,
        to: &PassTo,
        request: ChatRequest,
        context: CallContext,
    ) -> Result<AnswerStream, CallError> {
        let won = self.passed(to, request, context, Mode::Stream).await?;
        Ok(AnswerStream::new(won))
    }

    async fn passed(
        &self,
        to: &PassTo,
        request: ChatRequest,
        context: CallContext,
        mode: Mode,
    ) -> Result<Won, CallError> {
        let role = self.0.role_of_pass(to).map_err(|named| CallError {
            kind: CallErrorKind::UnknownRole(named),
            retry_after: None,
            route: Route::None,
            reason: None,
            trail: Arc::new(Trail::default()),
            trace: None,
        })?;
        let unit = self.0.unit.clone();
        // It asks for nothing: the model is named.
        let asked = (Arc::new(role), Demand::default());
        let call = Call::new(asked, request, context, mode, unit, now());
        Box::pin(drive(call, mode)).await
    }
}

impl Inner {
    /// A role for one call, whose only rung is the model.
    ///
    /// # Errors
    /// The name of a role or model that there is no way to.
    fn role_of_pass(&self, to: &PassTo) -> Result<Role, String> {
        let generation = self.generation();
        let (name, policy, rung) = match to {
            PassTo::PrimaryOf(role) => {
                let config = generation.config.roles.get(role);
                let config = config.ok_or_else(|| role.clone())?;
                let primary = config.rungs.first().ok_or_else(|| role.clone())?;
                (role.clone(), config.policy.clone(), primary.clone())
            }
            PassTo::Model(model) => (
                model.to_string(),
                RolePolicy::new(NO_LIMIT, NO_LIMIT, Duration::from_secs(60)),
                RungConfig::primary(model.clone()),
            ),
        };
        let config = alone(&generation, name.clone(), once(policy), rung);
        let role = self.role_alone(&config, &generation);
        let mut role = role.map_err(|_: BuildError| name)?;
        role.is_pass = true;
        Ok(role)
    }
}

/// The policy of a call that is made once and left to itself.
fn once(policy: RolePolicy) -> RolePolicy {
    let mut policy = RolePolicy {
        retry: RetryPolicy {
            rate_limited: 0,
            transient: 0,
            overloaded: 0,
            malformed: 0,
            semantic: 0,
            ..policy.retry
        },
        on_exhausted: OnExhausted::Error,
        ..policy
    };
    policy.on_stream_break = OnStreamBreak::Fail;
    policy.hedge.mode = HedgeMode::Off;
    // They name models that this call does not go to.
    policy.tasks.clear();
    policy.degraded.on_input = OnDegradedInput::Proceed;
    policy
}

/// What is configured of one model, for one role that has no other.
fn alone(generation: &Generation, name: String, policy: RolePolicy, rung: RungConfig) -> Config {
    let (all, model) = (&generation.config, &rung.model);
    let mut config = Config {
        stamp: all.stamp.clone(),
        ..Config::default()
    };
    if let Some(own) = all.models.get(model) {
        config.models.insert(model.clone(), own.clone());
    }
    if let Some(own) = all.providers.get(model.provider()) {
        config.providers.insert(own.name.clone(), own.clone());
    }
    let role = RoleConfig {
        name: name.clone(),
        policy,
        rungs: vec![rung],
    };
    config.roles.insert(name, role);
    config
}
