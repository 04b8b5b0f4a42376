//! Exact counts for the models whose tokenizer is public.

use std::fmt;

use evenkeel_core::{ChatRequest, Message, ModelId};
use tiktoken_rs::CoreBPE;
use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

use crate::counter::TokenCounter;

/// Longest piece that is split at once, bytes. The splitter's regular expression
/// overflows its stack (and panics) on runs of a million spaces; a cut costs at most
/// a token.
const LONGEST_PIECE: usize = 4_096;

/// A tokenizer of OpenAI's: `o200k_base` or `cl100k_base`. Texts are counted
/// exactly; what the provider writes around messages, calls and tools, and images,
/// cost what the [`Estimate`](crate::Estimate) says.
///
/// The vocabulary is parsed at the first count, once in a process (some 100 ms).
#[derive(Clone, Copy)]
pub struct Tiktoken {
    encoding: fn() -> &'static CoreBPE,
    name: &'static str,
}

impl Tiktoken {
    /// The tokenizer of `model`, by its name behind the last slash, whoever serves
    /// it; `None` where it has none of these.
    pub fn for_model(model: &ModelId) -> Option<Self> {
        let name = model.model().rsplit('/').next()?;
        match get_tokenizer(name)? {
            // The harmony encoding differs in its special tokens only.
            Tokenizer::O200kBase | Tokenizer::O200kHarmony => Some(Self {
                encoding: tiktoken_rs::o200k_base_singleton,
                name: "o200k_base",
            }),
            Tokenizer::Cl100kBase => Some(Self {
                encoding: tiktoken_rs::cl100k_base_singleton,
                name: "cl100k_base",
            }),
            _ => None,
        }
    }

    /// Tokens of a text.
    pub fn text(&self, text: &str) -> u64 {
        let encoding = (self.encoding)();
        let pieces = Pieces(text);
        pieces.map(|p| encoding.count_ordinary(p) as u64).sum()
    }
}

impl TokenCounter for Tiktoken {
    fn message(&self, message: &Message) -> u64 {
        message.tokens(&|text| self.text(text))
    }

    fn fixed(&self, request: &ChatRequest) -> u64 {
        request.fixed_tokens(&|text| self.text(text))
    }
}

impl fmt::Debug for Tiktoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tiktoken").field(&self.name).finish()
    }
}

/// A text in pieces of bounded length, cut before the last space where there is one.
struct Pieces<'t>(&'t str);

impl<'t> Iterator for Pieces<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        if self.0.is_empty() {
            return None;
        }
        let most = LONGEST_PIECE.min(self.0.len());
        let is_border = |at: &usize| self.0.is_char_boundary(*at);
        let end = (1..=most).rev().find(is_border).unwrap_or(most);
        let at = match self.0[..end].rfind(' ') {
            Some(space) if space > 0 && end < self.0.len() => space,
            _ => end,
        };
        let (piece, rest) = self.0.split_at(at);
        self.0 = rest;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::estimated_tokens;

    fn tokenizer(model: &str) -> Option<Tiktoken> {
        Tiktoken::for_model(&ModelId::new(model).unwrap())
    }

    #[test]
    fn models_have_their_tokenizers() {
        for (model, expected) in [
            ("openai/gpt-5", Some("o200k_base")),
            ("openrouter/openai/gpt-4o-mini", Some("o200k_base")),
            ("local/gpt-oss-20b", Some("o200k_base")),
            ("azure/gpt-4-0613", Some("cl100k_base")),
            ("anthropic/claude-4-sonnet", None),
            ("acme/gpt", None),
        ] {
            assert_eq!(tokenizer(model).map(|t| t.name), expected, "{model}");
        }
    }

    /// The counts of OpenAI's cookbook, "How to count tokens with tiktoken".
    #[test]
    fn texts_are_counted_as_openai_counts_them() {
        let gpt4 = tokenizer("openai/gpt-4").unwrap();
        let gpt4o = tokenizer("openai/gpt-4o").unwrap();
        for (text, cl100k, o200k) in [
            ("antidisestablishmentarianism", 6, 6),
            ("2 + 2 = 4", 7, 7),
            ("お誕生日おめでとう", 9, 8),
        ] {
            assert_eq!(gpt4.text(text), cl100k, "{text}");
            assert_eq!(gpt4o.text(text), o200k, "{text}");
        }
    }

    #[test]
    fn a_text_in_pieces_counts_about_as_it_does_whole() {
        let gpt4o = tokenizer("openai/gpt-4o").unwrap();
        let text = "The quick brown fox jumps over the lazy dog. ".repeat(1_000);
        let whole = (gpt4o.encoding)().count_ordinary(&text) as u64;
        let pieces = gpt4o.text(&text);
        assert!(pieces.abs_diff(whole) <= 12, "{pieces} {whole}");
    }

    #[test]
    fn no_text_is_too_much() {
        let gpt4o = tokenizer("openai/gpt-4o").unwrap();
        for text in [
            // Whole, this one overflows the splitter's stack.
            format!("{}x", " ".repeat(1_500_000)),
            "\n ".repeat(50_000),
            "a".repeat(50_000),
            "\u{a0}é".repeat(50_000),
        ] {
            assert!(gpt4o.text(&text) > 0);
        }
        assert_eq!(gpt4o.text(""), 0);
    }

    /// The estimate is a bound for what is sent to models: prose, code, data, scripts.
    #[test]
    fn the_estimate_is_above_what_tokenizers_count() {
        let texts = [
            include_str!("../README.md"),
            include_str!("fit/mod.rs"),
            include_str!("../../../fixtures/prompts/samples/prose.txt"),
            include_str!("../../../fixtures/prompts/samples/scripts.txt"),
            include_str!("../../../fixtures/prompts/samples/data.txt"),
        ];
        // Each script by itself, too.
        let scripts = texts[3].lines();
        for text in texts.into_iter().chain(scripts) {
            let estimated = estimated_tokens(text);
            for (model, most) in [("openai/gpt-4", 3), ("openai/gpt-4o", 6)] {
                let counted = tokenizer(model).unwrap().text(text);
                let bounds = counted..=counted * most;
                assert!(
                    bounds.contains(&estimated),
                    "{model} {bounds:?} {estimated}: {text}"
                );
            }
        }
    }
}
