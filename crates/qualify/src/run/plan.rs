//! What is to be measured, and how.

use super::RunError;
use super::load::Load;
use crate::golden::{Golden, Item};
use evenkeel::Settings;
use evenkeel_core::ModelId;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// How a run asks.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOptions {
    /// How questions reach each candidate.
    pub load: Load,
    /// Whether upstreams are asked for streams, so that first tokens are seen.
    pub is_streamed: bool,
    /// How often each question is asked, at least 1.
    pub repeat: u32,
    /// Only so many items, from the dataset's first; none: all.
    pub limit: Option<usize>,
    /// Seed of arrivals and of whatever else is drawn.
    pub seed: u64,
    /// US dollars that the run may cost; none: no limit.
    pub budget_usd: Option<f64>,
    /// How long a question may wait for rate limits before nothing is learnt from it.
    pub patience: Duration,
}

impl Default for RunOptions {
    /// Everything once, eight at a time, streamed; ten minutes of patience.
    fn default() -> Self {
        Self {
            load: Load::Closed { concurrency: 8 },
            is_streamed: true,
            repeat: 1,
            limit: None,
            seed: 1,
            budget_usd: None,
            patience: Duration::from_secs(600),
        }
    }
}

/// One role's models, and the questions that are put to each of them.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The role.
    pub role: String,
    /// What the candidates are measured against.
    pub primary: ModelId,
    /// The candidates, in the order they were named in.
    pub candidates: Vec<ModelId>,
    /// The questions.
    pub golden: Arc<Golden>,
    /// How they are asked.
    pub options: RunOptions,
    /// Items of the dataset that are asked.
    pub(crate) items: usize,
}

impl Plan {
    /// A plan for `role` of a configuration that was read to be measured
    /// ([`Settings::load_to_measure`]). Without `candidates` they are the roster's
    /// fallbacks; the primary is the first rung.
    ///
    /// Blocks while it counts a dataset whose items name several roles.
    ///
    /// # Errors
    /// [`RunError`] where there is nothing to measure, or an option is out of range.
    pub fn new(
        settings: &Settings,
        role: &str,
        candidates: Option<&[ModelId]>,
        golden: Arc<Golden>,
        options: RunOptions,
    ) -> Result<Self, RunError> {
        check(&options)?;
        let config = settings.config().roles.get(role);
        let config = config.ok_or_else(|| RunError::UnknownRole(role.to_owned()))?;
        let models: Vec<&ModelId> = config.rungs.iter().map(|rung| &rung.model).collect();
        let [primary, fallbacks @ ..] = models.as_slice() else {
            return Err(RunError::UnknownRole(role.to_owned()));
        };
        let asked = candidates.map_or_else(|| fallbacks.to_vec(), |named| named.iter().collect());
        let mut seen = HashSet::from([*primary]);
        let candidates: Vec<ModelId> = asked
            .into_iter()
            .filter(|model| seen.insert(model))
            .cloned()
            .collect();
        if candidates.is_empty() {
            return Err(RunError::NoCandidate {
                role: role.to_owned(),
                primary: (*primary).clone(),
            });
        }
        let mut plan = Self {
            role: role.to_owned(),
            primary: (*primary).clone(),
            candidates,
            golden,
            options,
            items: 0,
        };
        plan.check_prices(settings)?;
        plan.items = plan.count()?;
        Ok(plan)
    }

    /// The primary, then the candidates.
    pub fn models(&self) -> impl Iterator<Item = &ModelId> {
        std::iter::once(&self.primary).chain(&self.candidates)
    }

    /// Questions put to each model: items, each as often as it is repeated.
    pub fn questions(&self) -> usize {
        self.items.saturating_mul(repeats(self.options.repeat))
    }

    /// Whether an item is one of this role's.
    pub(crate) fn is_asked(&self, item: &Item) -> bool {
        item.role.as_deref().is_none_or(|role| role == self.role)
    }

    /// How many items are read from the dataset; none: all, since some of them are
    /// not this role's.
    pub(crate) fn read_limit(&self) -> Option<usize> {
        self.options.limit.filter(|_| self.is_all_ours())
    }

    fn is_all_ours(&self) -> bool {
        self.golden.roles().iter().all(|role| **role == *self.role)
    }

    fn count(&self) -> Result<usize, RunError> {
        let most = self.options.limit.unwrap_or(usize::MAX);
        let mut count = 0;
        if self.is_all_ours() {
            count = self.golden.count();
        } else {
            for item in self.golden.items(None) {
                count += usize::from(self.is_asked(&item?));
            }
        }
        if count == 0 {
            return Err(RunError::NoItem {
                path: self.golden.path().to_owned(),
                role: self.role.clone(),
                roles: self
                    .golden
                    .roles()
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
            });
        }
        Ok(count.min(most))
    }

    /// A budget needs to know what every answer costs, and every judgement.
    fn check_prices(&self, settings: &Settings) -> Result<(), RunError> {
        if self.options.budget_usd.is_none() {
            return Ok(());
        }
        let models = &settings.config().models;
        let has_prices = |id: &&ModelId| {
            models.get(id).is_some_and(|model| {
                model.input_usd_per_mtok.is_some() && model.output_usd_per_mtok.is_some()
            })
        };
        let roles = &settings.config().roles;
        let judges = self.golden.judges().iter();
        let judges = judges.filter_map(|role| Some(&roles.get(&**role)?.rungs.first()?.model));
        let mut priceless: Vec<ModelId> = Vec::new();
        for model in self
            .models()
            .chain(judges)
            .filter(|model| !has_prices(model))
        {
            if !priceless.contains(model) {
                priceless.push(model.clone());
            }
        }
        if priceless.is_empty() {
            Ok(())
        } else {
            Err(RunError::NoPrices(priceless))
        }
    }
}

fn check(options: &RunOptions) -> Result<(), RunError> {
    options.load.check()?;
    let at_least_one = |key| RunError::OutOfRange {
        key,
        seen: "0".to_owned(),
        expected: "at least 1",
    };
    if options.repeat == 0 {
        return Err(at_least_one("the number of repeats"));
    }
    if options.limit == Some(0) {
        return Err(at_least_one("the limit of items"));
    }
    match options.budget_usd {
        Some(usd) if !(usd.is_finite() && usd >= 0.0) => Err(RunError::OutOfRange {
            key: "the budget",
            seen: format!("{usd} US dollars"),
            expected: "0 or more",
        }),
        _ => Ok(()),
    }
}

pub(crate) fn repeats(repeat: u32) -> usize {
    usize::try_from(repeat).unwrap_or(usize::MAX)
}
