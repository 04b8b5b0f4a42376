//! How much a stream may bring.

/// Default of [`StreamLimits::max_answer_bytes`]: some eight million tokens of
/// English text, sixty times the longest output of any model known in 2026.
pub const DEFAULT_MAX_ANSWER_BYTES: usize = 32 * 1024 * 1024;
/// Default of [`StreamLimits::max_event_bytes`]: room for an inline image.
pub const DEFAULT_MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// How much a stream may bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// Largest single event, bytes.
    pub max_event_bytes: usize,
    /// Largest sum of all content (text, reasoning, arguments), bytes.
    pub max_answer_bytes: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            max_event_bytes: DEFAULT_MAX_EVENT_BYTES,
            max_answer_bytes: DEFAULT_MAX_ANSWER_BYTES,
        }
    }
}
