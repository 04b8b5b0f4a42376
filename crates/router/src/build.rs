//! Building a router from a configuration and its providers.

use crate::call::Unit;
use crate::decomposition::Decomposition;
use crate::demand::Task;
use crate::drill::Drills;
use crate::drive::now;
use crate::generation::Generation;
use crate::health::{Endpoint, Hold, ModelHealth, ProviderHealth};
use crate::role::Role;
use crate::router::{Inner, Router};
use crate::rung::{Measure, Rung, limits};
use crate::shadow::Candidate;
use crate::surroundings::Surroundings;
use crate::tailor::Tailoring;
use crate::throttle::Throttle;
use crate::validation::{Blocking, HttpValidators, Validation};
use arc_swap::ArcSwap;
use evenkeel_breaker::{
    Breaker, BreakerConfig, Cooldown, HedgeBudget, RateRule, RateWindow, RetryBudget, Transition,
};
use evenkeel_core::{
    Clock, Event, EventKind, ModelId, NoObserver, Observer, Provider, SystemClock, TicketStore,
    Validator, ValidatorError,
};
use evenkeel_probe::{LatencyWindow, Recovery, RecoveryConfig, WindowConfig};
use evenkeel_prompts::{Calibration, ModelCounter, PromptSet};
use evenkeel_roster::{
    BreakerPolicy, Config, Dialect, HttpValidatorConfig, ModelConfig, OnExhausted, PolicyError,
    ProviderConfig, RoleConfig, RolePolicy, RungConfig, ShadowPolicy, TaskPolicy, ValidatorConfig,
};
use evenkeel_schema_adapter::{Dialect as SchemaDialect, ModelSupport};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;
use tokio::sync::{Notify, Semaphore};
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
    observer: Arc<dyn Observer>,
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
            observer: Arc::new(NoObserver),
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
        self.observer = observer;
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
        let around = Surroundings {
            observer: self.observer,
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
        let parts = assembly.parts()?;
        let roles = parts.roles.into_iter();
        let generation = Arc::new(Generation {
            roles: roles.map(|(name, role)| (name, Arc::new(role))).collect(),
            models: parts.models,
            providers: parts.providers,
            clients: parts.clients,
            config: parts.config,
            tailoring: parts.tailoring,
            http_validators: parts.http_validators,
            stop: stop.child_token(),
        });
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

type HealthByModel = BTreeMap<ModelId, Arc<ModelHealth>>;
type HealthByProvider = BTreeMap<String, Arc<ProviderHealth>>;

/// A router being put together.
struct Assembly<'a> {
    config: &'a Config,
    providers: HashMap<String, Arc<dyn Provider>>,
    same_endpoints: HashSet<String>,
    /// What the router runs on that this is to replace.
    before: Option<&'a Generation>,
    around: Surroundings,
    tailoring: Arc<Tailoring>,
    validators: BTreeMap<String, Vec<Arc<dyn Validator>>>,
    http_validators: HttpValidators,
    seeds: fastrand::Rng,
    /// Cancelled when the router ends.
    stop: CancellationToken,
    now: Instant,
}

impl Assembly<'_> {
    fn parts(&mut self) -> Result<Parts, BuildError> {
        let of_nobody = |role: &&String| !self.config.roles.contains_key(*role);
        if let Some(role) = self.validators.keys().find(of_nobody) {
            return Err(BuildError::UnknownRole(role.clone()));
        }
        let (models, providers) = self.health()?;
        let mut roles = BTreeMap::new();
        for (name, config) in &self.config.roles {
            let mut role = self.role(config, &models)?;
            if let Some(before) = self.before.and_then(|before| before.roles.get(name)) {
                role.take_over(before);
            }
            roles.insert(name.clone(), role);
        }
        Ok(Parts {
            roles,
            models,
            providers,
            clients: std::mem::take(&mut self.providers),
            config: self.config.clone(),
            tailoring: self.tailoring.clone(),
            http_validators: self.http_validators.clone(),
        })
    }

    /// The health of the provider's last client, if this one's is the same.
    fn health_before(&self, new: &ProviderHealth) -> Option<&ProviderHealth> {
        let before = self.before?.providers.get(&*new.name)?;
        let (old, new_client) = (Arc::as_ptr(&before.provider), Arc::as_ptr(&new.provider));
        let same = std::ptr::addr_eq(old, new_client) || self.same_endpoints.contains(&*new.name);
        same.then_some(&**before)
    }

    /// The health of every model that a role names, and of their providers.
    fn health(&mut self) -> Result<(HealthByModel, HealthByProvider), BuildError> {
        let mut providers: HealthByProvider = BTreeMap::new();
        let mut models: BTreeMap<ModelId, Arc<ModelHealth>> = BTreeMap::new();
        for role in self.config.roles.values() {
            let rungs = role.rungs.iter().map(|rung| &rung.model);
            for id in rungs.chain(&role.policy.shadow.model) {
                if models.contains_key(id) {
                    continue;
                }
                let provider = if let Some(known) = providers.get(id.provider()) {
                    known.clone()
                } else {
                    let mut fresh = self.provider_health(&role.name, id)?;
                    if let Some(before) = self.health_before(&fresh) {
                        fresh.take_over(before);
                    }
                    let fresh = Arc::new(fresh);
                    providers.insert(id.provider().to_owned(), fresh.clone());
                    fresh
                };
                let mut model = self.model_health(id, provider)?;
                if let Some(before) = self.before.and_then(|before| before.models.get(id)) {
                    model.take_over(before);
                }
                models.insert(id.clone(), Arc::new(model));
            }
        }
        for (name, provider) in &providers {
            let own = models.values().filter(|m| m.id.provider() == name);
            let own = own.map(Arc::downgrade).collect();
            provider.models.set(own).expect("set once, here");
        }
        Ok((models, providers))
    }

    fn provider_health(
        &mut self,
        role: &str,
        model: &ModelId,
    ) -> Result<ProviderHealth, BuildError> {
        let name = model.provider();
        let Some(provider) = self.providers.get(name).cloned() else {
            return Err(BuildError::MissingProvider {
                role: role.to_owned(),
                provider: name.to_owned(),
                model: model.clone(),
            });
        };
        let config = self.config.providers.get(name).cloned();
        let config = config.unwrap_or_else(|| ProviderConfig::new(name, Dialect::OpenAi));
        let name: Arc<str> = Arc::from(name);
        let wrong = |source| BuildError::Breaker {
            of: format!("provider `{name}`"),
            source,
        };
        let breaker = breaker(&config.breaker, self.seeds.u64(..), self.now)
            .map_err(wrong)?
            .with_listener(listener(&self.around, name.clone(), None, None));
        let budget = &config.retry_budget;
        let retries = RetryBudget::new(budget.ratio, budget.reserve, budget.window, self.now)
            .map_err(wrong)?;
        Ok(ProviderHealth {
            name: name.clone(),
            provider,
            propagate: config.propagate,
            breaker: Arc::new(breaker),
            retries: Arc::new(retries),
            hold: Hold::default(),
            models: OnceLock::new(),
            endpoint: Arc::new(Endpoint::new(self.now)),
            settings: (config.breaker, config.retry_budget),
        })
    }

    fn model_health(
        &mut self,
        id: &ModelId,
        provider: Arc<ProviderHealth>,
    ) -> Result<ModelHealth, BuildError> {
        let config = self.config.models.get(id).cloned();
        let config = config.unwrap_or_else(|| ModelConfig::new(id.clone()));
        let wrong = |source| BuildError::Breaker {
            of: format!("model `{id}`"),
            source,
        };
        let breaker = breaker(&config.breaker, self.seeds.u64(..), self.now)
            .map_err(wrong)?
            .with_listener(listener(
                &self.around,
                provider.name.clone(),
                Some(id),
                None,
            ));
        let cooldown = &config.cooldown;
        let cooldown =
            Cooldown::new(cooldown.base, cooldown.growth, cooldown.cap).map_err(wrong)?;
        Ok(ModelHealth {
            id: id.clone(),
            wire_name: Arc::from(id.model()),
            provider,
            breaker: Arc::new(breaker),
            cooldown: Arc::new(cooldown),
            hold: Hold::default(),
            drill: Arc::default(),
            probes: Arc::default(),
            throttle: Arc::new(Throttle::new(
                config.requests_per_minute,
                config.tokens_per_minute,
                self.now,
            )),
            capacity: Arc::new(Semaphore::new(
                config.max_concurrency.min(Semaphore::MAX_PERMITS),
            )),
            counter: Arc::new(ModelCounter::new(id)),
            billed: Arc::new(Calibration::new(1)),
            support: support(&config, self.config.providers.get(id.provider())),
            config,
        })
    }

    fn role(
        &mut self,
        config: &RoleConfig,
        models: &BTreeMap<ModelId, Arc<ModelHealth>>,
    ) -> Result<Role, BuildError> {
        if config.rungs.is_empty() {
            return Err(BuildError::EmptyRoster(config.name.clone()));
        }
        let name: Arc<str> = Arc::from(config.name.as_str());
        config
            .policy
            .validate()
            .map_err(|source| BuildError::Policy {
                role: config.name.clone(),
                source,
            })?;
        let rungs = config
            .rungs
            .iter()
            .map(|rung| {
                let model = models[&rung.model].clone();
                let semantic = self.semantic(&name, &model)?;
                self.rung(&name, &config.policy, rung, model, semantic)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut role = self.unit(name, config.policy.clone(), rungs)?;
        let own = config.policy.validators.iter();
        let own = own.map(|validator| self.validator(&config.name, validator));
        let mut validators = own.collect::<Result<Vec<_>, _>>()?;
        validators.extend(self.validators.remove(&config.name).unwrap_or_default());
        role.validation = Validation::new(
            validators,
            config.policy.validator_timeout,
            self.around.blocking.clone(),
        );
        role.candidate = self.candidate(&config.policy.shadow, models)?;
        for (task, policy) in &config.policy.tasks {
            let apart = self.apart(config, &role, task, policy)?;
            let policy = policy.clone();
            role.tasks.insert(task.clone(), Task { apart, policy });
        }
        Ok(role)
    }

    /// What a role's policy names to judge its answers.
    fn validator(
        &self,
        role: &str,
        named: &ValidatorConfig,
    ) -> Result<Arc<dyn Validator>, BuildError> {
        let service = match named {
            ValidatorConfig::BuiltIn(own) => return Ok(Arc::new(own.clone())),
            ValidatorConfig::Http(service) => service,
        };
        let made = self.http_validators.make(service);
        let made = made.ok_or_else(|| BuildError::NoHttpValidators(role.to_owned()))?;
        made.map_err(|source| BuildError::HttpValidator {
            role: role.to_owned(),
            source,
        })
    }

    fn unit(
        &self,
        name: Arc<str>,
        policy: RolePolicy,
        rungs: Vec<Rung>,
    ) -> Result<Role, BuildError> {
        let hedge = &policy.hedge;
        let hedges =
            HedgeBudget::new(hedge.budget, hedge.burst).map_err(|source| BuildError::Breaker {
                of: format!("role `{name}`: hedge budget"),
                source,
            })?;
        Ok(Role::new(
            name,
            policy,
            rungs,
            self.tailoring.clone(),
            hedges,
            self.around.clone(),
            self.now,
        ))
    }

    /// Where shadows go, if any do.
    fn candidate(
        &self,
        shadow: &ShadowPolicy,
        models: &BTreeMap<ModelId, Arc<ModelHealth>>,
    ) -> Result<Option<Arc<Candidate>>, BuildError> {
        let Some(model) = shadow.model.as_ref().filter(|_| shadow.share > 0.0) else {
            return Ok(None);
        };
        let model = models[model].clone();
        let cooldown = &model.config.cooldown;
        let rest = Cooldown::new(cooldown.base, cooldown.growth, cooldown.cap);
        let rest = rest.map_err(|source| BuildError::Breaker {
            of: format!("model `{}`", model.id),
            source,
        })?;
        let places = usize::try_from(shadow.max_concurrency).unwrap_or(usize::MAX);
        Ok(Some(Arc::new(Candidate {
            model,
            share: shadow.share,
            capture: shadow.capture,
            places: Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
            rest,
            stop: self.stop.clone(),
        })))
    }

    /// The task's own rungs and word, where it is judged apart from its role.
    /// The health of its models, and the count of their useless answers, is the
    /// role's.
    fn apart(
        &self,
        config: &RoleConfig,
        role: &Role,
        task: &str,
        policy: &TaskPolicy,
    ) -> Result<Option<Arc<Role>>, BuildError> {
        if !policy.stands_apart() {
            return Ok(None);
        }
        let own = policy.policy(&config.policy);
        let order: Vec<usize> = match &policy.order {
            None => (0..config.rungs.len()).collect(),
            Some(order) => order
                .iter()
                .map(|model| {
                    let place = config.rungs.iter().position(|r| r.model == *model);
                    place.ok_or_else(|| BuildError::UnknownTaskModel {
                        role: config.name.clone(),
                        task: task.to_owned(),
                        model: model.clone(),
                    })
                })
                .collect::<Result<_, _>>()?,
        };
        let rungs = order
            .into_iter()
            .map(|place| {
                let shared = &role.rungs[place];
                let (model, semantic) = (shared.model.clone(), shared.semantic.clone());
                self.rung(&role.name, &own, &config.rungs[place], model, semantic)
            })
            .collect::<Result<_, _>>()?;
        let mut unit = self.unit(role.name.clone(), own, rungs)?;
        unit.task = Some(Arc::from(task));
        unit.validation = role.validation.clone();
        unit.candidate.clone_from(&role.candidate);
        Ok(Some(Arc::new(unit)))
    }

    /// The count of a model's useless answers to a role.
    fn semantic(
        &mut self,
        role: &Arc<str>,
        model: &ModelHealth,
    ) -> Result<Arc<Breaker>, BuildError> {
        let semantic = breaker(&model.config.breaker, self.seeds.u64(..), self.now)
            .map_err(|source| BuildError::Breaker {
                of: format!("role `{role}`, model `{}`", model.id),
                source,
            })?
            .with_listener(listener(
                &self.around,
                model.provider.name.clone(),
                Some(&model.id),
                Some(role),
            ));
        Ok(Arc::new(semantic))
    }

    fn rung(
        &self,
        role: &Arc<str>,
        policy: &RolePolicy,
        config: &RungConfig,
        model: Arc<ModelHealth>,
        semantic: Arc<Breaker>,
    ) -> Result<Rung, BuildError> {
        let wrong = |source| BuildError::Window {
            role: role.to_string(),
            source,
        };
        let window = |measure| -> Result<LatencyWindow, evenkeel_probe::ConfigError> {
            let (p95, p99) = limits(policy, measure);
            let config = WindowConfig::new(p95, p99, policy.window)?
                .min_samples(policy.min_samples)
                .confidence(policy.confidence)?
                .spike_detector(policy.spike_detector);
            Ok(LatencyWindow::new(config, self.now))
        };
        let total = window(Measure::Total).map_err(wrong)?;
        let first_token = window(Measure::FirstToken).map_err(wrong)?;
        let recovery = Recovery::new(recovery(policy)).map_err(wrong)?;
        Ok(Rung::new(
            model,
            config,
            (total, first_token),
            semantic,
            recovery,
        ))
    }
}

/// What the model can be asked for JSON by, as the registry says or as is usual
/// where its provider's dialect is spoken.
fn support(model: &ModelConfig, provider: Option<&ProviderConfig>) -> ModelSupport {
    // Of OpenAI's dialect there are servers that enforce another subset.
    let server = provider.and_then(|p| p.server.and_then(SchemaDialect::named));
    let usual = server.unwrap_or_else(|| match provider.map(|p| p.dialect) {
        Some(Dialect::Anthropic) => SchemaDialect::Anthropic,
        Some(Dialect::Gemini) => SchemaDialect::Gemini,
        Some(Dialect::Mistral) => SchemaDialect::Mistral,
        _ => SchemaDialect::OpenAiStrict,
    });
    let named = model.schema_dialect.and_then(SchemaDialect::named);
    let mut support = ModelSupport::of(named.unwrap_or(usual));
    if let Some(native) = model.json_schema {
        support.json_schema = native;
    }
    if let Some(json) = model.json_object {
        support.json_object = json;
    }
    if let Some(forced) = model.forced_tool {
        support.forced_tool = forced;
    } else if model.tools == Some(false) {
        support.forced_tool = false;
    }
    support
}

fn recovery(policy: &RolePolicy) -> RecoveryConfig {
    let restore = &policy.restore;
    RecoveryConfig {
        probe_interval: restore.probe_interval,
        restore_below: restore.restore_below,
        restore_after: restore.restore_after,
        canary: restore.canary.clone(),
        canary_samples: restore.canary_samples,
        canary_max: restore.canary_max,
        hold: restore.hold,
        growth: restore.growth,
        probe_interval_cap: restore.probe_interval_cap,
        reset_after: restore.reset_after,
        ..RecoveryConfig::default()
    }
}

fn breaker(
    policy: &BreakerPolicy,
    seed: u64,
    now: Instant,
) -> Result<Breaker, evenkeel_breaker::ConfigError> {
    Breaker::new(
        BreakerConfig {
            failure_threshold: policy.failure_threshold,
            success_threshold: policy.success_threshold,
            open: policy.open,
            growth: policy.growth,
            open_cap: policy.open_cap,
            jitter: policy.jitter,
            reset_after: policy.reset_after,
            half_open_timeout: policy.half_open_timeout,
            rate: Some(RateRule {
                failure_rate: policy.failure_rate,
                min_calls: policy.min_calls,
                window: RateWindow::Time(policy.window),
                slow: None,
            }),
        },
        seed,
        now,
    )
}

/// Tells the observer of a breaker's transitions.
fn listener(
    around: &Surroundings,
    provider: Arc<str>,
    model: Option<&ModelId>,
    role: Option<&Arc<str>>,
) -> impl Fn(&Transition) + Send + Sync + 'static {
    let observer = around.observer.clone();
    let model = model.cloned();
    let role = role.cloned();
    move |t: &Transition| {
        observer.on(&Event {
            at: t.at,
            call: None,
            kind: EventKind::BreakerTransition {
                provider: provider.clone(),
                model: model.clone(),
                role: role.clone(),
                from: t.from.as_str(),
                to: t.to.as_str(),
                retry_in: t.retry_in,
            },
        });
    }
}
