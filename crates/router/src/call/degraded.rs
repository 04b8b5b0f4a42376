//! What a call carries of the answers it builds on, what the role makes of it,
//! and what it hands on.

use super::Call;
use crate::error::CallErrorKind;
use crate::rung::limits;
use evenkeel_core::{CallContext, DegradationContext, Meta, Refusal, TrailStep};
use evenkeel_roster::OnDegradedInput;
use std::time::{Duration, Instant};

/// A call that waits for the primary looks again at least this often: that a
/// canary begins to take sessions is told to nobody.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A wait for the role's primary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Awaited {
    since: Instant,
    until: Instant,
    /// Its step of the trail.
    step: usize,
}

/// The context as the call goes by it. The workflow run is the one that the
/// caller names, else the one that its degradation context tells of.
pub(super) fn settled(mut context: CallContext) -> CallContext {
    match &context.workflow {
        Some(workflow) => context.degradation.set_workflow(workflow.clone()),
        None => context.workflow = context.degradation.workflow().cloned(),
    }
    context
}

impl Call {
    /// What the caller hands on with an answer that says `meta` of itself.
    pub(crate) fn degradation(&self, meta: &Meta) -> DegradationContext {
        let mut context = self.context.degradation.clone();
        if meta.degraded {
            let now = self.role.around.clock.now();
            context.update(&self.role.name, meta, now);
        }
        context
    }

    /// Whether the call is refused for what it builds on, or waits for the
    /// role's primary first.
    pub(super) fn is_held_back(&mut self, now: Instant) -> bool {
        let input = &self.context.degradation;
        let policy = &self.role.policy.degraded;
        if !input.is_degraded() || input.min_capability_score() >= policy.below {
            return false;
        }
        match policy.on_input {
            OnDegradedInput::Proceed => false,
            OnDegradedInput::Refuse => {
                let kind = CallErrorKind::DegradedInput {
                    agents: input.degraded_agents().map(str::to_owned).collect(),
                    min_capability_score: input.min_capability_score(),
                    below: policy.below,
                };
                self.fail(kind, now);
                true
            }
            OnDegradedInput::Wait => self.wait_for_primary(policy.wait, now),
        }
    }

    /// Begins to wait for the primary, where it is not usable and may become so
    /// in time. At least T95 of the deadline is left for the answer.
    fn wait_for_primary(&mut self, most: Duration, now: Instant) -> bool {
        let (t95, _) = limits(&self.role.policy, self.measure);
        let left = self.deadline.saturating_duration_since(now);
        let room = most.min(left.saturating_sub(t95));
        let hopeless = self
            .refusal(0, now)
            .is_some_and(|refusal| refusal.retry_in().is_none_or(|wait| wait >= room));
        if room.is_zero() || hopeless || self.is_primary_usable(now) {
            return false;
        }
        self.awaited = Some(Awaited {
            since: now,
            until: now + room,
            step: self.trail.steps.len(),
        });
        self.trail.steps.push(TrailStep::Waited {
            rung: 0,
            wait: room,
            reason: "degraded_input",
            at: self.since(now),
        });
        true
    }

    /// Whether the call would go to the role's primary, and that takes it.
    pub(super) fn is_primary_usable(&self, now: Instant) -> bool {
        let word = self.role.word.load();
        self.role.assigned(word, &self.session, now, self.today) == 0
            && self.refusal(0, now).is_none()
    }

    /// Ends a wait for the primary that is over: it is usable, or the time is up.
    pub(super) fn look_for_primary(&mut self, now: Instant) {
        let Some(awaited) = self.awaited else {
            return;
        };
        if now < awaited.until && !self.is_primary_usable(now) {
            return;
        }
        self.awaited = None;
        if let Some(TrailStep::Waited { wait, .. }) = self.trail.steps.get_mut(awaited.step) {
            *wait = now.saturating_duration_since(awaited.since);
        }
        self.ask_first(now);
    }

    /// When a wait for the primary is to be looked at again.
    pub(super) fn primary_due(&self, now: Instant) -> Option<Instant> {
        let awaited = self.awaited?;
        let refusal = self.refusal(0, now).and_then(Refusal::retry_in);
        let again = refusal.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN);
        let again = again.max(Duration::from_millis(1));
        Some(awaited.until.min(now + again))
    }
}
