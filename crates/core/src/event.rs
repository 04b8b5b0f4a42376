//! Everything worth telling, as one list.

use crate::{
    AttemptKind, CallId, Class, Cost, DegradationLevel, Meta, ModelId, Refusal, ShadowPair,
    Snapshot, TicketId, TicketState, TraceContext, Trail, Usage, WorkflowOutcome,
};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Hears about everything. Several may be combined by the application.
pub trait Observer: Send + Sync + fmt::Debug {
    /// Takes one event. Must be cheap and must not block: it is called on the
    /// path of a request.
    fn on(&self, event: &Event);

    /// The trace context of an open attempt, to be sent to its provider.
    fn context(&self, call: CallId, attempt: usize) -> Option<TraceContext> {
        let _ = (call, attempt);
        None
    }
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn on(&self, _: &Event) {}
}

/// Several hear the same, in their order. The trace context is that of the first
/// that gives one.
impl Observer for Vec<Arc<dyn Observer>> {
    fn on(&self, event: &Event) {
        for observer in self {
            observer.on(event);
        }
    }

    fn context(&self, call: CallId, attempt: usize) -> Option<TraceContext> {
        self.iter().find_map(|o| o.context(call, attempt))
    }
}

/// One thing that happened, and when.
#[derive(Debug, Clone)]
pub struct Event {
    /// Monotonic time of the event.
    pub at: Instant,
    /// The call it belongs to; none for background work.
    pub call: Option<CallId>,
    /// What happened.
    pub kind: EventKind,
}

/// Why a role's traffic was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubstitutionReason {
    /// The p95 rule.
    LatencyP95Breach,
    /// The p99 rule.
    LatencyP99Breach,
    /// The spike detector.
    LatencySpike,
    /// The model's end of life has passed.
    Eol,
    /// An operator moved it.
    Manual,
    /// A drill plays the end of the model's life.
    Drill,
}

impl SubstitutionReason {
    /// Whether the model was too slow: it is probed, and comes back by itself.
    pub const fn is_slowness(self) -> bool {
        match self {
            Self::LatencyP95Breach | Self::LatencyP99Breach | Self::LatencySpike => true,
            Self::Eol | Self::Manual | Self::Drill => false,
        }
    }

    /// The name used in events and headers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LatencyP95Breach => "latency_p95_breach",
            Self::LatencyP99Breach => "latency_p99_breach",
            Self::LatencySpike => "latency_spike",
            Self::Eol => "eol",
            Self::Manual => "manual",
            Self::Drill => "drill",
        }
    }
}

/// Why a role's traffic went back up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestorationReason {
    /// Probes and canaries found it well.
    Recovered,
    /// An operator moved it, or let go of a role that was forced.
    Manual,
    /// The model is said to live on after all.
    Eol,
    /// The drill that moved it is over.
    Drill,
}

impl RestorationReason {
    /// The name used in events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recovered => "recovered",
            Self::Manual => "manual",
            Self::Eol => "eol",
            Self::Drill => "drill",
        }
    }
}

/// What a drill plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DrillKind {
    /// The model is dead: every call is refused, and the word stays.
    KillSwitch,
    /// The model is past its end of life: every role leaves it.
    Eol,
}

impl DrillKind {
    /// The name used outside Rust.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KillSwitch => "kill_switch",
            Self::Eol => "eol",
        }
    }
}

/// What happened. Durations are exact; shares are 0..1.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum EventKind {
    /// A call begins.
    CallStarted {
        /// The role asked.
        role: Arc<str>,
        /// The kind of task as the caller named it, known to the role or not.
        task: Option<Arc<str>>,
        /// The caller's id of the request.
        request_id: Option<Arc<str>>,
    },
    /// An attempt begins; comes before the provider is asked.
    AttemptStarted {
        /// The attempt's index within the call.
        attempt: usize,
        /// Which rung.
        rung: usize,
        /// Which model.
        model: ModelId,
        /// Why.
        kind: AttemptKind,
    },
    /// An attempt ends.
    AttemptEnded {
        /// The attempt's index within the call.
        attempt: usize,
        /// Which model.
        model: ModelId,
        /// How long it ran.
        duration: Duration,
        /// When its first content came, from its start.
        first_token: Option<Duration>,
        /// Tokens it took, as in its record.
        usage: Option<Usage>,
        /// Whether `usage` holds an estimate.
        usage_estimated: bool,
        /// What it cost; none where the model's prices are not known.
        cost: Option<Cost>,
        /// `ok`, `error`, `abandoned` or `cancelled`.
        outcome: &'static str,
        /// The class, where it failed.
        class: Option<Class>,
    },
    /// A rung's window crosses its limit (the edge, once per episode).
    LatencyBreach {
        /// The role.
        role: Arc<str>,
        /// The task of the role, where it stands on a rung of its own.
        task: Option<Arc<str>>,
        /// Which rung.
        rung: usize,
        /// Which model.
        model: ModelId,
        /// `p95`, `p99` or `spike`.
        detector: &'static str,
        /// `total` or `first_token`.
        measure: &'static str,
        /// Reported p95 of the window, where there is one.
        p95: Option<Duration>,
        /// Reported p99 of the window, where there is one.
        p99: Option<Duration>,
        /// The limit that was crossed.
        slo: Duration,
        /// Observations the verdict rests on.
        samples: u64,
    },
    /// A breach is over.
    LatencyBreachEnded {
        /// The role.
        role: Arc<str>,
        /// The task of the role, where it stands on a rung of its own.
        task: Option<Arc<str>>,
        /// Which rung.
        rung: usize,
        /// Which model.
        model: ModelId,
        /// `total` or `first_token`.
        measure: &'static str,
    },
    /// A role's traffic is moved off a rung (once per move: the activation event).
    ModelSubstitution {
        /// The role.
        role: Arc<str>,
        /// The task of the role, where it stands on a rung of its own.
        task: Option<Arc<str>>,
        /// The role's epoch after the move.
        epoch: u64,
        /// The rung left.
        from: usize,
        /// Its model.
        from_model: ModelId,
        /// The rung taken.
        to: usize,
        /// Its model.
        to_model: ModelId,
        /// Why.
        reason: SubstitutionReason,
        /// Reported p95 of the rung left.
        p95: Option<Duration>,
        /// Reported p99 of the rung left.
        p99: Option<Duration>,
    },
    /// A canary stage of a restoration begins.
    CanaryStarted {
        /// The role.
        role: Arc<str>,
        /// The task of the role, where it stands on a rung of its own.
        task: Option<Arc<str>>,
        /// The rung being restored.
        rung: usize,
        /// Its model.
        model: ModelId,
        /// Share of sessions sent to it, 0..1.
        share: f64,
    },
    /// A canary failed: probing starts again.
    CanaryFailed {
        /// The role.
        role: Arc<str>,
        /// The task of the role, where it stands on a rung of its own.
        task: Option<Arc<str>>,
        /// The rung.
        rung: usize,
        /// Its model.
        model: ModelId,
        /// The next probe interval.
        interval: Duration,
    },
    /// A role's traffic goes back up to a rung.
    ModelRestoration {
        /// The role.
        role: Arc<str>,
        /// The task of the role, where it stands on a rung of its own.
        task: Option<Arc<str>>,
        /// The role's epoch after the move.
        epoch: u64,
        /// The rung left.
        from: usize,
        /// Its model.
        from_model: ModelId,
        /// The rung restored.
        to: usize,
        /// Its model.
        to_model: ModelId,
        /// Since the substitution that left it.
        duration: Duration,
        /// Why.
        reason: RestorationReason,
    },
    /// A synthetic probe ended.
    Probed {
        /// Which model.
        model: ModelId,
        /// Its total time, or that of its first token where only that came in
        /// time; none where it failed or nothing did.
        latency: Option<Duration>,
        /// The class, where it failed.
        class: Option<Class>,
        /// What it cost; none where the model's prices are not known.
        cost: Option<Cost>,
    },
    /// A failure or a refusal moved this call to another model (once per
    /// call, when the answering attempt is known).
    ModelFallback {
        /// The role.
        role: Arc<str>,
        /// The role's primary.
        primary: ModelId,
        /// Who answered.
        fallback: ModelId,
        /// The class or refusal that moved the call off its first rung.
        reason: &'static str,
        /// From the start of the call to the start of the answering attempt.
        latency_added: Duration,
    },
    /// An answer is not given to the caller because it is empty, breaks its
    /// schema or is refused by a validator (each time).
    QualityRejected {
        /// The role.
        role: Arc<str>,
        /// The kind of task as the caller named it.
        task: Option<Arc<str>>,
        /// The attempt's index within the call.
        attempt: usize,
        /// Which rung.
        rung: usize,
        /// Which model.
        model: ModelId,
        /// `empty`, `schema` or the validator's name.
        gate: Arc<str>,
    },
    /// A validator gave no verdict.
    ValidatorFailed {
        /// The role.
        role: Arc<str>,
        /// The attempt's index within the call.
        attempt: usize,
        /// Which model's answer it was to judge.
        model: ModelId,
        /// The validator's name.
        validator: Arc<str>,
        /// `timeout`, `panic` or `error`.
        why: &'static str,
        /// Whether the answer was let pass (`on_validator_error = "pass"`).
        passed: bool,
    },
    /// A hedge starts.
    HedgeStarted {
        /// The role.
        role: Arc<str>,
        /// The rung whose patience ran out.
        from: usize,
        /// The hedge's rung.
        to: usize,
        /// Whether it counts on the hedge budget (false in breach).
        budgeted: bool,
    },
    /// A hedge's answer is taken.
    HedgeWon {
        /// The role.
        role: Arc<str>,
        /// The rung that was too slow.
        from: usize,
        /// Its model.
        from_model: ModelId,
        /// The rung that answered.
        to: usize,
        /// Its model.
        to_model: ModelId,
        /// `patience_exceeded` or `projected_deadline_miss`.
        reason: &'static str,
    },
    /// A stream broke after its commit (once per break, when it is known who goes on).
    StreamInterrupted {
        /// The role.
        role: Arc<str>,
        /// The rung whose stream broke.
        from: usize,
        /// Its model.
        from_model: ModelId,
        /// What it broke with.
        class: Class,
        /// Tokens of text that the caller had by then, by estimate.
        sent_tokens: u64,
        /// The rung that goes on and its model; none where nobody does, and the caller
        /// gets an error.
        resumed: Option<(usize, ModelId)>,
    },
    /// A breaker changed its state.
    BreakerTransition {
        /// The provider.
        provider: Arc<str>,
        /// The model; none for the provider's own breaker.
        model: Option<ModelId>,
        /// The role, for the semantic count of role and model.
        role: Option<Arc<str>>,
        /// State left.
        from: &'static str,
        /// State taken.
        to: &'static str,
        /// How long it stays open, where it opened.
        retry_in: Option<Duration>,
    },
    /// A model cools down after a rate limit.
    CooldownStarted {
        /// Which model.
        model: ModelId,
        /// For how long.
        duration: Duration,
    },
    /// A model or provider is set aside for quota, credential or absence. An alert.
    HoldStarted {
        /// The provider.
        provider: Arc<str>,
        /// The model; none where the whole provider is held.
        model: Option<ModelId>,
        /// Why.
        class: Class,
        /// For how long.
        duration: Duration,
    },
    /// Answers come from another build of a model than the one that the role's roster
    /// was measured on (once per rung and build). A warning: its scores may not hold.
    ModelDrift {
        /// The role.
        role: Arc<str>,
        /// Which model.
        model: ModelId,
        /// The build that answers.
        reported: Snapshot,
        /// The one that was measured; several fingerprints are joined by commas.
        expected: Snapshot,
    },
    /// An operator did something.
    OperatorActed {
        /// The name of who did it; no secret.
        operator: Arc<str>,
        /// What: `force`, `let_go`, `force_open`, `disable`, `reset`,
        /// `release`, `start_drill`, `end_drill`, `reload`.
        action: &'static str,
        /// What it was done to: a role, model, provider or drill.
        target: String,
    },
    /// The router runs on a new configuration from now on.
    PolicyChanged {
        /// Roles that were not there before.
        added: Vec<Arc<str>>,
        /// Roles that are there no more.
        removed: Vec<Arc<str>>,
        /// Roles whose policy or roster is another.
        changed: Vec<Arc<str>>,
    },
    /// A drill begins.
    DrillStarted {
        /// Its number.
        drill: u64,
        /// What it plays.
        kind: DrillKind,
        /// The model it takes away.
        model: ModelId,
        /// How long it lasts at most.
        duration: Duration,
    },
    /// A drill is over: its time was up, or it was ended.
    DrillEnded {
        /// Its number.
        drill: u64,
        /// What it played.
        kind: DrillKind,
        /// The model it took away.
        model: ModelId,
        /// How long it lasted.
        duration: Duration,
        /// From its beginning to the first answer that a lower rung gave in
        /// the model's place; none where there was no such answer.
        first_fallback: Option<Duration>,
        /// Calls that lower rungs answered in its place.
        answered: u64,
        /// Calls of roles with that model that nobody answered.
        failed: u64,
    },
    /// A copy of an answered call ended at a candidate.
    Shadowed(Arc<ShadowPair>),
    /// A call found no rung that could answer.
    RosterExhausted {
        /// The role.
        role: Arc<str>,
        /// Models tried, with their class.
        tried: Vec<(ModelId, Class)>,
        /// Models refused, with the reason.
        refused: Vec<(ModelId, Refusal)>,
    },
    /// A workflow run has its first degraded step, or is worse than it was.
    WorkflowDegraded {
        /// The run's id.
        workflow: Arc<str>,
        /// How degraded it is now.
        level: DegradationLevel,
        /// Most degraded steps one after the other.
        depth: u8,
        /// Roles that a fallback answered for.
        roles: Vec<Arc<str>>,
        /// Expected quality along the worst path, share 0..1.
        expected_quality: f64,
    },
    /// A workflow run's outcome was reported, or it is forgotten without one.
    WorkflowEnded {
        /// The run's id.
        workflow: Arc<str>,
        /// What was reported; none where nothing was.
        outcome: Option<WorkflowOutcome>,
        /// How degraded it was; none where no step was.
        level: Option<DegradationLevel>,
    },
    /// A caller said how good an answer was.
    Feedback {
        /// The caller's id of the request.
        request_id: Arc<str>,
        /// The role that was asked.
        role: Arc<str>,
        /// Who answered.
        model: ModelId,
        /// Its place in the roster, 0 = primary.
        rung: usize,
        /// Whether it was not the primary.
        degraded: bool,
        /// The score, 0..=1.
        score: f64,
    },
    /// A ticket was accepted, tried again or brought to an end.
    TicketChanged {
        /// Which.
        ticket: TicketId,
        /// The role asked.
        role: Arc<str>,
        /// How it stands now.
        state: TicketState,
        /// Calls made for it so far, the one that led to it not counted.
        attempts: u32,
        /// Why it has no answer: a class, a refusal or `roster_exhausted`.
        why: Option<&'static str>,
    },
    /// The ticket store failed; what it was asked is tried again, except for
    /// accepting. An alert.
    TicketStoreFailed {
        /// The role asked.
        role: Arc<str>,
        /// `accept`, `claim` or `record`.
        doing: &'static str,
        /// What the store says.
        error: String,
    },
    /// A call ends.
    CallEnded {
        /// The role asked.
        role: Arc<str>,
        /// `ok`, `error` or `cancelled`.
        outcome: &'static str,
        /// Meta of the answer, where there is one.
        meta: Option<Meta>,
        /// The class of the failure given to the caller.
        class: Option<Class>,
        /// How long the call took.
        duration: Duration,
        /// Everything that happened to it.
        trail: Arc<Trail>,
    },
}
