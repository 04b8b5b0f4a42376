//! Models as the files describe them.

use std::num::NonZeroU32;
use std::time::Duration;

use evenkeel_core::ModelId;
use jiff::civil::Date;

use crate::guard::{BreakerPolicy, CooldownPolicy, HoldPolicy};

/// What an `eol_date` means (`eol_kind`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EolKind {
    /// `fixed`: the model is gone after that day.
    #[default]
    Fixed,
    /// `earliest`: a provider's "not before" date; only warns.
    Earliest,
}

/// Where a model stands in its life as of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EolState {
    /// No date, or a date further away than the warning time.
    Current,
    /// The last day is this many days away (0 = today).
    Ending {
        /// Days until the last day.
        days: i32,
    },
    /// A "not before" date has passed: the model may go any day, and is used.
    Overdue,
    /// The last day has passed: the model is skipped.
    Past,
}

/// A model's last day is announced this many days ahead.
const EOL_WARNING_DAYS: i32 = 60;

/// Calls at a time that a model gets unless `[limits]` says otherwise.
pub(crate) const DEFAULT_CONCURRENCY: usize = 64;

/// A simulated model's behaviour (`[providers.NAME.models."MODEL"]`).
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedModelConfig {
    /// `latency.median_ms`: median time to the first token.
    pub median: Duration,
    /// `latency.p99_ms`: 99th percentile of the time to the first token; at least `median`.
    pub p99: Duration,
    /// `tokens`: tokens in an answer.
    pub tokens: u32,
    /// `inter_token_ms`: time between two tokens.
    pub inter_token: Duration,
    /// `error_rate`: share of calls that fail, 0 to 1.
    pub error_rate: f64,
}

impl Default for SimulatedModelConfig {
    /// A quick, healthy model: the demo's primary.
    fn default() -> Self {
        Self {
            median: Duration::from_millis(200),
            p99: Duration::from_millis(400),
            tokens: 20,
            inter_token: Duration::from_millis(5),
            error_rate: 0.0,
        }
    }
}

/// Everything known about one model that a roster names.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// `provider/model`.
    pub id: ModelId,
    /// Its breaker: the shared settings, then its provider's, then its own.
    pub breaker: BreakerPolicy,
    /// Its cooldown, from the same three places.
    pub cooldown: CooldownPolicy,
    /// How long it is set aside, from the same three places.
    pub hold: HoldPolicy,
    /// `limits.max_concurrency`: calls at a time, from the same three places.
    pub max_concurrency: usize,
    /// `limits.requests_per_minute`, from the same three places; `None`: no limit but
    /// what the provider reports.
    pub requests_per_minute: Option<NonZeroU32>,
    /// `limits.tokens_per_minute`, input and output together, from the same three
    /// places; `None`: no limit but what the provider reports.
    pub tokens_per_minute: Option<NonZeroU32>,
    /// `context_window`, in tokens; `None`: unknown.
    pub context_window: Option<u64>,
    /// `max_output_tokens`; `None`: unknown.
    pub max_output_tokens: Option<u64>,
    /// `tools`: whether it calls tools; `None`: not said, it is asked.
    pub tools: Option<bool>,
    /// `max_tools`: how many tools it takes at most, with the one that a forced answer
    /// adds; `None`: not said, it is asked with any number.
    pub max_tools: Option<u64>,
    /// `parallel_tool_calls`: whether it may call several tools in one answer, and takes
    /// being told so; `None`: not said, it is told what the caller says.
    pub parallel_tool_calls: Option<bool>,
    /// `images`: whether it takes images; `None`: not said, it is asked.
    pub images: Option<bool>,
    /// `prefill`: whether it goes on from a final assistant message; `None`: not
    /// said, it is asked.
    pub prefill: Option<bool>,
    /// `json_schema`: whether its provider enforces a schema for the answer;
    /// `None`: as is usual for the dialect.
    pub json_schema: Option<bool>,
    /// `json_object`: whether it has a JSON mode; `None`: as is usual for the dialect.
    pub json_object: Option<bool>,
    /// `forced_tool`: whether it can be made to call a tool; `None`: as is usual
    /// for the dialect, and false where `tools` is.
    pub forced_tool: Option<bool>,
    /// `schema_dialect`: which subset of JSON Schema is enforced, one of
    /// [`SCHEMA_DIALECTS`]; `None`: that of its provider.
    pub schema_dialect: Option<&'static str>,
    /// `eol_date`: the last day the model is served.
    pub eol_date: Option<Date>,
    /// `eol_kind`.
    pub eol_kind: EolKind,
    /// `snapshot`: the build that the provider serves, as its answers name it; `None`:
    /// not said.
    pub snapshot: Option<String>,
    /// `replacement`: what the provider names as the successor.
    pub replacement: Option<String>,
    /// `probe_max_tokens`: output tokens of a probe; reasoning models need more.
    pub probe_max_tokens: u64,
    /// `probe_usd_per_day`: what probes may cost, in US dollars a day.
    pub probe_usd_per_day: f64,
    /// `input_usd_per_mtok`: US dollars per million input tokens.
    pub input_usd_per_mtok: Option<f64>,
    /// `output_usd_per_mtok`: US dollars per million output tokens.
    pub output_usd_per_mtok: Option<f64>,
    /// `cached_input_usd_per_mtok`: per million input tokens that the provider had in
    /// its cache; `None`: as other input.
    pub cached_input_usd_per_mtok: Option<f64>,
    /// `cache_write_usd_per_mtok`: per million input tokens that it wrote to its cache;
    /// `None`: as other input.
    pub cache_write_usd_per_mtok: Option<f64>,
    /// Whether the model registry has it; if not, end of life and window are unknown.
    pub registered: bool,
    /// Behaviour, where its provider is simulated.
    pub simulated: Option<SimulatedModelConfig>,
}

/// The subsets of JSON Schema that providers and servers enforce, by name.
pub const SCHEMA_DIALECTS: [&str; 9] = [
    "openai",
    "anthropic",
    "gemini",
    "gemini_openapi",
    "mistral",
    "vllm",
    "llamacpp",
    "ollama",
    "none",
];

impl ModelConfig {
    /// A model nothing is known about, with default settings.
    pub fn new(id: ModelId) -> Self {
        Self {
            id,
            breaker: BreakerPolicy::default(),
            cooldown: CooldownPolicy::default(),
            hold: HoldPolicy::default(),
            max_concurrency: DEFAULT_CONCURRENCY,
            requests_per_minute: None,
            tokens_per_minute: None,
            context_window: None,
            max_output_tokens: None,
            tools: None,
            max_tools: None,
            parallel_tool_calls: None,
            images: None,
            prefill: None,
            json_schema: None,
            json_object: None,
            forced_tool: None,
            schema_dialect: None,
            eol_date: None,
            eol_kind: EolKind::Fixed,
            snapshot: None,
            replacement: None,
            probe_max_tokens: 5,
            probe_usd_per_day: 1.0,
            input_usd_per_mtok: None,
            output_usd_per_mtok: None,
            cached_input_usd_per_mtok: None,
            cache_write_usd_per_mtok: None,
            registered: false,
            simulated: None,
        }
    }

    /// Where the model stands in its life on `today`. This is the one place that
    /// decides it, from `eol_date` and `eol_kind` alone: the model is served up to
    /// and including its `eol_date`.
    pub fn eol_state(&self, today: Date) -> EolState {
        let Some(last_day) = self.eol_date else {
            return EolState::Current;
        };
        if today > last_day {
            return match self.eol_kind {
                EolKind::Fixed => EolState::Past,
                EolKind::Earliest => EolState::Overdue,
            };
        }
        let days = (last_day - today).get_days();
        if days <= EOL_WARNING_DAYS {
            EolState::Ending { days }
        } else {
            EolState::Current
        }
    }

    /// Whether the model must not be used any more on `today`.
    pub fn is_past_eol(&self, today: Date) -> bool {
        self.eol_state(today) == EolState::Past
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    fn model(last_day: Date, kind: EolKind) -> ModelConfig {
        ModelConfig {
            eol_date: Some(last_day),
            eol_kind: kind,
            ..ModelConfig::new(ModelId::new("acme/big").unwrap())
        }
    }

    #[test]
    fn a_model_is_served_on_its_last_day_and_not_after() {
        let fixed = model(date(2027, 6, 30), EolKind::Fixed);
        assert_eq!(fixed.eol_state(date(2027, 4, 30)), EolState::Current);
        assert_eq!(
            fixed.eol_state(date(2027, 5, 1)),
            EolState::Ending { days: 60 }
        );
        assert_eq!(
            fixed.eol_state(date(2027, 6, 30)),
            EolState::Ending { days: 0 }
        );
        assert_eq!(fixed.eol_state(date(2027, 7, 1)), EolState::Past);
        assert!(fixed.is_past_eol(date(2027, 7, 1)));
    }

    #[test]
    fn a_not_before_date_never_takes_a_model_away() {
        let earliest = model(date(2027, 6, 30), EolKind::Earliest);
        assert_eq!(earliest.eol_state(date(2030, 1, 1)), EolState::Overdue);
        assert!(!earliest.is_past_eol(date(2030, 1, 1)));
    }
}
