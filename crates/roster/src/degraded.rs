//! What a role makes of answers that are less than they should be.

use std::time::Duration;

use crate::faults::Faults;

/// What a role does when it builds on degraded answers (`on_degraded_input`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnDegradedInput {
    /// `proceed`: it answers as ever.
    #[default]
    Proceed,
    /// `wait`: it waits for its own primary, so that not everything is degraded,
    /// and then answers as ever.
    Wait,
    /// `refuse`: it gives an error, and nobody is asked.
    Refuse,
}

/// Where a role's notice goes (`notice_in`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NoticeIn {
    /// `meta`: beside the answer, in its meta data alone.
    #[default]
    Meta,
    /// `text`: there, and behind answers of plain text as their last paragraph.
    /// What begins as JSON or a code block, calls a tool or refuses is none.
    Text,
}

/// What a role makes of degradation (`on_degraded_input` and its neighbours).
#[derive(Debug, Clone, PartialEq)]
pub struct DegradedPolicy {
    /// `on_degraded_input`.
    pub on_input: OnDegradedInput,
    /// `degraded_wait_ms`: how long to wait for the primary at most.
    pub wait: Duration,
    /// `degraded_below`: input is degraded where one of the answers it rests on was
    /// not its primary's and the least of their capability scores is below this, 0 to 1.
    pub below: f64,
    /// `notice`: what is told of a degraded answer; empty: nothing.
    pub notice: String,
    /// `notice_in`.
    pub notice_in: NoticeIn,
}

impl Default for DegradedPolicy {
    fn default() -> Self {
        Self {
            on_input: OnDegradedInput::Proceed,
            wait: Duration::from_secs(30),
            below: 1.0,
            notice: String::new(),
            notice_in: NoticeIn::Meta,
        }
    }
}

impl DegradedPolicy {
    /// The notice of an answer by `rung`, if there is one.
    pub fn notice_of(&self, rung: usize) -> Option<String> {
        (rung > 0 && !self.notice.is_empty()).then(|| self.notice.clone())
    }

    pub(crate) fn faults(&self, faults: &mut Faults) {
        faults.not_longer("degraded_wait_ms", self.wait);
        faults.share("degraded_below", self.below);
    }
}
