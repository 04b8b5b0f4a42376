//! Which build of its model an attempt is answered from.

use super::Call;
use evenkeel_core::{EventKind, Extra};
use std::time::Instant;

impl Call {
    /// What an attempt's answer says of the model that gives it: its name, empty where
    /// none is said, and the fields of its dialect.
    pub(crate) fn answered_by(&self, index: usize, model: &str, extra: &Extra, now: Instant) {
        let rung = &self.role.rungs[self.attempts[index].rung];
        let Some(watch) = &rung.drift else { return };
        if let Some(reported) = watch.see(model, extra) {
            self.tell(
                now,
                EventKind::ModelDrift {
                    role: self.role.name.clone(),
                    model: rung.model.id.clone(),
                    reported,
                    expected: watch.expected(),
                },
            );
        }
    }
}
