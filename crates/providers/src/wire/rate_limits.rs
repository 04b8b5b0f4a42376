//! Rate limits as headers report them.
//!
//! Spellings known: `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` (OpenAI,
//! Azure, Groq and others; resets as `1s`, `6m0s`, `120ms`), the same without an end,
//! which means requests (OpenRouter; the reset as a Unix time),
//! `x-ratelimit-{limit,remaining}-{req,tokens}-minute` (Mistral) and
//! `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}`
//! (resets as RFC 3339 times).

use super::classify::{reset, until};
use evenkeel_core::{Allowance, RateLimits};
use http::{HeaderMap, HeaderValue};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The limits that `headers` report; none where they report nothing that can be read.
/// Resets given as a time are counted from `now`.
///
/// ```
/// use evenkeel_providers::wire::rate_limits;
/// use http::HeaderMap;
/// use std::time::{Duration, UNIX_EPOCH};
///
/// let mut headers = HeaderMap::new();
/// headers.insert("x-ratelimit-limit-requests", "500".parse()?);
/// headers.insert("x-ratelimit-remaining-requests", "499".parse()?);
/// headers.insert("x-ratelimit-reset-requests", "120ms".parse()?);
/// let limits = rate_limits(&headers, UNIX_EPOCH).unwrap();
/// assert_eq!(limits.requests.remaining, Some(499));
/// assert_eq!(limits.requests.reset, Some(Duration::from_millis(120)));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
pub fn rate_limits(headers: &HeaderMap, now: SystemTime) -> Option<RateLimits> {
    let mut limits = RateLimits::default();
    let mut of_no_kind = Allowance::default();
    for (name, value) in headers {
        let Some((of, field)) = named(name.as_str()) else {
            continue;
        };
        let allowance = match of {
            "requests" | "req-minute" => &mut limits.requests,
            "tokens" | "tokens-minute" => &mut limits.tokens,
            "input-tokens" => &mut limits.input_tokens,
            "output-tokens" => &mut limits.output_tokens,
            "" => &mut of_no_kind,
            _ => continue,
        };
        match field {
            "limit" => allowance.limit = count(value),
            "remaining" => allowance.remaining = count(value),
            "reset" => allowance.reset = until_reset(value, now),
            _ => {}
        }
    }
    if limits.requests == Allowance::default() {
        limits.requests = of_no_kind;
    }
    (limits != RateLimits::default()).then_some(limits)
}

/// What a header is the limit of, and which field of it it is.
fn named(name: &str) -> Option<(&str, &str)> {
    if let Some(rest) = name.strip_prefix("x-ratelimit-") {
        let (field, of) = rest.split_once('-').unwrap_or((rest, ""));
        return Some((of, field));
    }
    name.strip_prefix("anthropic-ratelimit-")?.rsplit_once('-')
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(str::trim)
}

/// A whole number, also one written with a fraction. Less than none is none told: servers without
/// a limit, or that do not know it, write -1.
fn count(value: &HeaderValue) -> Option<u64> {
    let text = text(value)?;
    if let Ok(count) = text.parse() {
        return Some(count);
    }
    let number: f64 = text.parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float is cut at the ends of the range"
    )]
    (number.is_finite() && number >= 0.0).then_some(number as u64)
}

/// How long until the reset, given as a wait or a time; none left where it is past, at most a day.
fn until_reset(value: &HeaderValue, now: SystemTime) -> Option<Duration> {
    let text = text(value)?;
    reset(text, Some(now)).or_else(|| {
        let time: jiff::Timestamp = text.parse().ok()?;
        let since_epoch = Duration::try_from(time.as_duration()).ok()?;
        until(UNIX_EPOCH.checked_add(since_epoch)?, Some(now))
    })
}
