//! What an operator may do to a running router. Each act is told.

use crate::drill::Drill;
use crate::drive::now;
use crate::generation::Generation;
use crate::health::ModelHealth;
use crate::role::Role;
use crate::router::{Inner, Router};
use crate::rung::Rung;
use crate::state::DrillState;
use evenkeel_breaker::Breaker;
use evenkeel_core::{Class, DrillKind, EventKind, ModelId, RestorationReason};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep_until;

/// Longest drill. One that is forgotten must not outlive the day.
const LONGEST_DRILL: Duration = Duration::from_secs(86_400);

/// Acts in an operator's name; from [`Router::operator`].
#[derive(Debug, Clone, Copy)]
pub struct Operator<'a> {
    router: &'a Router,
    name: &'a str,
}

/// Which breaker is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakerTarget {
    /// A model's, for all roles.
    Model(ModelId),
    /// A provider's own.
    Provider(String),
    /// The count of a model's useless answers to one role.
    Semantic {
        /// The role.
        role: String,
        /// The model.
        model: ModelId,
    },
}

/// What is done to a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakerAction {
    /// It refuses all calls until it is reset or disabled.
    ForceOpen,
    /// It takes all calls and counts none until it is reset or forced open.
    Disable,
    /// It is closed, with nothing counted.
    Reset,
}

impl BreakerAction {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ForceOpen, Self::Disable, Self::Reset];

    /// `force_open`, `disable` or `reset`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ForceOpen => "force_open",
            Self::Disable => "disable",
            Self::Reset => "reset",
        }
    }
}

/// What [`Operator::release`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Released {
    /// Whether the model was resting after a rate limit.
    pub cooldown: bool,
    /// What the model was held for.
    pub hold: Option<Class>,
    /// What its provider was held for.
    pub provider_hold: Option<Class>,
}

/// Why an act was refused. Nothing is changed then, and nothing told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// No such role.
    #[error("no role is named `{0}`")]
    UnknownRole(String),
    /// The role has no such rung.
    #[error("role `{role}` has {rungs} rungs, 0 is the primary: there is no rung {rung}")]
    NoSuchRung {
        /// The role.
        role: String,
        /// The rung asked for.
        rung: usize,
        /// How many it has.
        rungs: usize,
    },
    /// The rung's model is past its end of life.
    #[error("model `{0}` is past its end of life: no call would be taken there")]
    PastEndOfLife(ModelId),
    /// No role has that model.
    #[error("no role has a model `{0}`")]
    UnknownModel(ModelId),
    /// No role has a model of that provider.
    #[error("no role has a model of a provider `{0}`")]
    UnknownProvider(String),
    /// The role has no such model.
    #[error("role `{role}` has no model `{model}`")]
    NotInRoster {
        /// The role.
        role: String,
        /// The model.
        model: ModelId,
    },
    /// The model has a drill already.
    #[error("model `{model}` has a drill already, number {id}")]
    DrillRunning {
        /// The model.
        model: ModelId,
        /// The drill.
        id: u64,
    },
    /// A drill of no length, or longer than a day.
    #[error("a drill of {} ms: expected 1 to {}", .0.as_millis(), LONGEST_DRILL.as_millis())]
    DrillLength(Duration),
    /// No such drill, or it is over.
    #[error("no drill {0} is running")]
    NoSuchDrill(u64),
}

impl Router {
    /// Acts in the name of an operator, which events repeat: a name, no secret.
    pub const fn operator<'a>(&'a self, name: &'a str) -> Operator<'a> {
        Operator { router: self, name }
    }
}

impl Operator<'_> {
    /// Puts a role's traffic on a rung and holds it there, or with none lets
    /// go of it. Tasks that stand on rungs of their own are held on the same model.
    ///
    /// While it is held no breach, recovery, drill or end of life moves the
    /// word, and no canary takes sessions; evidence goes on being recorded.
    /// Single calls go on as ever: a failure fails over, patience hedges. Once
    /// let go, the traffic is at the best rung that was not left for slowness
    /// and is not retired; where one better was, its recovery goes on.
    ///
    /// Says whether anything changed.
    ///
    /// # Errors
    /// An unknown role or rung, or a rung whose model is past its end of life.
    pub fn force(&self, role: &str, rung: Option<usize>) -> Result<bool, OperatorError> {
        let role = self.role(role)?;
        let (now, today) = (now(), role.around.today());
        let Some(to) = rung else {
            let changes = role.units().any(|unit| unit.pin.is_set());
            self.tell("let_go", &role.name, now);
            for unit in role.units() {
                unit.let_go(now, today);
            }
            return Ok(changes);
        };
        let Some(place) = role.rungs.get(to) else {
            return Err(OperatorError::NoSuchRung {
                role: role.name.to_string(),
                rung: to,
                rungs: role.rungs.len(),
            });
        };
        if place.model.config.is_past_eol(today) {
            return Err(OperatorError::PastEndOfLife(place.model.id.clone()));
        }
        let changes = role.pin.rung() != Some(to);
        self.tell("force", format!("{} to rung {to}", role.name), now);
        for unit in role.units() {
            let of = |rung: &Rung| rung.model.id == place.model.id;
            if let Some(to) = unit.rungs.iter().position(of) {
                unit.hold_on(to, now);
            }
        }
        Ok(changes)
    }

    /// Forces a breaker open, disables it, or resets it. Says whether its
    /// state changed.
    ///
    /// # Errors
    /// A role, model or provider that is unknown.
    pub fn breaker(
        &self,
        target: &BreakerTarget,
        action: BreakerAction,
    ) -> Result<bool, OperatorError> {
        let breaker = self.find_breaker(target)?;
        let now = now();
        let named = match target {
            BreakerTarget::Model(model) => model.to_string(),
            BreakerTarget::Provider(provider) => provider.clone(),
            BreakerTarget::Semantic { role, model } => format!("{model} for {role}"),
        };
        self.tell(action.as_str(), named, now);
        let changed = match action {
            BreakerAction::ForceOpen => breaker.force_open(now),
            BreakerAction::Disable => breaker.disable(now),
            BreakerAction::Reset => breaker.reset(now),
        };
        Ok(changed.is_some())
    }

    /// Ends what sets a model aside: its rest after a rate limit, its hold,
    /// and the hold of its provider.
    ///
    /// # Errors
    /// A model that is unknown.
    pub fn release(&self, model: &ModelId) -> Result<Released, OperatorError> {
        let health = self.model(model)?;
        let now = now();
        self.tell("release", model.as_str(), now);
        let cooldown = health.cooldown.remaining(now).is_some();
        health.cooldown.clear();
        Ok(Released {
            cooldown,
            hold: health.hold.lift(now).map(|held| held.class),
            provider_hold: health.provider.hold.lift(now).map(|held| held.class),
        })
    }

    /// Takes a model away for `lasting`, 1 ms to a day, and says the drill's
    /// number. Calls that the model is answering go on. The drill ends by
    /// itself, with an event that says how the fallbacks did.
    ///
    /// Must be called in the runtime of the router.
    ///
    /// # Errors
    /// A model that is unknown or has a drill already, or a length out of range.
    pub fn start_drill(
        &self,
        kind: DrillKind,
        model: &ModelId,
        lasting: Duration,
    ) -> Result<u64, OperatorError> {
        let inner = &self.router.0;
        let health = self.model(model)?;
        if lasting < Duration::from_millis(1) || lasting > LONGEST_DRILL {
            return Err(OperatorError::DrillLength(lasting));
        }
        let now = now();
        let drills = &inner.around.drills;
        let drill = drills.enter(kind, model, lasting, now).map_err(|id| {
            let model = model.clone();
            OperatorError::DrillRunning { model, id }
        })?;
        self.tell("start_drill", format!("{} of {model}", kind.as_str()), now);
        inner.around.tell(now, None, drill.started());
        health.drill.put(drill.clone());
        if kind == DrillKind::Eol {
            let today = inner.around.today();
            for role in inner.generation().units() {
                role.leave_retired(now, today, None);
            }
        }
        let id = drill.id;
        inner.around.tasks.spawn(end_in_time(inner, drill));
        Ok(id)
    }

    /// Ends a drill before its time, and says how the fallbacks did.
    ///
    /// # Errors
    /// No such drill, or it is over.
    pub fn end_drill(&self, id: u64) -> Result<DrillState, OperatorError> {
        let inner = &self.router.0;
        let now = now();
        let drill = inner.around.drills.remove(id);
        let drill = drill.ok_or(OperatorError::NoSuchDrill(id))?;
        self.tell("end_drill", format!("{id} of {}", drill.model), now);
        drill.over.cancel();
        inner.end(&drill, now);
        Ok(drill.state(now))
    }

    /// Tells of an act on the router that is done elsewhere: a reload.
    pub fn acted(&self, action: &'static str, target: &str) {
        self.tell(action, target, now());
    }

    fn tell(&self, action: &'static str, target: impl AsRef<str>, now: Instant) {
        let kind = EventKind::OperatorActed {
            operator: Arc::from(self.name),
            action,
            target: target.as_ref().to_owned(),
        };
        self.router.0.around.tell(now, None, kind);
    }

    fn role(&self, name: &str) -> Result<Arc<Role>, OperatorError> {
        let role = self.router.0.generation().roles.get(name).cloned();
        role.ok_or_else(|| OperatorError::UnknownRole(name.to_owned()))
    }

    fn model(&self, id: &ModelId) -> Result<Arc<ModelHealth>, OperatorError> {
        let model = self.router.0.generation().models.get(id).cloned();
        model.ok_or_else(|| OperatorError::UnknownModel(id.clone()))
    }

    fn find_breaker(&self, target: &BreakerTarget) -> Result<Arc<Breaker>, OperatorError> {
        match target {
            BreakerTarget::Model(model) => Ok(self.model(model)?.breaker.clone()),
            BreakerTarget::Provider(name) => {
                let provider = self.router.0.generation().providers.get(name).cloned();
                let unknown = || OperatorError::UnknownProvider(name.clone());
                Ok(provider.ok_or_else(unknown)?.breaker.clone())
            }
            BreakerTarget::Semantic { role, model } => {
                let of = self.role(role)?;
                let rung = of.rungs.iter().find(|rung| rung.model.id == *model);
                let rung = rung.ok_or_else(|| OperatorError::NotInRoster {
                    role: role.clone(),
                    model: model.clone(),
                })?;
                Ok(rung.semantic.clone())
            }
        }
    }
}

impl Inner {
    /// Gives back what a drill took away.
    fn end(&self, drill: &Drill, now: Instant) {
        let generation = self.generation();
        if let Some(model) = generation.models.get(&drill.model) {
            model.drill.clear();
        }
        self.around.tell(now, None, drill.ended(now));
        if drill.kind == DrillKind::Eol {
            let today = self.around.today();
            for role in generation.units() {
                role.come_back(RestorationReason::Drill, now, today);
            }
        }
    }

    /// Ends the drills of models that no role has any more.
    pub(crate) fn end_drills_without_model(&self, generation: &Generation, now: Instant) {
        for state in self.around.drills.states(now) {
            if generation.models.contains_key(&state.model) {
                continue;
            }
            if let Some(drill) = self.around.drills.remove(state.id) {
                drill.over.cancel();
                self.end(&drill, now);
            }
        }
    }
}

/// Ends a drill when its time is up, if nobody has before. The router awaits
/// it at shutdown, which ends it without waiting.
fn end_in_time(inner: &Arc<Inner>, drill: Arc<Drill>) -> impl Future<Output = ()> + use<> {
    let (router, stop) = (Arc::downgrade(inner), inner.stop.clone());
    async move {
        tokio::select! {
            () = sleep_until(tokio::time::Instant::from_std(drill.until)) => {}
            () = drill.over.cancelled() => return,
            () = stop.cancelled() => {}
        }
        if let Some(inner) = router.upgrade()
            && inner.around.drills.remove(drill.id).is_some()
        {
            inner.end(&drill, now());
        }
    }
}
