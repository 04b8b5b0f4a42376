//! Which build of its model an attempt is answered from.

use super::Call;
use evenkeel_core::{EventKind, Extra};
use std::sync::Arc;
use std::time::Instant;

impl Call {
    /// What an attempt's answer says of the model that gives it: its name, empty where
    /// none is said, and the fields of its dialect.
    pub(crate) fn answered_by(&self, index: usize, model: &str, extra: &Extra, now: Instant) {
        let rung = &self.role.rungs[self.attempts[index].rung];
        let model_health = &rung.model;
        if let Some(word) = model_health.life.see(extra, &model_health.config) {
            self.tell(
                now,
                EventKind::ModelStatus {
                    model: model_health.id.clone(),
                    stage: word.stage.map(Arc::from),
                    last_day: word.last_day.map(|day| Arc::from(day.to_string())),
                },
            );
        }
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
