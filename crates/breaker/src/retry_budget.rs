//! A bound on retries.

use std::time::{Duration, Instant};

use crate::{
    error::{ConfigError, LONGEST},
    sync::{AtomicU64, Ordering},
    timeline::{Timeline, nanos},
    token::{TOKEN, tokens, units},
};

/// Bounds second tries of the same thing to a share of the first tries, so that retries die out when
/// everything fails instead of multiplying the load.
///
/// The rule: the balance starts at `reserve`. A first attempt adds `ratio`, a retry takes 1 or is refused
/// at once. So over any run retries number at most `reserve + ratio × first attempts`. Time is cut into
/// windows, and with each new one the balance falls to `reserve` + what the window before it added, if it
/// was above: what busy hours saved up does not feed a storm at night, and a saved reserve never lapses.
///
/// Lock-free; a ratio is kept to one in a million.
///
/// ```
/// use evenkeel_breaker::RetryBudget;
/// use std::time::{Duration, Instant};
///
/// let now = Instant::now();
/// let budget = RetryBudget::new(0.2, 1, Duration::from_secs(10), now)?;
/// assert!(budget.try_withdraw(now)); // the reserve
/// assert!(!budget.try_withdraw(now));
/// (0..5).for_each(|_| budget.deposit(now)); // five first attempts
/// assert!(budget.try_withdraw(now));
/// # Ok::<(), evenkeel_breaker::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct RetryBudget {
    /// Units a first attempt adds.
    inflow: u64,
    /// Units that never lapse.
    reserve: u64,
    /// Length of a window in nanoseconds.
    window: u64,
    timeline: Timeline,
    balance: AtomicU64,
    /// Units added in the current window.
    added: AtomicU64,
    /// Number of the current window; never falls.
    current: AtomicU64,
}

impl RetryBudget {
    /// A budget with its reserve in hand, its first window beginning at `now`.
    ///
    /// # Errors
    /// If `ratio` is not between 0 and 1, or `window` is zero or longer than a year.
    pub fn new(
        ratio: f64,
        reserve: u32,
        window: Duration,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        let ratio = ConfigError::unless_in("ratio", ratio, 0.0..=1.0)?;
        let window = ConfigError::unless_in("window", window, Duration::from_nanos(1)..=LONGEST)?;
        let reserve = u64::from(reserve) * TOKEN;
        Ok(Self {
            inflow: units(ratio),
            reserve,
            window: nanos(window),
            timeline: Timeline::from(now),
            balance: AtomicU64::new(reserve),
            added: AtomicU64::new(0),
            current: AtomicU64::new(0),
        })
    }

    /// Counts a first attempt; never refuses.
    pub fn deposit(&self, now: Instant) {
        self.turn(now);
        let fuller = |units: u64| Some(units.saturating_add(self.inflow));
        // Both answers are `Ok`: the closure never declines.
        let _ = self
            .added
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, fuller);
        let _ = self
            .balance
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, fuller);
    }

    /// Takes one token if it is there, else nothing; never waits.
    #[must_use = "`false` means that no retry may be made"]
    pub fn try_withdraw(&self, now: Instant) -> bool {
        self.turn(now);
        self.balance
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |balance| {
                balance.checked_sub(TOKEN)
            })
            .is_ok()
    }

    /// Tokens in hand at `now`.
    pub fn balance(&self, now: Instant) -> f64 {
        self.turn(now);
        tokens(self.balance.load(Ordering::Acquire))
    }

    /// Lets lapse what is due when `now` lies in a later window; an earlier `now` changes nothing.
    fn turn(&self, now: Instant) {
        let window = self.timeline.nanos(now) / self.window;
        let seen = self.current.load(Ordering::Acquire);
        if window <= seen
            || self
                .current
                .compare_exchange(seen, window, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        let added = self.added.swap(0, Ordering::AcqRel);
        let added = if window == seen + 1 { added } else { 0 };
        let most = self.reserve.saturating_add(added);
        self.balance.fetch_min(most, Ordering::AcqRel);
    }
}
