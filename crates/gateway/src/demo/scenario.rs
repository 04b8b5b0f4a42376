//! The scenarios: what goes wrong, when, and for how long.

use clap::ValueEnum;
use std::time::Duration;

/// Seconds as a `Duration`.
const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The time between two requests: 20 per second.
pub(super) const INTERVAL: Duration = Duration::from_millis(50);
/// The primary takes its traffic back before the run ends; this long it is watched then.
const AFTER_RESTORATION: Duration = s(8);
/// At least 600 requests are sent: 30 s at 20 per second.
const AT_LEAST: Duration = s(30);
/// When sending stops although the primary has not come back; with the answers
/// then in flight the run stays below 55 s.
const AT_MOST: Duration = s(53);
/// How long the last answers are waited for once sending has stopped.
pub(super) const DRAIN: Duration = s(2);

/// Once the fault is over, everything is well again after at most this long:
/// the breaker's open time (2 s, up to 10% jitter) or the rest of a cooldown,
/// and the calls that try it.
pub(super) const RECOVERED_WITHIN: Duration = s(5);

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Scenario {
    /// The primary takes 10 s instead of 0.2 s, at once
    Spike,
    /// The primary gets slower and slower, from 0.2 s to 10 s
    Ramp,
    /// The primary answers every call with an error (HTTP 500)
    Outage,
    /// The primary takes calls and never answers
    Hang,
    /// The primary refuses calls with 429 and a Retry-After
    Ratelimit,
    /// Primary and fallback both answer with errors
    AllDown,
}

impl Scenario {
    /// The name on the command line and in the report.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Spike => "spike",
            Self::Ramp => "ramp",
            Self::Outage => "outage",
            Self::Hang => "hang",
            Self::Ratelimit => "ratelimit",
            Self::AllDown => "all-down",
        }
    }

    /// What goes wrong and what ought to happen then, for a reader who is new to it.
    pub(super) const fn plot(self) -> &'static str {
        match self {
            Self::Spike => {
                "The primary model answers in 0.2 s; then, at once, it takes 10 s.\n\
                 Calls in flight are handed to the fallback while the primary still runs, the\n\
                 next ones go straight there, and the primary comes back when it has recovered."
            }
            Self::Ramp => {
                "The primary model gets slower and slower, from 0.2 s to 10 s.\n\
                 Once its p95 is over the role's limit the role moves to the fallback, and the\n\
                 primary comes back when it has recovered."
            }
            Self::Outage => {
                "The primary model answers every call with HTTP 500.\n\
                 Each call fails over to the fallback; after five failures the primary's breaker\n\
                 opens and nobody asks it until it lets two calls through to see. The role itself\n\
                 does not move: that is for slowness."
            }
            Self::Hang => {
                "The primary model takes calls and never answers them.\n\
                 Calls in flight are handed to the fallback when their patience ends, long before\n\
                 any time-out; five such calls move the role, and probes bring it back."
            }
            Self::Ratelimit => {
                "The primary model answers 429 with `Retry-After: 2`.\n\
                 The wait is longer than a call's patience, so each call goes to the fallback, and\n\
                 the primary is left alone until its cooldown ends. The role does not move."
            }
            Self::AllDown => {
                "Both models answer every call with HTTP 500.\n\
                 No fallback is left: each call ends quickly in a clear 503 `roster_exhausted`\n\
                 instead of hanging, and is answered again once the models are back."
            }
        }
    }

    /// The course of the run.
    pub(super) const fn course(self) -> Course {
        match self {
            Self::Spike | Self::Ramp | Self::Hang => Course {
                healthy: s(12),
                fault: s(12),
                end: End::AfterRestoration,
            },
            Self::Outage | Self::Ratelimit | Self::AllDown => Course {
                healthy: s(8),
                fault: s(10),
                end: End::After(s(8)),
            },
        }
    }

    /// What the given part of the run is called.
    pub(super) const fn stage_name(self, stage: Stage) -> &'static str {
        match stage {
            Stage::Healthy => "healthy",
            Stage::Fault => self.name(),
            Stage::Recovery => "recovery",
        }
    }
}

/// One part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before the fault.
    Healthy,
    /// While it lasts.
    Fault,
    /// After it.
    Recovery,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Some time after the primary took its traffic back.
    AfterRestoration,
    /// This long after the fault.
    After(Duration),
}

/// How long each part of a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Course {
    healthy: Duration,
    fault: Duration,
    end: End,
}

impl Course {
    /// When `stage` ends, counted from the start of the run; `restored` is when
    /// the primary took its traffic back, if it has.
    pub(super) fn ends(&self, stage: Stage, restored: Option<Duration>) -> Duration {
        match (stage, self.end) {
            (Stage::Healthy, _) => self.healthy,
            (Stage::Fault, _) => self.healthy + self.fault,
            (Stage::Recovery, End::After(rest)) => self.healthy + self.fault + rest,
            (Stage::Recovery, End::AfterRestoration) => restored.map_or(AT_MOST, |at| {
                (at + AFTER_RESTORATION).clamp(AT_LEAST, AT_MOST)
            }),
        }
    }

    /// How long the fault lasts.
    pub(super) const fn fault(&self) -> Duration {
        self.fault
    }

    /// The course in one line.
    pub(super) fn words(&self, fault: &str) -> String {
        let start = format!(
            "{} s healthy, {} s {fault}",
            self.healthy.as_secs(),
            self.fault.as_secs()
        );
        match self.end {
            End::After(rest) => format!("{start}, {} s recovery", rest.as_secs()),
            End::AfterRestoration => format!(
                "{start}, then until {} s after the restoration (at most 55 s in all)",
                AFTER_RESTORATION.as_secs()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spike_ends_eight_seconds_after_the_restoration() {
        let course = Scenario::Spike.course();
        assert_eq!(course.ends(Stage::Healthy, None), s(12));
        assert_eq!(course.ends(Stage::Fault, None), s(24));
        assert_eq!(course.ends(Stage::Recovery, Some(s(28))), s(36));
    }

    #[test]
    fn a_spike_sends_six_hundred_requests_and_stays_below_a_minute() {
        let course = Scenario::Spike.course();
        let early = course.ends(Stage::Recovery, Some(s(13)));
        assert!(early.as_millis() / INTERVAL.as_millis() >= 600, "{early:?}");
        let late = course.ends(Stage::Recovery, Some(s(52)));
        let never = course.ends(Stage::Recovery, None);
        assert!(late + DRAIN <= s(55) && never + DRAIN <= s(55));
    }

    #[test]
    fn scenarios_without_a_move_have_a_fixed_end() {
        for scenario in [Scenario::Outage, Scenario::Ratelimit, Scenario::AllDown] {
            assert_eq!(scenario.course().ends(Stage::Recovery, None), s(26));
        }
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for scenario in Scenario::value_variants() {
            let written = scenario.to_possible_value().unwrap();
            assert_eq!(written.get_name(), scenario.name());
        }
    }
}
