//! How much of an answer has come.

use evenkeel_core::{Delta, StreamEvent};

/// Bytes of text that stand for a token: English prose at OpenAI's tokenizers has
/// some four characters a token (their own rule of thumb).
const BYTES_PER_TOKEN: u64 = 4;

/// An amount of content, in tokens by estimate: providers that stream a token an
/// event are counted by events, those that stream whole sentences by their text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    events: u64,
    bytes: u64,
}

impl Amount {
    /// Adds an event if it is content.
    pub(crate) fn add(&mut self, event: &StreamEvent) {
        if event.is_content() {
            self.events += 1;
            self.bytes += text_bytes(event) as u64;
        }
    }

    /// Tokens: one for each event or for four bytes of text, whichever is more.
    pub(crate) fn tokens(self) -> u64 {
        self.events.max(self.bytes.div_ceil(BYTES_PER_TOKEN))
    }
}

/// Bytes of text that a piece of content holds.
pub(crate) fn text_bytes(event: &StreamEvent) -> usize {
    let StreamEvent::Delta(delta) = event else {
        return 0;
    };
    match delta {
        Delta::Text(text) | Delta::Refusal(text) => text.len(),
        Delta::Reasoning(piece) => piece.text.len(),
        Delta::ToolCallStart { name, .. } => name.len(),
        Delta::ToolCallArguments { fragment, .. } => fragment.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(pieces: &[&str]) -> u64 {
        let mut amount = Amount::default();
        for piece in pieces {
            amount.add(&StreamEvent::Delta(Delta::Text((*piece).to_owned())));
            amount.add(&StreamEvent::KeepAlive);
        }
        amount.tokens()
    }

    #[test]
    fn short_pieces_count_by_number_and_long_ones_by_their_text() {
        assert_eq!(tokens(&[]), 0);
        assert_eq!(tokens(&["a", "b", "", "c"]), 3);
        assert_eq!(tokens(&["a sentence of some thirty-two by"]), 8);
        assert_eq!(tokens(&["a", "a sentence of thirty-one bytes."]), 8);
    }
}
