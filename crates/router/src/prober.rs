//! The prober: small real completions that tell whether a model that was left
//! has recovered. One for all roles; it sleeps while no role is off its rung.

use crate::call::{Unit, was_accepted};
use crate::drive::now;
use crate::health::ModelHealth;
use crate::role::Role;
use crate::rung::{Measure, limits, locked};
use crate::surroundings::Surroundings;
use crate::throttle::Draw;
use evenkeel_breaker::State as BreakerState;
use evenkeel_core::{
    CallContext, ChatRequest, Class, Cost, EventKind, Failure, Phase, ProbeVerdict, ProviderCall,
    SpentOn, StreamEvent, Usage,
};
use evenkeel_roster::ModelConfig;
use futures_util::StreamExt;
use jiff::civil::Date;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

/// What a probe asks.
const PROBE_TEXT: &str = "Respond with OK.";
/// Input tokens a probe is billed for, roughly.
const PROBE_INPUT_TOKENS: u64 = 12;
/// Jitter on the probe interval: 0 to +10%, so that processes do not probe in step.
const INTERVAL_JITTER: f64 = 0.1;
/// Longest wait of a provider that a probe heeds: it costs little to look again.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// A role that waits for a rung to recover.
#[derive(Clone)]
struct Waiting {
    role: Arc<Role>,
    rung: usize,
}

impl Waiting {
    /// What the role goes by of a probe, and its limit on that.
    fn judged_by(&self, latencies: Option<Latencies>) -> (Option<Duration>, Duration) {
        let measure = self.role.probe_measure(self.rung);
        let (t95, _) = limits(&self.role.policy, measure);
        let latency = latencies.and_then(|l| match measure {
            Measure::Total => l.total,
            Measure::FirstToken => Some(l.first_token),
        });
        (latency, t95)
    }

    /// What the role makes of a probe, to be told.
    fn verdict(&self, outcome: &Result<Latencies, Failure>) -> ProbeVerdict {
        let (latency, t95) = self.judged_by(outcome.as_ref().ok().copied());
        let is_error = outcome
            .as_ref()
            .is_err_and(|failure| failure.class != Class::Timeout);
        let result = match latency {
            Some(latency) if latency <= t95 => "ok",
            None if is_error => "error",
            _ => "slow",
        };
        ProbeVerdict {
            role: self.role.name.clone(),
            task: self.role.task.clone(),
            result,
        }
    }
}

/// What is known of one model's probes; goes with the model from one
/// configuration to the next.
#[derive(Debug)]
pub(crate) struct ProbeBook {
    /// When the next probe is due; none while no role waits.
    due: Option<Instant>,
    day: Date,
    spent_usd: f64,
}

impl Default for ProbeBook {
    fn default() -> Self {
        Self {
            due: None,
            day: Date::ZERO,
            spent_usd: 0.0,
        }
    }
}

/// What a probe measured.
struct Measured {
    model: usize,
    began: Instant,
    outcome: Result<Latencies, Failure>,
}

#[derive(Clone, Copy)]
struct Latencies {
    first_token: Duration,
    /// None where the first token came in time and the rest did not.
    total: Option<Duration>,
    /// Tokens, where reported.
    usage: Option<Usage>,
}

pub(crate) struct Prober {
    around: Surroundings,
    unit: Unit,
    roles: Vec<Arc<Role>>,
    /// Each model with the roles that have it, by rung.
    models: Vec<(Arc<ModelHealth>, Vec<Waiting>)>,
    /// Whether a probe of each model runs.
    asked: Vec<bool>,
    running: JoinSet<Measured>,
    /// The model and start of each probe that runs.
    tasks: HashMap<tokio::task::Id, (usize, Instant)>,
}

impl Prober {
    pub(crate) fn new(roles: Vec<Arc<Role>>, around: Surroundings, unit: Unit) -> Self {
        let mut models: BTreeMap<_, (Arc<ModelHealth>, Vec<Waiting>)> = BTreeMap::new();
        for role in &roles {
            for (rung, place) in role.rungs.iter().enumerate() {
                let entry = models
                    .entry(place.model.id.clone())
                    .or_insert_with(|| (place.model.clone(), Vec::new()));
                entry.1.push(Waiting {
                    role: role.clone(),
                    rung,
                });
            }
        }
        let models: Vec<_> = models.into_values().collect();
        Self {
            asked: vec![false; models.len()],
            around,
            unit,
            roles,
            models,
            running: JoinSet::new(),
            tasks: HashMap::new(),
        }
    }

    /// Probes until `stop`. The router's task tracker awaits it.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let wake = self.around.wake_prober.clone();
        loop {
            let next = self.turn(now());
            let sleep = async {
                match next {
                    Some(at) => sleep_until(tokio::time::Instant::from_std(at)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => {
                    // A bell that this one has taken is the next one's.
                    wake.notify_one();
                    return;
                }
                () = wake.notified() => {}
                Some(joined) = self.running.join_next_with_id() => match joined {
                    Ok((id, measured)) => {
                        self.tasks.remove(&id);
                        self.heard(measured, now());
                    }
                    // A provider that panicked: as a probe without an answer.
                    Err(error) => if let Some((model, began)) = self.tasks.remove(&error.id()) {
                        let failure = Failure::new(Class::Transient, "the probe panicked");
                        self.heard(Measured { model, began, outcome: Err(failure) }, now());
                    }
                },
                () = sleep => {}
            }
        }
    }

    /// Ends canary stages that are due, starts probes that are due; says when
    /// to look again.
    fn turn(&mut self, now: Instant) -> Option<Instant> {
        let ticks: Vec<_> = self.roles.iter().filter_map(|r| r.tick(now)).collect();
        let mut next = ticks.into_iter().min();
        for model in 0..self.models.len() {
            let due = self.turn_model(model, now);
            next = match (next, due) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        next
    }

    fn turn_model(&mut self, index: usize, now: Instant) -> Option<Instant> {
        let waiting = self.waiting(index);
        if waiting.is_empty() {
            self.book(index).due = None;
            return None;
        }
        if self.asked[index] {
            return None; // its end wakes the loop
        }
        let planned = self.book(index).due;
        let due = match planned {
            Some(due) => due,
            None => self.plan(index, &waiting, now),
        };
        if due > now {
            return Some(due);
        }
        if self.may_probe(index, now) {
            self.probe(index, &waiting, now);
            None
        } else {
            Some(self.plan(index, &waiting, now))
        }
    }

    /// The roles below the model that wait for probes of it.
    fn waiting(&self, index: usize) -> Vec<Waiting> {
        let all = self.models[index].1.iter();
        all.filter(|w| {
            w.rung < w.role.word.load().rung
                && w.role.rungs[w.rung].recovery.probes_wanted()
                && !w.role.pin.is_set()
        })
        .cloned()
        .collect()
    }

    /// Plans the next probe: the shortest interval of the waiting roles, with jitter.
    fn plan(&self, index: usize, waiting: &[Waiting], now: Instant) -> Instant {
        let intervals = waiting
            .iter()
            .map(|w| w.role.rungs[w.rung].recovery.interval(now));
        let interval = intervals.min().unwrap_or(Duration::from_secs(30));
        let jitter = interval.mul_f64(INTERVAL_JITTER * (self.unit.0)());
        let due = now
            .checked_add(interval.saturating_add(jitter))
            .unwrap_or_else(|| now + Duration::from_secs(86_400));
        self.book(index).due = Some(due);
        due
    }

    /// The next probe comes no sooner than the provider wants to be asked again.
    fn wait_at_least(&self, index: usize, wait: Duration, now: Instant) {
        let mut book = self.book(index);
        let again = now.checked_add(wait.min(LONGEST_WAIT));
        book.due = book.due.max(again);
    }

    fn book(&self, index: usize) -> MutexGuard<'_, ProbeBook> {
        locked(&self.models[index].0.probes)
    }

    /// A model that is held, retired, taken away by a drill, refused by its breaker or over its daily
    /// spend is not probed.
    fn may_probe(&self, index: usize, now: Instant) -> bool {
        let today = self.around.today();
        let model = &self.models[index].0;
        let open = |state| matches!(state, BreakerState::Open | BreakerState::ForcedOpen);
        if model.config.is_past_eol(today)
            || model.drill.current(now).is_some()
            || model.hold.remaining(now).is_some()
            || model.provider.hold.remaining(now).is_some()
            || open(model.breaker.state(now))
            || open(model.provider.breaker.state(now))
        {
            return false;
        }
        let most = most_of_probe(&model.config);
        let draw = || Draw {
            input: most.input,
            output: most.output,
        };
        let mut book = self.book(index);
        if book.day != today {
            book.day = today;
            book.spent_usd = 0.0;
        }
        let config = &model.config;
        // Without prices no cap can hold.
        let cost = config.cost_usd(&most).unwrap_or(0.0);
        if book.spent_usd + cost > config.probe_usd_per_day {
            return false;
        }
        // Live calls come first where a rate limit is near.
        if model.throttle.admit(draw, now).is_err() {
            return false;
        }
        book.spent_usd += cost;
        true
    }

    fn probe(&mut self, index: usize, waiting: &[Waiting], began: Instant) {
        self.plan(index, waiting, began);
        self.asked[index] = true;
        let model = self.models[index].0.clone();
        let watched = || {
            waiting
                .iter()
                .map(|w| (&w.role, w.role.probe_measure(w.rung)))
        };
        let limit = watched().map(|(role, m)| limits(&role.policy, m).0).max();
        let limit = limit.unwrap_or(Duration::ZERO);
        let streamed = watched().any(|(_, m)| m == Measure::FirstToken);
        let connect = waiting.iter().map(|w| w.role.policy.clocks.connect).max();
        let call = probe_call(&model, connect.unwrap_or(limit));
        let task = self.running.spawn(async move {
            let until = tokio::time::Instant::from_std(began) + limit;
            let outcome = ask(&model, call, streamed, began, until).await;
            Measured {
                model: index,
                began,
                outcome,
            }
        });
        self.tasks.insert(task.id(), (index, began));
    }

    fn heard(&mut self, measured: Measured, now: Instant) {
        self.asked[measured.model] = false;
        let (model, roles) = &self.models[measured.model];
        let waiting = self.waiting(measured.model);
        let verdicts = waiting.iter().map(|w| w.verdict(&measured.outcome));
        self.around.tell(
            now,
            None,
            EventKind::Probed {
                model: model.id.clone(),
                duration: now.saturating_duration_since(measured.began),
                latency: measured
                    .outcome
                    .as_ref()
                    .ok()
                    .map(|l| l.total.unwrap_or(l.first_token)),
                class: measured.outcome.as_ref().err().map(|f| f.class),
                cost: probe_cost(&model.config, &measured.outcome),
                booked_on: roles[0].role.name.clone(),
                verdicts: verdicts.collect(),
            },
        );
        if let Err(failure) = &measured.outcome {
            if let Some(wait) = failure.retry_after {
                self.wait_at_least(measured.model, wait, now);
            }
            // A probe takes no permit; what it learns of quota, credential or
            // absence keeps calls away all the same.
            let aside = (failure.class != Class::RateLimited)
                .then(|| model.set_aside(failure, now))
                .flatten();
            if let Some(aside) = aside {
                self.around
                    .tell(now, None, aside.event(model, failure.class));
            }
        }
        let latencies = measured.outcome.ok();
        for waiting in waiting {
            let (latency, t95) = waiting.judged_by(latencies);
            let Waiting { role, rung } = waiting;
            let step = role.rungs[rung].probed(measured.began, latency, t95, now);
            role.take(rung, step, now);
        }
    }
}

/// Tokens of a probe that says as much as it may.
fn most_of_probe(config: &ModelConfig) -> Usage {
    Usage {
        input: PROBE_INPUT_TOKENS,
        output: config.probe_max_tokens,
        ..Usage::default()
    }
}

/// What a probe cost: nothing where the provider refused it.
fn probe_cost(config: &ModelConfig, outcome: &Result<Latencies, Failure>) -> Option<Cost> {
    let (usage, is_estimate) = match outcome {
        Ok(Latencies { usage: Some(u), .. }) => (*u, false),
        Err(failure) if !was_accepted(failure) => (Usage::default(), false),
        _ => (most_of_probe(config), true),
    };
    Some(Cost {
        usd: config.cost_usd(&usage)?,
        is_estimate,
        spent_on: SpentOn::Probe,
    })
}

fn probe_call(model: &ModelHealth, connect: Duration) -> ProviderCall {
    ProviderCall {
        model: model.wire_name.clone(),
        request: Arc::new(ChatRequest {
            max_output_tokens: Some(model.config.probe_max_tokens),
            ..ChatRequest::user(PROBE_TEXT)
        }),
        connect,
        context: CallContext::default(),
    }
}

/// Whether a failed probe was answered all the same: a model that finds fault
/// with the probe itself (a reasoning model whose thinking used the tokens up)
/// is there. How it serves is for the canary to see.
fn is_answer(failure: &Failure) -> bool {
    failure.class == Class::BadRequest
}

async fn ask(
    model: &ModelHealth,
    call: ProviderCall,
    streamed: bool,
    began: Instant,
    until: tokio::time::Instant,
) -> Result<Latencies, Failure> {
    let provider = &model.provider.provider;
    let since = || now().saturating_duration_since(began);
    let whole = |usage| {
        let total = since();
        Ok(Latencies {
            first_token: total,
            total: Some(total),
            usage,
        })
    };
    if !streamed {
        return match timeout_at(until, provider.complete(call)).await {
            Err(_) => Err(too_slow()),
            Ok(Err(failure)) if !is_answer(&failure) => Err(failure),
            Ok(answer) => whole(answer.ok().and_then(|a| a.usage)),
        };
    }
    let mut events = match timeout_at(until, provider.stream(call)).await {
        Err(_) => return Err(too_slow()),
        Ok(Err(failure)) if is_answer(&failure) => return whole(None),
        Ok(opened) => opened?,
    };
    let mut first_token = None;
    let mut usage = None;
    loop {
        // Once its first token has come, the probe has told what a role that
        // watches first tokens asks; the rest may run out of time.
        let event = match (timeout_at(until, events.next()).await, first_token) {
            (Ok(event), _) => event.ok_or_else(broken_off)??,
            (Err(_), Some(first_token)) => {
                return Ok(Latencies {
                    first_token,
                    total: None,
                    usage: None,
                });
            }
            (Err(_), None) => return Err(too_slow()),
        };
        if event.is_content() && first_token.is_none() {
            first_token = Some(since());
        }
        if let StreamEvent::Usage(reported) = event {
            usage = Some(reported);
        }
        if event == StreamEvent::End {
            let total = since();
            return Ok(Latencies {
                first_token: first_token.unwrap_or(total),
                total: Some(total),
                usage,
            });
        }
    }
}

fn broken_off() -> Failure {
    Failure::new(Class::Transient, "the probe's stream was broken off")
}

fn too_slow() -> Failure {
    Failure::timeout(
        Phase::Deadline,
        "the probe took longer than the role's p95 limit",
    )
}
