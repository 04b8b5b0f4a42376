//! The estimate of tokens, for models whose tokenizer is not at hand.
//!
//! It errs on the high side: a byte has a weight by its kind, such that no kind of
//! text measured comes out below `cl100k_base`, which knows few scripts, with digits
//! as for the tokenizers that split numbers into them. Measured on
//! `fixtures/prompts/samples`, that is times the count of `cl100k_base` and
//! `o200k_base`: English prose 1.6 and 1.6, code 1.7 and 1.6, JSON and base64 1.2 and
//! 1.3, Chinese 1.3 and 1.8, Russian 2.4 and 3.3, Hindi 1.3 and 4.

use crate::{ChatRequest, Extra, Message, Output, Part, Tool};

/// Weights are in twelfths of a token.
const TOKEN: u64 = 12;
/// Tokens a message costs beside its content: role and separators. OpenAI's
/// cookbook states 3 and 1 for a name, others' chat templates need up to 4.
const PER_MESSAGE: u64 = 4;
/// Tokens around a tool's name, description and schema.
const PER_TOOL: u64 = 12;
/// Tokens around a call or a result: its id and the markers of its beginning and end.
const PER_CALL: u64 = 12;
/// Tokens that a request with tools costs at all: the largest tool-use system
/// prompt that Anthropic's documentation states (346), rounded up.
const FOR_TOOLS: u64 = 350;
/// Tokens that begin the answer.
const FOR_ANSWER: u64 = 3;
/// Tokens of an image: Anthropic states about 1,600 for the largest it does not
/// scale down; OpenAI's 2048-pixel images cost up to 1,105, Google's tiles 258 each.
const PER_IMAGE: u64 = 1_600;

/// The weight of each byte. The first byte of a character stands for the whole of it.
const WEIGHT: [u64; 256] = weights();

const fn weights() -> [u64; 256] {
    let mut weights = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        weights[byte] = match byte {
            // Words and the spaces between them: three bytes a token.
            0x20 | 0x61..=0x7A => TOKEN / 3,
            // Some tokenizers give each digit a token; capitals begin one.
            0x30..=0x39 | 0x41..=0x5A => TOKEN,
            // Signs and line ends, which often come in clusters of one token.
            0x00..=0x7F => TOKEN * 2 / 3,
            // The rest of a character.
            0x80..=0xBF => 0,
            // Two bytes: accents, Greek, Cyrillic, Hebrew, Arabic.
            0xC0..=0xDF => TOKEN * 7 / 6,
            // The scripts of India, Thai, Ethiopic and others that few tokenizers know.
            0xE0..=0xE1 => TOKEN * 5 / 3,
            // Chinese, Japanese, Korean.
            0xE2..=0xEF => TOKEN * 3 / 2,
            // Emoji and rarities.
            _ => TOKEN * 3,
        };
        byte += 1;
    }
    weights
}

/// A safe estimate of the tokens of `text`, for any model: see the weights in the
/// source. For English prose about 1.6 times what OpenAI's tokenizers count.
pub fn estimated_tokens(text: &str) -> u64 {
    let weight: u64 = text.bytes().map(|byte| WEIGHT[usize::from(byte)]).sum();
    weight.div_ceil(TOKEN)
}

impl ChatRequest {
    /// A safe estimate of the input tokens of this request: that of everything beside
    /// the messages and that of each message, with [`estimated_tokens`] for the texts.
    pub fn estimated_input_tokens(&self) -> u64 {
        let messages = self.messages.iter().map(|m| m.tokens(&estimated_tokens));
        messages.fold(self.fixed_tokens(&estimated_tokens), u64::saturating_add)
    }

    /// Tokens that no message causes: tools, output schema and the beginning of the
    /// answer. `count` counts those of a text.
    pub fn fixed_tokens(&self, count: &dyn Fn(&str) -> u64) -> u64 {
        let tools: u64 = self.tools.iter().map(|tool| tool.tokens(count)).sum();
        let for_tools = if self.tools.is_empty() { 0 } else { FOR_TOOLS };
        let schema = match &self.output {
            Output::JsonSchema { schema, .. } => count(&schema.to_string()),
            Output::Text | Output::JsonObject => 0,
        };
        FOR_ANSWER + for_tools + tools + schema
    }
}

impl Message {
    /// Tokens of this message and of what separates it from the next. `count` counts
    /// those of a text; what is no text has a cost of its own.
    pub fn tokens(&self, count: &dyn Fn(&str) -> u64) -> u64 {
        let name = self.name.as_deref().map_or(0, |name| 1 + count(name));
        let parts: u64 = self.parts.iter().map(|part| part.tokens(count)).sum();
        PER_MESSAGE + name + parts + extra_tokens(&self.extra, count)
    }
}

impl Tool {
    fn tokens(&self, count: &dyn Fn(&str) -> u64) -> u64 {
        let description = self.description.as_deref().map_or(0, count);
        let schema = self.parameters.as_ref();
        PER_TOOL + count(&self.name) + description + schema.map_or(0, |s| count(&s.to_string()))
    }
}

impl Part {
    fn tokens(&self, count: &dyn Fn(&str) -> u64) -> u64 {
        match self {
            Self::Text(text) | Self::Refusal(text) => count(text),
            // An opaque block is known by its signature alone.
            Self::Reasoning(r) if r.text.is_empty() => r.signature.as_deref().map_or(0, count),
            Self::Reasoning(r) => count(&r.text),
            Self::ToolCall(c) => PER_CALL + count(&c.name) + count(&c.arguments),
            Self::ToolResult(r) => PER_CALL + r.parts.iter().map(|p| p.tokens(count)).sum::<u64>(),
            Self::Image(_) => PER_IMAGE,
            Self::Other(extra) => extra_tokens(extra, count),
        }
    }
}

fn extra_tokens(extra: &Extra, count: &dyn Fn(&str) -> u64) -> u64 {
    let fields = extra.fields.iter();
    fields
        .map(|(name, value)| count(name) + count(&value.to_string()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Image, Role, ToolCall, ToolResult};
    use serde_json::json;

    #[test]
    fn the_estimate_grows_with_the_text() {
        let short = ChatRequest::user("hello").estimated_input_tokens();
        let long = ChatRequest::user("hello ".repeat(1_000)).estimated_input_tokens();
        assert!(short < 12, "{short}");
        assert!((1_950..2_050).contains(&long), "{long}");
    }

    #[test]
    fn dense_texts_cost_more_by_the_byte() {
        let cost = |text: &str| estimated_tokens(&text.repeat(100));
        assert_eq!(cost("word "), 167);
        assert_eq!(cost("12345"), 500);
        assert_eq!(cost("東京都"), 450);
        assert_eq!(cost("слово"), 584);
        assert_eq!(cost("हिन्दी"), 1_000);
        assert_eq!(cost("🙂"), 300);
    }

    /// Tool calls, results, schemas and the system prompt are counted (case C195).
    #[test]
    fn everything_that_is_sent_counts() {
        let part = |part| Message {
            parts: vec![part],
            ..Message::text(Role::Assistant, "")
        };
        let empty = part(Part::Text(String::new())).tokens(&estimated_tokens);
        let arguments = "abc".repeat(100);
        let parts = [
            (Part::Refusal(arguments.clone()), 100),
            (
                Part::ToolCall(ToolCall {
                    arguments: arguments.clone(),
                    ..ToolCall::default()
                }),
                112,
            ),
            (
                Part::ToolResult(ToolResult {
                    call_id: String::new(),
                    parts: vec![Part::Text(arguments)],
                    is_error: false,
                }),
                112,
            ),
            (
                Part::Image(Image {
                    url: "https://a.test/i.png".to_owned(),
                    detail: None,
                }),
                1_600,
            ),
        ];
        for (content, tokens) in parts {
            assert_eq!(part(content).tokens(&estimated_tokens), empty + tokens);
        }
        let mut request = ChatRequest::user("hi");
        let bare = request.fixed_tokens(&estimated_tokens);
        request.output = Output::JsonSchema {
            name: "s".to_owned(),
            schema: json!({"type": "object"}),
            strict: true,
            description: None,
        };
        let with_schema = request.fixed_tokens(&estimated_tokens);
        assert!(with_schema >= bare + 8, "{with_schema}");
        request.tools = vec![Tool {
            name: "f".to_owned(),
            description: None,
            parameters: Some(json!({"type": "object"})),
            strict: None,
            extra: Extra::default(),
        }];
        assert!(request.fixed_tokens(&estimated_tokens) > with_schema + FOR_TOOLS);
    }
}
