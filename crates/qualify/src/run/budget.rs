//! What a run may cost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a run may cost, and what it has cost so far. Shared by all candidates.
#[derive(Debug)]
pub(crate) struct Budget {
    most_usd: Option<f64>,
    spent: Mutex<Spent>,
}

#[derive(Debug, Default)]
struct Spent {
    usd: f64,
    /// Questions that it was spent on.
    questions: u32,
    under_way: u32,
}

/// A question that is being asked; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Asked(Arc<Budget>);

impl Budget {
    /// Without a limit where `most_usd` is none.
    pub(crate) fn new(most_usd: Option<f64>) -> Arc<Self> {
        Arc::new(Self {
            most_usd,
            spent: Mutex::default(),
        })
    }

    /// Takes a question's cost into account.
    pub(crate) fn spend(&self, usd: f64) {
        let mut spent = self.lock();
        spent.usd += usd;
        spent.questions = spent.questions.saturating_add(1);
    }

    /// US dollars so far.
    pub(crate) fn spent_usd(&self) -> f64 {
        self.lock().usd
    }

    /// Begins a question, if what is left is enough for it and for those under way,
    /// each taken to cost what questions have cost so far on average. Until the first
    /// has ended nothing is known of that, and only the budget itself counts: a
    /// budget is passed by what the first questions under way at a time cost, at most.
    pub(crate) fn ask(self: &Arc<Self>) -> Option<Asked> {
        let mut spent = self.lock();
        if let Some(most) = self.most_usd {
            let mean = match spent.questions {
                0 => 0.0,
                n => spent.usd / f64::from(n),
            };
            let expected = mean.mul_add(f64::from(spent.under_way) + 1.0, spent.usd);
            if most <= 0.0 || expected > most {
                return None;
            }
        }
        spent.under_way += 1;
        Some(Asked(self.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.lock().under_way -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_counts_as_what_has_been_did_on_average() {
        let budget = Budget::new(Some(1.0));
        let first = budget.ask().unwrap();
        budget.spend(0.3);
        drop(first);
        // 0.3 spent: one more under way makes 0.6, two make 0.9, three 1.2.
        let under_way = (budget.ask().unwrap(), budget.ask().unwrap());
        assert!(budget.ask().is_none());
        drop(under_way.0);
        assert!(
            budget.ask().is_some(),
            "a question that was cancelled costs nothing"
        );
        budget.spend(0.5);
        assert!(budget.ask().is_none());
        assert!((budget.spent_usd() - 0.8).abs() < 1e-12);
    }

    #[test]
    fn no_budget_is_not_a_budget_of_nothing() {
        let free = Budget::new(None);
        free.spend(1e9);
        assert!(free.ask().is_some());
        assert!(Budget::new(Some(0.0)).ask().is_none());
    }

    #[test]
    fn a_free_model_is_asked_to_the_end() {
        let budget = Budget::new(Some(0.01));
        for _ in 0..100 {
            assert!(budget.ask().is_some());
            budget.spend(0.0);
        }
    }
}
