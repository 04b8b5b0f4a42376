//! What attempts used and what that cost.

use super::Call;
use crate::amount::Amount;
use crate::health::ModelHealth;
use crate::throttle::Draw;
use evenkeel_core::{
    AttemptOutcome, ChatResponse, Class, Cost, Failure, Meta, Phase, Refusal, SpentOn, Usage,
    events_of,
};
use std::time::Instant;

/// What one attempt used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spent {
    /// Tokens it is billed for, reported or estimated.
    pub(super) billed: Usage,
    /// Whether `billed` is estimated: nothing was reported, or not the last word.
    pub(super) is_estimate: bool,
    pub(super) cost: Option<Cost>,
}

impl Spent {
    /// Tokens, where it is billed for any.
    pub(super) fn told(&self) -> Option<Usage> {
        let any = self.billed.input > 0 || self.billed.output > 0;
        any.then_some(self.billed)
    }
}

/// Whether the provider of a failed attempt had taken the request and begun to
/// work: what it answers with a status of refusal, and what never reached it, is
/// not billed.
pub(crate) fn was_accepted(failure: &Failure) -> bool {
    let refused = failure.status.is_some_and(|status| status >= 400);
    let unsent = failure.class == Class::Unreachable || failure.phase == Some(Phase::Connect);
    !refused && !unsent
}

/// Whether the provider said all it had to say, however useless: what it reported
/// then is what it bills.
fn said_it_all(outcome: &AttemptOutcome) -> bool {
    match outcome {
        AttemptOutcome::Won => true,
        AttemptOutcome::Failed(failure) => matches!(
            failure.class,
            Class::Semantic | Class::Malformed | Class::ContentFilter
        ),
        _ => false,
    }
}

impl Call {
    /// A whole answer came at once. What it says of its tokens is the last word; where
    /// it says nothing, its text is counted.
    pub(crate) fn came_whole(&mut self, index: usize, response: &ChatResponse) {
        self.began(index, &response.id, &response.model);
        self.finished(index, response.finish);
        if let Some(usage) = response.usage {
            self.used(index, usage);
            return;
        }
        for event in events_of(response) {
            self.attempts[index].came.add(&event);
        }
    }

    /// What an attempt that ends so used, and what that costs.
    pub(super) fn spent(&self, index: usize, outcome: &AttemptOutcome) -> Spent {
        let (billed, is_estimate) = self.billed(index, outcome);
        let model = &self.role.rungs[self.attempts[index].rung].model.config;
        let cost = model.cost_usd(&billed).map(|usd| Cost {
            usd,
            is_estimate,
            spent_on: self.spent_on(index, outcome),
        });
        Spent {
            billed,
            is_estimate,
            cost,
        }
    }

    /// Tokens as reported, if the report was the last word; else at least what was
    /// sent and what came.
    fn billed(&self, index: usize, outcome: &AttemptOutcome) -> (Usage, bool) {
        let attempt = &self.attempts[index];
        let reported = attempt.usage;
        if let Some(usage) = reported.filter(|_| said_it_all(outcome)) {
            return (usage, false);
        }
        let accepted = match outcome {
            AttemptOutcome::Failed(failure) => {
                was_accepted(failure) || attempt.came != Amount::default()
            }
            _ => true,
        };
        if !accepted {
            return (Usage::default(), false);
        }
        let came = attempt.came.tokens();
        let usage = match reported {
            Some(usage) => Usage {
                output: usage.output.max(came),
                ..usage
            },
            None => Usage {
                input: self.expected_input(&self.role.rungs[attempt.rung].model),
                output: came,
                ..Usage::default()
            },
        };
        (usage, true)
    }

    /// Input tokens the model is expected to count: the estimate, corrected by
    /// what its answers have reported.
    fn expected_input(&self, model: &ModelHealth) -> u64 {
        self.tokens.saturating_mul(model.billed.ratio()) / 1_000
    }

    /// What the request draws of the rate limits of the rung's model.
    pub(super) fn draw(&self, rung: usize) -> Draw {
        self.draw_at(&self.role.rungs[rung].model, rung)
    }

    /// What it draws of those of `model`, where answers are as long as the rung's.
    pub(super) fn draw_at(&self, model: &ModelHealth, rung: usize) -> Draw {
        Draw {
            input: self.expected_input(model),
            output: self.expected_output(rung),
        }
    }

    /// Output tokens an answer of the rung is expected to have: as many as its
    /// answers to this role have on average, at most what the caller asks for.
    fn expected_output(&self, rung: usize) -> u64 {
        let mean = self.role.rungs[rung].output.get().map(rounded);
        let most = self.request.max_output_tokens;
        match (mean, most) {
            (Some(mean), Some(most)) => mean.min(most),
            (mean, most) => mean.or(most).unwrap_or(0),
        }
    }

    /// Why the rung comes after those at which the call costs less: it is expected
    /// to cost more here than the role's ceiling. None where the price is not known.
    pub(super) fn over_cost(&self, rung: usize) -> Option<Refusal> {
        let ceiling = self.role.policy.cost_ceiling_usd?;
        let usage = self.draw(rung).usage();
        let expected = self.role.rungs[rung].model.config.cost_usd(&usage)?;
        (expected > ceiling).then_some(Refusal::OverCost {
            expected_micros: rounded(expected * 1e6),
            ceiling_micros: rounded(ceiling * 1e6),
        })
    }

    /// Why a rung above the role's ceiling is passed over: another one is not.
    pub(super) fn goes_cheaper_elsewhere(&self, rung: usize, now: Instant) -> Option<Refusal> {
        let refusal = self.over_cost(rung)?;
        let other = self.next_usable(rung, now)?;
        let as_good = self.over_cost(other).is_none() && !self.is_cut(other);
        as_good.then_some(refusal)
    }

    fn spent_on(&self, index: usize, outcome: &AttemptOutcome) -> SpentOn {
        if self.winner == Some(index) {
            return SpentOn::Answer;
        }
        match outcome {
            AttemptOutcome::Lost => SpentOn::Hedge,
            _ if self.attempts[index].hedge_of.is_some() => SpentOn::Hedge,
            AttemptOutcome::Failed(_) => SpentOn::Failover,
            _ => SpentOn::Answer,
        }
    }

    /// What the answering attempt reported: for the estimates of later ones.
    pub(super) fn note_usage(&self, index: usize, usage: Usage) {
        let rung = &self.role.rungs[self.attempts[index].rung];
        rung.model.billed.observe(self.tokens, usage.input);
        rung.output.observe(usage.output);
    }

    /// Puts into the answer's meta what it cost, and what the other attempts added.
    pub(super) fn price(&self, index: usize, meta: &mut Meta) {
        let mut added = Some(0.0);
        let spent = self.attempts.iter().map(|attempt| attempt.spent);
        for (other, spent) in spent.enumerate() {
            let Some(Spent { billed, cost, .. }) = spent else {
                continue;
            };
            meta.cost_is_estimate |= cost.is_some_and(|cost| cost.is_estimate);
            if other == index {
                meta.cost_usd = cost.map(|cost| cost.usd);
            } else if billed.input + billed.output > 0 {
                // What was not billed adds nothing, whatever the price.
                added = added.and_then(|sum| Some(sum + cost?.usd));
            }
        }
        meta.added_cost_usd = added;
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate of tokens, or millionths of a dollar, never negative"
)]
fn rounded(number: f64) -> u64 {
    number.round() as u64
}
