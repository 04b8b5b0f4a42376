//! What a caller asks of the model that may answer, in headers.

use crate::error::ApiError;
use evenkeel_core::{Complexity, ModelId};
use http::HeaderMap;

const COMPLEXITY: &str = "x-evenkeel-complexity";
const MIN_CAPABILITY: &str = "x-evenkeel-min-capability";
const ROSTER: &str = "x-evenkeel-roster";

/// Most models that a request may name; no roster is longer.
const MOST_MODELS: usize = 64;

/// The declared complexity.
///
/// # Errors
/// A word that is none of them.
pub(crate) fn complexity(headers: &HeaderMap) -> Result<Option<Complexity>, ApiError> {
    let Some(word) = text(headers, COMPLEXITY)? else {
        return Ok(None);
    };
    let complexity = Complexity::named(word).ok_or_else(|| {
        let words = Complexity::ALL.map(Complexity::as_str).join(", ");
        let message = format!("`{COMPLEXITY}` must be one of {words}");
        ApiError::bad_header(COMPLEXITY, message)
    })?;
    Ok(Some(complexity))
}

/// The least capability.
///
/// # Errors
/// What is no number from 0 to 1.
pub(crate) fn min_capability(headers: &HeaderMap) -> Result<Option<f64>, ApiError> {
    let Some(number) = text(headers, MIN_CAPABILITY)? else {
        return Ok(None);
    };
    let number = number.parse().ok();
    let share = number.filter(|n| (0.0..=1.0).contains(n));
    let least = share.ok_or_else(|| {
        let message = format!("`{MIN_CAPABILITY}` must be a number from 0 to 1");
        ApiError::bad_header(MIN_CAPABILITY, message)
    })?;
    Ok(Some(least))
}

/// The models that alone may answer, best first.
///
/// # Errors
/// What is no list of models. Whether the role has them is the router's to say.
pub(crate) fn pinned_roster(headers: &HeaderMap) -> Result<Option<Vec<ModelId>>, ApiError> {
    let Some(list) = text(headers, ROSTER)? else {
        return Ok(None);
    };
    let bad = |message| ApiError::bad_header(ROSTER, message);
    let models: Result<Vec<ModelId>, _> = list
        .split(',')
        .take(MOST_MODELS + 1)
        .map(|name| ModelId::new(name.trim()))
        .collect();
    match models {
        Ok(models) if models.len() <= MOST_MODELS => Ok(Some(models)),
        Ok(_) => Err(bad(format!(
            "`{ROSTER}` names more than {MOST_MODELS} models"
        ))),
        Err(_) => Err(bad(format!(
            "`{ROSTER}` must be a list of `provider/model`, separated by commas"
        ))),
    }
}

/// The header behind a field of the call's context, in an error about it; any
/// other field is the request's own.
pub(crate) fn header_of(field: &str) -> &str {
    match field {
        "min_capability" => MIN_CAPABILITY,
        "pinned_roster" => ROSTER,
        other => other,
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &'static str) -> Result<Option<&'h str>, ApiError> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let unreadable = || ApiError::bad_header(name, format!("`{name}` must be printable ASCII"));
    value
        .to_str()
        .map(|t| Some(t.trim()))
        .map_err(|_| unreadable())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn one(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        headers
    }

    #[test]
    fn a_complexity_is_one_of_three_words() {
        let read = |word| complexity(&one(COMPLEXITY, word));
        assert_eq!(read(" high ").unwrap(), Some(Complexity::High));
        for junk in ["", "HIGH", "hard", "0.9", "low,high"] {
            let message = read(junk).unwrap_err().body().to_string();
            assert!(message.contains("low, medium, high"), "{junk}: {message}");
        }
        assert_eq!(complexity(&HeaderMap::new()).unwrap(), None);
    }

    #[test]
    fn a_least_capability_is_a_share() {
        let read = |number| min_capability(&one(MIN_CAPABILITY, number));
        assert_eq!(read("0.9").unwrap(), Some(0.9));
        assert_eq!(read("1").unwrap(), Some(1.0));
        for junk in ["", "-0.1", "1.1", "NaN", "inf", "90%", "high"] {
            assert_eq!(read(junk).unwrap_err().code(), "invalid_header", "{junk}");
        }
    }

    #[test]
    fn a_pinned_roster_is_a_list_of_models() {
        let read = |list: &str| pinned_roster(&one(ROSTER, list));
        let names = |models: Vec<ModelId>| models.iter().map(ToString::to_string).collect();
        let models: Vec<String> = names(read("a/x, b/y:free").unwrap().unwrap());
        assert_eq!(models, ["a/x", "b/y:free"]);
        let many = vec!["a/x"; MOST_MODELS + 1].join(",");
        for junk in ["", ",", "a", "a/x,", "a/x b", &many] {
            let read = read(junk);
            if junk == "a/x b" {
                assert!(read.is_ok(), "an unknown model is for the router to refuse");
            } else {
                assert_eq!(read.unwrap_err().code(), "invalid_header", "{junk}");
            }
        }
    }
}
