//! What the callers saw: percentiles over all answers, over one part of the
//! run, and over the last seconds.

use super::load::{Answer, Outcome};
use super::scenario::Stage;
use std::time::{Duration, Instant};

/// The nearest-rank percentile of `times`: the smallest of them that at least
/// `share` (0..1) of them do not exceed. None of nothing.
pub(super) fn percentile(times: &mut [Duration], share: f64) -> Option<Duration> {
    times.sort_unstable();
    let last = times.len().checked_sub(1)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a count of requests is a small number that is not negative"
    )]
    let rank = (share * times.len() as f64).ceil() as usize;
    Some(times[rank.saturating_sub(1).min(last)])
}

/// When the parts of the run began. Times are those of the machine's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    /// When sending began.
    pub(super) start: Instant,
    /// When the fault was switched on.
    pub(super) onset: Option<Instant>,
    /// When it was switched off.
    pub(super) healed: Option<Instant>,
}

impl Moments {
    /// The part of the run `at` falls into.
    pub(super) fn stage(&self, at: Instant) -> Stage {
        if self.healed.is_some_and(|healed| at >= healed) {
            Stage::Recovery
        } else if self.onset.is_some_and(|onset| at >= onset) {
            Stage::Fault
        } else {
            Stage::Healthy
        }
    }
}

/// The last seconds, for the live view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Recent {
    /// Requests that ended, per second.
    pub(super) rate: f64,
    /// The median of the total times.
    pub(super) p50: Option<Duration>,
    /// Their 95th percentile.
    pub(super) p95: Option<Duration>,
    /// Their 99th percentile.
    pub(super) p99: Option<Duration>,
    /// How many answers came from each model, in the order asked for.
    pub(super) answered: Vec<usize>,
    /// How many requests got no answer, or a wrong one.
    pub(super) bad: usize,
}

/// Every request that has ended, in the order they ended.
#[derive(Debug, Default)]
pub(super) struct Answers {
    all: Vec<Answer>,
}

impl Answers {
    /// Takes one more.
    pub(super) fn push(&mut self, answer: Answer) {
        self.all.push(answer);
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Answer> {
        self.all.iter()
    }

    /// How many requests have ended.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many got no answer.
    pub(super) fn failed(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Refused { .. } | Outcome::Broken { .. }))
    }

    /// How many were given something else than their answer as a success.
    pub(super) fn wrong(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Wrong { .. }))
    }

    /// How many `model` answered.
    pub(super) fn served_by(&self, model: &str) -> usize {
        self.count(|outcome| outcome.model() == Some(model))
    }

    fn count(&self, wanted: impl Fn(&Outcome) -> bool) -> usize {
        self.iter().filter(|a| wanted(&a.outcome)).count()
    }

    /// The 99th percentile of the total times of all requests `wanted` picks,
    /// whatever became of them.
    pub(super) fn p99(&self, wanted: impl Fn(&Answer) -> bool) -> Option<Duration> {
        let picked = self.iter().filter(|a| wanted(a));
        percentile(&mut picked.map(Answer::total).collect::<Vec<_>>(), 0.99)
    }

    /// The `span` before `now`; `models` says whose answers are counted apart.
    pub(super) fn recent(&self, now: Instant, span: Duration, models: &[&str]) -> Recent {
        let last: Vec<&Answer> = self
            .all
            .iter()
            .rev()
            .take_while(|a| now.saturating_duration_since(a.ended) < span)
            .collect();
        let mut times: Vec<Duration> = last.iter().map(|a| a.total()).collect();
        let answered: Vec<usize> = models
            .iter()
            .map(|model| {
                let by = |a: &&&Answer| a.outcome.model() == Some(*model);
                last.iter().filter(by).count()
            })
            .collect();
        #[expect(clippy::cast_precision_loss, reason = "some tens of requests")]
        let rate = last.len() as f64 / span.as_secs_f64().max(f64::MIN_POSITIVE);
        Recent {
            rate,
            p50: percentile(&mut times, 0.50),
            p95: percentile(&mut times, 0.95),
            p99: percentile(&mut times, 0.99),
            bad: last.len() - answered.iter().sum::<usize>(),
            answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_percentile_is_one_of_its_samples_by_nearest_rank() {
        let mut times: Vec<Duration> = (1..=100).rev().map(ms).collect();
        assert_eq!(percentile(&mut times, 0.50), Some(ms(50)));
        assert_eq!(percentile(&mut times, 0.95), Some(ms(95)));
        assert_eq!(percentile(&mut times, 0.99), Some(ms(99)));
        assert_eq!(percentile(&mut times, 1.0), Some(ms(100)));
        assert_eq!(percentile(&mut times[..1], 0.01), Some(ms(1)));
        assert_eq!(percentile(&mut [], 0.99), None);
    }

    #[test]
    fn two_slow_calls_of_a_hundred_show_in_the_p99_and_one_does_not() {
        let mut times = vec![ms(10); 98];
        times.extend([ms(900), ms(10)]);
        assert_eq!(percentile(&mut times, 0.99), Some(ms(10)));
        times[0] = ms(900);
        assert_eq!(percentile(&mut times, 0.99), Some(ms(900)));
    }

    #[test]
    fn a_request_belongs_to_the_stage_it_was_due_in() {
        let start = tokio::time::Instant::now().into_std();
        let moments = Moments {
            start,
            onset: Some(start + ms(100)),
            healed: Some(start + ms(200)),
        };
        assert_eq!(moments.stage(start + ms(99)), Stage::Healthy);
        assert_eq!(moments.stage(start + ms(100)), Stage::Fault);
        assert_eq!(moments.stage(start + ms(200)), Stage::Recovery);
    }

    #[test]
    fn the_last_seconds_count_what_ended_in_them() {
        let start = tokio::time::Instant::now().into_std();
        let mut answers = Answers::default();
        for (ended, model) in [(500, "a/x"), (1_500, "a/x"), (1_800, "b/y")] {
            answers.push(Answer {
                due: start + ms(ended - 300),
                ended: start + ms(ended),
                outcome: Outcome::Answered {
                    model: model.to_owned(),
                    attempts: 1,
                },
            });
        }
        answers.push(Answer {
            due: start,
            ended: start + ms(1_900),
            outcome: Outcome::Broken {
                what: "connection reset".to_owned(),
            },
        });
        let recent = answers.recent(start + ms(2_000), ms(1_000), &["a/x", "b/y"]);
        assert_eq!(recent.answered, [1, 1]);
        assert_eq!(recent.bad, 1);
        assert!((recent.rate - 3.0).abs() < f64::EPSILON);
        assert_eq!(recent.p50, Some(ms(300)));
        assert_eq!(recent.p99, Some(ms(1_900)));
        assert_eq!(answers.failed(), 1);
        assert_eq!(answers.served_by("a/x"), 2);
    }
}
