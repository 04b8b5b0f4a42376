//! The models of a scenario as providers in this process.

use crate::record::Memory;
use crate::scenario::{Scenario, playing};
use evenkeel_chaos::{Shelf, Simulated, Stats};
use evenkeel_core::{Clock, ModelId, Validator, ValidatorError};
use evenkeel_router::{BuildError, Router};
use jiff::civil::Date;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Simulated providers, the router over them, and what it tells.
#[derive(Debug)]
pub struct World {
    /// The router.
    pub router: Router,
    providers: BTreeMap<String, Simulated>,
    /// The calls that are kept.
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) began: Instant,
}

impl World {
    /// Builds it as it is at the beginning.
    ///
    /// # Errors
    /// Where the router refuses the configuration.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn build(scenario: &Scenario) -> Result<Self, BuildError> {
        let began = Instant::now();
        let mut providers: BTreeMap<String, Simulated> = BTreeMap::new();
        for plan in &scenario.upstream {
            let name = plan.model.provider();
            let seed = scenario.seed.wrapping_add(providers.len() as u64);
            let provider = providers
                .entry(name.to_owned())
                .or_insert_with(|| Simulated::new(name, seed));
            provider.set(plan.model.model(), plan.usual.clone());
        }
        let memory = Arc::new(Memory::default());
        let shelf = Arc::new(Shelf::default());
        let services = scenario.services.clone();
        let mut builder = Router::builder(&scenario.config)
            .observer(memory.clone())
            .clock(Arc::new(Calendar {
                today: scenario.today,
                began,
            }))
            .seed(scenario.seed)
            .tickets(shelf.clone())
            .http_validators(move |config| match playing(&services, config) {
                Some(service) => Ok(service as Arc<dyn Validator>),
                None => Err(ValidatorError::new("the scenario plays no such service")),
            });
        for (name, provider) in &providers {
            builder = builder.provider(name, Arc::new(provider.clone()));
        }
        Ok(Self {
            router: builder.build()?,
            providers,
            shelf,
            memory,
            began,
        })
    }

    /// Lets each model change as the scenario says, until the last change.
    pub(crate) async fn run_changes(providers: BTreeMap<String, Simulated>, scenario: &Scenario) {
        let began = Instant::now();
        let mut changes: Vec<_> = scenario
            .upstream
            .iter()
            .flat_map(|plan| plan.changes.iter().map(move |change| (plan, change)))
            .collect();
        changes.sort_by_key(|(_, change)| change.at);
        for (plan, change) in changes {
            tokio::time::sleep_until(began + change.at).await;
            if let Some(provider) = providers.get(plan.model.provider()) {
                provider.set(plan.model.model(), change.behaviour.clone());
            }
        }
    }

    /// Begins each drill when it is due; each ends by itself. One that the router
    /// refuses is told of nowhere, which the judge sees.
    pub(crate) async fn run_drills(router: Router, scenario: &Scenario) {
        let began = Instant::now();
        let mut drills: Vec<_> = scenario.drills.iter().collect();
        drills.sort_by_key(|drill| drill.from);
        for drill in drills {
            tokio::time::sleep_until(began + drill.from).await;
            let operator = router.operator("scenario");
            let _ = operator.start_drill(drill.kind, &drill.model, drill.lasts);
        }
    }

    /// The providers; clones share their models.
    pub(crate) fn providers(&self) -> BTreeMap<String, Simulated> {
        self.providers.clone()
    }

    /// The calls a model got.
    pub(crate) fn stats(&self, model: &ModelId) -> Stats {
        let provider = self.providers.get(model.provider());
        provider.map_or_else(Stats::default, |p| p.stats(model.model()))
    }
}

/// A calendar that begins on a day, at midnight, and goes on with tokio's clock.
#[derive(Debug)]
struct Calendar {
    today: Date,
    began: Instant,
}

impl Clock for Calendar {
    fn now(&self) -> SystemTime {
        let midnight = jiff::tz::Offset::UTC.to_timestamp(self.today.at(0, 0, 0, 0));
        let seconds = midnight.map_or(0, jiff::Timestamp::as_second);
        let since_1970 = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        SystemTime::UNIX_EPOCH + since_1970 + self.began.elapsed()
    }
}
