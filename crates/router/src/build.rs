//! Building a router from a configuration and its providers.

mod assembly;
mod settings;

use self::assembly::Assembly;
use crate::call::Unit;
use crate::decomposition::Decomposition;
use crate::drill::Drills;
use crate::drive::now;
use crate::generation::Generation;
use crate::health::{ModelHealth, ProviderHealth};
use crate::role::Role;
use crate::router::{Inner, Router};
use crate::surroundings::Surroundings;
use crate::tailor::Tailoring;
use crate::validation::{Blocking, HttpValidators};
use arc_swap::ArcSwap;
use evenkeel_core::{
    Clock, ModelId, NoObserver, Observer, Provider, SystemClock, TicketStore, Validator,
    ValidatorError,
};
use evenkeel_prompts::PromptSet;
use evenkeel_roster::{Config, HttpValidatorConfig, OnExhausted, PolicyError, RoleConfig};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Why a router can't be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A rung's provider was not handed in.
    #[error("role `{role}`: no provider `{provider}` was given for model `{model}`")]
    MissingProvider {
        /// The role.
        role: String,
        /// The provider.
        provider: String,
        /// The model.
        model: ModelId,
    },
    /// A role without rungs.
    #[error("role `{0}` has no model")]
    EmptyRoster(String),
    /// A role that keeps calls, and nowhere to keep them.
    #[error("role `{0}` keeps calls that nobody could answer, and no ticket store was given")]
    NoTicketStore(String),
    /// A validator for a role that is not configured.
    #[error("a validator was given for role `{0}`, which is not configured")]
    UnknownRole(String),
    /// A role whose policy names a validator of kind `http`, and nothing that makes those.
    #[error(
        "role `{0}`: its policy names a validator of kind `http`, and this process was given nothing that asks it: \
         hand it in with RouterBuilder::http_validators, or run the gateway"
    )]
    NoHttpValidators(String),
    /// A validator of kind `http` that cannot be made.
    #[error("role `{role}`: its validator of kind `http`")]
    HttpValidator {
        /// The role.
        role: String,
        /// What is wrong.
        #[source]
        source: ValidatorError,
    },
    /// A task that orders a model which its role does not have.
    #[error("role `{role}`, task `{task}`: `{model}` is not in the role's roster")]
    UnknownTaskModel {
        /// The role.
        role: String,
        /// The task.
        task: String,
        /// The model.
        model: ModelId,
    },
    /// A policy that contradicts itself.
    #[error("role `{role}`")]
    Policy {
        /// The role.
        role: String,
        /// What is wrong.
        #[source]
        source: PolicyError,
    },
    /// A window or restoration setting out of range.
    #[error("role `{role}`")]
    Window {
        /// The role.
        role: String,
        /// What is wrong.
        #[source]
        source: evenkeel_probe::ConfigError,
    },
    /// A breaker or budget setting out of range.
    #[error("{of}")]
    Breaker {
        /// The model, provider or role it is for.
        of: String,
        /// What is wrong.
        #[source]
        source: evenkeel_breaker::ConfigError,
    },
}

/// Collects what a router needs.
#[derive(Debug)]
#[must_use]
pub struct RouterBuilder<'a> {
    config: &'a Config,
    providers: HashMap<String, Arc<dyn Provider>>,
    /// Providers that are new clients of the endpoints they had before.
    same_endpoints: HashSet<String>,
    observer: Option<Arc<dyn Observer>>,
    clock: Arc<dyn Clock>,
    prompts: PromptSet,
    decompositions: BTreeMap<String, Arc<dyn Decomposition>>,
    tickets: Tickets,
    validators: BTreeMap<String, Vec<Arc<dyn Validator>>>,
    http_validators: HttpValidators,
    seed: u64,
}

/// Where calls are kept that nobody could answer.
#[derive(Debug)]
enum Tickets {
    /// Nowhere: a role that wants to is refused.
    None,
    /// Nowhere, and that is meant.
    Off,
    Kept(Arc<dyn TicketStore>),
}

impl<'a> RouterBuilder<'a> {
    pub(crate) fn new(config: &'a Config) -> Self {
        Self {
            config,
            providers: HashMap::new(),
            same_endpoints: HashSet::new(),
            observer: None,
            clock: Arc::new(SystemClock),
            prompts: PromptSet::default(),
            decompositions: BTreeMap::new(),
            tickets: Tickets::None,
            validators: BTreeMap::new(),
            http_validators: HttpValidators::default(),
            seed: 0,
        }
    }

    /// Hands in the provider of that name.
    pub fn provider(mut self, name: &str, provider: Arc<dyn Provider>) -> Self {
        self.providers.insert(name.to_owned(), provider);
        self
    }

    /// Says that the provider of that name is a new client of the endpoint that
    /// the router to be [replaced](RouterBuilder::replace) has by that name:
    /// what is known of its health holds.
    pub fn same_endpoint(mut self, name: &str) -> Self {
        self.same_endpoints.insert(name.to_owned());
        self
    }

    /// Who hears of everything; nobody by default. A panic of it ends in the
    /// router and costs no call its answer.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The calendar clock, for end-of-life dates; the machine's by default.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The roles' prompts; none by default.
    pub fn prompts(mut self, prompts: PromptSet) -> Self {
        self.prompts = prompts;
        self
    }

    /// Judges every whole answer to `role`, after its schema, the validators of
    /// its policy and those given before. Its streams are held until they are valid, unless
    /// the policy says `stream_validation = "pass"`.
    pub fn validator(mut self, role: &str, validator: Arc<dyn Validator>) -> Self {
        let role = self.validators.entry(role.to_owned()).or_default();
        role.push(validator);
        self
    }

    /// How requests of `role` are broken into simpler ones for rungs whose capability
    /// is below its `simplify_below`; not at all by default.
    pub fn decomposition(mut self, role: &str, decomposition: Arc<dyn Decomposition>) -> Self {
        self.decompositions.insert(role.to_owned(), decomposition);
        self
    }

    /// Makes the validators that policies name with `kind = "http"`, one for each;
    /// without it such a policy is refused. What [replaces](RouterBuilder::replace) a
    /// router's configuration need not give it again.
    pub fn http_validators(
        mut self,
        make: impl Fn(&HttpValidatorConfig) -> Result<Arc<dyn Validator>, ValidatorError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.http_validators = HttpValidators::new(make);
        self
    }

    /// Where calls are kept that nobody could answer, for the roles whose policy
    /// says so. The router works on every ticket of its roles in the store.
    pub fn tickets(mut self, store: Arc<dyn TicketStore>) -> Self {
        self.tickets = Tickets::Kept(store);
        self
    }

    /// Keeps no calls, whatever the policies say: for a router that is looked at
    /// and not asked.
    pub fn without_tickets(mut self) -> Self {
        self.tickets = Tickets::Off;
        self
    }

    /// Seed of every jitter; 0 by default. Give each process its own.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Builds the router and starts its prober on the current runtime, and the work
    /// on tickets where there is a store.
    ///
    /// # Errors
    /// [`BuildError`] where the configuration contradicts itself or a provider is missing.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn build(self) -> Result<Router, BuildError> {
        self.check_tickets()?;
        let stop = CancellationToken::new();
        let is_heard = self.observer.is_some();
        let observer = self.observer.unwrap_or_else(|| Arc::new(NoObserver));
        let around = Surroundings {
            wants_content: observer.wants_content(),
            observer,
            is_heard,
            clock: self.clock,
            wake_prober: Arc::new(Notify::new()),
            tasks: TaskTracker::new(),
            workflows: Arc::default(),
            answers: Arc::default(),
            drills: Arc::new(Drills::default()),
            blocking: Blocking::default(),
        };
        let mut assembly = Assembly {
            config: self.config,
            providers: self.providers,
            same_endpoints: self.same_endpoints,
            before: None,
            validators: self.validators,
            http_validators: self.http_validators,
            around: around.clone(),
            tailoring: Arc::new(Tailoring {
                prompts: self.prompts,
                decompositions: self.decompositions,
                ..Tailoring::default()
            }),
            seeds: fastrand::Rng::with_seed(self.seed),
            stop: stop.clone(),
            now: now(),
        };
        let mut parts = assembly.parts()?;
        let roles = std::mem::take(&mut parts.roles).into_iter();
        let roles = roles.map(|(name, role)| (name, Arc::new(role))).collect();
        let generation = Arc::new(parts.generation(roles, &stop));
        let jitter = Mutex::new(assembly.seeds);
        let unit = Unit(Arc::new(move || {
            let mut rng = jitter.lock().unwrap_or_else(PoisonError::into_inner);
            rng.f64()
        }));
        let tickets = match self.tickets {
            Tickets::Kept(store) => Some(store),
            Tickets::None | Tickets::Off => None,
        };
        let inner = Inner {
            current: ArcSwap::new(generation.clone()),
            replacing: Mutex::new(()),
            unit,
            tickets,
            around,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        };
        generation.start(&inner);
        Ok(Router::new(inner))
    }

    /// Where a role keeps calls there must be something that keeps them.
    fn check_tickets(&self) -> Result<(), BuildError> {
        let keeps = |role: &&RoleConfig| role.policy.on_exhausted != OnExhausted::Error;
        match (&self.tickets, self.config.roles.values().find(keeps)) {
            (Tickets::None, Some(role)) => Err(BuildError::NoTicketStore(role.name.clone())),
            _ => Ok(()),
        }
    }

    /// What the configuration comes to beside a router that runs on `before`.
    pub(crate) fn parts(self, inner: &Inner, before: &Generation) -> Result<Parts, BuildError> {
        if inner.tickets.is_none() {
            self.check_tickets()?;
        }
        let mut assembly = Assembly {
            config: self.config,
            providers: self.providers,
            same_endpoints: self.same_endpoints,
            before: Some(before),
            validators: self.validators,
            http_validators: self.http_validators.or(&before.http_validators),
            around: inner.around.clone(),
            tailoring: Arc::new(Tailoring {
                prompts: self.prompts,
                decompositions: self.decompositions,
                ..Tailoring::default()
            }),
            seeds: fastrand::Rng::with_seed((inner.unit.0)().to_bits()),
            stop: inner.stop.clone(),
            now: now(),
        };
        assembly.parts()
    }
}

/// The parts of a generation, before it runs.
pub(crate) struct Parts {
    pub(crate) roles: BTreeMap<String, Role>,
    pub(crate) models: BTreeMap<ModelId, Arc<ModelHealth>>,
    pub(crate) providers: BTreeMap<String, Arc<ProviderHealth>>,
    pub(crate) clients: HashMap<String, Arc<dyn Provider>>,
    pub(crate) config: Config,
    pub(crate) tailoring: Arc<Tailoring>,
    pub(crate) http_validators: HttpValidators,
}

impl Parts {
    /// The generation of these parts with `roles`; it ends with the router, `stop`.
    pub(crate) fn generation(
        self,
        roles: BTreeMap<String, Arc<Role>>,
        stop: &CancellationToken,
    ) -> Generation {
        Generation {
            roles,
            models: self.models,
            providers: self.providers,
            clients: self.clients,
            config: self.config,
            tailoring: self.tailoring,
            http_validators: self.http_validators,
            stop: stop.child_token(),
        }
    }
}

impl Inner {
    /// The only role of a configuration, beside those of `generation`, whose
    /// providers and tailoring it has; of its health it shares nothing.
    pub(crate) fn role_alone(
        &self,
        config: &Config,
        generation: &Generation,
    ) -> Result<Role, BuildError> {
        let mut assembly = Assembly {
            config,
            providers: generation.clients.clone(),
            same_endpoints: HashSet::new(),
            before: None,
            validators: BTreeMap::new(),
            http_validators: generation.http_validators.clone(),
            around: self.around.clone(),
            tailoring: generation.tailoring.clone(),
            seeds: fastrand::Rng::with_seed((self.unit.0)().to_bits()),
            stop: self.stop.clone(),
            now: now(),
        };
        let parts = assembly.parts()?;
        let role = parts.roles.into_values().next();
        role.ok_or_else(|| BuildError::EmptyRoster(String::new()))
    }
}
