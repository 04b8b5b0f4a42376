//! What happened to one call: the single source of meta, headers, audit and tests.

use crate::{Class, Cost, Failure, ModelId, Usage};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Everything that happened to one call, in order.
#[derive(Debug, Clone, Default)]
pub struct Trail {
    /// The steps, in the order they happened.
    pub steps: Vec<TrailStep>,
}

/// One thing that happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "most steps are attempts, and few calls have more than one step"
)]
pub enum TrailStep {
    /// An attempt; its record is filled in as it goes on.
    Attempt(AttemptRecord),
    /// A rung was passed over.
    Skipped {
        /// Which rung.
        rung: usize,
        /// Its model.
        model: ModelId,
        /// Why.
        refusal: Refusal,
        /// When, since the call began.
        at: Duration,
    },
    /// The call waited before asking a rung (again).
    Waited {
        /// Which rung.
        rung: usize,
        /// How long.
        wait: Duration,
        /// The failure or refusal waited for.
        reason: &'static str,
        /// When the wait began, since the call began.
        at: Duration,
    },
    /// Patience ran out and no hedge was started.
    HedgeRefused {
        /// The rung whose patience ran out.
        rung: usize,
        /// Why: `off`, `budget`, `too_large`, `one_per_call`, `no_rung`, `not_hedgeable`, `deadline`.
        reason: &'static str,
        /// When, since the call began.
        at: Duration,
    },
    /// A retry on the same rung was not allowed by the provider's retry budget.
    RetryRefused {
        /// Which rung.
        rung: usize,
        /// When, since the call began.
        at: Duration,
    },
    /// A validator gave no verdict on a rung's answer.
    NotValidated {
        /// Which rung.
        rung: usize,
        /// The validator's name.
        validator: Arc<str>,
        /// Why, in words.
        error: String,
        /// When, since the call began.
        at: Duration,
    },
    /// An attempt goes on with a stream that broke after its commit.
    Resumed {
        /// The attempt that goes on.
        attempt: usize,
        /// Its rung.
        rung: usize,
        /// The rung whose stream broke.
        from: usize,
        /// Whether it was given the text so far to go on from; else it answered afresh
        /// and has repeated that text exactly.
        prefilled: bool,
        /// Tokens of text that the caller had by then, by estimate.
        sent_tokens: u64,
        /// When, since the call began.
        at: Duration,
    },
    /// What a rung could not be told as asked, or an unreadable event that was skipped.
    Adapted {
        /// Which rung.
        rung: usize,
        /// What was changed or left out.
        what: String,
    },
}

/// Why an attempt was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttemptKind {
    /// The call's first.
    First,
    /// The same rung again.
    Retry,
    /// Beside a running attempt whose patience ran out.
    Hedge,
    /// The next rung, after a failure or a refusal.
    Failover,
    /// A benched rung, because nothing else was left.
    LastResort,
    /// To go on with a stream that broke after its commit.
    Resume,
}

impl AttemptKind {
    /// The name used outside Rust.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Retry => "retry",
            Self::Hedge => "hedge",
            Self::Failover => "failover",
            Self::LastResort => "last_resort",
            Self::Resume => "resume",
        }
    }
}

/// How an attempt ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// It still runs.
    Running,
    /// It gave the answer.
    Won,
    /// Another attempt of the call won.
    Lost,
    /// It failed.
    Failed(Failure),
    /// The caller left.
    Cancelled,
}

impl AttemptOutcome {
    /// How it ended, as it is told outside: `ok`, `error`, `abandoned`,
    /// `rejected_quality` or `cancelled`. `rejected` as [`AttemptRecord::rejected`] has it:
    /// no verdict on an answer is no rejection.
    pub const fn word(&self, rejected: bool) -> &'static str {
        match self {
            Self::Won => "ok",
            Self::Failed(_) if rejected => "rejected_quality",
            Self::Failed(_) => "error",
            Self::Cancelled => "cancelled",
            // One that still runs is kept to be measured, and gives no answer any more.
            Self::Lost | Self::Running => "abandoned",
        }
    }
}

/// One attempt. Times count from the start of the call.
#[derive(Debug, Clone)]
pub struct AttemptRecord {
    /// Its index within the call, from 0.
    pub index: usize,
    /// Which rung.
    pub rung: usize,
    /// Its model.
    pub model: ModelId,
    /// Why it was made.
    pub kind: AttemptKind,
    /// When it began.
    pub started: Duration,
    /// When its first content came.
    pub first_token: Option<Duration>,
    /// When it ended.
    pub ended: Option<Duration>,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// Whether its answer was refused for what is in it, or is not: by a validator's
    /// verdict, as empty, or against its schema.
    pub rejected: bool,
    /// Tokens it took, told when it ends: as reported, or as far as they are known;
    /// none where it was refused before it can have cost anything.
    pub usage: Option<Usage>,
    /// Whether `usage` holds an estimate: nothing was reported, or the answer was not
    /// complete when it was.
    pub usage_estimated: bool,
    /// What it cost, once it has ended; none where the model's prices are not known.
    pub cost: Option<Cost>,
}

/// Tokens of a whole call, all attempts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// The sum of what the attempts took.
    pub usage: Usage,
    /// Whether it may have been more: an attempt's tokens are estimated, or not told yet.
    pub at_least: bool,
}

/// Why a rung was passed over.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Refusal {
    /// The model's or provider's breaker refuses; for how much longer.
    BreakerOpen(Duration),
    /// The breaker is half-open and all its trials are out; how long at most
    /// until it is asked again.
    BreakerTrial(Duration),
    /// The rung's answers failed validation too often; for how much longer.
    SemanticBreakerOpen(Duration),
    /// After a rate limit; for how much longer.
    Cooldown(Duration),
    /// The request would go over a rate limit that is configured, or that the
    /// provider reports; for how much longer.
    RateLimitNear(Duration),
    /// Quota, credential or a missing model; for how much longer.
    Hold {
        /// What the hold is for.
        class: Class,
        /// How much longer.
        remaining: Duration,
    },
    /// A drill has taken the model away; for how much longer.
    Drill(Duration),
    /// The model is at its concurrency limit.
    AtCapacity,
    /// The model's end of life has passed.
    EndOfLife,
    /// The request does not fit the model's context window.
    ContextWindow {
        /// The request's estimated tokens.
        needed: u64,
        /// The model's window, tokens.
        window: u64,
    },
    /// The model is said to lack what the request needs: `tools`, `images`, or a
    /// way to be asked for its output `schema`.
    Lacks(&'static str),
    /// The call is expected to cost more here than the role's ceiling, and less
    /// elsewhere. Both in millionths of a US dollar.
    OverCost {
        /// What it is expected to cost.
        expected_micros: u64,
        /// The ceiling.
        ceiling_micros: u64,
    },
    /// It can do less than role, task or request ask: never used for this call.
    BelowCapability {
        /// What the rung can do, share of the primary, 0..1.
        capability: f64,
        /// The least that was asked, 0..1.
        least: f64,
    },
    /// The caller named the models that may answer, and this is none of them.
    NotPinned,
    /// Left because it breached, and something better is left.
    Benched,
    /// Slower than the rung it would take over from.
    Worse,
    /// This call failed on its provider in a way that its other models share.
    ProviderFailed(Class),
    /// This call has tried it already.
    Tried,
}

impl Refusal {
    /// The words of [`Refusal::told`] that are no class of failure.
    pub const WORDS: [&'static str; 9] = [
        "breaker_open",
        "quality_gate",
        "cooldown",
        "hold",
        "drill",
        "at_capacity",
        "eol",
        "below_capability",
        "manual",
    ];

    /// The reason as trails, error bodies and the operators' state name it. Telemetry has
    /// fewer words: [`Refusal::told`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BreakerOpen(_) | Self::BreakerTrial(_) => "breaker_open",
            Self::SemanticBreakerOpen(_) => "quality_gate",
            Self::Cooldown(_) => "cooldown",
            Self::RateLimitNear(_) => "rate_limit_near",
            Self::Hold { .. } => "hold",
            Self::Drill(_) => "drill",
            Self::AtCapacity => "at_capacity",
            Self::EndOfLife => "eol",
            Self::ContextWindow { .. } => "context_window",
            Self::Lacks(_) => "lacks",
            Self::OverCost { .. } => "over_cost",
            Self::BelowCapability { .. } => "below_capability",
            Self::NotPinned => "not_pinned",
            Self::Benched => "benched",
            Self::Worse => "worse",
            Self::ProviderFailed(_) => "provider_failed",
            Self::Tried => "tried",
        }
    }

    /// The reason as it is told outside: in events, metrics, log lines, audit records,
    /// headers and baggage. It is one of [`Refusal::WORDS`] or a class of failure.
    ///
    /// A rate limit that would be passed is told as the `cooldown` that asking would lead
    /// to, something a model lacks as `below_capability`, a provider that failed this call
    /// before as the class it failed with, and what a person decided by naming models or a
    /// price as `manual`.
    pub const fn told(self) -> &'static str {
        match self {
            Self::RateLimitNear(_) => "cooldown",
            Self::Lacks(_) => "below_capability",
            Self::OverCost { .. } | Self::NotPinned => "manual",
            Self::ProviderFailed(class) => class.as_str(),
            Self::Benched | Self::Worse | Self::Tried => "at_capacity",
            refusal => refusal.as_str(),
        }
    }

    /// How long until the rung may be asked again, where that is known.
    pub const fn retry_in(self) -> Option<Duration> {
        match self {
            Self::BreakerOpen(d)
            | Self::BreakerTrial(d)
            | Self::SemanticBreakerOpen(d)
            | Self::Cooldown(d)
            | Self::RateLimitNear(d)
            | Self::Drill(d) => Some(d),
            Self::Hold { remaining, .. } => Some(remaining),
            _ => None,
        }
    }
}

impl TrailStep {
    /// When it happened, since the call began; none where it has no time of its own.
    pub const fn at(&self) -> Option<Duration> {
        match self {
            Self::Attempt(record) => Some(record.started),
            Self::Skipped { at, .. }
            | Self::Waited { at, .. }
            | Self::HedgeRefused { at, .. }
            | Self::RetryRefused { at, .. }
            | Self::NotValidated { at, .. }
            | Self::Resumed { at, .. } => Some(*at),
            Self::Adapted { .. } => None,
        }
    }
}

/// One line: what was done at which rung, and why or how it ended. Models, times and
/// providers' words are left out, so that two runs of the same course read the same:
/// `attempt 0 first failed:rate_limited`, `waited 0 rate_limited`, `skipped 1 hold:auth`,
/// `attempt 2 failover won`.
impl fmt::Display for TrailStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attempt(AttemptRecord {
                rung,
                kind,
                outcome,
                ..
            }) => write!(f, "attempt {rung} {} {outcome}", kind.as_str()),
            Self::Skipped { rung, refusal, .. } => write!(f, "skipped {rung} {refusal}"),
            Self::Waited { rung, reason, .. } => write!(f, "waited {rung} {reason}"),
            Self::HedgeRefused { rung, reason, .. } => write!(f, "hedge_refused {rung} {reason}"),
            Self::RetryRefused { rung, .. } => write!(f, "retry_refused {rung}"),
            Self::NotValidated {
                rung, validator, ..
            } => write!(f, "not_validated {rung} {validator}"),
            Self::Resumed { rung, from, .. } => write!(f, "resumed {rung} for {from}"),
            Self::Adapted { rung, what } => write!(f, "adapted {rung} {what}"),
        }
    }
}

/// `won`, `lost`, `cancelled`, `running`, or `failed:` with the class and, of a
/// time-out, the clock.
impl fmt::Display for AttemptOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("running"),
            Self::Won => f.write_str("won"),
            Self::Lost => f.write_str("lost"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Failed(failure) => match failure.phase {
                Some(phase) => write!(f, "failed:{}:{}", failure.class, phase.as_str()),
                None => write!(f, "failed:{}", failure.class),
            },
        }
    }
}

/// The reason, and where it has a kind of its own that too: `hold:auth`, `lacks:tools`.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        match self {
            Self::Hold { class, .. } | Self::ProviderFailed(class) => write!(f, ":{class}"),
            Self::Lacks(what) => write!(f, ":{what}"),
            Self::BreakerTrial(_) => f.write_str(":trial"),
            _ => Ok(()),
        }
    }
}

impl Trail {
    /// The attempts, in order.
    pub fn attempts(&self) -> impl Iterator<Item = &AttemptRecord> {
        self.steps.iter().filter_map(|s| match s {
            TrailStep::Attempt(record) => Some(record),
            _ => None,
        })
    }

    /// What all attempts took, losers and failures included.
    pub fn spent(&self) -> Spent {
        let mut spent = Spent::default();
        for attempt in self.attempts() {
            if let Some(usage) = attempt.usage {
                spent.usage = spent.usage.plus(usage);
            }
            spent.at_least |=
                attempt.usage_estimated || matches!(attempt.outcome, AttemptOutcome::Running);
        }
        spent
    }

    /// The record of attempt `index`.
    pub fn attempt_mut(&mut self, index: usize) -> Option<&mut AttemptRecord> {
        self.steps.iter_mut().find_map(|s| match s {
            TrailStep::Attempt(record) if record.index == index => Some(record),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Phase;

    #[test]
    fn a_step_reads_as_one_line() {
        let at = Duration::ZERO;
        let model = ModelId::new("acme/big").unwrap();
        let attempt = |outcome| {
            TrailStep::Attempt(AttemptRecord {
                index: 4,
                rung: 1,
                model: model.clone(),
                kind: AttemptKind::LastResort,
                started: at,
                first_token: None,
                ended: None,
                outcome,
                rejected: false,
                usage: None,
                usage_estimated: false,
                cost: None,
            })
        };
        let timeout = Failure::timeout(Phase::Stall, "words of ours");
        let skipped = |refusal| TrailStep::Skipped {
            rung: 2,
            model: model.clone(),
            refusal,
            at,
        };
        let hold = Refusal::Hold {
            class: Class::QuotaExhausted,
            remaining: Duration::from_secs(9),
        };
        for (step, line) in [
            (attempt(AttemptOutcome::Won), "attempt 1 last_resort won"),
            (
                attempt(AttemptOutcome::Failed(timeout)),
                "attempt 1 last_resort failed:timeout:stall",
            ),
            (skipped(hold), "skipped 2 hold:quota_exhausted"),
            (skipped(Refusal::Lacks("tools")), "skipped 2 lacks:tools"),
            (skipped(Refusal::AtCapacity), "skipped 2 at_capacity"),
            (
                TrailStep::HedgeRefused {
                    rung: 0,
                    reason: "budget",
                    at,
                },
                "hedge_refused 0 budget",
            ),
        ] {
            assert_eq!(step.to_string(), line);
        }
    }
    #[test]
    fn a_refusal_is_told_in_a_word_of_the_closed_set() {
        let some = Duration::from_secs(1);
        let refusals = [
            (Refusal::BreakerOpen(some), "breaker_open"),
            (Refusal::BreakerTrial(some), "breaker_open"),
            (Refusal::SemanticBreakerOpen(some), "quality_gate"),
            (Refusal::Cooldown(some), "cooldown"),
            (Refusal::RateLimitNear(some), "cooldown"),
            (
                Refusal::Hold {
                    class: Class::Auth,
                    remaining: some,
                },
                "hold",
            ),
            (Refusal::Drill(some), "drill"),
            (Refusal::AtCapacity, "at_capacity"),
            (Refusal::EndOfLife, "eol"),
            (
                Refusal::ContextWindow {
                    needed: 2,
                    window: 1,
                },
                "context_window",
            ),
            (Refusal::Lacks("tools"), "below_capability"),
            (
                Refusal::OverCost {
                    expected_micros: 2,
                    ceiling_micros: 1,
                },
                "manual",
            ),
            (
                Refusal::BelowCapability {
                    capability: 0.5,
                    least: 0.9,
                },
                "below_capability",
            ),
            (Refusal::NotPinned, "manual"),
            (Refusal::Benched, "at_capacity"),
            (Refusal::Worse, "at_capacity"),
            (Refusal::ProviderFailed(Class::Unreachable), "unreachable"),
            (Refusal::Tried, "at_capacity"),
        ];
        for (refusal, word) in refusals {
            assert_eq!(refusal.told(), word, "{refusal}");
            let is_class = Class::ALL.iter().any(|class| class.as_str() == word);
            assert!(is_class || Refusal::WORDS.contains(&word), "{word}");
        }
        for word in Refusal::WORDS {
            assert!(refusals.iter().any(|(_, told)| *told == word), "{word}");
        }
    }
}
