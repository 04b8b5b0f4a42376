//! The decision of one call: which rung is asked when, what a failure leads
//! to, who wins. A plain state machine over explicit instants; the shell in
//! `drive` acts on its steps. Streams and whole answers share it.

mod account;
mod attempt;
mod built;
mod choose;
mod cost;
mod degraded;
mod end;
mod fail;
mod hedge;
mod queue;
mod race;
mod reported;
mod resume;
mod shadowed;
mod tailored;
mod validated;
mod window;

use self::attempt::{Attempt, Patience, Planned, Repeats};
use crate::amount::{Amount, text_bytes};
use crate::demand::Demand;
use crate::error::CallError;
use crate::health::Permits;
use crate::keep::Loser;
use crate::pace::Pace;
use crate::role::Role;
use crate::rung::{At, Measure, limits};
use crate::shadow::Candidate;
use crate::tailor::Tailored;
use evenkeel_breaker::OwnedPermit;
use evenkeel_core::{
    AttemptKind, AttemptOutcome, AttemptRecord, CallContext, CallId, ChatRequest, Clocks,
    EventKind, Failure, Phase, RateLimits, Refusal, Reported, StreamEvent, TraceContext, Trail,
    TrailStep, Usage,
};
use jiff::civil::Date;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

pub(crate) use cost::was_accepted;
pub(crate) use fail::Unit;

/// Whether the caller wants a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Whole,
    Stream,
}

/// What the shell is to do next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Ask the provider of `rung`; the events are those of `attempt`.
    Ask { attempt: usize, rung: usize },
    /// The attempt's window is over: it commits with what it holds.
    Commit { attempt: usize },
    /// Wait for a free place at one of `rungs`, then call [`Call::place_free`].
    Queue { rungs: Vec<usize>, until: Instant },
    /// Close an attempt's upstream; keep it open to be measured if it says so.
    Close { attempt: usize, keep: Option<Loser> },
    /// Nothing before `until`, or an upstream's event.
    Wait { until: Instant },
    /// The call is over without an answer.
    Fail(CallError),
}

/// One call under way.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) role: Arc<Role>,
    pub(crate) request: Arc<ChatRequest>,
    pub(crate) context: CallContext,
    pub(crate) clocks: Clocks,
    demand: Demand,
    mode: Mode,
    measure: Measure,
    /// Whether upstreams are asked for streams.
    pub(crate) streaming: bool,
    session: String,
    tokens: u64,
    hedge_cost: f64,
    /// Requests with provider-run tools or stored state: never two at a time.
    replayable: bool,
    started: Instant,
    deadline: Instant,
    today: Date,
    /// The rung the call was meant for.
    assigned: usize,
    attempts: Vec<Attempt>,
    planned: Option<Planned>,
    queued: Option<queue::Queued>,
    /// Until when this call may queue, once it has.
    queue_until: Option<Instant>,
    /// Until when this call may wait for breakers' trials, once it has.
    trial_until: Option<Instant>,
    /// Nobody is asked yet: the call waits for the role's primary.
    awaited: Option<degraded::Awaited>,
    steps: VecDeque<Step>,
    hedges: usize,
    /// Rungs that were left before they had answered, because they were slow
    /// (`hedge.mode = "switch"`).
    left: Vec<usize>,
    /// Hedges that are under way.
    races: Vec<race::Race>,
    /// Of answers that were useless by the caller's schema, until another model's is not:
    /// then they count. Else it may be a schema that no model can meet.
    useless: Vec<OwnedPermit>,
    /// Attempts whose answers are useless because they end where the caller said.
    ended_as_asked: Vec<usize>,
    /// Attempts of which it was told that no hedge could start beside them.
    unhedged: Vec<usize>,
    /// Same-rung retries made, by rung.
    retries: Vec<u32>,
    /// Where its shadow goes, if it is to have one.
    shadow: Option<Arc<Candidate>>,
    /// The attempt that answers, once it has won.
    winner: Option<usize>,
    /// The attempt that gives the answer: the winner, or who goes on for it.
    answering: Option<usize>,
    /// How each rung ended, in the order they were asked or refused.
    ends: Vec<(usize, crate::error::RungEndKind)>,
    last_failure: Option<Failure>,
    /// A context window that was too small, tokens.
    overflowed: Option<u64>,
    failed_providers: Vec<(Arc<str>, evenkeel_core::Class)>,
    tailoring: tailored::ByRung,
    unit: Unit,
    trail: Trail,
    /// What the caller has of a committed stream.
    delivered: resume::Delivered,
    /// Who goes on with it, since it broke.
    resume: Option<resume::Resume>,
    ended: bool,
    /// Its own trace context, where an observer traces.
    pub(crate) trace: Option<TraceContext>,
}

impl Call {
    /// A call begins: of `role`, or of a task of it, with what it asks of a
    /// rung. `unit` gives random numbers 0..1 for jitter.
    pub(crate) fn new(
        (role, demand): (Arc<Role>, Demand),
        request: ChatRequest,
        context: CallContext,
        mode: Mode,
        unit: Unit,
        now: Instant,
    ) -> Self {
        let context = degraded::settled(context);
        let clocks = role.policy.clocks.shortened(context.clocks);
        let tokens = request.estimated_input_tokens();
        let session = context
            .session
            .as_deref()
            .or(context.workflow.as_deref())
            .map_or_else(|| request.conversation_key(), str::to_owned);
        let replayable = hedge::replayable(&request);
        let candidate = role.candidate.as_ref().filter(|_| replayable);
        let shadow = candidate.filter(|c| c.takes((unit.0)())).cloned();
        let measure = Measure::of(role.policy.signal, mode == Mode::Stream);
        role.in_flight.fetch_add(1, Ordering::Relaxed);
        role.hedges.deposit();
        let mut call = Self {
            id: CallId::next(),
            measure,
            demand,
            streaming: mode == Mode::Stream || measure == Measure::FirstToken,
            mode,
            session,
            hedge_cost: role.hedge_cost(tokens),
            tokens,
            replayable,
            started: now,
            deadline: now
                .checked_add(clocks.deadline)
                .unwrap_or_else(|| now + Duration::from_secs(86_400)),
            today: role.around.today(),
            assigned: 0,
            attempts: Vec::new(),
            planned: None,
            queued: None,
            queue_until: None,
            trial_until: None,
            awaited: None,
            steps: VecDeque::new(),
            hedges: 0,
            left: Vec::new(),
            races: Vec::new(),
            useless: Vec::new(),
            ended_as_asked: Vec::new(),
            unhedged: Vec::new(),
            retries: vec![0; role.rungs.len()],
            shadow,
            winner: None,
            answering: None,
            ends: Vec::new(),
            last_failure: None,
            overflowed: None,
            failed_providers: Vec::new(),
            tailoring: tailored::ByRung::new(&request, role.rungs.len()),
            unit,
            trail: Trail::default(),
            delivered: resume::Delivered::default(),
            resume: None,
            ended: false,
            trace: None,
            clocks,
            request: Arc::new(request),
            context,
            role,
        };
        call.tell_start(now);
        call
    }

    /// Whether the request may be asked again after an upstream has taken it.
    pub(crate) fn is_replayable(&self) -> bool {
        self.replayable
    }

    fn tell(&self, now: Instant, kind: EventKind) {
        self.role.around.tell(now, Some(self.id), kind);
    }

    /// Where this call observes attempts at `rung`.
    fn at(&self, rung: usize) -> At {
        At {
            rung,
            measure: self.measure,
            call: Some(self.id),
        }
    }

    fn since(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// Chooses the first rung. To be called once, before the first step.
    pub(crate) fn begin(&mut self, now: Instant) {
        if now >= self.deadline {
            // No time at all: nobody is asked, and nothing is booked as if one had been.
            self.expire(now);
            return;
        }
        if !self.is_held_back(now) {
            self.ask_first(now);
        }
    }

    /// Starts the first attempt.
    fn ask_first(&mut self, now: Instant) {
        self.role.leave_retired(now, self.today, Some(self.id));
        let word = self.role.word.load();
        let rung = self
            .demand
            .first()
            .unwrap_or_else(|| self.role.assigned(word, &self.session, now, self.today));
        self.assigned = rung;
        if let Err(failure) = self.check_demand() {
            self.fail(crate::error::CallErrorKind::Failed(failure), now);
            return;
        }
        let elsewhere = self.goes_whole_elsewhere(rung, now);
        let started = match elsewhere.or_else(|| self.goes_cheaper_elsewhere(rung, now)) {
            Some(refusal) => Err(refusal),
            None => self.start(rung, AttemptKind::First, now).map(drop),
        };
        if let Err(refusal) = started {
            self.note_refused(rung, refusal, now);
            self.go_on(AttemptKind::Failover, now);
        }
    }

    /// The next step as of `now`.
    pub(crate) fn step(&mut self, now: Instant) -> Step {
        if now >= self.deadline && !self.ended {
            self.expire(now);
        }
        if !self.ended {
            self.look_for_primary(now);
            self.run_clocks(now);
        }
        if let Some(planned) = self.planned.filter(|p| p.at <= now && !self.ended) {
            self.planned = None;
            self.start_planned(planned, None, now);
        }
        // Upstreams are closed and asked before the call queues or sleeps.
        if let Some(step) = self.steps.pop_front() {
            return step;
        }
        if let Some(attempt) = self.window_over(now) {
            return Step::Commit { attempt };
        }
        if let Some(queued) = self.queued.as_ref().filter(|_| !self.ended) {
            if now < queued.until {
                return Step::Queue {
                    rungs: queued.rungs.clone(),
                    until: queued.until,
                };
            }
            self.look_again(now);
        }
        if let Some(step) = self.steps.pop_front() {
            return step;
        }
        Step::Wait {
            until: self.wake(now),
        }
    }

    /// The next instant at which something of this call is due.
    fn wake(&self, now: Instant) -> Instant {
        let mut wake = self.deadline;
        let mut sooner = |at: Option<Instant>| {
            if let Some(at) = at {
                wake = wake.min(at.max(now));
            }
        };
        sooner(self.planned.map(|p| p.at));
        sooner(self.primary_due(now));
        for attempt in self.attempts.iter().filter(|a| a.running) {
            sooner(attempt.patience.due());
            sooner(attempt.looks_again);
            sooner(attempt.window_ends);
            sooner(attempt.pace.as_ref().and_then(Pace::due));
            let window = self.role.rungs[attempt.rung].window(self.measure);
            sooner(
                attempt
                    .observation
                    .as_ref()
                    .and_then(|o| window.next_due(o)),
            );
        }
        wake
    }

    /// Counts ages, ends attempts whose clock ran out, starts hedges: in this
    /// order, so that the exceedance at T95 is judged before the budget is asked.
    fn run_clocks(&mut self, now: Instant) {
        for index in 0..self.attempts.len() {
            if self.attempts[index].running {
                self.count_age(index, now);
            }
        }
        for index in 0..self.attempts.len() {
            let attempt = &mut self.attempts[index];
            if !attempt.running {
                continue;
            }
            if let Some(failure) = attempt.pace.as_mut().and_then(|p| p.check(now)) {
                self.close(index, None);
                self.failed(index, failure, now);
                continue;
            }
            let attempt = &mut self.attempts[index];
            let due = attempt.patience.due().or(attempt.looks_again);
            if due.is_some_and(|due| due <= now) {
                attempt.patience.spent = true;
                attempt.looks_again = None;
                self.out_of_patience(index, now);
            }
        }
    }

    fn count_age(&mut self, index: usize, now: Instant) {
        let attempt = &mut self.attempts[index];
        let window = self.role.rungs[attempt.rung].window(self.measure);
        let Some(observation) = attempt.observation.as_mut() else {
            return;
        };
        if window.next_due(observation).is_some_and(|due| due <= now) {
            let at = At {
                rung: attempt.rung,
                measure: self.measure,
                call: Some(self.id),
            };
            self.role.aged(at, observation, now);
        }
    }

    /// Whether a move of the role's word would let this call go on.
    pub(crate) fn asks_again(&self) -> bool {
        self.awaited.is_some()
            || self
                .attempts
                .iter()
                .any(|a| a.running && a.asks_again.is_some())
    }

    /// If the role's word has moved, attempts whose hedge was refused before
    /// ask again. True where one did, or where a wait for the primary is over.
    pub(crate) fn role_moved(&mut self, now: Instant) -> bool {
        let epoch = self.role.word.load().epoch;
        let mut asked = self.awaited.is_some() && self.is_primary_usable(now);
        for index in 0..self.attempts.len() {
            let attempt = &mut self.attempts[index];
            if attempt.running && attempt.asks_again.is_some_and(|before| before != epoch) {
                attempt.asks_again = None;
                asked = true;
                self.out_of_patience(index, now);
            }
        }
        asked
    }

    fn start_planned(
        &mut self,
        planned: Planned,
        place: Option<OwnedSemaphorePermit>,
        now: Instant,
    ) {
        let Planned {
            rung,
            kind,
            repeats,
            ..
        } = planned;
        // A benched rung is a last resort also where the call waited for it.
        let kind = if kind != AttemptKind::Retry && self.benched(rung) {
            AttemptKind::LastResort
        } else {
            kind
        };
        let started = self.permits(rung, kind, place, now).and_then(|permits| {
            let tailored = self.tailored_for(rung, kind)?;
            Ok(self.start_with(permits, tailored, rung, kind, repeats, now))
        });
        if let Err(refusal) = started {
            if self.wait_to_retry(planned, refusal, now) {
                return;
            }
            self.note_refused(rung, refusal, now);
            self.go_on(AttemptKind::Failover, now);
        }
    }

    /// Starts an attempt, if the rung takes it.
    fn start(&mut self, rung: usize, kind: AttemptKind, now: Instant) -> Result<usize, Refusal> {
        let permits = self.permits(rung, kind, None, now)?;
        let tailored = self.tailored_for(rung, kind)?;
        Ok(self.start_with(permits, tailored, rung, kind, None, now))
    }

    fn start_with(
        &mut self,
        mut permits: Permits,
        tailored: Arc<Tailored>,
        rung: usize,
        kind: AttemptKind,
        repeats: Option<Repeats>,
        now: Instant,
    ) -> usize {
        let index = self.attempts.len();
        let anew = self.asks_anew(rung, kind);
        let in_parts = tailored.parts.is_some();
        let mut patience = repeats.map_or_else(|| self.patience(rung, now), |r| r.patience);
        // Several requests in a row say nothing about how long one takes.
        patience.spent |= in_parts;
        let role = &self.role;
        let place = &role.rungs[rung];
        let clocks = (self.streaming && !in_parts)
            .then(|| Pace::new(self.clocks, role.policy.min_tokens_per_s, now));
        self.attempts.push(Attempt {
            rung,
            kind,
            started: now,
            running: true,
            patience,
            asks_again: repeats.and_then(|r| r.asks_again),
            looks_again: None,
            asks_again_at_end: None,
            hedge_of: repeats.and_then(|r| r.hedge_of),
            race: repeats.and_then(|r| r.race),
            by_word: role.word.load().rung == rung,
            observation: (!in_parts).then(|| role.begin(rung, self.measure, now)),
            pace: clocks,
            first_content: None,
            ready: Amount::default(),
            window_ends: None,
            judging: None,
            rejected: false,
            booking: permits.booking.take(),
            permits: Some(permits),
            usage: None,
            came: Amount::default(),
            reported: Reported::default(),
            content: None,
            spent: None,
            adapted: Vec::new(),
            tailored,
        });
        if !anew {
            place.model.provider.retries.deposit(now);
        }
        let model = place.model.id.clone();
        self.trail.steps.push(TrailStep::Attempt(AttemptRecord {
            index,
            rung,
            model,
            kind,
            started: self.since(now),
            first_token: None,
            ended: None,
            outcome: AttemptOutcome::Running,
            rejected: false,
            usage: None,
            usage_estimated: false,
            cost: None,
        }));
        self.adapted(index, &self.attempts[index].tailored.clone().notes);
        self.tell_attempt(index, now);
        self.steps.push_back(Step::Ask {
            attempt: index,
            rung,
        });
        index
    }

    /// How long an attempt at `rung` may run before a hedge: T95, or what the
    /// deadline leaves beside the next rung's need, if that is at least a
    /// quarter of T95; else the whole deadline goes to this rung.
    fn patience(&self, rung: usize, now: Instant) -> Patience {
        let (t95, _) = limits(&self.role.policy, self.measure);
        let left = self.deadline.saturating_duration_since(now);
        let need = self.next_usable(rung, now).map_or(Duration::ZERO, |r| {
            self.role.rungs[r].need(self.measure, now)
        });
        let spare = left.saturating_sub(need);
        if spare >= t95 {
            return Patience {
                ends_at: now.checked_add(t95),
                spent: false,
                projected: false,
            };
        }
        Patience {
            ends_at: (spare >= t95 / 4).then(|| now + spare),
            spent: false,
            projected: true,
        }
    }

    /// Content came.
    pub(crate) fn content(&mut self, index: usize, event: &StreamEvent, now: Instant) {
        let attempt = &mut self.attempts[index];
        attempt.came.add(event);
        attempt.reported.chunks += 1;
        if let Some(pace) = attempt.pace.as_mut() {
            pace.content(text_bytes(event), now);
        }
        if attempt.first_content.is_none() {
            attempt.first_content = Some(now);
            let since = now.saturating_duration_since(self.started);
            if let Some(record) = self.trail.attempt_mut(index) {
                record.first_token = Some(since);
            }
            if self.measure == Measure::FirstToken {
                self.measured(index, now);
            }
        }
    }

    /// The caller of a committed stream comes back to read: the time it was
    /// away, since then, is no stall of the upstream.
    pub(crate) fn reader_back(&mut self, index: usize, since: Instant, now: Instant) {
        if let Some(pace) = self.attempts[index].pace.as_mut() {
            pace.skip(now.saturating_duration_since(since));
        }
    }

    /// The attempt's measure is complete: patience is satisfied.
    fn measured(&mut self, index: usize, now: Instant) {
        let attempt = &mut self.attempts[index];
        attempt.patience.spent = true;
        attempt.asks_again = None;
        attempt.looks_again = None;
        let rung = attempt.rung;
        if let Some(observation) = attempt.observation.take() {
            self.role.measured(self.at(rung), observation, now);
        }
    }

    /// The rate limits that came with what the attempt's provider sent.
    pub(crate) fn heard_limits(&self, index: usize, limits: &RateLimits, now: Instant) {
        let attempt = &self.attempts[index];
        let throttle = &self.role.rungs[attempt.rung].model.throttle;
        throttle.learn(attempt.booking.as_ref(), limits, now);
    }

    /// Tokens the attempt has reported.
    pub(crate) fn used(&mut self, index: usize, usage: Usage) {
        self.attempts[index].usage = Some(usage);
    }

    /// Something the attempt's stream held could not be read and was skipped.
    pub(crate) fn skipped_event(&mut self, index: usize) {
        self.adapted(
            index,
            &["an unreadable event of the stream was skipped".to_owned()],
        );
    }

    fn close(&mut self, attempt: usize, keep: Option<Loser>) {
        self.steps.push_back(Step::Close { attempt, keep });
    }

    fn any_running(&self) -> bool {
        self.attempts.iter().any(|a| a.running)
    }

    /// The deadline has come: whatever still runs is given up.
    fn expire(&mut self, now: Instant) {
        let ms = self.clocks.deadline.as_millis();
        let failure = Failure::timeout(Phase::Deadline, format!("no answer within {ms} ms"));
        let (t95, _) = limits(&self.role.policy, self.measure);
        for index in 0..self.attempts.len() {
            if self.attempts[index].running {
                // A caller's very short deadline says nothing about the model's health, and a
                // validator's time nothing at all.
                let age = now.saturating_duration_since(self.attempts[index].started);
                let counts = age >= t95 && self.attempts[index].judging.is_none();
                self.stop_attempt(index, &failure, counts, now);
                self.close(index, None);
            }
        }
        self.planned = None;
        self.leave_queue(None, now);
        self.fail(crate::error::CallErrorKind::Failed(failure), now);
    }
}
