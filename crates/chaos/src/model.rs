//! Simulated models: their behaviour now, their counts, their dice.

use crate::stats::{CallGuard, Counts, Ending};
use crate::{Behaviour, Fault, Quota, Stats};
use evenkeel_core::{Allowance, RateLimits};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A model whose behaviour can be replaced while calls run.
#[derive(Debug)]
pub(crate) struct Model {
    counts: Arc<Counts>,
    setting: Mutex<Setting>,
}

#[derive(Debug)]
struct Setting {
    behaviour: Arc<Behaviour>,
    set_at: Instant,
    faults: u64,
    /// Since when requests count on the quota, and how many there were.
    counted: Option<(Instant, u64)>,
    rng: fastrand::Rng,
}

impl Setting {
    /// Counts a request on the quota: what is left of it, and the refusal where
    /// nothing was.
    fn count(&mut self, quota: Quota) -> (RateLimits, Option<Fault>) {
        let now = Instant::now();
        let (since, asked) = match self.counted {
            Some((since, asked)) if now < since + quota.per => (since, asked),
            _ => (now, 0),
        };
        let is_over = asked >= quota.requests;
        let asked = asked + u64::from(!is_over);
        self.counted = Some((since, asked));
        let reset = (since + quota.per).saturating_duration_since(now);
        let requests = Allowance {
            limit: Some(quota.requests),
            remaining: Some(quota.requests - asked),
            reset: Some(reset),
        };
        let limits = RateLimits {
            requests,
            ..RateLimits::default()
        };
        (limits, is_over.then(|| Fault::rate_limited(reset)))
    }
}

/// What was drawn for one call.
#[derive(Debug)]
pub(crate) struct Draw {
    pub(crate) behaviour: Arc<Behaviour>,
    /// Time to the first token of an empty request.
    pub(crate) first_token: Duration,
    /// What is left of the quota, where there is one.
    pub(crate) limits: Option<RateLimits>,
    /// The refusal where nothing was left of it.
    refusal: Option<Fault>,
    /// Whether this call gets the behaviour's fault.
    faulty: bool,
}

impl Draw {
    /// The fault of this call.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        let own = self.behaviour.fault.as_ref().filter(|_| self.faulty);
        self.refusal.as_ref().or(own)
    }
}

impl Model {
    fn new(dice: u64, behaviour: Behaviour, changed: Arc<Notify>) -> Self {
        Self {
            counts: Arc::new(Counts::new(changed)),
            setting: Mutex::new(Setting {
                behaviour: Arc::new(behaviour),
                set_at: Instant::now(),
                faults: 0,
                counted: None,
                rng: fastrand::Rng::with_seed(dice),
            }),
        }
    }

    /// Replaces the behaviour; calls in flight keep the one they began with.
    pub(crate) fn set(&self, behaviour: Behaviour) {
        let mut setting = self.lock();
        setting.behaviour = Arc::new(behaviour);
        setting.set_at = Instant::now();
        setting.faults = 0;
        setting.counted = None;
    }

    pub(crate) fn stats(&self) -> Stats {
        self.counts.read()
    }

    /// Begins a call: counts it and draws what happens to it. Dropped without
    /// an ending it is counted as `if_dropped`.
    pub(crate) fn begin(&self, if_dropped: Ending) -> (Draw, CallGuard) {
        let guard = self.counts.start(if_dropped);
        let mut setting = self.lock();
        let behaviour = Arc::clone(&setting.behaviour);
        let since_set = setting.set_at.elapsed();
        let first_token = behaviour.first_token.sample(&mut setting.rng, since_set);
        let (limits, refusal) = match behaviour.quota {
            Some(quota) => {
                let (limits, refusal) = setting.count(quota);
                (Some(limits), refusal)
            }
            None => (None, None),
        };
        let left = behaviour.fault_times.is_none_or(|n| setting.faults < n);
        let faulty = behaviour.fault.is_some() && left && setting.rng.f64() < behaviour.error_rate;
        setting.faults += u64::from(faulty);
        let draw = Draw {
            behaviour,
            first_token,
            limits,
            refusal,
            faulty,
        };
        (draw, guard)
    }

    fn lock(&self) -> MutexGuard<'_, Setting> {
        self.setting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The models of one provider.
#[derive(Debug)]
pub(crate) struct Models {
    pub(crate) provider: Arc<str>,
    seed: u64,
    /// Told whenever a count changes.
    pub(crate) changed: Arc<Notify>,
    known: RwLock<HashMap<String, Arc<Model>>>,
}

impl Models {
    pub(crate) fn new(provider: &str, seed: u64) -> Self {
        Self {
            provider: Arc::from(provider),
            seed,
            changed: Arc::default(),
            known: RwLock::default(),
        }
    }

    /// A model that is not in the list. Each draws from its own generator,
    /// seeded by `seed` and its name, so that calls to one do not change what
    /// another does.
    pub(crate) fn make(&self, name: &str, behaviour: Behaviour) -> Model {
        let dice = self.seed ^ fnv1a(&format!("{}/{name}", self.provider));
        Model::new(dice, behaviour, Arc::clone(&self.changed))
    }

    /// Replaces the behaviour of `name`, or adds it.
    pub(crate) fn set(&self, name: &str, behaviour: Behaviour) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        match known.get(name) {
            Some(model) => model.set(behaviour),
            None => {
                known.insert(name.to_owned(), Arc::new(self.make(name, behaviour)));
            }
        }
    }

    pub(crate) fn remove(&self, name: &str) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.remove(name);
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Model>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(name).cloned()
    }

    /// Their names, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<String> = known.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// The calls of all of them.
    pub(crate) fn stats(&self) -> Stats {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known
            .values()
            .fold(Stats::default(), |sum, model| sum + model.stats())
    }
}

/// FNV-1a, 64 bits: the same on every platform and version.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_in(model: &Model, calls: usize) -> usize {
        (0..calls)
            .filter(|_| model.begin(Ending::Ok).0.fault().is_some())
            .count()
    }

    #[test]
    fn the_fault_hits_its_share_of_the_calls() {
        let rate = |share| {
            let behaviour = Behaviour::failing(Fault::Hang).with_error_rate(share);
            faults_in(&Models::new("p", 9).make("m", behaviour), 10_000)
        };
        assert_eq!(rate(0.0), 0);
        assert_eq!(rate(1.0), 10_000);
        // Standard deviation 46; four of them.
        let third = rate(0.3);
        assert!((2_816..=3_184).contains(&third), "{third}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_quota_is_used_up_and_full_again_when_its_time_is_over() {
        let minute = Duration::from_secs(60);
        let behaviour = Behaviour::default().with_quota(2, minute);
        let model = Models::new("p", 9).make("m", behaviour);
        let ask = || {
            let (draw, _guard) = model.begin(Ending::Ok);
            let requests = draw.limits.unwrap().requests;
            (requests.remaining, requests.reset, draw.fault().is_some())
        };
        assert_eq!(ask(), (Some(1), Some(minute), false));
        tokio::time::advance(Duration::from_secs(20)).await;
        let left = Some(Duration::from_secs(40));
        assert_eq!(ask(), (Some(0), left, false));
        assert_eq!(ask(), (Some(0), left, true));
        tokio::time::advance(Duration::from_secs(40)).await;
        assert_eq!(ask(), (Some(1), Some(minute), false));
    }

    #[test]
    fn a_bounded_fault_hits_the_first_calls_and_again_after_it_is_set() {
        let behaviour = Behaviour::failing(Fault::Reset).with_fault_times(2);
        let model = Models::new("p", 9).make("m", behaviour.clone());
        assert_eq!(faults_in(&model, 10), 2);
        assert_eq!(faults_in(&model, 10), 0);
        model.set(behaviour);
        assert_eq!(faults_in(&model, 10), 2);
    }
}
