//! What one role asks for: thresholds, clocks, hedging, retries, restoration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_core::{Clocks, ModelId};

use crate::degraded::DegradedPolicy;
use crate::qualification::RankingPolicy;
use crate::queue::{OnExhausted, QueuePolicy};
use crate::task::{ComplexityPolicy, TaskPolicy};
use crate::validator::ValidatorConfig;

/// A policy that contradicts itself or lies outside a key's range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct PolicyError {
    /// The key as it is written in the files, e.g. `restore.canary`.
    pub key: &'static str,
    /// What was seen and what is allowed.
    pub message: String,
}

/// Which latency a role is judged by (`signal`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Signal {
    /// `auto`: whole answers by total time, streams by their first content token.
    #[default]
    Auto,
    /// `total`: by total time.
    Total,
    /// `first_token`: by first content token; whole answers run on upstream streams too.
    FirstToken,
}

/// When the first byte may go out to the caller (`commit`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Commit {
    /// `first_token`: with the first content token.
    #[default]
    FirstToken,
    /// `window`: once [`CommitWindow`] is full or its time is up.
    Window,
    /// `full`: once the whole answer is there.
    Full,
}

/// How much of a stream is held back under `commit = "window"` (`commit_window`):
/// until so many tokens are there, or so long after the first, whichever is sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitWindow {
    /// `tokens`: content tokens, by the count of events or a token for four bytes of
    /// text, whichever is more.
    pub tokens: u32,
    /// `ms`: from the first content token.
    pub time: Duration,
}

impl Default for CommitWindow {
    fn default() -> Self {
        Self {
            tokens: 20,
            time: Duration::from_millis(500),
        }
    }
}

/// What a break after the commit leads to (`on_stream_break`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnStreamBreak {
    /// `resume`: another attempt goes on with the text, where there are no tools and no schema.
    #[default]
    Resume,
    /// `fail`: an error event.
    Fail,
}

/// What a stream with tools does with their calls (`stream_validation`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StreamValidation {
    /// `hold`: text passes, a call is held until its arguments parse.
    #[default]
    Hold,
    /// `pass`: everything passes as it comes.
    Pass,
}

/// What a provider's content filter leads to (`on_content_filter`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnContentFilter {
    /// `stop`: the refusal is passed on.
    #[default]
    Stop,
    /// `next`: the next rung is asked.
    Next,
}

/// What follows when a validator gives no verdict (`on_validator_error`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnValidatorError {
    /// `fail`: the answer counts as not validated, and the next rung is asked.
    #[default]
    Fail,
    /// `pass`: the answer goes out.
    Pass,
}

/// How a second attempt stands to the first (`hedge.mode`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HedgeMode {
    /// `race`: both run, the first valid answer wins.
    #[default]
    Race,
    /// `switch`: the first attempt is cancelled before the next starts.
    Switch,
    /// `off`: no hedges.
    Off,
}

/// Hedging (`hedge`).
#[derive(Debug, Clone, PartialEq)]
pub struct HedgePolicy {
    /// `mode`.
    pub mode: HedgeMode,
    /// `budget`: share of the role's calls that may be hedged while the rung is not in breach, 0 to 1.
    pub budget: f64,
    /// `burst`: hedges the budget holds when full, in calls.
    pub burst: u32,
    /// `max_input_tokens`: calls with more input are hedged only in breach.
    pub max_input_tokens: u64,
    /// `keep_to_p99`: keep one first attempt running until it answers or passes the
    /// p99 threshold, so that the p99 detector sees calls that a hedge saved.
    pub keep_to_p99: bool,
}

impl Default for HedgePolicy {
    fn default() -> Self {
        Self {
            mode: HedgeMode::Race,
            budget: 0.05,
            burst: 10,
            max_input_tokens: 50_000,
            keep_to_p99: false,
        }
    }
}

/// Same-rung retries (`retry`): how often per rung and call, by failure class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// After a 429.
    pub rate_limited: u32,
    /// After a 5xx, a reset or an early end.
    pub transient: u32,
    /// After a 503 or 529.
    pub overloaded: u32,
    /// After an answer that is not the wire format.
    pub malformed: u32,
    /// After an answer that is empty or fails its schema or validator.
    pub semantic: u32,
    /// `base_ms`: the first backoff's upper bound (full jitter).
    pub base: Duration,
    /// `cap_ms`: no backoff is longer.
    pub cap: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            rate_limited: 3,
            transient: 1,
            overloaded: 1,
            malformed: 1,
            semantic: 1,
            base: Duration::from_millis(200),
            cap: Duration::from_secs(30),
        }
    }
}

/// The way back to a rung that was left for slowness (`restore`).
#[derive(Debug, Clone, PartialEq)]
pub struct RestorePolicy {
    /// `probe_interval_ms`: time between two probes.
    pub probe_interval: Duration,
    /// `restore_below`: a probe counts as fast below this share of the p95 threshold, 0 to 1.
    pub restore_below: f64,
    /// `restore_after`: fast probes in a row that end stage 1.
    pub restore_after: u32,
    /// `canary`: shares of live traffic in stage 2, rising, each between 0 and 1; empty: no stage 2.
    pub canary: Vec<f64>,
    /// `canary_samples`: observations from which a share may be judged clear.
    pub canary_samples: u32,
    /// `canary_max_ms`: a share ends by then.
    pub canary_max: Duration,
    /// `hold_ms`: a breach this soon after a restoration is a flap.
    pub hold: Duration,
    /// `growth`: factor on the probe interval after a flap, at least 1.
    pub growth: f64,
    /// `probe_interval_cap_ms`: the probe interval grows no further.
    pub probe_interval_cap: Duration,
    /// `reset_after_ms`: quiet time after which the probe interval is back at its base.
    pub reset_after: Duration,
}

impl Default for RestorePolicy {
    fn default() -> Self {
        Self {
            probe_interval: Duration::from_secs(30),
            restore_below: 0.8,
            restore_after: 2,
            canary: vec![0.1, 0.5],
            canary_samples: 14,
            canary_max: Duration::from_secs(150),
            hold: Duration::from_secs(60),
            growth: 2.0,
            probe_interval_cap: Duration::from_secs(600),
            reset_after: Duration::from_secs(1_800),
        }
    }
}

/// A copy of a share of the role's calls, for a candidate (`shadow`).
#[derive(Debug, Clone, PartialEq)]
pub struct ShadowPolicy {
    /// `model`: the candidate; `None`: no call is shadowed.
    pub model: Option<ModelId>,
    /// `share`: of the role's calls, 0 to 1.
    pub share: f64,
    /// `capture`: whether requests and answers are kept with what is measured.
    pub capture: bool,
    /// `max_concurrency`: shadows at a time; calls beyond have none.
    pub max_concurrency: u32,
}

impl Default for ShadowPolicy {
    fn default() -> Self {
        Self {
            model: None,
            share: 0.05,
            capture: false,
            max_concurrency: 8,
        }
    }
}

/// Everything one role asks for. Built by [`RolePolicy::new`] with the
/// defaults of the files; [`RolePolicy::validate`] says what is wrong with it.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the files, and on its own"
)]
#[derive(Debug, Clone, PartialEq)]
pub struct RolePolicy {
    /// `p95_threshold_ms`: the p95 limit on total time, T95.
    pub p95: Duration,
    /// `p99_threshold_ms`: the p99 limit on total time, T99; at least `p95`.
    pub p99: Duration,
    /// `first_token_p95_ms`: the p95 limit on the first content token; by default `p95`.
    pub first_token_p95: Duration,
    /// `first_token_p99_ms`: the p99 limit on the first content token; by default `p99`.
    pub first_token_p99: Duration,
    /// `evaluation_window_seconds`: the span that latencies are judged over.
    pub window: Duration,
    /// `min_samples`: fewest observations a breach is decided on.
    pub min_samples: u32,
    /// `confidence`: 1 − the chance that a healthy rung shows the exceedances of a breach;
    /// 0 gives the plain percentile rule.
    pub confidence: f64,
    /// `spike_detector`: whether the cumulative-sum detector runs beside the percentiles.
    pub spike_detector: bool,
    /// `signal`.
    pub signal: Signal,
    /// `quality_budget`: least share of the primary's score a fallback may have, 0 to 1.
    pub quality_budget: f64,
    /// `quality_budget_by_tag`: the same over the items of a golden dataset that have a
    /// tag, by tag, 0 to 1; a tag that is not named has no budget of its own.
    pub quality_budget_by_tag: BTreeMap<String, f64>,
    /// `ranking`.
    pub ranking: RankingPolicy,
    /// `min_context_window`: tokens that a fallback's window has to hold to qualify;
    /// `None`: as many as the primary's.
    pub min_context_window: Option<u64>,
    /// `min_capability_score`: rungs below are never used, 0 to 1.
    pub min_capability_score: f64,
    /// `complexity`: the capability that each declared complexity asks for.
    pub complexity: ComplexityPolicy,
    /// `allow_pinned_roster`: whether a caller may name the models that may answer.
    pub allow_pinned_roster: bool,
    /// `tasks`: kinds of task that ask for something else, by name.
    pub tasks: BTreeMap<String, TaskPolicy>,
    /// `simplify_below`: rungs whose capability is below it get the prompt variant
    /// `simple`, 0 to 1; 0: none does.
    pub simplify_below: f64,
    /// `cost_ceiling_usd`: a rung at which a call is expected to cost more, in US
    /// dollars, comes after those at which it is not; `None`: no ceiling.
    pub cost_ceiling_usd: Option<f64>,
    /// `allow_unqualified`: whether fallbacks without a score may be used.
    pub allow_unqualified: bool,
    /// `allow_same_provider`: whether the first fallback may stand at the primary's provider.
    pub allow_same_provider: bool,
    /// `commit`.
    pub commit: Commit,
    /// `commit_window`.
    pub commit_window: CommitWindow,
    /// `on_stream_break`.
    pub on_stream_break: OnStreamBreak,
    /// `resume_max_tokens`: with so many tokens of text sent only a model that takes a
    /// prefill goes on with a broken stream; others answer afresh and have to repeat them.
    pub resume_max_tokens: u32,
    /// `heartbeat_after_ms`: without a commit for so long, the headers of a stream go out,
    /// and signs of life from then on.
    pub heartbeat_after: Duration,
    /// `stream_validation`.
    pub stream_validation: StreamValidation,
    /// `connect_ms`, `first_token_ms`, `stall_ms`, `deadline_ms`.
    pub clocks: Clocks,
    /// `hedge`.
    pub hedge: HedgePolicy,
    /// `retry`.
    pub retry: RetryPolicy,
    /// `restore`.
    pub restore: RestorePolicy,
    /// `shadow`.
    pub shadow: ShadowPolicy,
    /// `on_content_filter`.
    pub on_content_filter: OnContentFilter,
    /// `on_degraded_input` and its neighbours.
    pub degraded: DegradedPolicy,
    /// `on_exhausted`.
    pub on_exhausted: OnExhausted,
    /// `queue`: how tickets are retried.
    pub queue: QueuePolicy,
    /// `validators`: what judges the role's whole answers, in this order.
    pub validators: Vec<ValidatorConfig>,
    /// `on_validator_error`.
    pub on_validator_error: OnValidatorError,
    /// `validator_timeout_ms`: how long each validator may take for a verdict.
    pub validator_timeout: Duration,
    /// `min_tokens_per_s`: a stream slower than this over the last `stall_ms` stalls; 0 is off.
    pub min_tokens_per_s: f64,
    /// `requalify_after_days`: a score older than this is stale.
    pub requalify_after_days: u32,
    /// `min_schema_compliance`: least share of schema-valid answers where the role uses schemas, 0 to 1.
    pub min_schema_compliance: f64,
    /// `golden_dataset`: what the role's models are measured on; a relative path counts from
    /// the configuration's folder. `None`: it has to be named when they are measured.
    pub golden_dataset: Option<PathBuf>,
}

impl RolePolicy {
    /// A policy with the three values that every role must state, and the
    /// defaults for the rest.
    pub fn new(p95: Duration, p99: Duration, window: Duration) -> Self {
        Self {
            p95,
            p99,
            first_token_p95: p95,
            first_token_p99: p99,
            window,
            min_samples: 5,
            confidence: 0.999,
            spike_detector: true,
            signal: Signal::Auto,
            quality_budget: 0.85,
            quality_budget_by_tag: BTreeMap::new(),
            ranking: RankingPolicy::default(),
            min_context_window: None,
            min_capability_score: 0.0,
            complexity: ComplexityPolicy::default(),
            allow_pinned_roster: false,
            tasks: BTreeMap::new(),
            simplify_below: 0.0,
            cost_ceiling_usd: None,
            allow_unqualified: false,
            allow_same_provider: false,
            commit: Commit::FirstToken,
            commit_window: CommitWindow::default(),
            on_stream_break: OnStreamBreak::Resume,
            resume_max_tokens: 64,
            heartbeat_after: Duration::from_secs(10),
            stream_validation: StreamValidation::Hold,
            clocks: Clocks {
                connect: Duration::from_secs(3),
                first_token: Duration::from_secs(30),
                stall: Duration::from_secs(15),
                deadline: Duration::from_secs(120),
            },
            hedge: HedgePolicy::default(),
            retry: RetryPolicy::default(),
            restore: RestorePolicy::default(),
            shadow: ShadowPolicy::default(),
            on_content_filter: OnContentFilter::Stop,
            validators: Vec::new(),
            on_validator_error: OnValidatorError::Fail,
            validator_timeout: Duration::from_secs(2),
            degraded: DegradedPolicy::default(),
            on_exhausted: OnExhausted::Error,
            queue: QueuePolicy::default(),
            min_tokens_per_s: 0.0,
            requalify_after_days: 90,
            min_schema_compliance: 0.95,
            golden_dataset: None,
        }
    }

    /// Checks ranges and contradictions, the same ones that files are checked for.
    ///
    /// # Errors
    /// The first [`PolicyError`], which names the key and the allowed range.
    pub fn validate(&self) -> Result<(), PolicyError> {
        if let Some(fault) = self.faults().into_iter().next() {
            return Err(fault.into());
        }
        for (name, task) in &self.tasks {
            if let Some(fault) = task.faults().into_iter().next() {
                let message = format!("{name}: {} {}", fault.key, fault.message);
                let key = "tasks";
                return Err(PolicyError { key, message });
            }
        }
        Ok(())
    }
}
