//! `policy.toml`: one role's policy, or the defaults of all.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::degraded::read_degraded;
use super::qualification::read_qualification;
use super::queue::read_exhausted;
use super::task::{FirstToken, WrittenTask, read_tasks};
use super::validators::read_validators;
use crate::policy::{
    Commit, CommitWindow, HedgeMode, HedgePolicy, OnContentFilter, OnStreamBreak, OnValidatorError,
    RestorePolicy, RetryPolicy, RolePolicy, ShadowPolicy, Signal, StreamValidation,
};
use evenkeel_core::ModelId;
use evenkeel_document::{Findings, Place, Scope, TableReader, assign, locate_any};

/// What has no default.
const REQUIRED: [&str; 3] = [
    "p95_threshold_ms",
    "p99_threshold_ms",
    "evaluation_window_seconds",
];

/// A policy as far as it is written: the three keys that every role must state may be missing.
#[derive(Clone)]
pub(crate) struct WrittenPolicy<'a> {
    /// Everything that has a default. Its thresholds and window mean nothing.
    policy: RolePolicy,
    p95: Option<Duration>,
    p99: Option<Duration>,
    window: Option<Duration>,
    first_token_p95: Option<Duration>,
    first_token_p99: Option<Duration>,
    tasks: BTreeMap<&'a str, WrittenTask<'a>>,
    /// Where it was read from, the more general table first.
    layers: Vec<Scope<'a>>,
}

impl Default for WrittenPolicy<'_> {
    fn default() -> Self {
        let nothing = Duration::from_secs(1);
        Self {
            policy: RolePolicy::new(nothing, nothing, nothing),
            p95: None,
            p99: None,
            window: None,
            first_token_p95: None,
            first_token_p99: None,
            tasks: BTreeMap::new(),
            layers: Vec::new(),
        }
    }
}

impl<'a> WrittenPolicy<'a> {
    /// The task of that name.
    pub(crate) fn task(&self, name: &str) -> Option<&WrittenTask<'a>> {
        self.tasks.get(name)
    }

    /// Where `key` was set last.
    pub(crate) fn locate(&self, key: &str) -> Option<Place> {
        self.layers.iter().rev().find_map(|layer| layer.locate(key))
    }

    /// Where to report a fault of `keys[0]`: where that is set, else where the next
    /// of them is, else at the role; the message then names the key itself.
    pub(crate) fn explain(&self, keys: &[&str], message: String, role: &Place) -> (Place, String) {
        let layers: Vec<&Scope<'_>> = self.layers.iter().collect();
        match locate_any(&layers, keys) {
            Some((place, key)) if key == keys[0] => (place, message),
            Some((place, _)) => (place, format!("{} {message}", keys[0])),
            None => (role.clone(), format!("{} {message}", keys[0])),
        }
    }

    /// Whether the three keys that every role must state are there.
    pub(crate) fn is_complete(&self) -> bool {
        REQUIRED.iter().all(|key| self.locate(key).is_some())
    }

    /// Whether it says what its role's candidates are asked.
    pub(crate) fn can_be_measured(&self) -> bool {
        self.policy.golden_dataset.is_some()
    }

    /// The policy of the role at `role`, with every fault of it reported.
    pub(crate) fn finished(&self, role: &Place, findings: &mut Findings) -> RolePolicy {
        for key in REQUIRED {
            if self.locate(key).is_none() {
                let message = format!("{key} is missing");
                let how = "set it for this role, or for all in [defaults]".to_owned();
                findings.error(role, message, Some(how));
            }
        }
        let fallback = Duration::from_secs(1);
        let p95 = self.p95.or(self.p99).unwrap_or(fallback);
        let p99 = self.p99.unwrap_or(p95);
        let mut policy = RolePolicy {
            p95,
            p99,
            window: self.window.unwrap_or(fallback),
            first_token_p95: self.first_token_p95.unwrap_or(p95),
            first_token_p99: self.first_token_p99.unwrap_or(p99),
            ..self.policy.clone()
        };
        let derived = self.first_token_p95.is_none() && self.first_token_p99.is_none();
        for fault in policy.faults() {
            if derived && fault.key.starts_with("first_token_p9") {
                continue; // said of the thresholds they are derived from
            }
            let keys: Vec<&str> = [fault.key].into_iter().chain(fault.against).collect();
            let (at, message) = self.explain(&keys, fault.message, role);
            findings.error(&at, message, None);
        }
        let first_token = FirstToken {
            p95: self.first_token_p95,
            p99: self.first_token_p99,
        };
        for (name, task) in &self.tasks {
            let task = task.finished(&policy, first_token, findings);
            policy.tasks.insert((*name).to_owned(), task);
        }
        policy
    }
}

/// Reads the policy keys of `table` on top of `base`.
pub(crate) fn read_policy<'a>(
    table: &mut TableReader<'a, '_>,
    base: &WrittenPolicy<'a>,
) -> WrittenPolicy<'a> {
    let mut written = base.clone();
    written.p95 = table.ms("p95_threshold_ms").or(written.p95);
    written.p99 = table.ms("p99_threshold_ms").or(written.p99);
    written.window = table
        .seconds("evaluation_window_seconds")
        .or(written.window);
    written.first_token_p95 = table.ms("first_token_p95_ms").or(written.first_token_p95);
    written.first_token_p99 = table.ms("first_token_p99_ms").or(written.first_token_p99);
    read_judgement(table, &mut written.policy);
    read_roster_rules(table, &mut written.policy);
    read_clocks(table, &mut written.policy);
    read_validation(table, &mut written.policy);
    read_streams(table, &mut written.policy);
    read_degraded(table, &mut written.policy.degraded);
    let policy = &mut written.policy;
    table.within("hedge", |t| read_hedge(t, &mut policy.hedge));
    table.within("retry", |t| read_retry(t, &mut policy.retry));
    table.within("restore", |t| read_restore(t, &mut policy.restore));
    table.within("shadow", |t| read_shadow(t, &mut policy.shadow));
    read_exhausted(table, policy);
    table.within("complexity", |t| {
        let levels = &mut policy.complexity;
        assign(&mut levels.low, t.number("low"));
        assign(&mut levels.medium, t.number("medium"));
        assign(&mut levels.high, t.number("high"));
    });
    read_tasks(table, &mut written.tasks);
    written.layers.push(table.scope().clone());
    written
}

fn read_judgement(table: &mut TableReader<'_, '_>, policy: &mut RolePolicy) {
    assign(&mut policy.min_samples, table.count("min_samples"));
    assign(&mut policy.confidence, table.number("confidence"));
    assign(&mut policy.spike_detector, table.flag("spike_detector"));
    let signals = [
        ("auto", Signal::Auto),
        ("total", Signal::Total),
        ("first_token", Signal::FirstToken),
    ];
    assign(&mut policy.signal, table.word("signal", &signals));
    let filters = [
        ("stop", OnContentFilter::Stop),
        ("next", OnContentFilter::Next),
    ];
    assign(
        &mut policy.on_content_filter,
        table.word("on_content_filter", &filters),
    );
}

fn read_validation(table: &mut TableReader<'_, '_>, policy: &mut RolePolicy) {
    assign(&mut policy.validators, read_validators(table));
    assign(
        &mut policy.validator_timeout,
        table.ms("validator_timeout_ms"),
    );
    let ways = [
        ("fail", OnValidatorError::Fail),
        ("pass", OnValidatorError::Pass),
    ];
    assign(
        &mut policy.on_validator_error,
        table.word("on_validator_error", &ways),
    );
}

fn read_roster_rules(table: &mut TableReader<'_, '_>, policy: &mut RolePolicy) {
    read_qualification(table, policy);
    assign(
        &mut policy.min_capability_score,
        table.number("min_capability_score"),
    );
    assign(
        &mut policy.allow_pinned_roster,
        table.flag("allow_pinned_roster"),
    );
    assign(&mut policy.simplify_below, table.number("simplify_below"));
    policy.cost_ceiling_usd = table.number("cost_ceiling_usd").or(policy.cost_ceiling_usd);
    assign(
        &mut policy.allow_unqualified,
        table.flag("allow_unqualified"),
    );
    assign(
        &mut policy.allow_same_provider,
        table.flag("allow_same_provider"),
    );
    assign(
        &mut policy.requalify_after_days,
        table.count("requalify_after_days"),
    );
    assign(
        &mut policy.min_schema_compliance,
        table.number("min_schema_compliance"),
    );
    read_golden_dataset(table, policy);
}

fn read_golden_dataset(table: &mut TableReader<'_, '_>, policy: &mut RolePolicy) {
    let key = "golden_dataset";
    match table.text(key) {
        None => {}
        Some("") => {
            let message = "is empty, expected the path of a JSON-lines file".to_owned();
            let how = "leave it out where the role has none".to_owned();
            table.findings.error(&table.place(key), message, Some(how));
        }
        Some(path) => policy.golden_dataset = Some(PathBuf::from(path)),
    }
}

fn read_clocks(table: &mut TableReader<'_, '_>, policy: &mut RolePolicy) {
    assign(&mut policy.clocks.connect, table.ms("connect_ms"));
    assign(&mut policy.clocks.first_token, table.ms("first_token_ms"));
    assign(&mut policy.clocks.stall, table.ms("stall_ms"));
    assign(&mut policy.clocks.deadline, table.ms("deadline_ms"));
    assign(
        &mut policy.min_tokens_per_s,
        table.number("min_tokens_per_s"),
    );
}

fn read_streams(table: &mut TableReader<'_, '_>, policy: &mut RolePolicy) {
    let commits = [
        ("first_token", Commit::FirstToken),
        ("window", Commit::Window),
        ("full", Commit::Full),
    ];
    assign(&mut policy.commit, table.word("commit", &commits));
    let window = &mut policy.commit_window;
    table.within("commit_window", |t| read_commit_window(t, window));
    let breaks = [
        ("resume", OnStreamBreak::Resume),
        ("fail", OnStreamBreak::Fail),
    ];
    assign(
        &mut policy.on_stream_break,
        table.word("on_stream_break", &breaks),
    );
    assign(
        &mut policy.resume_max_tokens,
        table.count("resume_max_tokens"),
    );
    assign(&mut policy.heartbeat_after, table.ms("heartbeat_after_ms"));
    let validations = [
        ("hold", StreamValidation::Hold),
        ("pass", StreamValidation::Pass),
    ];
    assign(
        &mut policy.stream_validation,
        table.word("stream_validation", &validations),
    );
}

fn read_commit_window(table: &mut TableReader<'_, '_>, window: &mut CommitWindow) {
    assign(&mut window.tokens, table.count("tokens"));
    assign(&mut window.time, table.ms("ms"));
}

fn read_hedge(table: &mut TableReader<'_, '_>, hedge: &mut HedgePolicy) {
    let modes = [
        ("race", HedgeMode::Race),
        ("switch", HedgeMode::Switch),
        ("off", HedgeMode::Off),
    ];
    assign(&mut hedge.mode, table.word("mode", &modes));
    assign(&mut hedge.budget, table.number("budget"));
    assign(&mut hedge.burst, table.count("burst"));
    assign(
        &mut hedge.max_input_tokens,
        table.large_count("max_input_tokens"),
    );
    assign(&mut hedge.keep_to_p99, table.flag("keep_to_p99"));
}

fn read_retry(table: &mut TableReader<'_, '_>, retry: &mut RetryPolicy) {
    assign(&mut retry.rate_limited, table.count("rate_limited"));
    assign(&mut retry.transient, table.count("transient"));
    assign(&mut retry.overloaded, table.count("overloaded"));
    assign(&mut retry.malformed, table.count("malformed"));
    assign(&mut retry.semantic, table.count("semantic"));
    assign(&mut retry.base, table.ms("base_ms"));
    assign(&mut retry.cap, table.ms("cap_ms"));
}

fn read_restore(table: &mut TableReader<'_, '_>, restore: &mut RestorePolicy) {
    assign(&mut restore.probe_interval, table.ms("probe_interval_ms"));
    assign(&mut restore.restore_below, table.number("restore_below"));
    assign(&mut restore.restore_after, table.count("restore_after"));
    assign(&mut restore.canary, table.numbers("canary"));
    assign(&mut restore.canary_samples, table.count("canary_samples"));
    assign(&mut restore.canary_max, table.ms("canary_max_ms"));
    assign(&mut restore.hold, table.ms("hold_ms"));
    assign(&mut restore.growth, table.number("growth"));
    assign(
        &mut restore.probe_interval_cap,
        table.ms("probe_interval_cap_ms"),
    );
    assign(&mut restore.reset_after, table.ms("reset_after_ms"));
}

fn read_shadow(table: &mut TableReader<'_, '_>, shadow: &mut ShadowPolicy) {
    if let Some(text) = table.text("model") {
        match ModelId::new(text) {
            Ok(model) => shadow.model = Some(model),
            Err(error) => {
                let at = table.place("model");
                table.findings.error(&at, error.to_string(), None);
            }
        }
    }
    assign(&mut shadow.share, table.number("share"));
    assign(&mut shadow.capture, table.flag("capture"));
    assign(&mut shadow.max_concurrency, table.count("max_concurrency"));
}
