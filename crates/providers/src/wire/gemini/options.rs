//! What a roster entry can say of a model that speaks this format.

/// What differs between models and places that speak this format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Where the model is served.
    pub platform: Platform,
    /// How it is told how much to think; by default told from its name.
    pub thinking: Option<Thinking>,
    /// Whether it refuses function calls without a signature, so that those
    /// made by other providers' models need the documented placeholder; by
    /// default told from its name.
    pub needs_signatures: Option<bool>,
}

/// Where a model is served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Platform {
    /// The Developer API, `generativelanguage.googleapis.com`.
    #[default]
    Developer,
    /// Vertex AI, which refuses ids on calls and results and knows labels.
    Vertex,
}

/// How a model is told how much to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Thinking {
    /// Not at all: it does not think, or cannot be told.
    Unsupported,
    /// By a number of tokens: Gemini 2.5.
    Budget,
    /// By a level: Gemini 3 and later.
    Level,
}

/// The first generation that validates signatures and is told levels.
/// Google's guide "Thought signatures", 2026.
const STRICT_GENERATION: u32 = 3;
/// The generation, with its minor number, that is told budgets.
const BUDGET_GENERATION: (u32, u32) = (2, 5);

/// The options of one model, with nothing left to guess.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traits {
    pub(super) platform: Platform,
    pub(super) thinking: Thinking,
    pub(super) needs_signatures: bool,
    /// Whether images may stand inside a function's response.
    pub(super) images_in_results: bool,
}

impl Options {
    pub(super) fn traits(self, model: &str) -> Traits {
        let generation = generation(model);
        let is_strict = generation.is_some_and(|(major, _)| major >= STRICT_GENERATION);
        let guessed = match generation {
            Some((major, _)) if major >= STRICT_GENERATION => Thinking::Level,
            Some(generation) if generation >= BUDGET_GENERATION => Thinking::Budget,
            Some(_) => Thinking::Unsupported,
            // An alias such as `gemini-flash-latest`, or a model tuned from
            // one: every generation since 2.5 takes a budget.
            None => Thinking::Budget,
        };
        Traits {
            platform: self.platform,
            thinking: self.thinking.unwrap_or(guessed),
            needs_signatures: self.needs_signatures.unwrap_or(is_strict),
            images_in_results: is_strict,
        }
    }
}

/// The generation in a model's name: `gemini-2.5-flash` is (2, 5).
fn generation(model: &str) -> Option<(u32, u32)> {
    let name = model.rsplit('/').next()?;
    let rest = name.strip_prefix("gemini-")?;
    let number = rest.split('-').next()?;
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_tells_the_generation() {
        for (model, thinking, needs_signatures) in [
            ("gemini-2.0-flash", Thinking::Unsupported, false),
            ("gemini-2.5-flash-lite", Thinking::Budget, false),
            ("models/gemini-3-pro-preview", Thinking::Level, true),
            ("gemini-3.1-pro", Thinking::Level, true),
            ("gemini-flash-latest", Thinking::Budget, false),
            ("gemma-3-27b-it", Thinking::Budget, false),
        ] {
            let traits = Options::default().traits(model);
            assert_eq!(traits.thinking, thinking, "{model}");
            assert_eq!(traits.needs_signatures, needs_signatures, "{model}");
        }
        let told = Options {
            thinking: Some(Thinking::Unsupported),
            needs_signatures: Some(true),
            ..Options::default()
        };
        let traits = told.traits("gemini-2.5-pro");
        assert_eq!(traits.thinking, Thinking::Unsupported);
        assert!(traits.needs_signatures);
    }
}
