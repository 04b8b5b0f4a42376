//! What a format could not say as asked, in the same words for every format.
//!
//! One short line each, `what: what was done with it`. The first half is a
//! field of ours or a word of ours, never the caller's text.

use evenkeel_core::{Extra, Message, Role};

/// What a user's message says that says nothing, where the format takes no
/// empty ones and leaving it out would change whose turn it is.
pub(crate) const EMPTY_MESSAGE: &str = "(empty message)";

/// The lines of one request, each told once.
#[derive(Debug, Default)]
pub(crate) struct Adapted(Vec<String>);

/// Names under which a request's `extra` keeps the written form of something
/// that has a neutral place; the neutral value is what other formats write.
const WRITTEN_FORMS: [&str; 6] = [
    "response_format",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "generationConfig",
    "toolConfig",
];
/// Longest field name that is told.
const MAX_NAME: usize = 64;

impl Adapted {
    /// Adds `what: done`.
    pub(crate) fn note(&mut self, what: &str, done: &str) {
        let line = format!("{what}: {done}");
        if !self.0.contains(&line) {
            self.0.push(line);
        }
    }

    /// `what` has no place in the format.
    pub(crate) fn left_out(&mut self, what: &str) {
        self.note(what, "not known to this provider, left out");
    }

    /// `what` is outside of what the provider takes; the nearest was sent.
    pub(crate) fn clamped(&mut self, what: &str) {
        self.note(
            what,
            "outside of this provider's range, sent as its nearest",
        );
    }

    /// The fields of another format's request that this one cannot hold.
    pub(crate) fn foreign_fields(&mut self, extra: &Extra, own: &str) {
        if extra.dialect == own {
            return;
        }
        for name in extra.fields.keys() {
            if WRITTEN_FORMS.contains(&name.as_str()) {
                continue;
            }
            let plain = name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            if plain && name.len() <= MAX_NAME {
                self.left_out(name);
            } else {
                self.left_out("an unknown field");
            }
        }
    }

    /// This model, unlike others of the provider, refuses it.
    pub(crate) fn refused(&mut self, what: &str) {
        self.note(what, "not taken by this model, left out");
    }

    /// It was read from another wire format and means nothing in this one.
    pub(crate) fn foreign(&mut self, what: &str) {
        self.note(what, "of another wire format, left out");
    }

    /// Whether the user is asked to say something in the place of an empty
    /// message, which is then told: the last of `messages` is the user's, and
    /// the conversation as it is written ends with the model or is none.
    pub(crate) fn fills_end(&mut self, messages: &[Message], ends_with_model: bool) -> bool {
        let last = messages
            .iter()
            .rev()
            .find(|m| !matches!(m.role, Role::System | Role::Developer));
        let fills = ends_with_model
            && last.is_some_and(|last| matches!(last.role, Role::User | Role::Tool));
        if fills {
            self.note(what::EMPTY, done::FILLED);
        }
        fills
    }

    /// The lines.
    pub(crate) fn into_lines(self) -> Vec<String> {
        self.0
    }
}

/// What a line speaks of.
pub(crate) mod what {
    pub(crate) const CALL_ARGUMENTS: &str = "tool call arguments in the history";
    pub(crate) const CALL_ALONE: &str = "tool call without its result";
    pub(crate) const CALL_EXTRA: &str = "signature of a tool call";
    pub(crate) const CALL_IDS: &str = "tool call ids";
    pub(crate) const DEVELOPER: &str = "role developer";
    pub(crate) const EMPTY: &str = "empty message of the user";
    pub(crate) const EXTRA: &str = "fields without a neutral form";
    pub(crate) const IMAGE: &str = "image";
    pub(crate) const IMAGE_DETAIL: &str = "image detail";
    pub(crate) const MESSAGE_NAME: &str = "messages.name";
    pub(crate) const NUL: &str = "NUL characters";
    pub(crate) const PARALLEL: &str = "parallel_tool_calls";
    pub(crate) const PART: &str = "part without a neutral form";
    pub(crate) const REASONING: &str = "reasoning";
    pub(crate) const REASONING_SIGNATURE: &str = "signature of earlier reasoning";
    pub(crate) const REASONING_HISTORY: &str = "earlier reasoning";
    pub(crate) const REFUSAL: &str = "earlier refusal";
    pub(crate) const RESULT_ALONE: &str = "tool result without its call";
    pub(crate) const RESULT_ERROR: &str = "is_error of a tool result";
    pub(crate) const RESULT_IMAGE: &str = "image in a tool result";
    pub(crate) const SCHEMA_DESCRIPTION: &str = "schema description";
    pub(crate) const SERVER_TOOL: &str = "tool that a provider runs";
    pub(crate) const STOP: &str = "stop";
    pub(crate) const STRICT_TOOL: &str = "strict tool arguments";
    pub(crate) const SYSTEM: &str = "system message";
    pub(crate) const SYSTEM_IMAGE: &str = "image in a system message";
    pub(crate) const SYSTEM_LATER: &str = "system message in mid-conversation";
    pub(crate) const TOOL_CHOICE: &str = "tool_choice";
    pub(crate) const TOOL_NAMES: &str = "tool names";
    pub(crate) const USER: &str = "user";
}

/// What was done with it.
pub(crate) mod done {
    pub(crate) const AS_LEVEL: &str = "its budget sent as a level";
    pub(crate) const AS_SYSTEM: &str = "sent as system";
    pub(crate) const AS_TEXT: &str = "sent as text";
    pub(crate) const BESIDE: &str = "sent beside it";
    pub(crate) const ERROR_INSTEAD: &str = "an error was put in its place";
    pub(crate) const INSIDE_OBJECT: &str = "no JSON object, sent as text inside one";
    pub(crate) const JOINED: &str = "joined with the others into one";
    pub(crate) const LOWERED: &str = "lowered to the provider's highest";
    pub(crate) const MOVED_BEHIND: &str = "moved into a user message behind it";
    pub(crate) const MOVED_TO_START: &str = "moved to the system prompt";
    pub(crate) const NOT_BASE64: &str = "its data is not in base64, left out";
    pub(crate) const FILLED: &str = "refused by this provider, sent as a placeholder";
    pub(crate) const PLACEHOLDER: &str = "none of this provider's, the documented placeholder sent";
    pub(crate) const ROUNDED: &str = "numbers of more than 17 digits rounded";
    pub(crate) const AS_USER: &str = "there is nothing else, sent as the user's";
    pub(crate) const REPLACED: &str = "replaced";
    pub(crate) const RENAMED: &str = "sent as the provider allows them";
    pub(crate) const SAID_IN_TEXT: &str = "said in its text";
    pub(crate) const TOO_MANY: &str = "more than the provider takes, the last left out";
    pub(crate) const WITHOUT_TOOLS: &str = "there are no tools, left out";
    pub(crate) const WITHOUT_TOOLS_INSTEAD: &str = "sent without tools, so that none is called";
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_is_told_once_and_never_holds_the_callers_text() {
        let mut adapted = Adapted::default();
        adapted.left_out("seed");
        adapted.left_out("seed");
        let serde_json::Value::Object(fields) =
            json!({"logit_bias": {}, "my secret: do not tell": 1, "max_tokens": 5})
        else {
            panic!("an object")
        };
        let extra = Extra {
            dialect: "openai",
            fields,
        };
        adapted.foreign_fields(&extra, "gemini");
        adapted.foreign_fields(&extra, "openai");
        assert_eq!(
            adapted.into_lines(),
            [
                "seed: not known to this provider, left out",
                "logit_bias: not known to this provider, left out",
                "an unknown field: not known to this provider, left out",
            ]
        );
    }
}
