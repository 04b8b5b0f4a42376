//! Whether a run showed what its scenario promises.

use super::load::{Answer, Outcome};
use super::record::Record;
use super::scenario::{RECOVERED_WITHIN, Scenario, Stage};
use std::fmt::Display;
use std::time::Duration;

/// A call that no model can answer is told so within this time.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);

/// One thing the scenario promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    /// What ought to be.
    pub(super) what: &'static str,
    /// Whether it was so.
    pub(super) held: bool,
    /// What was seen.
    pub(super) seen: String,
}

fn check(what: &'static str, held: bool, seen: impl Display) -> Check {
    let seen = seen.to_string();
    Check { what, held, seen }
}

/// What the run's scenario promises, and whether it held.
pub(super) fn checks(run: &Record) -> Vec<Check> {
    match run.scenario {
        Scenario::Spike | Scenario::Ramp | Scenario::Hang => {
            let tally = &run.tally;
            let mut checks = vec![
                check(
                    "the role moved to the fallback",
                    tally.activations > 0,
                    tally.activations,
                ),
                check(
                    "the primary took its traffic back",
                    tally.restorations > 0,
                    tally.restorations,
                ),
            ];
            checks.extend(all_answered(run));
            checks
        }
        Scenario::Outage => {
            let mut checks = vec![check(
                "the primary's breaker opened",
                run.tally.breakers_opened > 0,
                run.tally.breakers_opened,
            )];
            checks.extend(not_moved_and_back(run));
            checks.extend(all_answered(run));
            checks
        }
        Scenario::Ratelimit => {
            let mut checks = vec![check(
                "the primary cooled down",
                run.tally.cooldowns > 0,
                run.tally.cooldowns,
            )];
            checks.extend(not_moved_and_back(run));
            checks.extend(all_answered(run));
            checks
        }
        Scenario::AllDown => refused_and_back(run),
    }
}

fn all_answered(run: &Record) -> [Check; 2] {
    let (failed, wrong) = (run.answers.failed(), run.answers.wrong());
    [
        check("no request failed", failed == 0, failed),
        check("no answer was another's, cut or doubled", wrong == 0, wrong),
    ]
}

fn not_moved_and_back(run: &Record) -> [Check; 2] {
    let back = settled(run)
        .filter(|a| a.outcome.model() == Some(run.primary))
        .count();
    [
        check(
            "the role did not move",
            run.tally.activations == 0,
            run.tally.activations,
        ),
        check("the primary answers again", back > 0, back),
    ]
}

/// Requests sent when everything ought to be well again.
fn settled(run: &Record) -> impl Iterator<Item = &Answer> {
    let from = run.moments.healed.map(|healed| healed + RECOVERED_WITHIN);
    run.answers
        .iter()
        .filter(move |a| from.is_some_and(|from| a.due >= from))
}

fn refused_in_time(answer: &Answer) -> bool {
    let exhausted = matches!(
        &answer.outcome,
        Outcome::Refused { status: 503, code } if code == "roster_exhausted"
    );
    exhausted && answer.total() <= REFUSED_WITHIN
}

fn answered(answer: &Answer) -> bool {
    answer.outcome.model().is_some()
}

/// With no model left every request is refused in time; before and after, and
/// while the fault comes or goes, it is answered or refused in time.
fn refused_and_back(run: &Record) -> Vec<Check> {
    let down = |a: &&Answer| {
        run.moments.stage(a.due) == Stage::Fault && run.moments.stage(a.ended) == Stage::Fault
    };
    let well = |a: &&Answer| run.moments.stage(a.ended) == Stage::Healthy;
    let during = run.answers.iter().filter(down).count();
    let refused = run
        .answers
        .iter()
        .filter(down)
        .filter(|a| refused_in_time(a))
        .count();
    let otherwise = run
        .answers
        .iter()
        .filter(|a| !answered(a) && (well(a) || !refused_in_time(a)))
        .count();
    let after = settled(run).count();
    let again = settled(run).filter(|a| answered(a)).count();
    vec![
        check(
            "with both models down every request ended in 503 `roster_exhausted` within 1 s",
            during > 0 && refused == during,
            format!("{refused} of {during}"),
        ),
        check(
            "no request ended in any other failure",
            otherwise == 0,
            otherwise,
        ),
        check(
            "every request was answered again once the models were back",
            after > 0 && again == after,
            format!("{again} of {after}"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{answered_by, broken, record, refused};
    use super::*;

    fn held(run: &Record) -> Vec<bool> {
        checks(run).iter().map(|c| c.held).collect()
    }

    #[test]
    fn a_spike_is_shown_by_a_move_there_and_back_with_no_failure() {
        let mut run = record(Scenario::Spike);
        run.answers.push(answered_by(&run, run.primary, 1_000, 300));
        assert_eq!(held(&run), [false, false, true, true]);
        run.tally.activations = 1;
        run.tally.restorations = 1;
        assert_eq!(held(&run), [true; 4]);
        run.answers.push(broken(&run, 13_000, 100));
        assert_eq!(held(&run), [true, true, false, true]);
    }

    #[test]
    fn an_outage_is_shown_by_an_open_breaker_and_no_move() {
        let mut run = record(Scenario::Outage);
        run.tally.breakers_opened = 2;
        run.answers
            .push(answered_by(&run, run.fallback, 30_000, 300));
        assert_eq!(held(&run), [true, true, false, true, true]);
        run.answers
            .push(answered_by(&run, run.primary, 30_000, 300));
        assert_eq!(held(&run), [true; 5]);
        run.tally.activations = 1;
        assert_eq!(held(&run), [true, false, true, true, true]);
    }

    #[test]
    fn a_rate_limit_is_shown_by_a_cooldown() {
        let mut run = record(Scenario::Ratelimit);
        run.answers
            .push(answered_by(&run, run.primary, 30_000, 300));
        assert_eq!(held(&run), [false, true, true, true, true]);
        run.tally.cooldowns = 1;
        assert_eq!(held(&run), [true; 5]);
    }

    /// Both models are down from 12 s to 24 s.
    #[test]
    fn with_everything_down_each_request_is_refused_within_a_second() {
        let mut run = record(Scenario::AllDown);
        run.answers.push(answered_by(&run, run.primary, 1_000, 300));
        run.answers.push(refused(&run, 13_000, 900));
        run.answers
            .push(answered_by(&run, run.primary, 30_000, 300));
        assert_eq!(held(&run), [true; 3]);

        // Too late, and so no refusal in time.
        run.answers.push(refused(&run, 14_000, 1_100));
        assert_eq!(held(&run), [false, false, true]);
    }

    #[test]
    fn a_refusal_while_the_fault_comes_or_goes_is_no_failure_but_one_before_it_is() {
        let mut run = record(Scenario::AllDown);
        run.answers.push(refused(&run, 11_990, 50));
        run.answers.push(refused(&run, 13_000, 50));
        run.answers.push(refused(&run, 24_500, 5));
        run.answers
            .push(answered_by(&run, run.primary, 30_000, 300));
        assert_eq!(held(&run), [true; 3]);
        run.answers.push(refused(&run, 5_000, 50));
        assert_eq!(held(&run), [true, false, true]);
        run.answers.push(refused(&run, 29_500, 50));
        assert_eq!(held(&run), [true, false, false]);
    }
}
