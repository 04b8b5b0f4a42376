//! One role's state: its rungs, and the word that says which of them serves.

use crate::demand::Task;
use crate::mean::{Mean, as_f64};
use crate::pin::Pin;
use crate::rung::{At, Leaving, Measure, Rung, locked};
use crate::shadow::Candidate;
use crate::surroundings::Surroundings;
use crate::tailor::Tailoring;
use crate::validation::Validation;
use evenkeel_breaker::HedgeBudget;
use evenkeel_core::{
    Away, CallId, EventKind, Latency, PolicyStamp, Refusal, RestorationReason, SubstitutionReason,
};
use evenkeel_probe::{
    Breach, Detector, Edge, Observation, RecoveryStep, Report, RoleWord, Verdict, Word,
};
use evenkeel_roster::{RolePolicy, Signal};
use jiff::civil::Date;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// A role, or a task of one that stands on a rung of its own.
#[derive(Debug)]
pub(crate) struct Role {
    pub(crate) name: Arc<str>,
    /// The task, where this is one.
    pub(crate) task: Option<Arc<str>>,
    /// The role's tasks, by name; a task has none.
    pub(crate) tasks: BTreeMap<String, Task>,
    pub(crate) policy: RolePolicy,
    pub(crate) rungs: Vec<Rung>,
    pub(crate) tailoring: Arc<Tailoring>,
    /// What judges its answers beyond wire format and schema.
    pub(crate) validation: Validation,
    /// Where shadows of its calls go.
    pub(crate) candidate: Option<Arc<Candidate>>,
    pub(crate) word: Arc<RoleWord>,
    /// The rung that an operator holds it on.
    pub(crate) pin: Arc<Pin>,
    pub(crate) hedges: Arc<HedgeBudget>,
    /// When the word was last moved, else when the role began.
    pub(crate) since: Arc<Mutex<Instant>>,
    /// The epoch, for calls that wait for a move.
    pub(crate) moved: Arc<watch::Sender<u64>>,
    /// Calls under way, those begun under an older configuration too.
    pub(crate) in_flight: Arc<AtomicUsize>,
    /// Losers kept open to be measured.
    pub(crate) kept: AtomicUsize,
    /// Whether a loser is kept open until p99.
    pub(crate) kept_to_p99: AtomicBool,
    /// Of input tokens.
    pub(crate) mean_tokens: Arc<Mean>,
    /// Whether the last call found nothing that could answer.
    exhausted: AtomicBool,
    /// Whether it is for one call that goes where it is sent, whatever stands in a roster.
    pub(crate) is_pass: bool,
    /// Which configuration it is of.
    pub(crate) stamp: Option<Arc<PolicyStamp>>,
    pub(crate) around: Surroundings,
}

impl Role {
    pub(crate) fn new(
        name: Arc<str>,
        policy: RolePolicy,
        rungs: Vec<Rung>,
        tailoring: Arc<Tailoring>,
        hedges: HedgeBudget,
        around: Surroundings,
        now: Instant,
    ) -> Self {
        Self {
            name,
            task: None,
            tasks: BTreeMap::new(),
            policy,
            rungs,
            tailoring,
            validation: Validation::default(),
            candidate: None,
            word: Arc::new(RoleWord::new(0)),
            pin: Arc::default(),
            hedges: Arc::new(hedges),
            since: Arc::new(Mutex::new(now)),
            moved: Arc::new(watch::Sender::new(0)),
            in_flight: Arc::default(),
            kept: AtomicUsize::new(0),
            kept_to_p99: AtomicBool::new(false),
            mean_tokens: Arc::default(),
            exhausted: AtomicBool::new(false),
            is_pass: false,
            stamp: None,
            around,
        }
    }

    /// The role, and those of its tasks that stand on rungs of their own.
    pub(crate) fn units(self: &Arc<Self>) -> impl Iterator<Item = Arc<Self>> {
        let apart = self.tasks.values().filter_map(|task| task.apart.clone());
        std::iter::once(self.clone()).chain(apart)
    }

    /// Counts a call's input into the mean and says what a hedge of it costs:
    /// `max(1, tokens / mean)` of the hedge budget.
    pub(crate) fn hedge_cost(&self, tokens: u64) -> f64 {
        let mean = self.mean_tokens.observe(tokens);
        if mean > 0.0 {
            (as_f64(tokens) / mean).max(1.0)
        } else {
            1.0
        }
    }

    /// Whether the rung is in breach or benched: then hedges need no budget.
    pub(crate) fn in_breach(&self, rung: usize, now: Instant) -> bool {
        let rung = &self.rungs[rung];
        rung.recovery.benched()
            || Measure::BOTH
                .iter()
                .any(|m| matches!(rung.window(*m).verdict(now), Verdict::Breached(_)))
    }

    /// Why a rung can't be asked by this role as of `now`.
    pub(crate) fn refusal(&self, rung: usize, now: Instant, today: Date) -> Option<Refusal> {
        let rung = &self.rungs[rung];
        let refusal = rung.model.refusal(now, today);
        refusal.or_else(|| rung.quality_refusal(now))
    }

    /// Why a rung can't be asked again by a call that has asked it and waited.
    pub(crate) fn refusal_of_retry(
        &self,
        rung: usize,
        now: Instant,
        today: Date,
    ) -> Option<Refusal> {
        let rung = &self.rungs[rung];
        let refusal = rung.model.refusal_of_retry(now, today);
        refusal.or_else(|| rung.quality_refusal(now))
    }

    /// The rung a call of this session goes to: the one the word names, or one
    /// above it that takes a share of sessions as a canary.
    pub(crate) fn assigned(&self, word: Word, session: &str, now: Instant, today: Date) -> usize {
        let canaries = if self.pin.is_set() { 0 } else { word.rung };
        for (index, rung) in self.rungs.iter().enumerate().take(canaries) {
            let share = rung.recovery.share();
            if share > 0.0
                && evenkeel_probe::session_point(session, word.epoch) < share
                && self.refusal(index, now, today).is_none()
            {
                return index;
            }
        }
        word.rung
    }

    /// Counts an open attempt's age where it has passed a limit.
    pub(crate) fn aged(&self, at: At, observation: &mut Observation, now: Instant) {
        let before = observation.is_over();
        self.rungs[at.rung]
            .window(at.measure)
            .overdue(observation, now);
        let over = (!before && observation.is_over()).then_some(true);
        self.observed(at, observation.began(), over, now);
    }

    /// An attempt's measure is complete.
    pub(crate) fn measured(&self, at: At, observation: Observation, now: Instant) {
        let over = (!observation.is_over()).then(|| observation.exceeds(now));
        let began = observation.began();
        self.rungs[at.rung]
            .window(at.measure)
            .finish(observation, now);
        self.observed(at, began, over, now);
    }

    /// An attempt failed or was cancelled: its age counts where it has passed a limit.
    pub(crate) fn gave_up(&self, at: At, mut observation: Observation, now: Instant) {
        let window = self.rungs[at.rung].window(at.measure);
        let due = window.next_due(&observation).is_some_and(|due| due <= now);
        if due {
            self.aged(at, &mut observation, now);
        }
        window.cancel(observation, now);
    }

    fn observed(&self, at: At, began: Instant, over: Option<bool>, now: Instant) {
        if let Some(over) = over
            && self.rungs[at.rung].recovery.share() > 0.0
            && !self.pin.is_set()
        {
            let step = self.rungs[at.rung].canary_observed(began, over, now);
            self.take(at.rung, step, now);
        }
        self.judge(at.rung, at.measure, now, at.call);
    }

    /// Judges a rung after its evidence changed, and moves the word if it must.
    fn judge(&self, rung: usize, measure: Measure, now: Instant, call: Option<CallId>) {
        // Read before the verdict: a move between the two makes the exchange fail.
        let word = self.word.load();
        let (verdict, edge) = self.rungs[rung].window(measure).judge(now);
        if let Some(edge) = edge {
            self.tell_edge(rung, measure, edge, now, call);
        }
        match verdict {
            // The evidence is kept; what follows from it waits for the operator.
            _ if self.pin.is_set() => {}
            Verdict::Breached(breach) if rung == word.rung => {
                self.substitute(word, measure, breach, now, call);
            }
            Verdict::Breached(_) if rung < word.rung => {
                let step = self.rungs[rung].recovery.canary_breached(now);
                self.take(rung, step, now);
            }
            _ => {}
        }
    }

    fn tell_edge(
        &self,
        rung: usize,
        measure: Measure,
        edge: Edge,
        now: Instant,
        call: Option<CallId>,
    ) {
        let r = &self.rungs[rung];
        let (role, task) = (self.name.clone(), self.task.clone());
        let model = r.model.id.clone();
        let kind = match edge {
            Edge::Breached(breach) => {
                let told = self.latency_at_breach(rung, measure, breach.detector, now);
                EventKind::LatencyBreach {
                    role,
                    task,
                    rung,
                    model,
                    detector: breach.detector.as_str(),
                    measure: measure.as_str(),
                    p95: told.p95,
                    p99: told.p99,
                    slo: breach.limit,
                    samples: told.samples,
                    window: self.policy.window,
                }
            }
            Edge::Cleared => EventKind::LatencyBreachEnded {
                role,
                task,
                rung,
                model,
                measure: measure.as_str(),
            },
        };
        self.around.tell(now, call, kind);
    }

    /// Moves the word off a rung that breached, if a usable one is not worse.
    fn substitute(
        &self,
        seen: Word,
        measure: Measure,
        breach: Breach,
        now: Instant,
        call: Option<CallId>,
    ) {
        let today = self.around.today();
        let to = self.rungs_by_rank(seen.rung).find(|&to| {
            self.refusal(to, now, today).is_none()
                && self.rungs[to].model.capacity.available_permits() > 0
                && !self.worse(seen.rung, to, measure, breach, now)
        });
        let reason = match breach.detector {
            Detector::P99 => SubstitutionReason::LatencyP99Breach,
            Detector::Spike => SubstitutionReason::LatencySpike,
            _ => SubstitutionReason::LatencyP95Breach,
        };
        if let Some(to) = to {
            self.move_word(seen, to, reason, measure, now, call);
        }
    }

    /// Moves the word off a rung whose model is past its end of life, or is
    /// said to be by a drill.
    pub(crate) fn leave_retired(&self, now: Instant, today: Date, call: Option<CallId>) {
        let word = self.word.load();
        let Some(reason) = self.rungs[word.rung].model.retired(now, today) else {
            return;
        };
        let to = self
            .rungs_by_rank(word.rung)
            .find(|&to| self.refusal(to, now, today).is_none());
        if let Some(to) = to {
            self.move_word(word, to, reason, Measure::Total, now, call);
        }
    }

    /// All rungs but `except` and the benched ones, best first.
    fn rungs_by_rank(&self, except: usize) -> impl Iterator<Item = usize> {
        (0..self.rungs.len()).filter(move |&r| r != except && !self.rungs[r].recovery.benched())
    }

    /// Whether `to` would be no better than the breached `from`. Unknown is not worse.
    fn worse(
        &self,
        from: usize,
        to: usize,
        measure: Measure,
        breach: Breach,
        now: Instant,
    ) -> bool {
        let from = self.rungs[from].window(measure);
        let candidate = &self.rungs[to];
        if let Some(p95) = candidate.window(measure).p95_at(now) {
            let left = match breach.detector {
                Detector::Spike => from.p95_since_run(now),
                // Attempts still open are in the verdict and in no report yet. The
                // verdict says that the p95 is above the limit: at least that.
                Detector::P95 => from.report(now).p95.max(Some(breach.limit)),
                _ => from.report(now).p95,
            };
            return left.is_some_and(|left| p95 >= left);
        }
        let (t95, _) = from.thresholds();
        // A spike breach does not decay by itself; one without any observation
        // left in the window is history, and unknown is not worse.
        let window = candidate.window(measure);
        let in_breach =
            matches!(window.verdict(now), Verdict::Breached(_)) && window.counts(now).n95 > 0;
        in_breach || candidate.median_latency.is_some_and(|m| m >= t95)
    }

    fn move_word(
        &self,
        seen: Word,
        to: usize,
        reason: SubstitutionReason,
        measure: Measure,
        now: Instant,
        call: Option<CallId>,
    ) {
        let Some(new) = self.pin.unless_set(|| self.word.try_move(seen, to).ok()) else {
            return; // somebody else moved it: they tell of it
        };
        if reason.is_slowness() {
            self.rungs[seen.rung].recovery.left(now);
        }
        self.left(seen, new, reason, measure, now, call);
    }

    /// Books and tells a move off a rung.
    pub(crate) fn left(
        &self,
        seen: Word,
        new: Word,
        reason: SubstitutionReason,
        measure: Measure,
        now: Instant,
        call: Option<CallId>,
    ) {
        let to = new.rung;
        let from = &self.rungs[seen.rung];
        let latency = match detector(reason) {
            Some(detector) => self.latency_at_breach(seen.rung, measure, detector, now),
            None => self.latency(seen.rung, measure, now),
        };
        from.restart_evidence(now);
        self.rungs[to].restart_evidence(now);
        *locked(&from.left) = Some(Leaving {
            reason,
            measure,
            at: now,
        });
        self.around.tell(
            now,
            call,
            EventKind::ModelSubstitution {
                role: self.name.clone(),
                task: self.task.clone(),
                epoch: new.epoch,
                primary: self.rungs[0].model.id.clone(),
                from: seen.rung,
                from_model: from.model.id.clone(),
                to,
                to_model: self.rungs[to].model.id.clone(),
                reason,
                latency,
            },
        );
        self.announce(new.epoch, now);
    }

    /// What is known of a rung's latency, to be told.
    pub(crate) fn latency(&self, rung: usize, measure: Measure, now: Instant) -> Latency {
        let report = self.rungs[rung].window(measure).report(now);
        self.reported(rung, measure, &report)
    }

    fn reported(&self, rung: usize, measure: Measure, report: &Report) -> Latency {
        let (slo_p95, slo_p99) = self.rungs[rung].window(measure).thresholds();
        Latency {
            measure: measure.as_str(),
            p95: report.p95,
            p99: report.p99,
            slo_p95,
            slo_p99,
            samples: report.samples,
        }
    }

    /// The same of a rung that `detector` finds in breach, with the calls in flight
    /// that it counts, at their age: what is told does not contradict it. Reported
    /// samples are older in part than the evidence, and of calls in flight only the
    /// latest are known one by one; the verdict says that the percentile is above its
    /// limit, so it is told as that at least. A spike is one of the calls since it
    /// began.
    fn latency_at_breach(
        &self,
        rung: usize,
        measure: Measure,
        detector: Detector,
        now: Instant,
    ) -> Latency {
        let window = self.rungs[rung].window(measure);
        let mut told = self.reported(rung, measure, &window.report_with_open(now));
        match detector {
            Detector::P95 => told.p95 = told.p95.max(Some(told.slo_p95)),
            Detector::P99 => told.p99 = told.p99.max(Some(told.slo_p99)),
            _ => told.p95 = told.p95.max(window.p95_since_run(now)),
        }
        told.p99 = told.p99.max(told.p95);
        told
    }

    /// For how long the word has stood where it stands.
    pub(crate) fn stood_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(*locked(&self.since))
    }

    /// Its calls under way.
    pub(crate) fn calls_in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    fn announce(&self, epoch: u64, now: Instant) {
        *locked(&self.since) = now;
        self.moved.send_replace(epoch);
        self.around.wake_prober.notify_one();
    }

    /// The measure by which the role judges probes of a rung it has left: its
    /// own, or where it watches both, the one that the rung was left for.
    pub(crate) fn probe_measure(&self, rung: usize) -> Measure {
        match self.policy.signal {
            Signal::Total => Measure::Total,
            Signal::FirstToken => Measure::FirstToken,
            Signal::Auto => {
                let left = *locked(&self.rungs[rung].left);
                left.map_or(Measure::Total, |left| left.measure)
            }
        }
    }

    /// Why the role's traffic left its primary.
    pub(crate) fn reason(&self) -> Option<SubstitutionReason> {
        locked(&self.rungs[0].left).map(|left| left.reason)
    }

    /// Does what a recovery decided.
    pub(crate) fn take(&self, rung: usize, step: Option<RecoveryStep>, now: Instant) {
        let r = &self.rungs[rung];
        let (role, task) = (self.name.clone(), self.task.clone());
        let model = r.model.id.clone();
        match step {
            None => {}
            Some(RecoveryStep::StartCanary { share, .. }) => {
                r.restart_evidence(now);
                let kind = EventKind::CanaryStarted {
                    role,
                    task,
                    rung,
                    model,
                    share,
                };
                self.around.tell(now, None, kind);
                self.around.wake_prober.notify_one();
            }
            Some(RecoveryStep::CanaryFailed { interval }) => {
                r.restart_evidence(now);
                let kind = EventKind::CanaryFailed {
                    role,
                    task,
                    rung,
                    model,
                    interval,
                };
                self.around.tell(now, None, kind);
                self.around.wake_prober.notify_one();
            }
            Some(RecoveryStep::Restore) => self.restore(rung, now),
        }
    }

    fn restore(&self, to: usize, now: Instant) {
        let seen = self.word.load();
        let rung = &self.rungs[to];
        let today = self.around.today();
        if to >= seen.rung {
            return;
        }
        if self.refusal(to, now, today).is_some() {
            // The recovery offers it again an interval from now.
            self.around.wake_prober.notify_one();
            return;
        }
        let Some(new) = self.pin.unless_set(|| self.word.try_move(seen, to).ok()) else {
            return;
        };
        let _ = rung.recovery.restored(now);
        // Rungs below the restored one are no longer on the way back.
        for below in &self.rungs[to + 1..] {
            below.recovery.forget();
        }
        self.returned(seen, new, RestorationReason::Recovered, now);
    }

    /// Books and tells a move back up to a rung.
    pub(crate) fn returned(&self, seen: Word, new: Word, reason: RestorationReason, now: Instant) {
        let rung = &self.rungs[new.rung];
        let left = *locked(&rung.left);
        let left_at = left.map_or(now, |left| left.at);
        let measure = left.map_or(Measure::Total, |left| left.measure);
        let latency = self.latency(new.rung, measure, now);
        rung.restart_evidence(now);
        self.rungs[seen.rung].restart_evidence(now);
        self.around.tell(
            now,
            None,
            EventKind::ModelRestoration {
                role: self.name.clone(),
                task: self.task.clone(),
                epoch: new.epoch,
                from: seen.rung,
                from_model: self.rungs[seen.rung].model.id.clone(),
                to: new.rung,
                to_model: rung.model.id.clone(),
                duration: now.saturating_duration_since(left_at),
                reason,
                latency,
                away: self.away(new.rung),
            },
        );
        self.announce(new.epoch, now);
    }

    /// What the role lacks that has come back to `rung`.
    pub(crate) fn away(&self, rung: usize) -> Option<Away> {
        (rung > 0).then(|| Away {
            primary: self.rungs[0].model.id.clone(),
            reason: self.reason().unwrap_or(SubstitutionReason::Manual),
        })
    }

    /// Ends canary stages whose time is up. Returns the next such instant.
    pub(crate) fn tick(&self, now: Instant) -> Option<Instant> {
        if self.pin.is_set() {
            return None; // no way back is gone while an operator holds the word
        }
        let active = self.word.load().rung;
        for (index, rung) in self.rungs.iter().enumerate().take(active) {
            if rung.recovery.next_due().is_some_and(|due| due <= now) {
                let step = rung.canary_tick(now);
                self.take(index, step, now);
            }
        }
        let due = self.rungs.iter().filter_map(|r| r.recovery.next_due());
        due.filter(|due| *due > now).min()
    }

    /// Begins an attempt's observation.
    pub(crate) fn begin(&self, rung: usize, measure: Measure, now: Instant) -> Observation {
        self.rungs[rung].window(measure).begin(now)
    }

    /// A call found nothing that could answer; true when it begins an episode of
    /// exhaustion. That a pass finds nothing exhausts no roster.
    pub(crate) fn note_exhausted(&self) -> bool {
        !self.is_pass && !self.exhausted.swap(true, Ordering::Relaxed)
    }

    /// A call was answered: an episode of exhaustion, if any, is over.
    pub(crate) fn note_answered(&self) {
        if self.exhausted.load(Ordering::Relaxed) {
            self.exhausted.store(false, Ordering::Relaxed);
        }
    }
}

/// What found the breach that a role was moved for; none where it was moved for another
/// reason.
const fn detector(reason: SubstitutionReason) -> Option<Detector> {
    match reason {
        SubstitutionReason::LatencyP95Breach => Some(Detector::P95),
        SubstitutionReason::LatencyP99Breach => Some(Detector::P99),
        SubstitutionReason::LatencySpike => Some(Detector::Spike),
        _ => None,
    }
}
