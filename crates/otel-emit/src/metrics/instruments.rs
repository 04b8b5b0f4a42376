//! The instruments, each made once: two of one name and different kinds would be two
//! families of that name.

use crate::semconv;
use opentelemetry::metrics::{Counter, Histogram, Meter};

/// Seconds. The conventions' own boundaries double; these are close enough to each other
/// to be held against a limit.
const DURATIONS: [f64; 22] = [
    0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 20.0,
    30.0, 45.0, 60.0, 90.0, 120.0,
];
/// Seconds.
const RESTORATIONS: [f64; 11] = [
    10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 7_200.0, 21_600.0, 86_400.0,
];
/// Rungs, or steps of a workflow.
const DEPTHS: [f64; 7] = [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0];
/// Seconds, by the conventions (v1.41.1).
const GEN_AI_DURATIONS: [f64; 14] = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];
/// Tokens, by the conventions (v1.41.1).
const GEN_AI_TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// Instruments whose combinations of labels may be many, by name: they are given room for
/// [`MANY_SERIES`], others for the SDK's own limit (2,000). Beyond it series are folded
/// into one with `otel_metric_overflow="true"`.
pub const MANY: [&str; 8] = [
    "evenkeel.requests",
    "evenkeel.request.duration",
    "evenkeel.attempts",
    "evenkeel.attempt.duration",
    "evenkeel.abandoned.attempt.duration",
    "evenkeel.substitutions",
    "evenkeel.fallbacks",
    "evenkeel.fallback.added.latency",
];

/// Series of an instrument of [`MANY`].
pub const MANY_SERIES: usize = 10_000;

/// Everything that is counted and measured as it happens.
#[derive(Debug)]
pub(super) struct Instruments {
    pub(super) requests: Counter<u64>,
    pub(super) request_duration: Histogram<f64>,
    pub(super) attempts: Counter<u64>,
    pub(super) attempt_duration: Histogram<f64>,
    pub(super) abandoned_attempt_duration: Histogram<f64>,
    pub(super) time_to_first_token: Histogram<f64>,
    pub(super) tokens: Counter<u64>,
    pub(super) wasted_tokens: Counter<u64>,
    pub(super) substitutions: Counter<u64>,
    pub(super) hedges: Counter<u64>,
    pub(super) retries: Counter<u64>,
    pub(super) restorations: Counter<u64>,
    pub(super) time_to_restoration: Histogram<f64>,
    pub(super) fallbacks: Counter<u64>,
    pub(super) fallback_added_latency: Histogram<f64>,
    pub(super) fallback_depth: Histogram<u64>,
    pub(super) degradation_depth: Histogram<u64>,
    pub(super) latency_breaches: Counter<u64>,
    pub(super) quality_rejections: Counter<u64>,
    pub(super) breaker_transitions: Counter<u64>,
    pub(super) probes: Counter<u64>,
    pub(super) shadow: Counter<u64>,
    pub(super) workflows: Counter<u64>,
    pub(super) degraded_workflows: Counter<u64>,
    pub(super) cost_usd: Counter<f64>,
    pub(super) stream_interruptions: Counter<u64>,
    pub(super) telemetry_dropped: Counter<u64>,
    pub(super) gen_ai: GenAi,
}

/// The instruments of the conventions.
#[derive(Debug)]
pub(super) struct GenAi {
    pub(super) operation_duration: Histogram<f64>,
    pub(super) time_to_first_chunk: Histogram<f64>,
    pub(super) time_per_output_chunk: Histogram<f64>,
    pub(super) token_usage: Histogram<u64>,
}

impl Instruments {
    #[expect(clippy::too_many_lines, reason = "a list, a line or two each")]
    pub(super) fn new(meter: &Meter) -> Self {
        let count = |name: &'static str, what: &'static str| {
            meter.u64_counter(name).with_description(what).build()
        };
        let tokens = |name: &'static str, what: &'static str| {
            let counter = meter.u64_counter(name).with_unit("{token}");
            counter.with_description(what).build()
        };
        let seconds = |name, what| seconds(meter, name, what, &DURATIONS);
        let depth = |name: &'static str, what: &'static str| {
            let histogram = meter.u64_histogram(name).with_description(what);
            histogram.with_boundaries(DEPTHS.to_vec()).build()
        };
        Self {
            requests: count(
                "evenkeel.requests",
                "Logical requests by the model that answered, or was tried last.",
            ),
            request_duration: seconds("evenkeel.request.duration", "Time the caller waited."),
            attempts: count("evenkeel.attempts", "Upstream calls."),
            attempt_duration: seconds(
                "evenkeel.attempt.duration",
                "Duration of upstream calls that ended by themselves.",
            ),
            abandoned_attempt_duration: seconds(
                "evenkeel.abandoned.attempt.duration",
                "Time until an upstream call was abandoned.",
            ),
            time_to_first_token: seconds(
                "evenkeel.time.to.first.token",
                "Time to the first token of a stream.",
            ),
            tokens: tokens("evenkeel.tokens", "Tokens of answering attempts."),
            wasted_tokens: tokens(
                "evenkeel.wasted.tokens",
                "Tokens billed by attempts that did not answer.",
            ),
            substitutions: count("evenkeel.substitutions", "Moves of the role off a model."),
            hedges: count(
                "evenkeel.hedges",
                "Second attempts begun when patience ran out, by how they ended.",
            ),
            retries: count("evenkeel.retries", "Retries on the same model."),
            restorations: count("evenkeel.restorations", "Returns to a better model."),
            time_to_restoration: self::seconds(
                meter,
                "evenkeel.time.to.restoration",
                "Time from substitution to restoration.",
                &RESTORATIONS,
            ),
            fallbacks: count(
                "evenkeel.fallbacks",
                "Requests answered by a fallback after a failure or refusal.",
            ),
            fallback_added_latency: seconds(
                "evenkeel.fallback.added.latency",
                "Start of the answering attempt minus start of the request.",
            ),
            fallback_depth: depth("evenkeel.fallback.depth", "Rung of the answering model."),
            degradation_depth: depth(
                "evenkeel.degradation.depth",
                "Degraded steps in the call path including this one.",
            ),
            latency_breaches: count(
                "evenkeel.latency.breaches",
                "Latency limits that were crossed.",
            ),
            quality_rejections: count(
                "evenkeel.quality.rejections",
                "Fallback answers refused by the quality gate.",
            ),
            breaker_transitions: count(
                "evenkeel.breaker.transitions",
                "Breaker transitions, those of a role's semantic count included.",
            ),
            probes: count("evenkeel.probes", "Probes, as each role judges them."),
            shadow: count(
                "evenkeel.shadow",
                "Shadow pairs scored, by the verdict that stood after the pair.",
            ),
            workflows: count(
                "evenkeel.workflows",
                "Workflow runs whose outcome was reported.",
            ),
            degraded_workflows: count(
                "evenkeel.degraded.workflows",
                "Workflow runs with at least one degraded step, at their highest level.",
            ),
            cost_usd: meter
                .f64_counter("evenkeel.cost.usd")
                .with_unit("{USD}")
                .with_description("Cost in US dollars by the prices of the registry.")
                .build(),
            stream_interruptions: count(
                "evenkeel.stream.interruptions",
                "Streams that broke off upstream after they had begun.",
            ),
            telemetry_dropped: count(
                "evenkeel.telemetry.dropped",
                "Telemetry items dropped: a full queue, or a collector that does not take them.",
            ),
            gen_ai: GenAi::new(meter),
        }
    }
}

impl GenAi {
    fn new(meter: &Meter) -> Self {
        let seconds = |name, what| seconds(meter, name, what, &GEN_AI_DURATIONS);
        Self {
            operation_duration: seconds(semconv::OPERATION_DURATION, "GenAI operation duration."),
            time_to_first_chunk: seconds(
                semconv::TIME_TO_FIRST_CHUNK,
                "Time to the first chunk of a stream.",
            ),
            time_per_output_chunk: seconds(
                semconv::TIME_PER_OUTPUT_CHUNK,
                "Mean time of a stream's chunks after the first.",
            ),
            token_usage: meter
                .u64_histogram(semconv::TOKEN_USAGE)
                .with_unit("{token}")
                .with_description("Number of input and output tokens used.")
                .with_boundaries(GEN_AI_TOKENS.to_vec())
                .build(),
        }
    }
}

fn seconds(
    meter: &Meter,
    name: &'static str,
    what: &'static str,
    boundaries: &[f64],
) -> Histogram<f64> {
    meter
        .f64_histogram(name)
        .with_unit("s")
        .with_description(what)
        .with_boundaries(boundaries.to_vec())
        .build()
}
