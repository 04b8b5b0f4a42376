//! The message that stands where others were cut.

use evenkeel_core::{Message, Role};

/// A message that says how many are missing. It is the user's, so that a history
/// whose beginning was cut still begins with the user, as Anthropic and Gemini ask;
/// every provider takes a user message behind any message but a tool's result.
pub(crate) fn marker(cut: usize) -> Message {
    let (messages, were) = match cut {
        1 => ("message", "was"),
        _ => ("messages", "were"),
    };
    Message::text(
        Role::User,
        format!(
            "[{cut} earlier {messages} of this conversation {were} cut to fit the context window.]"
        ),
    )
}
