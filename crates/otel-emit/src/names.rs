//! Names of our own: spans, attributes and events. A change to one is a breaking change.

pub(crate) const REQUEST: &str = "evenkeel.request";
pub(crate) const QUALITY_GATE_SPAN: &str = "evenkeel.quality_gate";
pub(crate) const PROBE: &str = "evenkeel.probe";
pub(crate) const RESTORE: &str = "evenkeel.restore";
pub(crate) const SUBSTITUTE: &str = "evenkeel.substitute";

pub(crate) const AGENT_ROLE: &str = "agent.role";
pub(crate) const MODEL_PRIMARY: &str = "model.primary";
pub(crate) const MODEL_FALLBACK_ATTRIBUTE: &str = "model.fallback";
pub(crate) const MODEL_ANSWERED: &str = "model.answered";

pub(crate) const ATTEMPT_INDEX: &str = "evenkeel.attempt.index";
pub(crate) const ATTEMPT_OUTCOME: &str = "evenkeel.attempt.outcome";
pub(crate) const ATTEMPTS: &str = "evenkeel.attempts";
pub(crate) const BREAKER_STATE: &str = "evenkeel.breaker.state";
pub(crate) const DEADLINE_MS: &str = "evenkeel.deadline_ms";
pub(crate) const DEGRADATION_DEPTH: &str = "evenkeel.degradation_depth";
pub(crate) const ESTIMATED_INPUT: &str = "evenkeel.usage.estimated_input_tokens";
pub(crate) const ESTIMATED_OUTPUT: &str = "evenkeel.usage.estimated_output_tokens";
pub(crate) const FALLBACK_DEPTH: &str = "evenkeel.fallback_depth";
pub(crate) const FIRST_TOKEN_MS: &str = "evenkeel.first_token_ms";
pub(crate) const OUTCOME: &str = "evenkeel.outcome";
pub(crate) const POLICY_SHA256: &str = "evenkeel.policy.sha256";
pub(crate) const POLICY_VERSION: &str = "evenkeel.policy.version";
pub(crate) const PROBE_RESULT: &str = "evenkeel.probe.result";
pub(crate) const PROMPT_VARIANT: &str = "evenkeel.prompt_variant";
pub(crate) const REASON: &str = "evenkeel.reason";
pub(crate) const REQUEST_ID: &str = "evenkeel.request.id";
pub(crate) const ROUTE: &str = "evenkeel.route";
pub(crate) const TASK_TYPE: &str = "evenkeel.task_type";
pub(crate) const WORKFLOW: &str = "evenkeel.workflow";

pub(crate) const BREACH_DETECTOR: &str = "breach.detector";
pub(crate) const BREACH_MEASURE: &str = "breach.measure";
pub(crate) const BREACH_PERCENTILE: &str = "breach.percentile";
pub(crate) const BREACH_WINDOW_S: &str = "breach.window_s";
pub(crate) const BREAKER_FAILURES: &str = "breaker.failures";
pub(crate) const BREAKER_FROM: &str = "breaker.from";
pub(crate) const BREAKER_RETRY_AFTER_MS: &str = "breaker.retry_after_ms";
pub(crate) const BREAKER_TO: &str = "breaker.to";
pub(crate) const DEGRADATION_LEVEL: &str = "degradation.level";
pub(crate) const DEGRADATION_ROLES: &str = "degradation.roles";
pub(crate) const DRIFT_EXPECTED: &str = "drift.expected";
pub(crate) const EXHAUSTED_REFUSED: &str = "exhausted.refused";
pub(crate) const EXHAUSTED_TRIED: &str = "exhausted.tried";
pub(crate) const LATENCY_P95_MS: &str = "latency.p95_ms";
pub(crate) const LATENCY_P99_MS: &str = "latency.p99_ms";
pub(crate) const LATENCY_SAMPLES: &str = "latency.samples";
pub(crate) const LATENCY_SLO_MS: &str = "latency.slo_ms";
pub(crate) const LATENCY_SLO_P95_MS: &str = "latency.slo_p95_ms";
pub(crate) const LATENCY_SLO_P99_MS: &str = "latency.slo_p99_ms";
pub(crate) const QUALITY_EXPECTED_RATIO: &str = "quality.expected_ratio";
pub(crate) const QUALITY_GATE: &str = "quality.gate";
pub(crate) const QUALITY_SCORE: &str = "quality.score";
pub(crate) const QUALITY_VERDICT: &str = "quality.verdict";
pub(crate) const RESTORATION_DURATION_MS: &str = "restoration.duration_ms";
pub(crate) const RESTORATION_REASON: &str = "restoration.reason";
pub(crate) const SUBSTITUTION_MID_FLIGHT: &str = "substitution.mid_flight";
pub(crate) const SUBSTITUTION_REASON: &str = "substitution.reason";
pub(crate) const SUBSTITUTION_SCOPE: &str = "substitution.scope";

// Bare names, inside their own event only.
pub(crate) const BARE_FALLBACK_MODEL: &str = "fallback_model";
pub(crate) const BARE_LATENCY_ADDED_MS: &str = "latency_added_ms";
pub(crate) const BARE_PRIMARY_MODEL: &str = "primary_model";
pub(crate) const BARE_REASON: &str = "reason";
pub(crate) const BARE_TASK_TYPE: &str = "task_type";
pub(crate) const BARE_WORKFLOW: &str = "workflow";
