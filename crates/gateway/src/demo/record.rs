//! What is known when a run is over, and the figures taken from it.

use super::lines::millis;
use super::load::{Answer, Outcome};
use super::observe::Tally;
use super::scenario::{Scenario, Stage};
use super::stats::{Answers, Moments};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Everything a run leaves behind.
#[derive(Debug)]
pub(super) struct Record {
    /// What went wrong in it.
    pub(super) scenario: Scenario,
    /// When.
    pub(super) moments: Moments,
    /// What the callers got.
    pub(super) answers: Answers,
    /// What the router told.
    pub(super) tally: Tally,
    /// Calls that reached the two upstreams, probes included.
    pub(super) upstream_calls: u64,
    /// The role's first model, `provider/model`.
    pub(super) primary: &'static str,
    /// Its second.
    pub(super) fallback: &'static str,
    /// How long an attempt may run before a hedge starts.
    pub(super) patience: Duration,
}

impl Record {
    /// The 99th percentile of the total times of requests due in `stage`.
    pub(super) fn stage_p99(&self, stage: Stage) -> Option<Duration> {
        self.answers.p99(|a| self.moments.stage(a.due) == stage)
    }

    /// The 99th percentile of the total times of calls that the fallback
    /// answered in normal service: after the role had moved, at the first attempt.
    /// Where the role does not move, any call it answered at the first attempt.
    pub(super) fn fallback_p99(&self) -> Option<Duration> {
        let from = self.tally.activated;
        self.answers.p99(|a: &Answer| {
            let alone = matches!(
                &a.outcome,
                Outcome::Answered { model, attempts: 1 } if model == self.fallback
            );
            alone && from.is_none_or(|from| a.due >= from)
        })
    }

    /// From the onset of the fault to the role's move.
    pub(super) fn time_to_substitution(&self) -> Option<Duration> {
        self.tally.time_to_substitution(self.moments.onset)
    }

    /// The run as one JSON object. Times are in milliseconds with one decimal,
    /// null where there was nothing to measure.
    pub(super) fn summary(&self) -> Value {
        let ms = |duration: Option<Duration>| duration.map(millis);
        let served: Map<String, Value> = [self.primary, self.fallback]
            .into_iter()
            .map(|model| (model.to_owned(), json!(self.answers.served_by(model))))
            .collect();
        json!({
            "scenario": self.scenario.name(),
            "requests": self.answers.len(),
            "failed": self.answers.failed(),
            "wrong": self.answers.wrong(),
            "healthy_p99_ms": ms(self.stage_p99(Stage::Healthy)),
            "spike_p99_ms": ms(self.stage_p99(Stage::Fault)),
            "patience_ms": millis(self.patience),
            "fallback_p99_ms": ms(self.fallback_p99()),
            "time_to_substitution_ms": ms(self.time_to_substitution()),
            "time_to_restoration_ms": ms(self.tally.time_to_restoration()),
            "activation_events": self.tally.activations,
            "restorations": self.tally.restorations,
            "hedges": self.tally.hedges,
            "hedges_won": self.tally.hedges_won,
            "served_by": served,
            "upstream_calls": self.upstream_calls,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A run with the fault from 12 s to 24 s and nothing in it yet.
    pub(in super::super) fn record(scenario: Scenario) -> Record {
        let start = tokio::time::Instant::now().into_std();
        Record {
            scenario,
            moments: Moments {
                start,
                onset: Some(start + ms(12_000)),
                healed: Some(start + ms(24_000)),
            },
            answers: Answers::default(),
            tally: Tally::default(),
            upstream_calls: 0,
            primary: "a/x",
            fallback: "b/y",
            patience: ms(600),
        }
    }

    fn ended(run: &Record, due: u64, total: u64, outcome: Outcome) -> Answer {
        let due = run.moments.start + ms(due);
        Answer {
            due,
            ended: due + ms(total),
            outcome,
        }
    }

    /// A request answered by `model` at the first attempt; times in ms.
    pub(in super::super) fn answered_by(run: &Record, model: &str, due: u64, total: u64) -> Answer {
        let outcome = Outcome::Answered {
            model: model.to_owned(),
            attempts: 1,
        };
        ended(run, due, total, outcome)
    }

    /// A request refused because no model was left.
    pub(in super::super) fn refused(run: &Record, due: u64, total: u64) -> Answer {
        let outcome = Outcome::Refused {
            status: 503,
            code: "roster_exhausted".to_owned(),
        };
        ended(run, due, total, outcome)
    }

    /// A request whose connection broke.
    pub(in super::super) fn broken(run: &Record, due: u64, total: u64) -> Answer {
        let what = "connection reset".to_owned();
        ended(run, due, total, Outcome::Broken { what })
    }

    #[test]
    fn the_last_line_has_every_key_in_its_place() {
        let mut run = record(Scenario::Spike);
        run.answers.push(answered_by(&run, "a/x", 1_000, 301));
        run.answers.push(answered_by(&run, "b/y", 14_000, 352));
        run.answers.push(ended(
            &run,
            12_010,
            955,
            Outcome::Answered {
                model: "b/y".to_owned(),
                attempts: 2,
            },
        ));
        run.tally.activations = 1;
        run.tally.restorations = 1;
        run.tally.hedges = 17;
        run.tally.hedges_won = 16;
        run.tally.activated = Some(run.moments.start + ms(12_870));
        run.tally.restored = Some(run.moments.start + ms(28_100));
        run.upstream_calls = 35;
        assert_eq!(
            run.summary().to_string(),
            concat!(
                r#"{"scenario":"spike","requests":3,"failed":0,"wrong":0,"#,
                r#""healthy_p99_ms":301.0,"spike_p99_ms":955.0,"patience_ms":600.0,"#,
                r#""fallback_p99_ms":352.0,"time_to_substitution_ms":870.0,"#,
                r#""time_to_restoration_ms":15230.0,"activation_events":1,"restorations":1,"#,
                r#""hedges":17,"hedges_won":16,"served_by":{"a/x":1,"b/y":2},"#,
                r#""upstream_calls":35}"#
            )
        );
    }

    #[test]
    fn what_was_not_measured_is_null() {
        let summary = record(Scenario::Outage).summary();
        for key in [
            "healthy_p99_ms",
            "spike_p99_ms",
            "fallback_p99_ms",
            "time_to_substitution_ms",
            "time_to_restoration_ms",
        ] {
            assert!(summary[key].is_null(), "{key}");
        }
    }
}
