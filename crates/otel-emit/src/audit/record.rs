//! One record, with the members and limits of `audit-record.schema.json`.

use super::hash::Hash;
use super::id::{AuditId, Text64, Text128};
use super::kind::{KindCounts, RecordKind};
use super::time::{ExactMs, WallTime, WholeMs};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// The form that is written.
const VERSION: u8 = 1;
/// Attempts that a record names at most.
const MOST_ATTEMPTS: usize = 16;

/// What there is to tell of one thing that happened. Its place in the log, the
/// chain's hashes, is put in when it is written ([`Chain::seal`](super::Chain::seal)).
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    v: u8,
    /// What it tells of.
    pub kind: RecordKind,
    pub(super) seq: u64,
    /// When it was decided, by the wall clock.
    pub time: WallTime,
    pub(super) instance: Text64,
    /// The configuration in force.
    pub policy: AuditPolicy,
    /// The caller's id of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Text64>,
    /// The trace of the request, 32 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<Box<str>>,
    /// The span of the request in it, 16 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span_id: Option<Box<str>>,
    /// The role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<AuditId>,
    /// The kind of task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_type: Option<AuditId>,
    /// The workflow run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<AuditId>,
    /// Who called, an opaque id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<AuditId>,
    /// Which models it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<AuditModel>,
    /// How the call came to its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<&'static str>,
    /// `ok`, `error` or `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<&'static str>,
    /// Why, in a word of the schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// What was tried, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<AuditAttempt>>,
    /// How long it took, or how slow a model was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<AuditLatency>,
    /// How good the answer is thought to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<AuditQuality>,
    /// A breaker's change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<AuditBreaker>,
    /// How a hedge ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hedge: Option<AuditHedge>,
    /// What an operator did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<AuditOperator>,
    /// A kept call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket: Option<AuditTicket>,
    /// A drill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drill: Option<AuditDrill>,
    /// Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<AuditUsage>,
    /// How far from its best the answer is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degradation: Option<AuditDegradation>,
    /// What was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<AuditGap>,
    /// A keyed hash of what was asked and answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_hmac: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prev: Option<Hash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hash: Option<Hash>,
}

impl Record {
    /// A record of that kind with nothing else in it yet.
    pub fn new(kind: RecordKind, time: WallTime, policy: AuditPolicy) -> Self {
        Self {
            v: VERSION,
            kind,
            seq: 0,
            time,
            instance: Text64::new(""),
            policy,
            request_id: None,
            trace_id: None,
            span_id: None,
            role: None,
            task_type: None,
            workflow: None,
            tenant: None,
            model: None,
            route: None,
            outcome: None,
            reason: None,
            attempts: None,
            latency: None,
            quality: None,
            breaker: None,
            hedge: None,
            operator: None,
            ticket: None,
            drill: None,
            usage: None,
            degradation: None,
            gap: None,
            content_hmac: None,
            prev: None,
            hash: None,
        }
    }

    /// Says what was tried, in order. A record names 16 attempts at most: of more the
    /// first 15 and the last.
    pub fn set_attempts(&mut self, mut attempts: Vec<AuditAttempt>) {
        if attempts.len() > MOST_ATTEMPTS {
            attempts.drain(MOST_ATTEMPTS - 1..attempts.len() - 1);
        }
        self.attempts = Some(attempts);
    }
}

/// The configuration in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditPolicy {
    /// What its author calls it, at most 64 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<Text64>,
    sha256: Hash,
}

impl AuditPolicy {
    /// Of a version and a hash over the configuration's files.
    pub fn new(version: Option<&str>, sha256: Hash) -> Self {
        Self {
            version: version.map(Text64::new),
            sha256,
        }
    }
}

/// Which models a record is about. Roster ids but for the first and the
/// response's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the schema's members, by their names")]
pub struct AuditModel {
    /// What the caller asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested: Option<Text128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<AuditId>,
    /// Whose output was returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<AuditId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<AuditId>,
    /// As the provider reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_model: Option<Text128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_id: Option<Text128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_variant: Option<AuditId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<AuditId>,
}

/// One attempt of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditAttempt {
    /// Who was asked.
    pub provider: AuditId,
    /// For which model.
    pub model: AuditId,
    /// From the start of the call.
    pub start_ms: WholeMs,
    /// How long it ran.
    pub duration_ms: WholeMs,
    /// To its first content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<WholeMs>,
    /// `ok`, `error`, `abandoned`, `rejected_quality` or `cancelled`.
    pub outcome: &'static str,
    /// The class of its failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<&'static str>,
    /// What its provider answered, where that was between 100 and 599.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
}

/// Latencies: of a window where a decision was made, of the call for an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the schema's members, by their names")]
pub struct AuditLatency {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<ExactMs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<ExactMs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo_p95_ms: Option<ExactMs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo_p99_ms: Option<ExactMs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_ms: Option<WholeMs>,
    /// From the start of the call to the start of the answering attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_ms: Option<WholeMs>,
    /// `p95`, `p99` or `spike`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detector: Option<&'static str>,
    /// `total` or `first_token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure: Option<&'static str>,
    /// How long a substitution lasted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded_for_ms: Option<WholeMs>,
}

/// How good what was given is expected to be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AuditQuality {
    /// Share of what the primaries would have given, 0..1.
    pub score: f64,
}

/// A breaker's change of state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditBreaker {
    /// The state left.
    pub from: &'static str,
    /// The state taken.
    pub to: &'static str,
    /// Failures in a row behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<u64>,
}

/// How a hedge ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditHedge {
    /// `won` or `lost`.
    pub result: &'static str,
    /// How long the first attempt had run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience_ms: Option<WholeMs>,
}

/// What an operator did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditOperator {
    /// `force_rung`, `release`, `open_breaker`, `close_breaker`, `reload`, `drill` or
    /// `ticket`.
    pub action: &'static str,
    /// Who; never a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<AuditId>,
    /// What it was done to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<AuditId>,
}

/// A kept call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditTicket {
    /// Its id.
    pub id: AuditId,
    /// `queued`, `escalated`, `answered` or `dropped`.
    pub state: &'static str,
}

/// A drill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditDrill {
    /// `kill_switch` or `eol`.
    pub name: &'static str,
    /// `begin` or `end`.
    pub phase: &'static str,
    /// The model it takes away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<AuditId>,
}

/// Tokens of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the schema's members, by their names")]
pub struct AuditUsage {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Of attempts that did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wasted_output_tokens: Option<u64>,
}

/// How far from its best an answer is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AuditDegradation {
    /// Degraded steps in the call path, this one included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u64>,
    /// The rung of the answering model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_depth: Option<u64>,
}

/// Records that were lost while the log could not be written.
#[derive(Debug, Clone)]
pub struct AuditGap {
    /// When the first was lost.
    pub since: WallTime,
    /// How many, by kind.
    pub lost: KindCounts,
}

impl Serialize for AuditGap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("since", &self.since)?;
        map.serialize_entry("records", &self.lost.total())?;
        map.serialize_entry("kinds", &self.lost)?;
        map.end()
    }
}
