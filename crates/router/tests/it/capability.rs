//! Whatever fails and however: no rung below a call's capability answers it,
//! none that the caller left out, and each call has one outcome.

use crate::machine::mood;
use crate::world::{Plan, model_id, ms};
use evenkeel_core::{AttemptOutcome, CallContext, Complexity};
use evenkeel_roster::TaskPolicy;
use proptest::prelude::*;
use tokio::time::Instant;

/// The fallbacks' capabilities; the primary's is 1.
const CAPABILITIES: [f64; 4] = [1.0, 0.95, 0.85, 0.6];

#[derive(Debug, Clone)]
struct Asked {
    complexity: Option<Complexity>,
    least: Option<f64>,
    task: Option<&'static str>,
    pinned: Option<Vec<usize>>,
    streams: bool,
    pause: u64,
}

fn asked() -> impl Strategy<Value = Asked> {
    let complexity = proptest::option::of(proptest::sample::select(&Complexity::ALL[..]));
    let least = proptest::option::of(0.0_f64..=1.0);
    let task = proptest::option::of(proptest::sample::select(&["hard", "reversed", "odd"][..]));
    let pinned = proptest::option::weighted(
        0.3,
        proptest::sample::subsequence(vec![0, 1, 2, 3], 1..=4).prop_shuffle(),
    );
    let rest = (any::<bool>(), 0_u64..3_000);
    (complexity, least, task, pinned, rest).prop_map(|(complexity, least, task, pinned, rest)| {
        Asked {
            complexity,
            least,
            task,
            pinned,
            streams: rest.0,
            pause: rest.1,
        }
    })
}

impl Asked {
    fn context(&self) -> CallContext {
        CallContext {
            complexity: self.complexity,
            min_capability: self.least,
            task: self.task.map(Into::into),
            pinned_roster: self
                .pinned
                .as_ref()
                .map(|rungs| rungs.iter().map(|r| model_id(*r)).collect()),
            ..CallContext::default()
        }
    }

    /// The least capability, worked out in another way than the router does.
    fn floor(&self) -> f64 {
        let complexity = match self.complexity {
            Some(Complexity::High) => 0.95,
            Some(Complexity::Medium) => 0.85,
            Some(Complexity::Low) | None => 0.0,
        };
        let task = if self.task == Some("hard") { 0.9 } else { 0.5 };
        [complexity, task, self.least.unwrap_or(0.0)]
            .into_iter()
            .fold(0.0, f64::max)
    }

    fn may_use(&self, model: usize) -> bool {
        CAPABILITIES[model] >= self.floor()
            && self.pinned.as_ref().is_none_or(|p| p.contains(&model))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_rung_below_capability_is_ever_asked(
        moods in proptest::collection::vec(mood(), 4),
        turns in proptest::collection::vec((0_usize..4, mood()), 0..4),
        calls in proptest::collection::vec(asked(), 4..24),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let hard = TaskPolicy { min_capability_score: 0.9, ..TaskPolicy::default() };
            let reversed = TaskPolicy {
                order: Some((0..4).rev().map(model_id).collect()),
                ..TaskPolicy::default()
            };
            let world = Plan::new(moods.iter().map(|m| m.behaviour()).collect())
                .rung(|rung, config| config.capability_score = CAPABILITIES[rung])
                .policy(|p| {
                    p.min_capability_score = 0.5;
                    p.allow_pinned_roster = true;
                    p.clocks.deadline = ms(20_000);
                    p.tasks = [("hard".to_owned(), hard), ("reversed".to_owned(), reversed)].into();
                })
                .build();
            for (index, asked) in calls.iter().enumerate() {
                if let Some((rung, mood)) = turns.get(index / 6).filter(|_| index % 6 == 5) {
                    world.set(*rung, mood.behaviour());
                }
                let began = Instant::now();
                let (trail, answered) = if asked.streams {
                    let request = evenkeel_core::ChatRequest::user("hello");
                    match world.router.stream(crate::world::ROLE, request, asked.context()).await {
                        Ok(stream) => (stream.trail(), Some(stream.meta().clone())),
                        Err(error) => (error.trail, None),
                    }
                } else {
                    match world.ask_with(asked.context()).await {
                        Ok(answer) => (answer.trail, Some(answer.meta)),
                        Err(error) => (error.trail, None),
                    }
                };
                assert!(began.elapsed() <= ms(20_050), "{asked:?}");
                for attempt in trail.attempts() {
                    let model = (0..4).find(|m| model_id(*m) == attempt.model).unwrap();
                    assert!(asked.may_use(model), "{asked:?} asked {}", attempt.model);
                }
                let won = trail.attempts().filter(|a| matches!(a.outcome, AttemptOutcome::Won));
                assert!(won.count() <= 1);
                if let Some(meta) = answered {
                    assert!(meta.capability_score >= asked.floor(), "{asked:?}: {meta:?}");
                }
                tokio::time::sleep(ms(asked.pause)).await;
            }
        });
    }
}
