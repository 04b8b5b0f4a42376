//! Everything worth telling, as one list.

use crate::{
    Asked, AttemptKind, CallId, ChatRequest, ChatResponse, Class, Cost, DegradationLevel, Exchange,
    HedgeResult, Latency, Meta, ModelId, PolicyStamp, ProbeVerdict, Refusal, Reported,
    RestorationReason, Route, Server, ShadowPair, Snapshot, SubstitutionReason, TicketId,
    TicketState, TraceContext, Trail, Usage, WorkflowOutcome,
};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// What a role still lacks that came back to a better fallback, and not to its primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    /// The model of its first rung.
    pub primary: ModelId,
    /// Why it left that.
    pub reason: SubstitutionReason,
}

/// What happened. Durations are exact; shares are 0..1.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "an event is made on the stack and handed on by reference; the largest is the last of each call"
)]
pub enum EventKind {
    /// A call begins.
    CallStarted {
        /// The role asked.
        role: Arc<str>,
        /// The kind of task as the caller named it, known to the role or not.
        task: Option<Arc<str>>,
        /// The caller's id of the request.
        request_id: Option<Arc<str>>,
        /// The workflow run it belongs to.
        workflow: Option<Arc<str>>,
        /// The conversation, where the caller named one.
        session: Option<Arc<str>>,
        /// Who calls, as an opaque id.
        caller: Option<Arc<str>>,
        /// The role's primary.
        primary: ModelId,
        /// How long the caller waits at most.
        deadline: Duration,
        /// Whether the caller wants a stream.
        streams: bool,
        /// The configuration that it is answered by.
        policy: Option<Arc<PolicyStamp>>,
        /// The trace it came in on.
        trace: Option<TraceContext>,
    },
    /// An attempt begins; comes before the provider is asked.
    AttemptStarted {
        /// The role asked.
        role: Arc<str>,
        /// The attempt's index within the call.
        attempt: usize,
        /// Which rung.
        rung: usize,
        /// Which model.
        model: ModelId,
        /// Why.
        kind: AttemptKind,
        /// What the attempt that it repeats failed with; of a retry only.
        after: Option<Class>,
        /// Who serves the model, and where.
        server: Arc<Server>,
        /// Whether the provider is asked for a stream.
        streams: bool,
        /// What it is asked for beside the messages.
        asked: Asked,
        /// State of the model's breaker that let it pass.
        breaker: &'static str,
        /// The request as it is sent, where the observer wants content.
        content: Option<Arc<ChatRequest>>,
    },
    /// An attempt ends.
    AttemptEnded {
        /// The role asked.
        role: Arc<str>,
        /// The attempt's index within the call.
        attempt: usize,
        /// Which rung.
        rung: usize,
        /// Which model.
        model: ModelId,
        /// Who serves the model, and where.
        server: Arc<Server>,
        /// Whether the provider was asked for a stream.
        streams: bool,
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
        /// `ok`, `error`, `abandoned`, `rejected_quality` or `cancelled`.
        outcome: &'static str,
        /// The class, where it failed.
        class: Option<Class>,
        /// HTTP status, where it failed with one.
        status: Option<u16>,
        /// What the answer says of itself, as far as it has come. Told only where
        /// somebody listens.
        reported: Reported,
        /// Whether its upstream stays open to be measured: a
        /// [`LoserClosed`](Self::LoserClosed) follows.
        kept: bool,
        /// The whole answer, where there is one and the observer wants content.
        content: Option<Arc<ChatResponse>>,
    },
    /// The upstream of a loser that was kept open to be measured is closed. May come
    /// after the end of its call.
    LoserClosed {
        /// The role asked.
        role: Arc<str>,
        /// The attempt's index within the call.
        attempt: usize,
        /// Which model.
        model: ModelId,
        /// From the attempt's start.
        duration: Duration,
        /// Whether the measure it was kept for came to its end; else its time was up, or
        /// it failed.
        measured: bool,
    },
    /// Validators have judged a whole answer.
    AnswerJudged {
        /// The role.
        role: Arc<str>,
        /// The attempt's index within the call.
        attempt: usize,
        /// Whose answer.
        model: ModelId,
        /// How long that took.
        duration: Duration,
        /// `valid`, `invalid`, or `none` where a validator gave no verdict.
        verdict: &'static str,
        /// The validator that refused it or gave no verdict.
        gate: Option<Arc<str>>,
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
        /// The p95 of the window, calls in flight at their age, where there is one; at least
        /// the limit where the verdict is that it is above it, and after a spike at least that
        /// of the calls since it began.
        p95: Option<Duration>,
        /// The p99 likewise.
        p99: Option<Duration>,
        /// The limit that was crossed.
        slo: Duration,
        /// Samples that the percentiles are of.
        samples: u64,
        /// How far back the window goes.
        window: Duration,
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
        /// The model of its first rung, which it runs without.
        primary: ModelId,
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
        /// Latencies of the rung left, as the move found them; none where it came to a better
        /// fallback ([`EventKind::told`]).
        latency: Latency,
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
        /// Latencies of the rung restored, as the move found them.
        latency: Latency,
        /// Why the role is still away from its primary; none where it is back.
        away: Option<Away>,
    },
    /// A synthetic probe ended.
    Probed {
        /// Which model.
        model: ModelId,
        /// How long it ran.
        duration: Duration,
        /// Its total time, or that of its first token where only that came in
        /// time; none where it failed or nothing did.
        latency: Option<Duration>,
        /// The class, where it failed.
        class: Option<Class>,
        /// What it cost; none where the model's prices are not known.
        cost: Option<Cost>,
        /// The first by name of the roles that have the model: what it cost is booked
        /// on that one.
        booked_on: Arc<str>,
        /// What the roles that wait for the model make of it.
        verdicts: Vec<ProbeVerdict>,
    },
    /// A failure or a refusal moved this call to another model (once per
    /// call, when the answering attempt is known).
    ModelFallback {
        /// The role.
        role: Arc<str>,
        /// The kind of task as the caller named it.
        task: Option<Arc<str>>,
        /// The caller's id of the request.
        request_id: Option<Arc<str>>,
        /// The role's primary.
        primary: ModelId,
        /// Who answered.
        fallback: ModelId,
        /// The place of who answered in the roster.
        rung: usize,
        /// The class or refusal, as it is told ([`Refusal::told`]), that moved the call off
        /// its first rung.
        reason: &'static str,
        /// The class, where it was a failure.
        class: Option<Class>,
        /// The HTTP status of that failure, where there was one.
        status: Option<u16>,
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
    /// A hedge has ended (each one that started, once), or none could start though
    /// patience ran out (once per attempt).
    HedgeEnded {
        /// The role.
        role: Arc<str>,
        /// The kind of task as the caller named it.
        task: Option<Arc<str>>,
        /// The caller's id of the request.
        request_id: Option<Arc<str>>,
        /// The rung that was too slow.
        from: usize,
        /// Its model.
        from_model: ModelId,
        /// The rung that was asked beside it, or would have been; where it won, the one
        /// that answered.
        to: usize,
        /// Its model.
        to_model: ModelId,
        /// How it ended.
        result: HedgeResult,
        /// `patience_exceeded` or `projected_deadline_miss`.
        reason: &'static str,
        /// The patience that had run out.
        patience: Duration,
        /// Latencies of the rung that was too slow, when patience ran out.
        latency: Latency,
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
        /// The configured provider's name.
        provider: Arc<str>,
        /// Who that is by OpenTelemetry's names; see [`Server::system`].
        system: Arc<str>,
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
        /// Why: `consecutive_failures`, `failure_rate`, `open_elapsed`, …
        cause: &'static str,
        /// Failures that the rule counted, where it counted any.
        failures: Option<u64>,
        /// The class of the failure on which it changed, where it did on one.
        class: Option<Class>,
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
        /// The configured provider's name.
        provider: Arc<str>,
        /// Who that is by OpenTelemetry's names; see [`Server::system`].
        system: Arc<str>,
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
    /// An answer says of its model's life what the model registry does not (once per
    /// model and word). A warning: the registry is to be looked over.
    ModelStatus {
        /// Which model.
        model: ModelId,
        /// Its stage in the provider's words, e.g. `LEGACY`.
        stage: Option<Arc<str>>,
        /// Its last day, `2027-02-01`.
        last_day: Option<Arc<str>>,
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
        /// Which it is.
        policy: Option<Arc<PolicyStamp>>,
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
        /// The kind of task as the caller named it.
        task: Option<Arc<str>>,
        /// The role's primary.
        primary: ModelId,
        /// Models tried, with their class.
        tried: Vec<(ModelId, Class)>,
        /// Models refused, with the reason.
        refused: Vec<(ModelId, Refusal)>,
        /// The class of the last attempt, where there was one.
        last: Option<Class>,
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
        /// The caller's id of the request that it was made of.
        request_id: Option<Arc<str>>,
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
    /// A call ends: the last that is told of it, but for losers that are kept open.
    CallEnded {
        /// The role asked.
        role: Arc<str>,
        /// The kind of task as the caller named it.
        task: Option<Arc<str>>,
        /// The caller's id of the request.
        request_id: Option<Arc<str>>,
        /// The workflow run it belongs to.
        workflow: Option<Arc<str>>,
        /// Who calls, as an opaque id.
        caller: Option<Arc<str>>,
        /// The role's primary.
        primary: ModelId,
        /// The configuration that it was answered by.
        policy: Option<Arc<PolicyStamp>>,
        /// `ok`, `error` or `cancelled`.
        outcome: &'static str,
        /// Meta of the answer, where there is one.
        meta: Option<Meta>,
        /// How the answer came about. Of a call that was refused for its own sake
        /// (`error` is `bad_request`, `context_window` or `content_filter`): how it came
        /// to who refused it, the primary where nobody was asked. [`Route::None`] where
        /// nobody could answer.
        route: Route,
        /// Why not the primary: a class, a refusal, why the role was moved, why it was
        /// hedged, or `roster_exhausted`.
        reason: Option<&'static str>,
        /// The class of the failure given to the caller.
        class: Option<Class>,
        /// What the caller is given for an error: a class or `roster_exhausted`.
        error: Option<&'static str>,
        /// The variant of the role's prompt that the answering model was given.
        prompt_variant: Option<Arc<str>>,
        /// What the answer says of itself. Told only where somebody listens.
        reported: Reported,
        /// Degraded steps in the path of the call, this one included.
        depth: u8,
        /// How long the call took.
        duration: Duration,
        /// Everything that happened to it.
        trail: Arc<Trail>,
        /// What it was about, where the observer wants content.
        content: Option<Exchange>,
        /// Its own trace context: what [`Observer::call_context`] gave when it began.
        ///
        /// [`Observer::call_context`]: crate::Observer::call_context
        trace: Option<TraceContext>,
    },
}

impl EventKind {
    /// The event as it is told outside: that a role goes back to a better fallback is a
    /// substitution to that, for the reason that it left its primary for. Only traffic that
    /// is back at the primary is restored.
    pub fn told(&self) -> Cow<'_, Self> {
        let Self::ModelRestoration {
            role,
            task,
            epoch,
            from,
            from_model,
            to,
            to_model,
            latency,
            away: Some(away),
            ..
        } = self
        else {
            return Cow::Borrowed(self);
        };
        Cow::Owned(Self::ModelSubstitution {
            role: role.clone(),
            task: task.clone(),
            epoch: *epoch,
            primary: away.primary.clone(),
            from: *from,
            from_model: from_model.clone(),
            to: *to,
            to_model: to_model.clone(),
            reason: away.reason,
            // What is known is of the rung it came to, and good.
            latency: Latency {
                p95: None,
                p99: None,
                samples: 0,
                ..*latency
            },
        })
    }
}
