//! Short deadlines and a primary that never answers: what the kept losers show.

use super::config;
use crate::world::{Plan, World, deadline, ms, steady};
use evenkeel_chaos::{Behaviour, Fault};
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use tokio::runtime::Runtime;

/// A role's limit on p95, ms, and its fewest samples.
const T95: u64 = 1_000;
const MIN_SAMPLES: usize = 5;

#[derive(Debug, Clone)]
enum Op {
    /// One call with a deadline, ms.
    Call(u64),
    Passes(u64),
}

/// When each kept loser began, and what time it is, ms. One is kept at a time, until it is as old as T95.
#[derive(Debug, Clone, Default)]
struct Kept {
    began: Vec<u64>,
    now: u64,
}

impl Kept {
    /// Losers that have grown as old as T95: each is one exceedance.
    fn late(&self) -> usize {
        self.began
            .iter()
            .filter(|began| *began + T95 <= self.now)
            .count()
    }

    fn has_room(&self, at: u64) -> bool {
        self.began.last().is_none_or(|last| last + T95 <= at)
    }

    fn has_moved(&self) -> bool {
        self.late() >= MIN_SAMPLES
    }
}

impl ReferenceStateMachine for Kept {
    type State = Self;
    type Transition = Op;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self::default()).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Op> {
        prop_oneof![
            4 => (500..950_u64).prop_map(Op::Call),
            2 => prop_oneof![1..400_u64, 400..2_000_u64].prop_map(Op::Passes),
        ]
        .boxed()
    }

    fn apply(mut kept: Self, op: &Op) -> Self {
        match *op {
            Op::Passes(millis) => kept.now += millis,
            // The role has moved: the call begins at the fallback, which takes 100 ms.
            Op::Call(_) if kept.has_moved() => kept.now += 100,
            // Patience ends 200 ms before the deadline, twice the fallback's median; that is when the hedge
            // starts, which wins 100 ms later. The loser is kept if there is room then.
            Op::Call(deadline) => {
                let began = kept.now;
                kept.now += deadline - 100;
                if kept.has_room(kept.now) {
                    kept.began.push(began);
                }
            }
        }
        kept
    }

    /// A loser that would be kept at the very instant that another's time is up may or may not find room.
    fn preconditions(kept: &Self, op: &Op) -> bool {
        let Op::Call(deadline) = op else {
            return true;
        };
        kept.began
            .last()
            .is_none_or(|last| last + T95 != kept.now + deadline - 100)
    }
}

struct Stalled;

impl StateMachineTest for Stalled {
    type SystemUnderTest = (Runtime, World);
    type Reference = Kept;

    fn init_test(_: &Kept) -> Self::SystemUnderTest {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let plan = Plan::new(vec![Behaviour::failing(Fault::Hang), steady(100)]).rung(|i, rung| {
            if i == 1 {
                rung.median_latency = Some(ms(100));
            }
        });
        let world = runtime.block_on(async { plan.build() });
        (runtime, world)
    }

    fn apply(
        (runtime, world): Self::SystemUnderTest,
        kept: &Kept,
        op: Op,
    ) -> Self::SystemUnderTest {
        match op {
            Op::Call(millis) => {
                let answer = runtime.block_on(world.ask_with(deadline(ms(millis))));
                assert_eq!(answer.unwrap().meta.rung, 1);
            }
            Op::Passes(millis) => runtime.block_on(async { tokio::time::sleep(ms(millis)).await }),
        }
        // Background work that is due at this very instant.
        runtime.block_on(async {
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
        });
        let moves = world.memory.substitutions();
        assert_eq!(
            moves.as_slice() == [(0, 1)],
            kept.has_moved(),
            "{moves:?} after {kept:?}"
        );
        (runtime, world)
    }
}

prop_state_machine! {
    #![proptest_config(config(30))]

    #[test]
    fn inv30a_the_role_moves_with_the_fewest_samples_of_kept_losers_whatever_the_deadlines(
        sequential 1..40 => Stalled
    );
}
