//! Tells a refusal by its first sentence.

use regex::Regex;
use std::sync::LazyLock;

/// The usual wordings, from the start of the answer. What quotes one does not
/// start with it.
static WORDINGS: LazyLock<Regex> = LazyLock::new(|| {
    let opening = r"(?:(?:i'm|i am) (?:very |so |really |truly )?sorry|sorry|i apologi[sz]e|my apologies|unfortunately|as an ai(?: language model| assistant| model)?)";
    let unable = r"(?:can't|cannot|can not|won't|will not|am unable to|'m unable to|am not able to|'m not able to|must decline to|have to decline to|must refuse to)";
    let verb = r"(?:help|assist|comply|fulfil|fulfill|provide|create|generate|produce|write|share|discuss|answer|engage|continue|support|participate|offer|do that|do this)";
    let decline = r"(?:must|have to|need to) (?:respectfully )?(?:decline|refuse)\b";
    let whole =
        format!(r"^(?:{opening}[,;:.]? (?:but )?)?i ?(?:{unable} (?:\w+ )?{verb}\b|{decline})");
    Regex::new(&whole).expect("a constant that the tests match with")
});

/// What a sentence that begins like a refusal goes on with when it is none.
const NO_REFUSALS: [&str; 4] = ["help but", "help feeling", ", but here", "; here"];

/// Most of an answer that is looked at, in characters.
const LOOKED_AT: usize = 400;

/// Whether the answer's first sentence refuses, in the usual English wordings.
pub fn is_refusal(text: &str) -> bool {
    let start: String = text
        .trim_start()
        .chars()
        .take(LOOKED_AT)
        .map(|c| if c == '\u{2019}' { '\'' } else { c })
        .collect();
    let start = start.to_lowercase();
    let sentence = first_sentence(&start);
    WORDINGS.is_match(sentence) && !NO_REFUSALS.iter().any(|s| sentence.contains(s))
}

/// Up to the first end of a sentence after which something is said; an apology
/// alone belongs to what follows it.
fn first_sentence(text: &str) -> &str {
    let end = |from: usize| {
        let rest = &text[from..];
        rest.find(['.', '!', '?', '\n']).map(|at| from + at + 1)
    };
    match end(0) {
        Some(first) if text[..first].contains("sorry") || text[..first].contains("apolog") => {
            &text[..end(first).unwrap_or(text.len())]
        }
        Some(first) => &text[..first],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_by_their_first_sentence() {
        for text in [
            "I'm sorry, but I can't help with that.",
            "I’m sorry, but I can’t assist with that request.",
            "Sorry, I cannot provide that information.",
            "I am very sorry. I can't help with this.",
            "I can't help with that. Is there anything else?",
            "  I cannot comply with this request",
            "I'm unable to fulfill this request.",
            "I am not able to write that.",
            "Unfortunately, I can't discuss this topic.",
            "As an AI language model, I cannot provide medical advice.",
            "I apologize, but I must decline.",
            "I won't help you do this.",
            "I have to respectfully decline.",
        ] {
            assert!(is_refusal(text), "{text}");
        }
    }

    #[test]
    fn what_quotes_or_only_looks_like_a_refusal_is_none() {
        for text in [
            "\"I'm sorry, but I can't help with that,\" the clerk said.",
            "The usual refusal reads: I'm sorry, but I can't help with that.",
            "> I cannot assist with that.\n\nThat is what the log says.",
            "He wrote: I can't help with this. Then he left.",
            "I can't help but notice that the tide turns.",
            "I can't provide an exact figure, but here is a range: 3 to 5.",
            "I'm sorry to hear that! Try turning it off and on.",
            "Sorry for the delay. The answer is 42.",
            "Unfortunately, the train I cannot miss leaves at nine.",
            "I can do that.",
            "The model said it cannot help.",
            "",
            "42",
        ] {
            assert!(!is_refusal(text), "{text}");
        }
    }

    #[test]
    fn a_refusal_after_an_answer_is_part_of_it() {
        assert!(!is_refusal("The answer is 4. I can't help with the rest."));
        assert!(!is_refusal(&"ü".repeat(1_000_000)));
    }
}
