//! The router: roles in, answers out.

use crate::answer::{Answer, AnswerStream};
use crate::build::RouterBuilder;
use crate::call::{Call, Mode, Unit};
use crate::demand::Demand;
use crate::drive::{Won, drive, now};
use crate::error::{CallError, CallErrorKind};
use crate::feedback::{Feedback, FeedbackError, Judged, ModelQuality};
use crate::generation::Generation;
use crate::recent::Key;
use crate::role::Role;
use crate::state::{RoleState, RouterState};
use crate::surroundings::Surroundings;
use crate::tickets::Keep;
use crate::workflows::{Workflow, WorkflowError};
use arc_swap::ArcSwap;
use evenkeel_core::{
    CallContext, ChatRequest, Provider, Route, TicketStore, Trail, WorkflowOutcome,
};
use evenkeel_roster::Config;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Routes calls of roles to the models of their rosters. Cheap to clone; the
/// clones share all state. The background prober ends when the last is dropped.
#[derive(Clone)]
pub struct Router(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) current: ArcSwap<Generation>,
    /// Taken while one generation is put in the place of another.
    pub(crate) replacing: Mutex<()>,
    pub(crate) unit: Unit,
    /// None where no role keeps calls.
    pub(crate) tickets: Option<Arc<dyn TicketStore>>,
    pub(crate) around: Surroundings,
    pub(crate) stop: CancellationToken,
    pub(crate) _stop_on_drop: DropGuard,
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("roles", &self.roles())
            .finish_non_exhaustive()
    }
}

impl Router {
    /// Starts building a router for a configuration.
    pub fn builder(config: &Config) -> RouterBuilder<'_> {
        RouterBuilder::new(config)
    }

    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// The roles, in alphabetical order.
    pub fn roles(&self) -> Vec<String> {
        self.0.current.load().roles.keys().cloned().collect()
    }

    /// The provider of that name that it runs on, to hand in again
    /// ([`RouterBuilder::replace`]).
    pub fn provider(&self, name: &str) -> Option<Arc<dyn Provider>> {
        self.0.current.load().clients.get(name).cloned()
    }

    /// Asks a role for a whole answer.
    ///
    /// Cancel safe: dropping the future closes every upstream connection of the call.
    ///
    /// # Errors
    /// [`CallError`] where no model of the roster could answer in time. Where the
    /// role keeps such calls it says by which ticket.
    pub async fn complete(
        &self,
        role: &str,
        request: ChatRequest,
        context: CallContext,
    ) -> Result<Answer, CallError> {
        Ok(Answer::new(
            self.call(role, request, context, Mode::Whole).await?,
        ))
    }

    /// Asks a role for a stream. Returns at the commit point: until then any
    /// fault is invisible to the caller.
    ///
    /// Cancel safe, as [`Router::complete`].
    ///
    /// # Errors
    /// [`CallError`] where no model of the roster came to its commit point in time.
    /// Where the role keeps such calls it says by which ticket; what a ticket is
    /// answered with is whole.
    pub async fn stream(
        &self,
        role: &str,
        request: ChatRequest,
        context: CallContext,
    ) -> Result<AnswerStream, CallError> {
        Ok(AnswerStream::new(
            self.call(role, request, context, Mode::Stream).await?,
        ))
    }

    fn role(&self, name: &str) -> Option<Arc<Role>> {
        self.0.current.load().roles.get(name).cloned()
    }

    async fn call(
        &self,
        role: &str,
        request: ChatRequest,
        context: CallContext,
        mode: Mode,
    ) -> Result<Won, CallError> {
        let asked = self.demand(role, &context).map_err(|refused| *refused)?;
        let unit = self.0.unit.clone();
        let call = Call::new(asked, request, context, mode, unit, now());
        let keep = Keep::of(&call, &self.0.unit, self.0.tickets.as_ref());
        match (Box::pin(drive(call, mode)).await, keep) {
            (Err(error), Some(keep)) => Err(Box::pin(keep.after(error)).await),
            (ended, _) => ended,
        }
    }

    /// How long a stream of `role` may be without a commit before its caller is to be
    /// shown a sign of life (`heartbeat_after_ms`). None for an unknown role.
    pub fn heartbeat_after(&self, role: &str) -> Option<Duration> {
        Some(self.role(role)?.policy.heartbeat_after)
    }

    /// The role, or the task of it, that a call is one of, and what it asks of a rung.
    fn demand(
        &self,
        role: &str,
        context: &CallContext,
    ) -> Result<(Arc<Role>, Demand), Box<CallError>> {
        let refuse = |kind: CallErrorKind| {
            Box::new(CallError {
                reason: Some(kind.error_type()),
                kind,
                retry_after: None,
                route: Route::None,
                trail: Arc::new(Trail::default()),
                trace: None,
            })
        };
        let Some(role) = self.role(role) else {
            return Err(refuse(CallErrorKind::UnknownRole(role.to_owned())));
        };
        Demand::of(&role, context).map_err(|failure| refuse(CallErrorKind::Failed(failure)))
    }

    /// Which rung a request of `role` would go to now, and why each other
    /// would not. None for an unknown role.
    pub fn explain(&self, role: &str) -> Option<RoleState> {
        self.explain_call(role, &CallContext::default()).ok()
    }

    /// As [`explain`](Self::explain), for a call with that context: its task,
    /// complexity, least capability and pinned roster count.
    ///
    /// # Errors
    /// [`CallError`] where such a call would be refused before it came to a rung.
    pub fn explain_call(
        &self,
        role: &str,
        context: &CallContext,
    ) -> Result<RoleState, Box<CallError>> {
        let (role, demand) = self.demand(role, context)?;
        Ok(RoleState::of(&role, &demand, now()))
    }

    /// The tasks that the role's policy tells apart, in alphabetical order;
    /// none for an unknown role.
    pub fn tasks(&self, role: &str) -> Vec<String> {
        let role = self.role(role);
        role.map_or_else(Vec::new, |role| role.tasks.keys().cloned().collect())
    }

    /// Everything that it runs on as of now. Reading it takes locks that calls
    /// take for some microseconds each: made for people, not for each request.
    pub fn state(&self) -> RouterState {
        let now = now();
        let generation = self.0.generation();
        let units = generation.roles.values().flat_map(Role::units);
        let state = |unit: Arc<Role>| RoleState::of(&unit, &Demand::standing(&unit), now);
        RouterState {
            roles: units.map(state).collect(),
            drills: self.0.around.drills.states(now),
        }
    }

    /// How the workflow run `id` of `caller` stands, as far as its steps have
    /// ended here; none where there was none within the last day. The 10,000 runs
    /// that were last active are kept. `caller` is what the calls had as
    /// [`CallContext::caller`].
    pub fn workflow(&self, id: &str, caller: Option<&str>) -> Option<Workflow> {
        self.0.around.workflows.get(&key(id, caller), now())
    }

    /// Takes a caller's word for how the workflow run `id` went. The same word
    /// again changes nothing; a call after the end begins a new run of that id.
    ///
    /// # Errors
    /// [`WorkflowError`] where there is no such run, or it went otherwise.
    pub fn end_workflow(
        &self,
        id: &str,
        caller: Option<&str>,
        outcome: WorkflowOutcome,
    ) -> Result<Workflow, WorkflowError> {
        let now = now();
        let around = &self.0.around;
        let (run, event) = around.workflows.end(&key(id, caller), outcome, now)?;
        if let Some(event) = event {
            around.tell(now, None, event);
        }
        Ok(run)
    }

    /// Takes a caller's word for how good the answer to its request of that
    /// [`CallContext::request_id`] was. Of the answers of the last day the latest
    /// 10,000 are known; said again, it replaces what was said before.
    ///
    /// # Errors
    /// [`FeedbackError`] where no such answer is known, or the score is none.
    pub fn feedback(
        &self,
        request_id: &str,
        caller: Option<&str>,
        feedback: Feedback,
    ) -> Result<Judged, FeedbackError> {
        let now = now();
        let around = &self.0.around;
        let (judged, event) = around
            .answers
            .judge(&key(request_id, caller), feedback, now)?;
        around.tell(now, None, event);
        Ok(judged)
    }

    /// What callers say of each model of a role, the primary first, so that
    /// quality during a substitution can be held against quality without. None
    /// for an unknown role.
    pub fn quality(&self, role: &str) -> Option<Vec<ModelQuality>> {
        let role = self.role(role)?;
        let rungs = role.rungs.iter();
        let answers = &self.0.around.answers;
        Some(
            rungs
                .map(|rung| answers.quality(&role.name, &rung.model.id))
                .collect(),
        )
    }

    /// Ends the prober and the work on tickets, and waits for attempts that are
    /// still being measured (at most until their T95). Calls under way are not
    /// touched; those for tickets are dropped, and their tickets stay due.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        self.0.around.tasks.close();
        self.0.around.tasks.wait().await;
    }
}

fn key(id: &str, caller: Option<&str>) -> Key {
    Key {
        caller: caller.map(Arc::from),
        id: Arc::from(id),
    }
}
