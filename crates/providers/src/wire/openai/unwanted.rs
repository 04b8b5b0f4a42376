//! What a server refuses of that which a caller did not say so.

use evenkeel_core::{Class, Failure};
use serde_json::Value;

/// The newer name of the cap on output tokens.
pub(super) const NEW_CAP: &str = "max_completion_tokens";
/// The older one.
pub(super) const OLD_CAP: &str = "max_tokens";
/// What asks a stream for its usage.
pub(super) const STREAM_OPTIONS: &str = "stream_options";

/// Fields that this side writes by itself, or chooses the name of, and that a
/// model has refused: it is not sent them again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unwanted {
    /// `stream_options`: its streams report no usage then.
    pub stream_options: bool,
    /// `max_completion_tokens`: the cap goes into `max_tokens`.
    pub new_cap: bool,
    /// `max_tokens`: the cap goes into `max_completion_tokens`.
    pub old_cap: bool,
}

impl Unwanted {
    /// What is unwanted now that `refusal` has answered `body`. None where the
    /// refusal is about something else, or where there is no other way to say it.
    pub fn learned(self, refusal: &Failure, body: &Value) -> Option<Self> {
        if refusal.class != Class::BadRequest || !refusal.capability_gap {
            return None;
        }
        let refuses = |field: &str| body.get(field).is_some() && names(refusal, field);
        let mut learned = self;
        learned.stream_options |= refuses(STREAM_OPTIONS);
        learned.new_cap |= refuses(NEW_CAP) && !self.old_cap;
        learned.old_cap |= refuses(OLD_CAP) && !self.new_cap;
        (learned != self).then_some(learned)
    }

    /// The name of the cap, where it is the newer one by itself or is not.
    pub(super) const fn cap(self, new: bool) -> &'static str {
        if (new && !self.new_cap) || self.old_cap {
            NEW_CAP
        } else {
            OLD_CAP
        }
    }
}

/// Whether the refusal is about `field`: by its parameter, else by its words.
fn names(refusal: &Failure, field: &str) -> bool {
    match &refusal.param {
        Some(param) => param.split(['.', '[', ']']).any(|step| step == field),
        None => refusal
            .message
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .any(|word| word == field),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refusal(param: Option<&str>, message: &str) -> Failure {
        let mut failure = Failure::new(Class::BadRequest, message);
        failure.capability_gap = true;
        failure.param = param.map(Box::from);
        failure
    }

    #[test]
    fn a_field_of_our_own_is_unwanted_once_it_is_refused() {
        let body = json!({"stream_options": {"include_usage": true}, "max_tokens": 5});
        let nothing = Unwanted::default();
        for refused in [
            refusal(Some("stream_options"), "no"),
            refusal(Some("stream_options.include_usage"), "no"),
            refusal(None, "Unknown field: stream_options"),
        ] {
            let learned = nothing.learned(&refused, &body).unwrap();
            assert!(learned.stream_options && !learned.old_cap && !learned.new_cap);
            assert_eq!(learned.learned(&refused, &body), None, "learned already");
        }
    }

    #[test]
    fn the_cap_changes_its_name_once_and_not_back() {
        let nothing = Unwanted::default();
        let old = refusal(
            Some("max_tokens"),
            "Unsupported parameter: use 'max_completion_tokens' instead",
        );
        let learned = nothing.learned(&old, &json!({"max_tokens": 5})).unwrap();
        assert_eq!((learned.cap(false), learned.cap(true)), (NEW_CAP, NEW_CAP));
        let new = refusal(None, "max_completion_tokens is not supported");
        assert_eq!(
            learned.learned(&new, &json!({"max_completion_tokens": 5})),
            None
        );
    }

    #[test]
    fn what_the_caller_said_and_what_is_only_mentioned_is_not_ours() {
        let body = json!({"max_tokens": 5, "temperature": 2.0});
        let nothing = Unwanted::default();
        for other in [
            refusal(Some("temperature"), "max_tokens is not supported here"),
            refusal(None, "max_tokens_per_day is not supported"),
            refusal(Some("stream_options"), "not sent"),
        ] {
            assert_eq!(nothing.learned(&other, &body), None, "{other}");
        }
        let mut too_large = refusal(Some("max_tokens"), "max_tokens is too large: 200000");
        too_large.capability_gap = false;
        assert_eq!(nothing.learned(&too_large, &body), None);
    }
}
