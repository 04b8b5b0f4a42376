//! What a router runs on at one time: made from one configuration, and put in
//! the place of the last one at once.

use crate::build::{BuildError, RouterBuilder};
use crate::drive::now;
use crate::health::{ModelHealth, ProviderHealth};
use crate::prober::Prober;
use crate::role::Role;
use crate::router::{Inner, Router};
use crate::rung::locked;
use crate::tailor::Tailoring;
use crate::tickets::Worker;
use crate::validation::HttpValidators;
use evenkeel_core::{EventKind, ModelId, Provider};
use evenkeel_roster::Config;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Roles, models and providers of one configuration.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) roles: BTreeMap<String, Arc<Role>>,
    pub(crate) models: BTreeMap<ModelId, Arc<ModelHealth>>,
    pub(crate) providers: BTreeMap<String, Arc<ProviderHealth>>,
    /// Every provider that was handed in, be it in a roster or not.
    pub(crate) clients: HashMap<String, Arc<dyn Provider>>,
    /// What it was made from.
    pub(crate) config: Config,
    pub(crate) tailoring: Arc<Tailoring>,
    /// What makes validators of kind `http`.
    pub(crate) http_validators: HttpValidators,
    /// Ends its prober and its work on tickets.
    pub(crate) stop: CancellationToken,
}

/// What [`RouterBuilder::replace`] changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replaced {
    /// Roles that were not there before.
    pub added: Vec<String>,
    /// Roles that are there no more.
    pub removed: Vec<String>,
    /// Roles whose policy or roster is another.
    pub changed: Vec<String>,
    /// Roles that an operator held on a rung which they no longer have: they
    /// are held no more.
    pub let_go: Vec<String>,
}

impl Generation {
    /// Roles and those of their tasks that stand on rungs of their own.
    pub(crate) fn units(&self) -> impl Iterator<Item = Arc<Role>> {
        self.roles.values().flat_map(Role::units)
    }

    /// Starts its prober and its work on tickets, which the router's tasks await.
    pub(crate) fn start(&self, inner: &Inner) {
        let prober = Prober::new(
            self.units().collect(),
            inner.around.clone(),
            inner.unit.clone(),
        );
        inner.around.tasks.spawn(prober.run(self.stop.clone()));
        if let Some(store) = &inner.tickets {
            let roles = self.roles.values().cloned().collect();
            let worker = Worker::new(roles, inner.unit.clone(), store.clone());
            inner.around.tasks.spawn(worker.run(self.stop.clone()));
        }
    }
}

impl RouterBuilder<'_> {
    /// Puts this configuration in the place of the one that `router` runs on,
    /// at once: calls under way finish on the old one, new ones begin on this.
    ///
    /// Health that still means the same goes on. A provider that is handed in
    /// again ([`Router::provider`]), or as a new client of the same endpoint
    /// ([`RouterBuilder::same_endpoint`]), keeps what is known of it and of its
    /// models: breakers, cooldowns, budgets and capacity whose settings are the
    /// same. Latency windows go on where limits and window are the same; a
    /// role's word and recoveries where its roster and its restoration are,
    /// too, else its traffic begins on its primary. Operators' holds on a role
    /// and drills go on where role and model are still there. Holds for quota,
    /// credential or absence end.
    ///
    /// The router keeps its observer, its clock, its seeds and its ticket store,
    /// whatever this builder says of them. Tickets that are being worked on are
    /// given back and asked for anew.
    ///
    /// # Errors
    /// As [`RouterBuilder::build`]; nothing is changed then.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn replace(self, router: &Router) -> Result<Replaced, BuildError> {
        let inner = &*router.0;
        // One at a time: each takes over from the one before.
        let _replacing = locked(&inner.replacing);
        let before = inner.generation();
        let mut parts = self.parts(inner, &before)?;
        let now = now();
        let mut replaced = Replaced::default();
        let mut roles = BTreeMap::new();
        let mut told = Vec::new();
        for (name, mut role) in std::mem::take(&mut parts.roles) {
            match before.roles.get(&name) {
                None => replaced.added.push(name.clone()),
                Some(old) => {
                    if !role.is_as(old) {
                        replaced.changed.push(name.clone());
                    }
                    let begun = role.settle(old, now);
                    told.extend(begun.moved);
                    if begun.let_go {
                        replaced.let_go.push(name.clone());
                    }
                }
            }
            roles.insert(name, Arc::new(role));
        }
        for (name, old) in &before.roles {
            if !roles.contains_key(name) {
                old.units().for_each(|unit| unit.stand_still());
                replaced.removed.push(name.clone());
            }
        }
        let generation = Arc::new(parts.generation(roles, &inner.stop));
        inner.current.store(generation.clone());
        before.stop.cancel();
        generation.start(inner);
        let names = |names: &[String]| names.iter().map(|name| Arc::from(&**name)).collect();
        let change = EventKind::PolicyChanged {
            policy: generation.config.stamp.clone(),
            added: names(&replaced.added),
            removed: names(&replaced.removed),
            changed: names(&replaced.changed),
        };
        inner.around.tell(now, None, change);
        for kind in told {
            inner.around.tell(now, None, kind);
        }
        inner.end_drills_without_model(&generation, now);
        let today = inner.around.today();
        for role in generation.units() {
            // A model whose date was put off is not left any longer.
            role.return_from_eol(now, today);
        }
        Ok(replaced)
    }
}

impl Inner {
    /// What the router runs on now.
    pub(crate) fn generation(&self) -> Arc<Generation> {
        self.current.load_full()
    }
}
