//! What a run may cost.

use evenkeel_core::ModelId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What a run may cost, and what it has cost so far. Shared by all candidates.
#[derive(Debug)]
pub(crate) struct Budget {
    most_usd: Option<f64>,
    spent: Mutex<Spent>,
    /// Told when a question has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Spent {
    usd: f64,
    by_model: BTreeMap<ModelId, Costs>,
}

/// What is known of the costs of one model's questions, judges included.
#[derive(Debug, Clone, Copy, Default)]
struct Costs {
    under_way: u32,
    /// The dearest so far; none until the first cost is known.
    dearest: Option<f64>,
    /// Questions that have ended without a cost: failed ones.
    unpriced: u32,
}

/// A question that is being asked; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Asked {
    /// How long it waited for those under way: no fault of its model's.
    pub(crate) waited: Duration,
    /// Of a run without a budget none.
    of: Option<(Arc<Budget>, ModelId)>,
}

enum Step {
    Begin,
    /// Those under way decide whether there is enough for it.
    Wait,
    /// There is not.
    Stop,
}

impl Budget {
    /// Without a limit where `most_usd` is none.
    pub(crate) fn new(most_usd: Option<f64>) -> Arc<Self> {
        Arc::new(Self {
            most_usd,
            spent: Mutex::default(),
            ended: Notify::new(),
        })
    }

    /// Takes into account what a question to `model` has cost, judges included; none
    /// where that is not known, since it failed.
    pub(crate) fn spend(&self, model: &ModelId, usd: Option<f64>) {
        let mut spent = self.lock();
        spent.usd += usd.unwrap_or(0.0);
        if self.most_usd.is_none() {
            return;
        }
        let costs = spent.by_model.entry(model.clone()).or_default();
        match usd {
            Some(usd) => costs.dearest = Some(costs.dearest.map_or(usd, |most| most.max(usd))),
            None => costs.unpriced = costs.unpriced.saturating_add(1),
        }
    }

    /// US dollars so far.
    pub(crate) fn spent_usd(&self) -> f64 {
        self.lock().usd
    }

    /// Begins a question to `model` as soon as what is left is enough for it and for
    /// those under way, each taken to cost what the dearest of its model has cost. Until
    /// the first cost of a model is known one question at a time is put to it, and one
    /// more for each that has failed. So a budget is passed at most by the first question
    /// of each model, and by what one costs above the dearest before it. None where
    /// what is left is not enough.
    ///
    /// Cancel safe: nothing is begun then.
    pub(crate) async fn ask(self: &Arc<Self>, model: &ModelId) -> Option<Asked> {
        let Some(most) = self.most_usd else {
            return Some(Asked {
                waited: Duration::ZERO,
                of: None,
            });
        };
        let mut since = None;
        loop {
            // Before looking, so that no end is missed.
            let ended = self.ended.notified();
            let step = self.lock().step(model, most);
            match step {
                Step::Begin => {
                    return Some(Asked {
                        waited: since.map_or(Duration::ZERO, |since: Instant| since.elapsed()),
                        of: Some((self.clone(), model.clone())),
                    });
                }
                Step::Wait => {
                    since.get_or_insert_with(Instant::now);
                    ended.await;
                }
                Step::Stop => return None,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spent {
    /// Begins a question to `model`, if it may.
    fn step(&mut self, model: &ModelId, most: f64) -> Step {
        let all = self.by_model.values();
        let dearest = all.filter_map(|costs| costs.dearest).fold(0.0, f64::max);
        let of_one = |costs: &Costs| costs.dearest.unwrap_or(dearest);
        let all = self.by_model.values();
        let reserved: f64 = all.map(|c| of_one(c) * f64::from(c.under_way)).sum();
        let is_alone = self.by_model.values().all(|costs| costs.under_way == 0);
        let own = self.by_model.entry(model.clone()).or_default();
        if most <= 0.0 || self.usd + reserved + of_one(own) > most {
            return if is_alone { Step::Stop } else { Step::Wait };
        }
        if own.dearest.is_none() && own.under_way > own.unpriced {
            return Step::Wait;
        }
        own.under_way += 1;
        Step::Begin
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let Some((budget, model)) = &self.of else {
            return;
        };
        if let Some(costs) = budget.lock().by_model.get_mut(model) {
            costs.under_way -= 1;
        }
        budget.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use std::task::Poll;

    fn model(id: &str) -> ModelId {
        ModelId::new(id).unwrap()
    }

    /// What comes of asking now: it may begin, or may not (none), or has to wait.
    fn ask(budget: &Arc<Budget>, id: &str) -> Poll<Option<Asked>> {
        let asked = budget.ask(&model(id)).now_or_never();
        asked.map_or(Poll::Pending, Poll::Ready)
    }

    fn begin(budget: &Arc<Budget>, id: &str) -> Asked {
        match ask(budget, id) {
            Poll::Ready(asked) => asked.expect("there is enough"),
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn one_question_is_under_way_until_the_first_cost_of_its_model_is_known() {
        let budget = Budget::new(Some(1.0));
        let first = begin(&budget, "a/x");
        assert!(
            ask(&budget, "a/x").is_pending(),
            "nobody knows what one costs"
        );
        let other = begin(&budget, "b/y");
        budget.spend(&model("a/x"), Some(0.01));
        drop(first);
        let many: Vec<Asked> = (0..10).map(|_| begin(&budget, "a/x")).collect();
        assert!(
            ask(&budget, "b/y").is_pending(),
            "of the other still nobody"
        );
        drop((many, other));
    }

    #[test]
    fn what_is_under_way_counts_as_the_dearest_of_its_model() {
        let budget = Budget::new(Some(1.0));
        for usd in [0.3, 0.1] {
            let asked = begin(&budget, "a/x");
            budget.spend(&model("a/x"), Some(usd));
            drop(asked);
        }
        // 0.4 spent: one more under way makes 0.7, two make 1.0, three 1.3.
        let under_way = (begin(&budget, "a/x"), begin(&budget, "a/x"));
        assert!(
            ask(&budget, "a/x").is_pending(),
            "it waits for what they cost"
        );
        drop(under_way.0);
        let again = begin(&budget, "a/x");
        budget.spend(&model("a/x"), Some(0.5));
        drop((again, under_way.1));
        assert!(matches!(ask(&budget, "a/x"), Poll::Ready(None)));
        assert!((budget.spent_usd() - 0.9).abs() < 1e-12);
    }

    #[test]
    fn questions_that_fail_let_more_be_asked_at_a_time() {
        let budget = Budget::new(Some(1.0));
        let first = begin(&budget, "a/x");
        budget.spend(&model("a/x"), None);
        drop(first);
        let two = (begin(&budget, "a/x"), begin(&budget, "a/x"));
        assert!(ask(&budget, "a/x").is_pending());
        drop(two);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_begins_when_another_has_ended_and_knows_how_long_it_was() {
        let budget = Budget::new(Some(1.0));
        let first = begin(&budget, "a/x");
        let ends = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            budget.spend(&model("a/x"), Some(0.1));
            drop(first);
        };
        let id = model("a/x");
        let (asked, ()) = tokio::join!(budget.ask(&id), ends);
        assert_eq!(asked.unwrap().waited, Duration::from_secs(3));
    }

    #[test]
    fn no_budget_is_not_a_budget_of_nothing() {
        let free = Budget::new(None);
        free.spend(&model("a/x"), Some(1e9));
        let many: Vec<Asked> = (0..10).map(|_| begin(&free, "a/x")).collect();
        drop(many);
        assert!(matches!(
            ask(&Budget::new(Some(0.0)), "a/x"),
            Poll::Ready(None)
        ));
    }

    #[test]
    fn a_free_model_is_asked_to_the_end() {
        let budget = Budget::new(Some(0.01));
        for _ in 0..100 {
            let asked = begin(&budget, "a/x");
            budget.spend(&model("a/x"), Some(0.0));
            drop(asked);
        }
    }
}
