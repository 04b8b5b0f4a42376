//! How a caller checks a numbered answer.

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

/// The number in `n123`.
pub(super) fn parse_nonce(word: &str) -> Option<u64> {
    word.strip_prefix('n')?.parse().ok()
}

/// How many tokens of a numbered answer to request `nonce` are in `text`, from
/// whomever; none where it is the beginning of no such answer.
pub(super) fn tokens_of(text: &str, nonce: u64) -> Option<u32> {
    match check_answer(text.trim_end(), nonce, u32::MAX) {
        Err(WrongAnswer::Cut { found, .. }) => Some(found),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
