//! What a call carries of the answers it builds on, and what it hands on.

use super::Call;
use evenkeel_core::{CallContext, DegradationContext, Meta};

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
}
