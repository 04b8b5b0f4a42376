//! A share of a role's traffic, sent to a candidate after the answer went out.
//!
//! A shadow must not harm live traffic: it is sent only while the candidate is
//! healthy and has room, it takes no permit of a breaker and counts on none, it
//! feeds no window, no cooldown and no hold, and what it does not get it goes without.

use crate::attempt::{Upstream, ask, or_broken};
use crate::call::was_accepted;
use crate::drive::now;
use crate::health::ModelHealth;
use crate::role::Role;
use crate::tailor::{Place, Tailored};
use crate::throttle::{Booking, Draw};
use evenkeel_breaker::{Cooldown, State as BreakerState};
use evenkeel_core::{
    Accumulator, CallContext, CallId, ChatRequest, ChatResponse, Class, Cost, EventKind, Failure,
    Output, Phase, ProviderCall, ShadowAnswer, ShadowPair, SpentOn, StreamEvent, Usage,
};
use evenkeel_prompts::Mode;
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;

/// Where a role's shadows go.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) model: Arc<ModelHealth>,
    /// Share of the role's calls, 0..1.
    pub(crate) share: f64,
    /// Whether requests and answers may be kept.
    pub(crate) capture: bool,
    /// Shadows at a time.
    pub(crate) places: Arc<Semaphore>,
    /// After a shadow that was refused for its rate or for lack of capacity.
    pub(crate) rest: Cooldown,
    /// Ends the shadows under way.
    pub(crate) stop: CancellationToken,
}

/// What a call hands over when it has been answered.
pub(crate) struct Answered {
    pub(crate) call: CallId,
    pub(crate) role: Arc<Role>,
    pub(crate) request: Arc<ChatRequest>,
    pub(crate) variables: BTreeMap<String, String>,
    /// What its request draws of rate limits at the candidate.
    pub(crate) draw: Draw,
    /// Whether upstreams were asked for streams.
    pub(crate) streaming: bool,
    pub(crate) connect: Duration,
    pub(crate) live: ShadowAnswer,
}

/// A shadow that may be sent, with all that it holds meanwhile.
struct Shadow {
    candidate: Arc<Candidate>,
    answered: Answered,
    tailored: Tailored,
    booking: Option<Booking>,
    _places: [OwnedSemaphorePermit; 2],
}

/// What came of it.
#[derive(Default)]
struct Heard {
    answer: Option<ChatResponse>,
    failure: Option<Failure>,
    first_token: Option<Duration>,
    usage: Option<Usage>,
}

impl Candidate {
    /// Whether a call is to be shadowed that draws `point`, 0..1.
    pub(crate) fn takes(&self, point: f64) -> bool {
        point < self.share
    }

    /// Sends the call's shadow in the background, or lets it be.
    pub(crate) fn send(self: &Arc<Self>, answered: Answered, now: Instant) {
        let tasks = answered.role.around.tasks.clone();
        if let Some(shadow) = self.prepare(answered, now) {
            let stop = self.stop.clone();
            tasks.spawn(async move {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = shadow.run() => {}
                }
            });
        }
    }

    /// None where the candidate is not to be asked now.
    fn prepare(self: &Arc<Self>, answered: Answered, now: Instant) -> Option<Shadow> {
        let model = &self.model;
        if answered.live.model == model.id
            || self.rest.remaining(now).is_some()
            || !self.is_healthy(&answered, now)
        {
            return None;
        }
        // Half of the model's places are left to live calls.
        let most = model.config.max_concurrency;
        if model.capacity.available_permits().saturating_mul(2) <= most {
            return None;
        }
        let own = self.places.clone().try_acquire_owned().ok()?;
        let place = model.capacity.clone().try_acquire_owned().ok()?;
        let role = &answered.role;
        let at = Place {
            role: &role.name,
            model,
            mode: Mode::Full,
            core_only: false,
        };
        let tailored = role
            .tailoring
            .tailor(&answered.request, at, &answered.variables, None);
        let tailored = tailored.ok().filter(|tailored| !tailored.is_cut)?;
        let booking = model.throttle.admit(|| answered.draw, now).ok()?;
        Some(Shadow {
            candidate: self.clone(),
            answered,
            tailored,
            booking,
            _places: [own, place],
        })
    }

    fn is_healthy(&self, answered: &Answered, now: Instant) -> bool {
        let model = &self.model;
        let closed = |state| matches!(state, BreakerState::Closed | BreakerState::Disabled);
        model.refusal(now, answered.role.around.today()).is_none()
            && closed(model.breaker.state(now))
            && closed(model.provider.breaker.state(now))
    }
}

impl Shadow {
    /// Asks the candidate within the role's deadline, and tells of the pair.
    async fn run(self) {
        let began = now();
        let deadline = self.answered.role.policy.clocks.deadline;
        let until = tokio::time::Instant::from_std(began) + deadline;
        let mut heard = Heard::default();
        if timeout_at(until, self.listen(began, &mut heard))
            .await
            .is_err()
        {
            let message = "the shadow was not complete within the role's deadline";
            heard.failure = Some(Failure::timeout(Phase::Deadline, message));
        }
        self.tell(heard, began, now());
    }

    async fn listen(&self, began: Instant, heard: &mut Heard) {
        let model = &self.candidate.model;
        let call = ProviderCall {
            model: model.wire_name.clone(),
            request: self.tailored.request.clone(),
            connect: self.answered.connect,
            context: CallContext::default(),
        };
        let provider = model.provider.provider.clone();
        let mut events = ask(provider, call, self.answered.streaming);
        let mut sum = Accumulator::default();
        loop {
            match or_broken(events.next().await) {
                Upstream::Whole(answer) => return self.take(*answer, heard),
                Upstream::Validated(answer, _) => {
                    return self.take(Arc::unwrap_or_clone(answer), heard);
                }
                Upstream::Event(StreamEvent::End) => {
                    sum.push(&StreamEvent::End);
                    match sum.finish() {
                        Ok(answer) => self.take(answer, heard),
                        Err(failure) => heard.failure = Some(failure),
                    }
                    return;
                }
                Upstream::Event(event) => {
                    if event.is_content() && heard.first_token.is_none() {
                        heard.first_token = Some(now().saturating_duration_since(began));
                    }
                    match &event {
                        StreamEvent::Usage(usage) => heard.usage = Some(*usage),
                        StreamEvent::RateLimits(limits) => {
                            model.throttle.learn(self.booking.as_ref(), limits, now());
                        }
                        _ => {}
                    }
                    sum.push(&event);
                }
                Upstream::Failed(failure) => {
                    heard.failure = Some(failure);
                    return;
                }
            }
        }
    }

    fn take(&self, answer: ChatResponse, heard: &mut Heard) {
        if let Some(limits) = &answer.rate_limits {
            let throttle = &self.candidate.model.throttle;
            throttle.learn(self.booking.as_ref(), limits, now());
        }
        heard.usage = answer.usage;
        heard.answer = Some(answer);
    }

    fn tell(self, heard: Heard, began: Instant, now: Instant) {
        let model = &self.candidate.model;
        let (billed, is_estimate) = match (&heard.failure, heard.usage) {
            (None, Some(usage)) => (usage, false),
            (Some(failure), None) if !was_accepted(failure) => (Usage::default(), false),
            (_, usage) => (usage.unwrap_or_else(|| self.answered.draw.usage()), true),
        };
        if let Some(booking) = &self.booking {
            model.throttle.settle(booking, &billed, now);
        }
        if let Some(failure) = &heard.failure {
            if let Some(limits) = &failure.rate_limits {
                model.throttle.learn(self.booking.as_ref(), limits, now);
            }
            if matches!(failure.class, Class::RateLimited | Class::Overloaded) {
                self.candidate.rest.start(now, failure.retry_after);
            }
        }
        let cost = model.config.cost_usd(&billed).map(|usd| Cost {
            usd,
            is_estimate,
            spent_on: SpentOn::Shadow,
        });
        let (answer, is_valid) = match heard.answer {
            Some(answer) => self.judged(answer),
            None => (None, None),
        };
        let of = |answer: &Option<ChatResponse>| answer.as_ref().map(Size::of).unwrap_or_default();
        let Size {
            text_bytes,
            tool_calls,
        } = of(&answer);
        let shadow = ShadowAnswer {
            model: model.id.clone(),
            latency: now.saturating_duration_since(began),
            first_token: heard.first_token,
            usage: heard.usage,
            cost,
            finish: answer.as_ref().map(|answer| answer.finish),
            text_bytes,
            tool_calls,
            is_valid,
            failure: heard.failure.map(|failure| failure.class),
            content: answer.filter(|_| self.candidate.capture),
        };
        let Answered {
            call,
            role,
            request,
            live,
            ..
        } = self.answered;
        let pair = ShadowPair {
            role: role.name.clone(),
            live,
            shadow,
            request: self.candidate.capture.then_some(request),
        };
        let kind = EventKind::Shadowed(Arc::new(pair));
        role.around.tell(now, Some(call), kind);
    }

    /// The answer in the caller's terms, and whether it is what was asked for.
    fn judged(&self, answer: ChatResponse) -> (Option<ChatResponse>, Option<bool>) {
        let has_form = has_form(&self.answered.request);
        match self.tailored.read(answer.clone()) {
            Ok(read) => {
                let is_valid = has_form.then(|| read.verify().is_ok());
                (Some(read), is_valid)
            }
            Err(_) => (Some(answer), Some(false)),
        }
    }
}

/// Whether an answer to the request has a form that it can fail to have.
pub(crate) fn has_form(request: &ChatRequest) -> bool {
    request.output != Output::Text || !request.tools.is_empty()
}

/// How large an answer is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Size {
    pub(crate) text_bytes: usize,
    pub(crate) tool_calls: usize,
}

impl Size {
    pub(crate) fn of(answer: &ChatResponse) -> Self {
        Self {
            text_bytes: answer.plain_text().len(),
            tool_calls: answer.tool_calls().count(),
        }
    }
}
