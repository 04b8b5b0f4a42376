//! The text of a simulated answer, and how a caller checks it.

use crate::Behaviour;
use crate::script::Act;
use evenkeel_core::{
    ChatRequest, ChatResponse, Delta, Extra, Finish, Part, Role, StreamEvent, Usage,
};
use std::sync::Arc;

/// Most tokens of an answer, more than any model gives out: an answer without
/// a sensible length is not to fill the memory.
const MAX_TOKENS: u32 = 1_000_000;

/// Whose answer it is.
#[derive(Debug)]
pub(crate) struct Label<'a> {
    pub(crate) provider: &'a str,
    pub(crate) model: Arc<str>,
    pub(crate) id: String,
    /// Unix time in seconds, 0 for none.
    pub(crate) created: u64,
}

/// One answer: which pieces it has and how it ends.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) id: String,
    pub(crate) model: Arc<str>,
    /// Unix time in seconds, 0 for none.
    pub(crate) created: u64,
    /// `provider/model`.
    who: String,
    nonce: u64,
    /// Pieces of a text given by the behaviour.
    given: Option<Vec<Box<str>>>,
    /// Tokens of the whole answer.
    pub(crate) tokens: u32,
    finish: Finish,
    /// Input tokens, estimated from the request.
    pub(crate) input: u32,
}

impl Answer {
    pub(crate) fn new(label: Label<'_>, behaviour: &Behaviour, request: &ChatRequest) -> Self {
        let given = behaviour.text.as_deref().map(words);
        let wanted = given.as_ref().map_or(behaviour.tokens, |words| {
            u32::try_from(words.len()).unwrap_or(u32::MAX)
        });
        let wanted = wanted.min(MAX_TOKENS);
        let cap = request
            .max_output_tokens
            .map_or(u32::MAX, |cap| u32::try_from(cap).unwrap_or(u32::MAX));
        Self {
            who: format!("{}/{}", label.provider, label.model),
            id: label.id,
            model: label.model,
            created: label.created,
            nonce: nonce(request),
            given,
            tokens: wanted.min(cap),
            finish: if wanted > cap {
                Finish::Length
            } else {
                Finish::Stop
            },
            input: u32::try_from(request.estimated_input_tokens()).unwrap_or(u32::MAX),
        }
    }

    /// The text of token `index`.
    pub(crate) fn piece(&self, index: u32) -> String {
        match &self.given {
            Some(words) => words
                .get(index as usize)
                .map_or_else(String::new, |word| String::from(&**word)),
            None if index == 0 => format!("[[{}]] n{} t0", self.who, self.nonce),
            None => format!(" t{index}"),
        }
    }

    /// The first `tokens` tokens.
    fn text(&self, tokens: u32) -> String {
        (0..tokens).map(|index| self.piece(index)).collect()
    }

    pub(crate) fn usage(&self, tokens: u32) -> Usage {
        Usage {
            input: u64::from(self.input),
            output: u64::from(tokens),
            ..Usage::default()
        }
    }

    /// The answer up to `tokens` tokens, in one piece.
    pub(crate) fn response(&self, tokens: u32) -> ChatResponse {
        let text = self.text(tokens);
        ChatResponse {
            id: self.id.clone(),
            model: String::from(&*self.model),
            created: self.created,
            parts: if text.is_empty() {
                Vec::new()
            } else {
                vec![Part::Text(text)]
            },
            finish: self.finish,
            usage: Some(self.usage(tokens)),
            adapted: Vec::new(),
            extra: Extra::default(),
        }
    }

    /// The neutral event of an act, `sent` tokens in; none where a sound
    /// answer has no such event.
    pub(crate) fn event(&self, act: &Act, sent: u32) -> Option<StreamEvent> {
        Some(match act {
            Act::Open => StreamEvent::Start {
                id: self.id.clone(),
                model: String::from(&*self.model),
                created: self.created,
                extra: Extra::default(),
            },
            Act::Token(index) => StreamEvent::Delta(Delta::Text(self.piece(*index))),
            Act::KeepAlive => StreamEvent::KeepAlive,
            Act::Finish => StreamEvent::Finish(self.finish),
            Act::Usage => StreamEvent::Usage(self.usage(sent)),
            Act::Done => StreamEvent::End,
            _ => return None,
        })
    }
}

/// The words of a text, each with the white space before it; the last also
/// has what follows it. Joined they are the text.
fn words(text: &str) -> Vec<Box<str>> {
    let mut pieces = Vec::new();
    let (mut start, mut in_word) = (0, false);
    for (at, c) in text.char_indices() {
        if c.is_whitespace() && in_word {
            pieces.push(Box::from(&text[start..at]));
            start = at;
        }
        in_word = !c.is_whitespace();
    }
    if start < text.len() {
        pieces.push(Box::from(&text[start..]));
    }
    pieces
}

/// The request's own number: the last word of its last user message, if it
/// has the form `n123`, else 0.
fn nonce(request: &ChatRequest) -> u64 {
    let asked = request.messages.iter().rfind(|m| m.role == Role::User);
    asked
        .map(evenkeel_core::Message::plain_text)
        .and_then(|text| parse_nonce(text.split_whitespace().next_back()?))
        .unwrap_or(0)
}

fn parse_nonce(word: &str) -> Option<u64> {
    word.strip_prefix('n')?.parse().ok()
}

/// What is wrong with an answer's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WrongAnswer {
    /// It does not begin with `[[name]] n<number>`.
    #[error("the answer does not begin with `[[name]] n<number>` but with `{0}`")]
    Unmarked(String),
    /// It answers another request.
    #[error("the answer is to request n{found}, expected n{expected}")]
    Foreign {
        /// The request's number.
        expected: u64,
        /// The number in the answer.
        found: u64,
    },
    /// A token is missing, twice or out of order.
    #[error("token {position} of the answer is `{found}`, expected `t{position}`")]
    Garbled {
        /// Position of the first wrong token.
        position: u32,
        /// What stands there.
        found: String,
    },
    /// It ends early.
    #[error("the answer has {found} tokens, expected {expected}")]
    Cut {
        /// Tokens it should have.
        expected: u32,
        /// Tokens it has.
        found: u32,
    },
}

/// Checks a numbered answer: that it is the caller's own, whole, once and in
/// order. Returns who gave it, as `provider/model`.
///
/// # Errors
/// What is wrong with it, first fault first.
pub fn check_answer(text: &str, nonce: u64, tokens: u32) -> Result<&str, WrongAnswer> {
    let unmarked = || WrongAnswer::Unmarked(text.chars().take(40).collect());
    let (who, rest) = text
        .strip_prefix("[[")
        .and_then(|t| t.split_once("]] "))
        .ok_or_else(unmarked)?;
    let mut words = rest.split(' ');
    let found = words.next().and_then(parse_nonce).ok_or_else(unmarked)?;
    if found != nonce {
        return Err(WrongAnswer::Foreign {
            expected: nonce,
            found,
        });
    }
    let mut position = 0;
    for word in words {
        let right = word.strip_prefix('t').and_then(|n| n.parse().ok()) == Some(position);
        if !right || position >= tokens {
            return Err(WrongAnswer::Garbled {
                position,
                found: word.chars().take(40).collect(),
            });
        }
        position += 1;
    }
    if position < tokens {
        return Err(WrongAnswer::Cut {
            expected: tokens,
            found: position,
        });
    }
    Ok(who)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(behaviour: &Behaviour, prompt: &str, cap: Option<u64>) -> Answer {
        let mut request = ChatRequest::user(prompt);
        request.max_output_tokens = cap;
        let label = Label {
            provider: "acme",
            model: Arc::from("big"),
            id: String::new(),
            created: 0,
        };
        Answer::new(label, behaviour, &request)
    }

    #[test]
    fn an_answer_says_who_gave_it_and_to_which_request() {
        let answer = answer(
            &Behaviour::default().with_tokens(3),
            "please answer n42",
            None,
        );
        assert_eq!(answer.text(3), "[[acme/big]] n42 t0 t1 t2");
        assert_eq!(check_answer(&answer.text(3), 42, 3), Ok("acme/big"));
    }

    #[test]
    fn a_request_without_a_number_has_the_number_0() {
        for prompt in [
            "hello",
            "n1 is not the last word",
            "n",
            "nine",
            "n-1",
            "n99999999999999999999",
        ] {
            let answer = answer(&Behaviour::default().with_tokens(1), prompt, None);
            assert_eq!(answer.text(1), "[[acme/big]] n0 t0", "{prompt}");
        }
    }

    #[test]
    fn a_given_text_is_kept_to_the_letter() {
        for text in [
            "line one\nline \"two\"\\ \u{2028} 🙂",
            "  led by blanks",
            "ends in blanks \n",
            "one",
        ] {
            let answer = answer(&Behaviour::default().with_text(text), "n1", None);
            assert_eq!(answer.text(answer.tokens), text);
        }
    }

    /// Case C231: a cap cuts and says so.
    #[test]
    fn an_output_cap_cuts_the_answer_and_says_length() {
        let five = Behaviour::default().with_text("one two three four five");
        let cut = answer(&five, "n1", Some(3));
        assert_eq!((cut.tokens, cut.finish), (3, Finish::Length));
        assert_eq!(cut.text(cut.tokens), "one two three");
        assert_eq!(cut.usage(cut.tokens).output, 3);
        let whole = answer(&five, "n1", Some(5));
        assert_eq!((whole.tokens, whole.finish), (5, Finish::Stop));
    }

    #[test]
    fn every_kind_of_wrong_answer_is_told_apart() {
        let check = |text| check_answer(text, 7, 3).unwrap_err();
        assert_eq!(check("hello"), WrongAnswer::Unmarked("hello".into()));
        assert_eq!(
            check("[[a/b]] t0"),
            WrongAnswer::Unmarked("[[a/b]] t0".into())
        );
        assert_eq!(
            check("[[a/b]] n8 t0 t1 t2"),
            WrongAnswer::Foreign {
                expected: 7,
                found: 8
            }
        );
        assert_eq!(
            check("[[a/b]] n7 t0 t1"),
            WrongAnswer::Cut {
                expected: 3,
                found: 2
            }
        );
        for (text, position) in [
            ("[[a/b]] n7 t0 t0 t1 t2", 1),
            ("[[a/b]] n7 t0 t2 t1", 1),
            ("[[a/b]] n7 t0 t1 t2 t3", 3),
            ("[[a/b]] n7 t0 t1[[a/c]] n7 t0 t1 t2", 1),
        ] {
            let WrongAnswer::Garbled {
                position: found, ..
            } = check(text)
            else {
                panic!("{text}: {:?}", check(text));
            };
            assert_eq!(found, position, "{text}");
        }
    }
}
