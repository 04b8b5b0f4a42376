//! A role over simulated providers, and an observer that remembers.

use evenkeel_chaos::{Behaviour, Latency, Simulated, Stats};
use evenkeel_core::{
    CallContext, ChatRequest, ClockOverrides, Event, EventKind, ModelId, Observer, Provider,
    TicketStore, Trail, TrailStep,
};
use evenkeel_roster::{
    Config, Dialect, ModelConfig, ProviderConfig, RetryBudgetPolicy, RoleConfig, RolePolicy,
    RungConfig,
};
use evenkeel_router::{Answer, AnswerStream, BuildError, CallError, Replaced, Router};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const ROLE: &str = "agent";

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Remembers every event.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Vec<Event>>);

impl Observer for Memory {
    fn on(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Memory {
    pub(crate) fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn all<T>(&self, pick: impl Fn(&EventKind) -> Option<T>) -> Vec<T> {
        let events = self.0.lock().unwrap();
        events.iter().filter_map(|e| pick(&e.kind)).collect()
    }

    pub(crate) fn count(&self, is: impl Fn(&EventKind) -> bool) -> usize {
        self.all(|k| is(k).then_some(())).len()
    }

    /// (from, to) of each activation event.
    pub(crate) fn substitutions(&self) -> Vec<(usize, usize)> {
        self.all(|k| match k {
            EventKind::ModelSubstitution { from, to, .. } => Some((*from, *to)),
            _ => None,
        })
    }

    pub(crate) fn restorations(&self) -> Vec<(usize, usize)> {
        self.all(|k| match k {
            EventKind::ModelRestoration { from, to, .. } => Some((*from, *to)),
            _ => None,
        })
    }
}

/// Rungs `p0/m`, `p1/m`, …, each on a simulated provider of its own.
pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) memory: Arc<Memory>,
    pub(crate) providers: Vec<Simulated>,
    pub(crate) config: Config,
}

type Change<T> = Box<dyn Fn(usize, &mut T)>;
type Wrap = Box<dyn Fn(usize, Simulated) -> Arc<dyn Provider>>;

/// What a test changes of the world before it is built.
pub(crate) struct Plan {
    pub(crate) policy: RolePolicy,
    pub(crate) rungs: Vec<Behaviour>,
    pub(crate) model: Change<ModelConfig>,
    pub(crate) rung: Change<RungConfig>,
    /// What stands before each simulated provider.
    pub(crate) provider: Wrap,
    pub(crate) seed: u64,
    /// Of each provider.
    pub(crate) retry_budget: RetryBudgetPolicy,
    /// Where calls are kept that nobody could answer.
    pub(crate) tickets: Option<Arc<dyn TicketStore>>,
}

pub(crate) fn model_id(rung: usize) -> ModelId {
    ModelId::new(&format!("p{rung}/m")).unwrap()
}

/// A healthy model that answers in exactly `first` ms, at once and whole.
pub(crate) fn steady(first: u64) -> Behaviour {
    Behaviour::healthy(Latency::millis(first))
        .with_tokens(5)
        .with_inter_token(Duration::ZERO)
}

impl Plan {
    /// p95 1 s, p99 2 s, window 20 s; retries off; restoration far away.
    pub(crate) fn new(rungs: Vec<Behaviour>) -> Self {
        let mut policy = RolePolicy::new(ms(1_000), ms(2_000), Duration::from_secs(20));
        policy.retry.rate_limited = 0;
        policy.retry.transient = 0;
        policy.retry.overloaded = 0;
        policy.retry.malformed = 0;
        policy.retry.semantic = 0;
        Self {
            policy,
            rungs,
            model: Box::new(|_, _| {}),
            rung: Box::new(|_, _| {}),
            provider: Box::new(|_, simulated| Arc::new(simulated)),
            seed: 42,
            retry_budget: RetryBudgetPolicy::default(),
            tickets: None,
        }
    }

    pub(crate) fn policy(mut self, change: impl FnOnce(&mut RolePolicy)) -> Self {
        change(&mut self.policy);
        self
    }

    pub(crate) fn model(mut self, change: impl Fn(usize, &mut ModelConfig) + 'static) -> Self {
        self.model = Box::new(change);
        self
    }

    pub(crate) fn rung(mut self, change: impl Fn(usize, &mut RungConfig) + 'static) -> Self {
        self.rung = Box::new(change);
        self
    }

    pub(crate) fn provider(
        mut self,
        wrap: impl Fn(usize, Simulated) -> Arc<dyn Provider> + 'static,
    ) -> Self {
        self.provider = Box::new(wrap);
        self
    }

    pub(crate) fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    pub(crate) fn retry_budget(mut self, budget: RetryBudgetPolicy) -> Self {
        self.retry_budget = budget;
        self
    }

    pub(crate) fn tickets(mut self, store: Arc<dyn TicketStore>) -> Self {
        self.tickets = Some(store);
        self
    }

    pub(crate) fn build(self) -> World {
        self.try_build().unwrap()
    }

    pub(crate) fn try_build(self) -> Result<World, BuildError> {
        let mut provider_configs = BTreeMap::new();
        let mut rungs = Vec::new();
        let mut models = BTreeMap::new();
        let mut providers = Vec::new();
        for (i, behaviour) in self.rungs.into_iter().enumerate() {
            let id = model_id(i);
            let mut rung = if i == 0 {
                RungConfig::primary(id.clone())
            } else {
                RungConfig::fallback(id.clone(), 0.9)
            };
            (self.rung)(i, &mut rung);
            rungs.push(rung);
            let mut model = ModelConfig::new(id.clone());
            (self.model)(i, &mut model);
            models.insert(id, model);
            let mut provider = ProviderConfig::new(format!("p{i}"), Dialect::Simulated);
            provider.retry_budget = self.retry_budget.clone();
            provider_configs.insert(provider.name.clone(), provider);
            let seed = 7 + i as u64;
            providers.push(Simulated::new(&format!("p{i}"), seed).model("m", behaviour));
        }
        let role = RoleConfig {
            name: ROLE.to_owned(),
            policy: self.policy,
            rungs,
        };
        let config = Config {
            roles: BTreeMap::from([(ROLE.to_owned(), role)]),
            models,
            providers: provider_configs,
            ..Config::default()
        };
        let memory = Arc::new(Memory::default());
        let mut builder = Router::builder(&config)
            .observer(memory.clone())
            .seed(self.seed);
        for (i, provider) in providers.iter().enumerate() {
            builder = builder.provider(&format!("p{i}"), (self.provider)(i, provider.clone()));
        }
        if let Some(store) = self.tickets {
            builder = builder.tickets(store);
        }
        Ok(World {
            router: builder.build()?,
            memory,
            providers,
            config,
        })
    }
}

impl World {
    /// Reloads what the world was built of, with this change.
    pub(crate) fn reload(&self, change: impl FnOnce(&mut Config)) -> Result<Replaced, BuildError> {
        let mut config = self.config.clone();
        change(&mut config);
        let mut builder = Router::builder(&config);
        for provider in config.providers.keys() {
            builder = builder.provider(provider, self.router.provider(provider).unwrap());
        }
        builder.replace(&self.router)
    }

    pub(crate) fn set(&self, rung: usize, behaviour: Behaviour) {
        self.providers[rung].set("m", behaviour);
    }

    pub(crate) fn stats(&self, rung: usize) -> Stats {
        self.providers[rung].stats("m")
    }

    pub(crate) async fn ask(&self) -> Result<Answer, CallError> {
        self.ask_with(CallContext::default()).await
    }

    pub(crate) async fn ask_with(&self, context: CallContext) -> Result<Answer, CallError> {
        let request = ChatRequest::user("hello");
        self.router.complete(ROLE, request, context).await
    }

    /// Asks as one session; the rung that answered.
    pub(crate) async fn ask_as(&self, session: &str) -> usize {
        let context = CallContext {
            session: Some(session.into()),
            ..CallContext::default()
        };
        self.ask_with(context).await.unwrap().meta.rung
    }

    pub(crate) async fn stream(&self) -> Result<AnswerStream, CallError> {
        let request = ChatRequest::user("hello");
        self.router
            .stream(ROLE, request, CallContext::default())
            .await
    }

    /// Asks one after the other, `every` apart; who answered each.
    pub(crate) async fn ask_every(&self, n: usize, every: Duration) -> Vec<usize> {
        let mut rungs = Vec::new();
        for _ in 0..n {
            let answer = self.ask().await.unwrap();
            rungs.push(answer.meta.rung);
            tokio::time::sleep(every).await;
        }
        rungs
    }
}

pub(crate) fn deadline(after: Duration) -> CallContext {
    CallContext {
        clocks: ClockOverrides {
            deadline: Some(after),
            ..ClockOverrides::default()
        },
        ..CallContext::default()
    }
}

/// A router of these roles, each a policy and its models, over the providers
/// `p0`, `p1`, …, and what it tells.
pub(crate) fn router(
    roles: Vec<(&str, RolePolicy, Vec<&str>)>,
    providers: Vec<Arc<dyn Provider>>,
) -> (Router, Arc<Memory>) {
    let mut models = BTreeMap::new();
    for id in roles.iter().flat_map(|(_, _, rungs)| rungs) {
        let id = ModelId::new(id).unwrap();
        models.insert(id.clone(), ModelConfig::new(id));
    }
    let role = |name: &str, policy: RolePolicy, rungs: Vec<&str>| RoleConfig {
        name: name.to_owned(),
        policy,
        rungs: rungs
            .into_iter()
            .enumerate()
            .map(|(rank, model)| match rank {
                0 => RungConfig::primary(ModelId::new(model).unwrap()),
                _ => RungConfig::fallback(ModelId::new(model).unwrap(), 0.9),
            })
            .collect(),
    };
    let roles = roles
        .into_iter()
        .map(|(name, policy, rungs)| (name.to_owned(), role(name, policy, rungs)))
        .collect();
    let config = Config {
        roles,
        models,
        providers: BTreeMap::new(),
        ..Config::default()
    };
    let memory = Arc::new(Memory::default());
    let mut builder = Router::builder(&config).observer(memory.clone()).seed(42);
    for (i, provider) in providers.into_iter().enumerate() {
        builder = builder.provider(&format!("p{i}"), provider);
    }
    (builder.build().unwrap(), memory)
}

/// The trail in short: `0 first failed`, `skip 1 cooldown`, `wait 0`, …
pub(crate) fn told(trail: &Trail) -> Vec<String> {
    use evenkeel_core::AttemptOutcome as Outcome;
    let line = |step: &TrailStep| match step {
        TrailStep::Attempt(a) => {
            let end = match &a.outcome {
                Outcome::Won => "won".to_owned(),
                Outcome::Lost => "lost".to_owned(),
                Outcome::Failed(f) => f.class.to_string(),
                Outcome::Cancelled => "cancelled".to_owned(),
                _ => "running".to_owned(),
            };
            format!("{} {} {end}", a.rung, a.kind.as_str())
        }
        TrailStep::Skipped { rung, refusal, .. } => format!("skip {rung} {}", refusal.as_str()),
        TrailStep::Waited { rung, reason, .. } => format!("wait {rung} {reason}"),
        TrailStep::HedgeRefused { rung, reason, .. } => format!("no hedge {rung} {reason}"),
        TrailStep::RetryRefused { rung, .. } => format!("no retry {rung}"),
        TrailStep::Resumed { rung, from, .. } => format!("{rung} goes on for {from}"),
        TrailStep::Adapted { rung, what } => format!("adapted {rung} {what}"),
        TrailStep::NotValidated {
            rung, validator, ..
        } => format!("no verdict {rung} {validator}"),
        _ => "other".to_owned(),
    };
    trail.steps.iter().map(line).collect()
}
