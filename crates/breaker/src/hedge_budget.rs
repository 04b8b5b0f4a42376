//! A bound on hedges.

use crate::{
    error::ConfigError,
    sync::{AtomicU64, Ordering},
    token::{TOKEN, tokens, units},
};

/// Token bucket for second attempts that start while the first still runs.
///
/// It holds at most `burst` tokens and is full at the start; each call flows in `share` of one, a hedge
/// takes one or more. So over any run hedges number at most `burst + share × calls`. Lock-free; a share
/// is kept to one in a million.
///
/// ```
/// let budget = evenkeel_breaker::HedgeBudget::new(0.05, 1)?;
/// assert!(budget.try_withdraw(1.0));
/// assert!(!budget.try_withdraw(1.0));
/// (0..20).for_each(|_| budget.deposit());
/// assert!(budget.try_withdraw(1.0));
/// # Ok::<(), evenkeel_breaker::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct HedgeBudget {
    /// Units that flow in with each call.
    inflow: u64,
    /// Units it can hold.
    capacity: u64,
    balance: AtomicU64,
}

impl HedgeBudget {
    /// A full bucket; `burst` 0 refuses every hedge.
    ///
    /// # Errors
    /// If `share` is not between 0 and 1.
    pub fn new(share: f64, burst: u32) -> Result<Self, ConfigError> {
        let share = ConfigError::unless_in("share", share, 0.0..=1.0)?;
        let capacity = u64::from(burst) * TOKEN;
        Ok(Self {
            inflow: units(share),
            capacity,
            balance: AtomicU64::new(capacity),
        })
    }

    /// Counts a call; hedges are no calls of their own.
    pub fn deposit(&self) {
        let mut balance = self.balance.load(Ordering::Relaxed);
        // A full bucket, the usual case, is only read.
        while balance < self.capacity {
            let fuller = (balance + self.inflow).min(self.capacity);
            match self.balance.compare_exchange_weak(
                balance,
                fuller,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(seen) => balance = seen,
            }
        }
    }

    /// Takes `cost` tokens if they are there, else nothing; never waits.
    ///
    /// A cost below 1 (or NaN) counts as 1. One above the burst is never granted.
    #[must_use = "`false` means that no hedge may start"]
    pub fn try_withdraw(&self, cost: f64) -> bool {
        let cost = units(cost.max(1.0));
        self.balance
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |balance| {
                balance.checked_sub(cost)
            })
            .is_ok()
    }

    /// Tokens in the bucket.
    pub fn balance(&self) -> f64 {
        tokens(self.balance.load(Ordering::Acquire))
    }
}
