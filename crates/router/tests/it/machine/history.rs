//! All that was told, as plain lists: the reference that the rules read.

use super::subject::Saw;
use crate::world::model_id;
use evenkeel_core::{
    AttemptKind, CallId, Class, Event, EventKind, Meta, ModelId, SubstitutionReason, Trail,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A role's limit on p95 in these runs.
pub(crate) const T95: Duration = Duration::from_secs(1);

/// The time from an instant to a later one.
pub(crate) fn between(from: Duration, to: Duration) -> Duration {
    to.checked_sub(from).expect("time goes on")
}

/// What a call is told apart by; travels as its request id.
#[derive(Debug, Clone)]
pub(crate) struct Goes {
    pub(crate) nth: usize,
    pub(crate) streams: bool,
    pub(crate) session: String,
}

impl Goes {
    pub(crate) fn to_id(&self) -> String {
        format!("{}/{}/{}", self.nth, self.streams, self.session)
    }

    fn of(id: &str) -> Self {
        let mut parts = id.splitn(3, '/');
        let mut next = || parts.next().unwrap();
        Self {
            nth: next().parse().unwrap(),
            streams: next().parse().unwrap(),
            session: next().to_owned(),
        }
    }
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) outcome: &'static str,
    pub(crate) meta: Option<Meta>,
    pub(crate) class: Option<Class>,
    pub(crate) duration: Duration,
    pub(crate) trail: Arc<Trail>,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) goes: Goes,
    pub(crate) began: Duration,
    /// Every end that was told; there must be one.
    pub(crate) ends: Vec<End>,
    pub(crate) saw: Saw,
    /// Its attempts, by their place in [`History::attempts`].
    pub(crate) attempts: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) call: usize,
    pub(crate) rung: usize,
    pub(crate) kind: AttemptKind,
    pub(crate) began: Duration,
    pub(crate) ended: Option<Duration>,
    pub(crate) outcome: &'static str,
    /// When its measure was complete: its first token for a stream, else its end, if that was an answer.
    pub(crate) measured: Option<Duration>,
}

/// What an attempt says about its rung's latency, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) at: Duration,
    pub(crate) over: bool,
}

impl Attempt {
    /// Over as soon as its age is T95; under when it is complete before; else nothing.
    pub(crate) fn seen(&self) -> Option<Seen> {
        let due = self.began + T95;
        if let Some(at) = self.measured.filter(|at| *at < due) {
            return Some(Seen { at, over: false });
        }
        let lasts = self.ended.is_none_or(|ended| ended >= due);
        lasts.then_some(Seen {
            at: due,
            over: true,
        })
    }
}

/// What was told beside calls and attempts, in the order it was told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Told {
    CallBegan(usize),
    CallEnded(usize),
    AttemptBegan(usize),
    AttemptEnded(usize),
    /// From, to, why.
    Left(usize, usize, u64, SubstitutionReason),
    /// From, to, and how long the rung was left for.
    Restored(usize, usize, u64, Duration),
    CanaryBegan(usize, f64),
    CanaryFailed(usize, Duration),
    Probed(usize, Option<Duration>),
    Breached(usize),
    /// Whether it counts on the budget.
    Hedged(usize, bool),
    /// A breaker of the rung's model or provider.
    Breaker(usize, &'static str),
    Cools(usize, Duration),
    Held(usize),
    Exhausted,
}

#[derive(Debug)]
pub(crate) struct History {
    pub(crate) told: Vec<(Duration, Told)>,
    pub(crate) calls: Vec<Call>,
    pub(crate) attempts: Vec<Attempt>,
    /// Whether the last rung was always well.
    pub(crate) safe: bool,
    /// The active rung and the epoch, as the router explains them.
    pub(crate) explained: (usize, u64),
}

/// The rung of a model or provider: `p1/m` and `p1` are rung 1's.
fn rung_of(name: &str) -> usize {
    name.trim_start_matches('p')
        .trim_end_matches("/m")
        .parse()
        .unwrap()
}

fn rung(model: &ModelId) -> usize {
    let rung = rung_of(model.as_str());
    assert_eq!(*model, model_id(rung));
    rung
}

impl History {
    pub(crate) fn read(
        events: &[Event],
        origin: Instant,
        saw: &[Saw],
        safe: bool,
        explained: (usize, u64),
    ) -> Self {
        let mut history = Self {
            told: Vec::new(),
            calls: Vec::new(),
            attempts: Vec::new(),
            safe,
            explained,
        };
        let mut ids = HashMap::new();
        for event in events {
            let at = event.at.duration_since(origin);
            if let Some(told) = history.take(event, at, &mut ids, saw) {
                history.told.push((at, told));
            }
        }
        history
    }

    fn take(
        &mut self,
        event: &Event,
        at: Duration,
        ids: &mut HashMap<CallId, usize>,
        saw: &[Saw],
    ) -> Option<Told> {
        let call = event.call.and_then(|id| ids.get(&id).copied());
        Some(match &event.kind {
            EventKind::CallStarted { request_id, .. } => {
                let goes = Goes::of(request_id.as_deref().unwrap());
                let known = ids.insert(event.call.unwrap(), self.calls.len());
                assert_eq!(known, None, "a call begins once");
                self.calls.push(Call {
                    saw: saw[goes.nth],
                    goes,
                    began: at,
                    ends: Vec::new(),
                    attempts: Vec::new(),
                });
                Told::CallBegan(self.calls.len() - 1)
            }
            EventKind::CallEnded {
                outcome,
                meta,
                class,
                duration,
                trail,
                ..
            } => {
                self.calls[call?].ends.push(End {
                    outcome,
                    meta: meta.clone(),
                    class: *class,
                    duration: *duration,
                    trail: trail.clone(),
                });
                Told::CallEnded(call?)
            }
            EventKind::AttemptStarted {
                attempt,
                rung,
                model,
                kind,
                ..
            } => {
                assert_eq!(*model, model_id(*rung));
                let own = &mut self.calls[call?].attempts;
                assert_eq!(own.len(), *attempt, "indices count up");
                own.push(self.attempts.len());
                self.attempts.push(Attempt {
                    call: call?,
                    rung: *rung,
                    kind: *kind,
                    began: at,
                    ended: None,
                    outcome: "",
                    measured: None,
                });
                Told::AttemptBegan(self.attempts.len() - 1)
            }
            EventKind::AttemptEnded {
                attempt,
                first_token,
                outcome,
                ..
            } => {
                let index = self.calls[call?].attempts[*attempt];
                let streams = self.calls[call?].goes.streams;
                let ended = &mut self.attempts[index];
                assert_eq!(ended.ended, None, "an attempt ends once");
                ended.ended = Some(at);
                ended.outcome = outcome;
                let whole = (*outcome == "ok").then_some(at);
                let first = first_token.map(|after| ended.began + after);
                ended.measured = if streams { first } else { whole };
                Told::AttemptEnded(index)
            }
            EventKind::ModelSubstitution {
                from,
                to,
                epoch,
                reason,
                ..
            } => Told::Left(*from, *to, *epoch, *reason),
            EventKind::ModelRestoration {
                from,
                to,
                epoch,
                duration,
                ..
            } => Told::Restored(*from, *to, *epoch, *duration),
            EventKind::CanaryStarted { rung, share, .. } => Told::CanaryBegan(*rung, *share),
            EventKind::CanaryFailed { rung, interval, .. } => Told::CanaryFailed(*rung, *interval),
            EventKind::Probed { model, latency, .. } => Told::Probed(rung(model), *latency),
            EventKind::LatencyBreach { rung, .. } => Told::Breached(*rung),
            EventKind::HedgeStarted { from, budgeted, .. } => Told::Hedged(*from, *budgeted),
            EventKind::BreakerTransition { provider, to, .. } => {
                Told::Breaker(rung_of(provider), to)
            }
            EventKind::CooldownStarted { model, duration } => Told::Cools(rung(model), *duration),
            EventKind::HoldStarted { provider, .. } => Told::Held(rung_of(provider)),
            EventKind::RosterExhausted { .. } => Told::Exhausted,
            _ => return None,
        })
    }

    /// The active rung and the epoch after everything.
    pub(crate) fn active(&self) -> (usize, u64) {
        self.active_before(self.told.len())
    }

    /// The active rung and the epoch before the event at `place`.
    pub(crate) fn active_before(&self, place: usize) -> (usize, u64) {
        let moves = self.told[..place]
            .iter()
            .rev()
            .find_map(|(_, told)| match told {
                Told::Left(_, to, epoch, _) | Told::Restored(_, to, epoch, _) => {
                    Some((*to, *epoch))
                }
                _ => None,
            });
        moves.unwrap_or((0, 0))
    }

    /// When the evidence of a rung last started anew before `place`: at a move to or from it, at the
    /// beginning and at the failure of a canary. Zero if never.
    pub(crate) fn anew_before(&self, place: usize, rung: usize) -> Duration {
        let anew = self.told[..place]
            .iter()
            .rev()
            .find(|(_, told)| match told {
                Told::Left(from, to, ..) | Told::Restored(from, to, ..) => {
                    *from == rung || *to == rung
                }
                Told::CanaryBegan(r, _) | Told::CanaryFailed(r, _) => *r == rung,
                _ => false,
            });
        anew.map_or(Duration::ZERO, |(at, _)| *at)
    }

    /// Whether the rung was left for slowness before `place` and has not been restored, nor one above it.
    pub(crate) fn benched_before(&self, place: usize, rung: usize) -> bool {
        let last = self.told[..place]
            .iter()
            .rev()
            .find_map(|(_, told)| match told {
                Told::Left(from, ..) if *from == rung => Some(true),
                Told::Restored(_, to, ..) if *to <= rung => Some(false),
                _ => None,
            });
        last.unwrap_or(false)
    }

    /// The share of sessions that the rung takes as a canary before `place`.
    pub(crate) fn share_before(&self, place: usize, rung: usize) -> f64 {
        let last = self.told[..place]
            .iter()
            .rev()
            .find_map(|(_, told)| match told {
                Told::CanaryBegan(r, share) if *r == rung => Some(*share),
                Told::CanaryFailed(r, _) if *r == rung => Some(0.0),
                Told::Left(from, ..) if *from == rung => Some(0.0),
                Told::Restored(_, to, ..) if *to <= rung => Some(0.0),
                _ => None,
            });
        last.unwrap_or(0.0)
    }

    /// Whether anything can keep calls off the rung at `place`: a breaker that is not closed, a cooldown,
    /// a hold.
    pub(crate) fn may_refuse(&self, place: usize, rung: usize) -> bool {
        let now = self.told.get(place).map_or(Duration::MAX, |(at, _)| *at);
        let before = || self.told[..place].iter().rev();
        let breaker = before().find_map(|(_, told)| match told {
            Told::Breaker(r, to) if *r == rung => Some(*to != "closed"),
            _ => None,
        });
        let aside = before().any(|(at, told)| match told {
            // A later 429 may have lengthened it, unheard.
            Told::Cools(r, lasts) => {
                *r == rung && now <= *at + *lasts * 4 + Duration::from_secs(60)
            }
            Told::Held(r) => *r == rung,
            _ => false,
        });
        breaker.unwrap_or(false) || aside
    }

    /// What the attempts at a rung said of its latency, in order of time: those begun since `since` (if
    /// `strictly`, after it), of streams or of whole answers or of both.
    pub(crate) fn seen(
        &self,
        rung: usize,
        since: Duration,
        strictly: bool,
        streams: Option<bool>,
    ) -> Vec<Seen> {
        let mut seen: Vec<Seen> = self
            .attempts
            .iter()
            .filter(|a| a.rung == rung && (a.began > since || (a.began == since && !strictly)))
            .filter(|a| streams.is_none_or(|streams| self.calls[a.call].goes.streams == streams))
            .filter_map(Attempt::seen)
            .collect();
        // At one instant those over come first: the order in which a score ends lowest.
        seen.sort_by_key(|seen| (seen.at, !seen.over));
        seen
    }
}
