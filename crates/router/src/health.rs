//! What roles share: the health of models and providers.

use crate::drill::DrillPlace;
use crate::life::LifeWatch;
use crate::prober::ProbeBook;
use crate::rung::locked;
use crate::throttle::{Booking, Draw, Throttle};
use evenkeel_breaker::{
    Breaker, Cooldown, OwnedPermit, Recorded, RetryBudget, State as BreakerState,
};
use evenkeel_core::{
    Class, CountsOn, DrillKind, EventKind, Failure, ModelId, Provider, Refusal, Scope, Server,
    SubstitutionReason,
};
use evenkeel_prompts::{Calibration, ModelCounter};
use evenkeel_roster::{BreakerPolicy, ModelConfig, RetryBudgetPolicy};
use evenkeel_schema_adapter::ModelSupport;
use jiff::civil::Date;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A model or provider set aside until an instant, and why.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    /// False while nothing was ever held: the usual case costs one load.
    ever: AtomicBool,
    held: Mutex<Option<Held>>,
}

/// One hold: since when, until when, and for which class of failure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) class: Class,
    pub(crate) since: Instant,
    pub(crate) until: Instant,
}

impl Hold {
    /// Holds until `until`, or longer if it does already. True where a hold begins.
    fn start(&self, class: Class, until: Instant, now: Instant) -> bool {
        let mut held = locked(&self.held);
        let running = held.filter(|old| old.until > now);
        if running.is_none_or(|old| until > old.until) {
            let since = running.map_or(now, |old| old.since);
            *held = Some(Held {
                class,
                since,
                until,
            });
        }
        self.ever.store(true, Ordering::Release);
        running.is_none()
    }

    /// The hold that is in force at `now`.
    pub(crate) fn current(&self, now: Instant) -> Option<Held> {
        if !self.ever.load(Ordering::Acquire) {
            return None;
        }
        locked(&self.held).filter(|held| held.until > now)
    }

    /// Ends the hold that is in force at `now`, and says which it was.
    pub(crate) fn lift(&self, now: Instant) -> Option<Held> {
        let lifted = self.current(now);
        *locked(&self.held) = None;
        lifted
    }

    pub(crate) fn remaining(&self, now: Instant) -> Option<(Class, Duration)> {
        let held = self.current(now)?;
        Some((held.class, held.until.saturating_duration_since(now)))
    }
}

/// A configured endpoint, shared by all roles.
#[derive(Debug)]
pub(crate) struct ProviderHealth {
    pub(crate) name: Arc<str>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) propagate: bool,
    /// Who that is, and where.
    pub(crate) server: Arc<Server>,
    pub(crate) breaker: Arc<Breaker>,
    pub(crate) retries: Arc<RetryBudget>,
    pub(crate) hold: Hold,
    pub(crate) models: OnceLock<Vec<Weak<ModelHealth>>>,
    /// The same wherever health is that of the same endpoint.
    pub(crate) endpoint: Arc<Endpoint>,
    /// The settings of its breaker and its retry budget.
    pub(crate) settings: (BreakerPolicy, RetryBudgetPolicy),
}

/// What a provider reaches.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Microseconds from `born` to the last answer of any of its models.
    last_answer: AtomicU64,
    born: Instant,
}

impl Endpoint {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            last_answer: AtomicU64::new(0),
            born: now,
        }
    }

    fn answered(&self, now: Instant) {
        let at = now.saturating_duration_since(self.born).as_micros();
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        self.last_answer.fetch_max(at, Ordering::Relaxed);
    }

    fn last_answer(&self) -> Instant {
        self.born + Duration::from_micros(self.last_answer.load(Ordering::Relaxed))
    }
}

impl ProviderHealth {
    /// Opens the provider's own breaker when two or more of its models are
    /// open and none has answered since the first of them opened.
    fn judge_models(&self, now: Instant) {
        let Some(models) = self.models.get() else {
            return;
        };
        let opened: Vec<Instant> = models
            .iter()
            .filter_map(Weak::upgrade)
            .map(|m| m.breaker.snapshot(now))
            .filter(|s| s.state == BreakerState::Open)
            .map(|s| s.since)
            .collect();
        let Some(first) = opened.iter().min() else {
            return;
        };
        let last = self.endpoint.last_answer();
        if opened.len() >= 2 && last <= *first && self.breaker.state(now) == BreakerState::Closed {
            let _ = self.breaker.trip(now);
        }
    }
}

/// A model, shared by all roles.
#[derive(Debug)]
pub(crate) struct ModelHealth {
    pub(crate) id: ModelId,
    /// Its name at the provider.
    pub(crate) wire_name: Arc<str>,
    pub(crate) provider: Arc<ProviderHealth>,
    pub(crate) breaker: Arc<Breaker>,
    pub(crate) cooldown: Arc<Cooldown>,
    pub(crate) hold: Hold,
    /// The drill that takes it away.
    pub(crate) drill: Arc<DrillPlace>,
    /// When it was probed, and what that cost.
    pub(crate) probes: Arc<Mutex<ProbeBook>>,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) capacity: Arc<Semaphore>,
    pub(crate) config: ModelConfig,
    /// What its answers say of its life.
    pub(crate) life: LifeWatch,
    pub(crate) counter: Arc<ModelCounter>,
    /// Reported over estimated input tokens.
    pub(crate) billed: Arc<Calibration>,
    pub(crate) support: ModelSupport,
    /// Whether it has refused a request for JSON that had tools too: then the JSON is asked
    /// for in the prompt.
    pub(crate) tools_or_json: Arc<AtomicBool>,
}

/// What a failure set aside, to be told to the observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetAside {
    Cooldown(Duration),
    ModelHold(Duration),
    ProviderHold(Duration),
}

impl SetAside {
    /// The event that tells of it.
    pub(crate) fn event(self, model: &ModelHealth, class: Class) -> EventKind {
        let hold = |of: Option<ModelId>, duration| EventKind::HoldStarted {
            provider: model.provider.name.clone(),
            system: model.provider.server.system.clone(),
            model: of,
            class,
            duration,
        };
        match self {
            Self::Cooldown(duration) => EventKind::CooldownStarted {
                model: model.id.clone(),
                duration,
            },
            Self::ModelHold(duration) => hold(Some(model.id.clone()), duration),
            Self::ProviderHold(duration) => hold(None, duration),
        }
    }
}

impl ModelHealth {
    /// Whether `other` is the same model of the same endpoint.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.id == other.id && Arc::ptr_eq(&self.provider.endpoint, &other.provider.endpoint)
    }

    /// Why the model can't be asked as of `now`, capacity left out.
    pub(crate) fn refusal(&self, now: Instant, today: Date) -> Option<Refusal> {
        let cooldown = || self.cooldown.remaining(now).map(Refusal::Cooldown);
        self.set_aside_for(now, today)
            .or_else(cooldown)
            .or_else(|| self.broken(now))
            .or_else(|| self.near_limit(|| Draw::LEAST, now))
    }

    /// Why a request that draws so much can't be sent: it would go over a rate limit.
    pub(crate) fn near_limit(&self, draw: impl FnOnce() -> Draw, now: Instant) -> Option<Refusal> {
        self.throttle.lacks(draw, now).map(Refusal::RateLimitNear)
    }

    /// Why it can't be asked again by a call that has waited.
    pub(crate) fn refusal_of_retry(&self, now: Instant, today: Date) -> Option<Refusal> {
        self.set_aside_for(now, today).or_else(|| self.broken(now))
    }

    /// Why roles are to leave the model for good, or for a drill's length.
    pub(crate) fn retired(&self, now: Instant, today: Date) -> Option<SubstitutionReason> {
        if self.config.is_past_eol(today) {
            return Some(SubstitutionReason::Eol);
        }
        let drill = self.drill.current(now)?;
        (drill.kind == DrillKind::Eol).then_some(SubstitutionReason::Drill)
    }

    fn set_aside_for(&self, now: Instant, today: Date) -> Option<Refusal> {
        if self.config.is_past_eol(today) {
            return Some(Refusal::EndOfLife);
        }
        if let Some(drill) = self.drill.current(now) {
            return Some(Refusal::Drill(drill.remaining(now)));
        }
        let held = self.hold.remaining(now);
        let held = held.or_else(|| self.provider.hold.remaining(now));
        held.map(|(class, remaining)| Refusal::Hold { class, remaining })
    }

    fn broken(&self, now: Instant) -> Option<Refusal> {
        let refused = self.breaker.would_refuse(now);
        let refused = refused.or_else(|| self.provider.breaker.would_refuse(now));
        refused.map(refusal_of)
    }

    /// Permits of both breakers.
    pub(crate) fn admit(&self, now: Instant) -> Result<BreakerPermits, Refusal> {
        let model = self.breaker.admit_owned(now).map_err(refusal_of)?;
        let provider = self.provider.breaker.admit_owned(now).map_err(refusal_of)?;
        Ok(BreakerPermits { model, provider })
    }

    /// What `failure` means for later calls: cooldowns and holds. Some where one begins.
    pub(crate) fn set_aside(&self, failure: &Failure, now: Instant) -> Option<SetAside> {
        let wait = failure.retry_after;
        let hold = &self.config.hold;
        match failure.class {
            Class::RateLimited => {
                let begins = self.cooldown.remaining(now).is_none();
                let lasting = self.cooldown.start(now, wait);
                begins.then_some(SetAside::Cooldown(lasting))
            }
            Class::QuotaExhausted => self.start_hold(failure, wait.unwrap_or(hold.quota), now),
            Class::Auth => self.start_hold(failure, hold.credential, now),
            Class::ModelGone => self.start_hold(failure, hold.model_gone, now),
            _ => None,
        }
    }

    fn start_hold(&self, failure: &Failure, lasting: Duration, now: Instant) -> Option<SetAside> {
        if lasting.is_zero() {
            return None;
        }
        // A date beyond the clock's range holds for a day at a time.
        let until = now
            .checked_add(lasting)
            .unwrap_or_else(|| now + Duration::from_secs(86_400));
        if failure.scope == Scope::Provider {
            let begins = self.provider.hold.start(failure.class, until, now);
            begins.then_some(SetAside::ProviderHold(lasting))
        } else {
            let begins = self.hold.start(failure.class, until, now);
            begins.then_some(SetAside::ModelHold(lasting))
        }
    }
}

fn refusal_of(refused: evenkeel_breaker::Refused) -> Refusal {
    if refused.state == BreakerState::HalfOpen {
        Refusal::BreakerTrial(refused.retry_in)
    } else {
        Refusal::BreakerOpen(refused.retry_in)
    }
}

/// The permits an attempt holds while it runs. Dropped, they count as cancelled.
#[derive(Debug)]
pub(crate) struct BreakerPermits {
    model: OwnedPermit,
    provider: OwnedPermit,
}

/// Everything an attempt holds while it runs.
#[derive(Debug)]
pub(crate) struct Permits {
    pub(crate) breakers: BreakerPermits,
    pub(crate) semantic: OwnedPermit,
    pub(crate) capacity: OwnedSemaphorePermit,
    /// Of its rate limits, where any are known.
    pub(crate) booking: Option<Booking>,
}

impl Permits {
    /// The attempt gave a valid answer.
    pub(crate) fn succeeded(self, model: &ModelHealth, now: Instant) {
        let _ = self.breakers.model.success(now);
        let _ = self.breakers.provider.success(now);
        let _ = self.semantic.success(now);
        model.provider.endpoint.answered(now);
        model.cooldown.succeeded(now);
        drop(self.capacity);
    }

    /// The attempt failed: its class says what that counts on. Given back is the permit of
    /// the count of useless answers, for a failure that counts there.
    #[must_use]
    pub(crate) fn failed(
        self,
        model: &ModelHealth,
        failure: &Failure,
        now: Instant,
    ) -> Option<OwnedPermit> {
        let wait = failure.retry_after;
        match failure.class.counts_on() {
            CountsOn::Nothing => {}
            CountsOn::Model => {
                let Recorded { transition, .. } = self.breakers.model.failure(now, wait);
                self.breakers.provider.ignore();
                if transition.is_some() {
                    model.provider.judge_models(now);
                }
            }
            CountsOn::ModelAndProvider => {
                let _ = self.breakers.model.failure(now, wait);
                let _ = self.breakers.provider.failure(now, wait);
            }
            // The wire was fine and the answer useless: a count of its own, neutral for
            // the health of model and provider.
            CountsOn::Semantic => return Some(self.semantic),
        }
        None
    }
}
