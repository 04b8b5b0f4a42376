//! Invariants 1 to 4: which states follow which, who is admitted, what is stale.

use evenkeel_breaker::{Cause, State};
use proptest::prelude::*;

use crate::trace::{Answer, Op, config, events, everything, run};

proptest! {
    #[test]
    fn inv01_only_the_listed_pairs_of_states_appear(config in config(), ops in everything(100)) {
        let mut state = State::Closed;
        for event in events(&run(config, &ops)) {
            prop_assert_eq!(event.from, state, "no change went unheard");
            let operator = matches!(event.cause, Cause::ForcedOpen | Cause::Disabled | Cause::Reset);
            let listed = matches!(
                (event.from, event.to),
                (State::Closed | State::HalfOpen, State::Open)
                    | (State::Open, State::HalfOpen)
                    | (State::HalfOpen, State::Closed)
            );
            prop_assert!(operator || listed, "{event}");
            prop_assert_ne!(event.from, event.to);
            state = event.to;
        }
    }

    #[test]
    fn inv02_the_generation_counts_the_events(config in config(), ops in everything(100)) {
        let steps = run(config, &ops);
        let mut heard = 0;
        for step in &steps {
            for event in &step.events {
                heard += 1;
                prop_assert_eq!(event.generation, heard);
            }
            prop_assert_eq!(step.after.generation, heard);
        }
    }

    #[test]
    fn inv03_closed_admits_open_refuses_until_its_deadline_and_then_tries(
        config in config(),
        ops in everything(100),
    ) {
        let (mut state, mut deadline) = (State::Closed, None);
        for step in run(config, &ops) {
            if let Op::Admit = step.op {
                let admitted = match step.answer {
                    Answer::Admitted { trial, .. } => Some(trial),
                    _ => None,
                };
                match state {
                    State::Closed => prop_assert_eq!(admitted, Some(false)),
                    State::Open if Some(step.now) < deadline => {
                        prop_assert_eq!(admitted, None, "{:?}", step);
                        prop_assert!(step.events.is_empty());
                    }
                    State::Open => {
                        prop_assert_eq!(admitted, Some(true), "{:?}", step);
                        prop_assert_eq!(step.events[0].cause, Cause::OpenElapsed);
                    }
                    _ => {}
                }
            }
            if let Some(event) = step.events.last() {
                state = event.to;
                deadline = event.retry_in.map(|wait| event.at + wait);
            }
        }
    }

    #[test]
    fn inv04_an_outcome_of_another_generation_changes_nothing_and_is_called_stale(
        config in config(),
        ops in everything(100),
    ) {
        for step in run(config, &ops) {
            if let Answer::Recorded { admitted, recorded } = step.answer {
                prop_assert_eq!(recorded.stale, admitted != step.before.generation);
                if recorded.stale {
                    prop_assert_eq!(recorded.transition, None);
                    prop_assert_eq!(step.before, step.after);
                }
                // Who is told of a change is the one who made it.
                prop_assert_eq!(recorded.transition.as_slice(), step.events.as_slice());
            }
        }
    }
}
