//! The breaker.

use std::{
    fmt::{self, Debug, Formatter},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};

use crate::{
    config::BreakerConfig,
    error::ConfigError,
    event::{Cause, Transition},
    ledger::Ledger,
    permit::{OwnedPermit, Permit, Refused},
    run::Run,
    snapshot::Snapshot,
    state::{State, Word},
    sync::{AtomicU64, Mutex, Ordering, lock},
    timeline::Timeline,
    window::{Gate, Tally},
};

type Listener = Box<dyn Fn(&Transition) + Send + Sync>;

/// A circuit breaker: see the [crate's page](crate) for its rules.
///
/// Shared by reference or in an [`Arc`]; every method takes `&self` and the current time. Readings may come
/// out of order between threads: one earlier than what was seen before ends nothing early.
pub struct Breaker {
    /// The state; every change happens under the lock, reading takes none.
    pub(crate) word: AtomicU64,
    /// End of the open time of the current open generation, in nanoseconds.
    pub(crate) deadline: AtomicU64,
    pub(crate) run: Run,
    pub(crate) gate: Option<Gate>,
    pub(crate) config: BreakerConfig,
    pub(crate) seed: u64,
    pub(crate) timeline: Timeline,
    pub(crate) ledger: Mutex<Ledger>,
    listeners: Vec<Listener>,
    listener_panics: AtomicU64,
}

impl Breaker {
    /// A closed breaker. `seed` makes its jitter; give each breaker its own.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn new(config: BreakerConfig, seed: u64, now: Instant) -> Result<Self, ConfigError> {
        config.validate()?;
        let timeline = Timeline::from(now);
        Ok(Self {
            word: AtomicU64::new(Word::FIRST.bits()),
            deadline: AtomicU64::new(0),
            run: Run::new(),
            gate: config.rate.as_ref().map(|rule| Gate::new(rule, timeline)),
            config,
            seed,
            timeline,
            ledger: Mutex::new(Ledger::new(now)),
            listeners: Vec::new(),
            listener_panics: AtomicU64::new(0),
        })
    }

    /// Adds a listener that hears of every change of state.
    ///
    /// It runs on the thread whose call made the change, after the change and outside of every lock. So it
    /// may use the breaker; when two threads make two changes, it may hear of them in either order:
    /// [`Transition::generation`] gives theirs. A panic in it is caught and counted.
    #[must_use]
    pub fn with_listener(mut self, listener: impl Fn(&Transition) + Send + Sync + 'static) -> Self {
        self.listeners.push(Box::new(listener));
        self
    }

    /// The settings.
    pub const fn config(&self) -> &BreakerConfig {
        &self.config
    }

    /// Asks to make a call.
    ///
    /// # Errors
    /// If calls are refused now; says for how long.
    #[inline]
    pub fn admit(&self, now: Instant) -> Result<Permit<&Self>, Refused> {
        self.enter(now).map(|word| Permit::new(self, word))
    }

    /// Asks to make a call, for a permit that can be stored and sent to other tasks.
    ///
    /// # Errors
    /// If calls are refused now; says for how long.
    #[inline]
    pub fn admit_owned(self: &Arc<Self>, now: Instant) -> Result<OwnedPermit, Refused> {
        self.enter(now)
            .map(|word| Permit::new(Arc::clone(self), word))
    }

    /// The state an admission at `now` would meet.
    ///
    /// That is the one of the last [`Transition`], but once the open time is over it is
    /// [`State::HalfOpen`] although nobody has asked yet, and once the trial calls have timed out it is
    /// [`State::Open`].
    pub fn state(&self, now: Instant) -> State {
        self.outlook(now).0
    }

    /// Whether an admission at `now` would be refused; takes nothing and changes nothing.
    pub fn would_refuse(&self, now: Instant) -> Option<Refused> {
        self.outlook(now).1
    }

    /// Number of changes of state so far.
    pub fn generation(&self) -> u64 {
        self.current().generation()
    }

    /// Reopens a half-open breaker whose trial calls have timed out. An admission does so too.
    pub fn tick(&self, now: Instant) -> Option<Transition> {
        self.change(|breaker, ledger| breaker.time_out(ledger, now))
    }

    /// Opens a closed or half-open breaker as if its trip condition had been met.
    pub fn trip(&self, now: Instant) -> Option<Transition> {
        self.change(|breaker, ledger| match breaker.current().state() {
            State::Closed | State::HalfOpen => {
                Some(breaker.open(ledger, Cause::Tripped, now, None))
            }
            State::Open | State::ForcedOpen | State::Disabled => None,
        })
    }

    /// Refuses all calls until an operator says otherwise; `None` if it did already.
    pub fn force_open(&self, now: Instant) -> Option<Transition> {
        self.operate(State::ForcedOpen, Cause::ForcedOpen, now)
    }

    /// Admits all calls and counts none until an operator says otherwise; `None` if it did already.
    pub fn disable(&self, now: Instant) -> Option<Transition> {
        self.operate(State::Disabled, Cause::Disabled, now)
    }

    /// Closes the breaker from whatever state, with nothing counted and the next opening the first again.
    /// If it is closed already it forgets its counts, and there is no transition.
    pub fn reset(&self, now: Instant) -> Option<Transition> {
        self.operate(State::Closed, Cause::Reset, now)
    }

    /// The breaker as of `now`.
    pub fn snapshot(&self, now: Instant) -> Snapshot {
        let (state, refused) = self.outlook(now);
        let ledger = lock(&self.ledger);
        let word = self.current();
        // Of this generation: nothing, unless it is a closed one.
        let tally = self
            .gate
            .as_ref()
            .map_or(Tally::default(), |gate| gate.tally(word.generation(), now));
        Snapshot {
            state,
            generation: word.generation(),
            since: ledger.since,
            cause: ledger.cause,
            retry_in: refused.map(|refused| refused.retry_in),
            failures_in_a_row: self.run.length(word.generation()),
            openings_in_a_row: ledger.openings,
            window_calls: tally.calls,
            window_failures: tally.failures,
            window_slow: tally.slow,
            trials_out: ledger.trials.out,
            trials_succeeded: ledger.trials.succeeded,
            listener_panics: self.listener_panics.load(Ordering::Relaxed),
        }
    }

    #[inline]
    pub(crate) fn current(&self) -> Word {
        Word::from_bits(self.word.load(Ordering::Acquire))
    }

    /// Makes the change that `decide` makes under the lock, if any, and then tells the listeners.
    pub(crate) fn change(
        &self,
        decide: impl FnOnce(&Self, &mut Ledger) -> Option<Transition>,
    ) -> Option<Transition> {
        let transition = decide(self, &mut lock(&self.ledger));
        if let Some(transition) = &transition {
            self.announce(transition);
        }
        transition
    }

    fn announce(&self, transition: &Transition) {
        for listener in &self.listeners {
            if catch_unwind(AssertUnwindSafe(|| listener(transition))).is_err() {
                self.listener_panics.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Debug for Breaker {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let word = self.current();
        f.debug_struct("Breaker")
            .field("state", &word.state())
            .field("generation", &word.generation())
            .field("config", &self.config)
            .field("listeners", &self.listeners.len())
            .finish_non_exhaustive()
    }
}
