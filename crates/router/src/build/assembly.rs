//! A router being put together from its configuration.

use super::settings::{breaker, listener, recovery, support};
use super::{BuildError, Parts};
use crate::demand::Task;
use crate::generation::Generation;
use crate::health::{Endpoint, Hold, ModelHealth, ProviderHealth};
use crate::life::LifeWatch;
use crate::role::Role;
use crate::rung::{Measure, Rung, limits};
use crate::shadow::Candidate;
use crate::surroundings::Surroundings;
use crate::tailor::Tailoring;
use crate::throttle::Throttle;
use crate::validation::{HttpValidators, Validation};
use evenkeel_breaker::{Breaker, Cooldown, HedgeBudget, RetryBudget};
use evenkeel_core::{ModelId, Provider, Validator};
use evenkeel_probe::{LatencyWindow, Recovery, WindowConfig};
use evenkeel_prompts::{Calibration, ModelCounter};
use evenkeel_roster::{
    Config, Dialect, ModelConfig, ProviderConfig, RoleConfig, RolePolicy, RungConfig, ShadowPolicy,
    TaskPolicy, ValidatorConfig,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
type HealthByModel = BTreeMap<ModelId, Arc<ModelHealth>>;
type HealthByProvider = BTreeMap<String, Arc<ProviderHealth>>;

/// A router being put together.
pub(super) struct Assembly<'a> {
    pub(super) config: &'a Config,
    pub(super) providers: HashMap<String, Arc<dyn Provider>>,
    pub(super) same_endpoints: HashSet<String>,
    /// What the router runs on that this is to replace.
    pub(super) before: Option<&'a Generation>,
    pub(super) around: Surroundings,
    pub(super) tailoring: Arc<Tailoring>,
    pub(super) validators: BTreeMap<String, Vec<Arc<dyn Validator>>>,
    pub(super) http_validators: HttpValidators,
    pub(super) seeds: fastrand::Rng,
    /// Cancelled when the router ends.
    pub(super) stop: CancellationToken,
    pub(super) now: Instant,
}

impl Assembly<'_> {
    pub(super) fn parts(&mut self) -> Result<Parts, BuildError> {
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
        let server = Arc::new(config.served_by());
        let wrong = |source| BuildError::Breaker {
            of: format!("provider `{name}`"),
            source,
        };
        let breaker = breaker(&config.breaker, self.seeds.u64(..), self.now)
            .map_err(wrong)?
            .with_listener(listener(&self.around, &server, None, None));
        let budget = &config.retry_budget;
        let retries = RetryBudget::new(budget.ratio, budget.reserve, budget.window, self.now)
            .map_err(wrong)?;
        Ok(ProviderHealth {
            name: name.clone(),
            provider,
            propagate: config.propagate,
            server,
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
            .with_listener(listener(&self.around, &provider.server, Some(id), None));
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
            life: LifeWatch::default(),
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
            tools_or_json: Arc::default(),
            support: support(&config, self.config.providers.get(id.provider())),
            config,
        })
    }

    pub(super) fn role(
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
        let mut role = Role::new(
            name,
            policy,
            rungs,
            self.tailoring.clone(),
            hedges,
            self.around.clone(),
            self.now,
        );
        role.stamp.clone_from(&self.config.stamp);
        Ok(role)
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
                &model.provider.server,
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
