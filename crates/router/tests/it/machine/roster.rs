//! The reference: how each model fares, and how many calls were made.

use crate::world::{ms, steady};
use evenkeel_chaos::{Behaviour, Fault, Latency};
use proptest::prelude::*;
use proptest_state_machine::ReferenceStateMachine;

/// A primary and two fallbacks, each at a provider of its own.
pub(crate) const RUNGS: usize = 3;

/// How a model fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// In so many ms, always; the limits are 1 s and 2 s.
    Answers(u64),
    /// Mostly quick, with a long tail.
    Patchy,
    Hangs,
    /// 503 after 20 ms.
    Overloaded,
    /// 500 after 300 ms.
    Broken,
    /// 500 to two calls in five, after 50 ms.
    Flaky,
    /// 500 after 1.2 s: late, and a failure.
    LateAndBroken,
    /// 429, to be asked again in 2 s.
    Limited,
    /// A stream breaks after two tokens, an answer is cut.
    Cut,
}

impl Mood {
    pub(crate) fn behaviour(self) -> Behaviour {
        let fails = |fault, after| Behaviour::failing(fault).with_fault_delay(ms(after));
        match self {
            Self::Answers(latency) => steady(latency),
            Self::Patchy => {
                Behaviour::healthy(Latency::lognormal_millis(300, 2_200)).with_tokens(5)
            }
            Self::Hangs => Behaviour::failing(Fault::Hang),
            Self::Overloaded => fails(Fault::status(503), 20),
            Self::Broken => fails(Fault::status(500), 300),
            Self::Flaky => fails(Fault::status(500), 50)
                .with_error_rate(0.4)
                .with_tokens(5),
            Self::LateAndBroken => fails(Fault::status(500), 1_200),
            Self::Limited => fails(Fault::rate_limited(ms(2_000)), 10),
            Self::Cut => steady(100).with_fault(Fault::CutAfter(2)),
        }
    }
}

pub(crate) fn mood() -> impl Strategy<Value = Mood> {
    prop_oneof![
        3 => prop_oneof![Just(100), Just(700), Just(900)].prop_map(Mood::Answers),
        6 => prop_oneof![Just(1_500_u64), Just(3_000), Just(10_000)].prop_map(Mood::Answers),
        1 => Just(Mood::Patchy),
        1 => Just(Mood::Hangs),
        1 => Just(Mood::Overloaded),
        1 => Just(Mood::Broken),
        1 => Just(Mood::Flaky),
        1 => Just(Mood::LateAndBroken),
        1 => Just(Mood::Limited),
        1 => Just(Mood::Cut),
    ]
}

/// Something that happens.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Turns {
        rung: usize,
        mood: Mood,
    },
    /// So many call, one every so many ms, for streams or whole answers, and all are waited for.
    Calls {
        n: usize,
        every: u64,
        streams: bool,
    },
    /// So many call at once and leave after so many ms.
    Leave {
        n: usize,
        after: u64,
        streams: bool,
    },
    Passes(u64),
}

/// How each model fares now, and how many calls were made so far.
#[derive(Debug, Clone)]
pub(crate) struct Roster {
    pub(crate) moods: [Mood; RUNGS],
    /// Whether the last rung stays as it is: quick.
    pub(crate) safe: bool,
    pub(crate) asked: usize,
}

impl ReferenceStateMachine for Roster {
    type State = Self;
    type Transition = Op;

    fn init_state() -> BoxedStrategy<Self> {
        prop::bool::weighted(0.7)
            .prop_map(|safe| Self {
                moods: [100, 200, 300].map(Mood::Answers),
                safe,
                asked: 0,
            })
            .boxed()
    }

    fn transitions(roster: &Self) -> BoxedStrategy<Op> {
        let last = if roster.safe { RUNGS - 1 } else { RUNGS };
        let rung = prop_oneof![3 => Just(0), 2 => 0..last];
        let every = prop_oneof![2 => Just(0_u64), 3 => Just(20), 2 => Just(150), 1 => Just(1_100)];
        let pause = prop_oneof![2 => 1..3_000_u64, 3 => 3_000..15_000_u64, 2 => 15_000..60_000_u64];
        prop_oneof![
            4 => (rung, mood()).prop_map(|(rung, mood)| Op::Turns { rung, mood }),
            6 => (1..24_usize, every, prop::bool::weighted(0.3))
                .prop_map(|(n, every, streams)| Op::Calls { n, every, streams }),
            1 => (1..8_usize, 1..2_500_u64, any::<bool>())
                .prop_map(|(n, after, streams)| Op::Leave { n, after, streams }),
            4 => pause.prop_map(Op::Passes),
        ]
        .boxed()
    }

    fn apply(mut roster: Self, op: &Op) -> Self {
        match *op {
            Op::Turns { rung, mood } => roster.moods[rung] = mood,
            Op::Calls { n, .. } | Op::Leave { n, .. } => roster.asked += n,
            Op::Passes(_) => {}
        }
        roster
    }

    fn preconditions(roster: &Self, op: &Op) -> bool {
        !matches!(op, Op::Turns { rung, .. } if roster.safe && *rung == RUNGS - 1)
    }
}
