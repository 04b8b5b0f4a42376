//! The router as a state machine: faults come and go, crowds call, callers leave, time passes; and after
//! every step the whole history is read anew by slow and obvious rules.
//!
//! A rule sees what an observer and the callers saw, and nothing of the router's state. Every sequence is
//! drawn from a seed of its test's own, so each run is the same. `PROPTEST_CASES` and `PROPTEST_RNG_SEED`
//! look further.

mod budgets;
mod history;
mod losers;
mod moves;
mod outcomes;
mod restorations;
mod roster;
mod subject;

use self::history::History;
pub(crate) use self::roster::mood;
use self::roster::{Op, Roster};
use self::subject::Subject;
use proptest::test_runner::{Config, RngSeed};
use proptest_state_machine::StateMachineTest;
use std::marker::PhantomData;

/// What must hold of every history.
pub(crate) trait Rule {
    /// Panics where it does not hold.
    fn check(history: &History);
}

/// The router under one rule.
pub(crate) struct Machine<R>(PhantomData<R>);

impl<R: Rule> StateMachineTest for Machine<R> {
    type SystemUnderTest = Subject;
    type Reference = Roster;

    fn init_test(roster: &Roster) -> Subject {
        Subject::new(roster)
    }

    fn apply(mut subject: Subject, roster: &Roster, op: Op) -> Subject {
        subject.perform(&op);
        let history = subject.history(roster);
        assert_eq!(history.calls.len(), roster.asked, "calls that began");
        R::check(&history);
        subject
    }

    /// Whatever has happened: once all is well the role comes back to its primary, and nothing is left.
    fn teardown(mut subject: Subject, roster: Roster) {
        let roster = subject.all_well(roster);
        let history = subject.history(&roster);
        R::check(&history);
        assert_eq!(history.active().0, 0, "the primary is well, and serves");
        subject.shut_down();
    }
}

/// One in sixteen of the usual number of cases, each the same in every run unless a seed is asked for.
pub(crate) fn config(seed: u64) -> Config {
    let usual = Config::default();
    Config {
        cases: usual.cases.div_ceil(16),
        rng_seed: match usual.rng_seed {
            RngSeed::Random => RngSeed::Fixed(seed),
            asked @ RngSeed::Fixed(_) => asked,
        },
        ..usual
    }
}
