//! How long the provider asks to wait.

use super::{Detail, Reply};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest wait that is believed; more is cut to it. Quotas are counted by the day at most, and
/// a model that is asked once a day for nothing costs less than one that is never asked again.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// Numbers from here on in a reset header are Unix times in seconds, not waits.
const FIRST_UNIX_SECONDS: f64 = 1e9;
/// And from here on in milliseconds.
const FIRST_UNIX_MILLIS: f64 = 1e12;

/// The wait that headers, details or the message ask for, the finest first.
/// Zero is an answer ("at once"); negative and unreadable values are none.
pub(super) fn asked(reply: &Reply<'_>, detail: &Detail) -> Option<Duration> {
    let header = |name| reply.header(name);
    header("retry-after-ms")
        .and_then(|v| seconds(v.parse::<f64>().ok()? / 1e3))
        .or_else(|| header("retry-after").and_then(|v| retry_after(v, reply.now)))
        .or(detail.retry_delay)
        .or_else(|| in_message(&detail.message))
}

/// The wait until the bucket that is empty fills up again, for servers that
/// give nothing else.
pub(super) fn until_reset(reply: &Reply<'_>) -> Option<Duration> {
    ["-requests", "-tokens", ""]
        .into_iter()
        .filter(|bucket| {
            reply
                .header(&format!("x-ratelimit-remaining{bucket}"))
                .is_some_and(|left| left.parse::<f64>().is_ok_and(|left| left == 0.0))
        })
        .filter_map(|bucket| {
            reset(
                reply.header(&format!("x-ratelimit-reset{bucket}"))?,
                reply.now,
            )
        })
        .max()
}

fn retry_after(value: &str, now: Option<SystemTime>) -> Option<Duration> {
    match value.parse::<f64>() {
        Ok(number) => seconds(number),
        Err(_) => until(httpdate::parse_http_date(value).ok()?, now),
    }
}

pub(in crate::wire) fn reset(value: &str, now: Option<SystemTime>) -> Option<Duration> {
    match value.parse::<f64>() {
        Ok(number) if !number.is_finite() => None,
        Ok(number) if number >= FIRST_UNIX_MILLIS => until_unix(number / 1e3, now),
        Ok(number) if number >= FIRST_UNIX_SECONDS => until_unix(number, now),
        Ok(number) => seconds(number),
        Err(_) => duration(value),
    }
}

fn until_unix(seconds: f64, now: Option<SystemTime>) -> Option<Duration> {
    match unix_time(seconds) {
        Some(time) => until(time, now),
        // Beyond any clock.
        None => Some(MAX_WAIT),
    }
}

/// A time already past asks for no wait.
pub(in crate::wire) fn until(time: SystemTime, now: Option<SystemTime>) -> Option<Duration> {
    Some(time.duration_since(now?).unwrap_or_default().min(MAX_WAIT))
}

fn seconds(number: f64) -> Option<Duration> {
    (number.is_finite() && number >= 0.0)
        .then(|| Duration::try_from_secs_f64(number).unwrap_or(MAX_WAIT))
        .map(|wait| wait.min(MAX_WAIT))
}

fn unix_time(seconds: f64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

/// A whole text that is a duration: `34.07s`, `6m0s`, `120ms`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (wait, rest) = leading_duration(text.trim())?;
    rest.is_empty().then_some(wait)
}

/// "Please try again in 6m54.72s": the wait that a message states.
fn in_message(message: &str) -> Option<Duration> {
    let lower = message.to_ascii_lowercase();
    [
        "retry in ",
        "retry after ",
        "try again in ",
        "try again after ",
    ]
    .iter()
    .filter_map(|lead| {
        let at = lower.find(lead)?;
        Some((at, &lower[at + lead.len()..]))
    })
    .min_by_key(|(at, _)| *at)
    .and_then(|(_, rest)| leading_duration(rest))
    .map(|(wait, _)| wait)
}

/// The units of a duration, the longer of two that begin alike first.
const UNITS: [(&str, f64); 13] = [
    ("milliseconds", 1e-3),
    ("ms", 1e-3),
    ("minutes", 60.0),
    ("minute", 60.0),
    ("min", 60.0),
    ("m", 60.0),
    ("seconds", 1.0),
    ("second", 1.0),
    ("sec", 1.0),
    ("s", 1.0),
    ("hours", 3600.0),
    ("hour", 3600.0),
    ("h", 3600.0),
];

fn leading_duration(text: &str) -> Option<(Duration, &str)> {
    let mut rest = text;
    let mut total = None;
    while let Some((part, after)) = leading_part(rest) {
        total = Some(total.unwrap_or(0.0) + part);
        rest = after;
    }
    Some((seconds(total?)?, rest))
}

fn leading_part(text: &str) -> Option<(f64, &str)> {
    let text = text.strip_prefix(' ').unwrap_or(text);
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let rest = text[end..].strip_prefix(' ').unwrap_or(&text[end..]);
    UNITS.iter().find_map(|(unit, factor)| {
        let after = rest.strip_prefix(unit)?;
        let whole = !after.starts_with(|c: char| c.is_ascii_alphabetic());
        whole.then_some((number * factor, after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Server;
    use http::HeaderMap;

    fn wait(headers: &[(&'static str, &str)], message: &str) -> Option<f64> {
        let map: HeaderMap = headers
            .iter()
            .map(|(n, v)| (http::HeaderName::from_static(n), v.parse().unwrap()))
            .collect();
        let body = serde_json::json!({"error": {"message": message}}).to_string();
        let now = httpdate::parse_http_date("Sun, 29 Nov 2026 23:00:00 GMT").unwrap();
        let reply = Reply::new(Server::OpenAi, 429, body.as_bytes())
            .with_headers(&map)
            .at(now);
        super::super::classify(&reply)
            .retry_after
            .map(|w| w.as_secs_f64())
    }

    #[test]
    fn headers_are_read_as_the_table_says() {
        // C026 and C027.
        for (headers, expected) in [
            (&[("retry-after", "0")][..], Some(0.0)),
            (&[("retry-after-ms", "0")], Some(0.0)),
            (&[("retry-after", "60")], Some(60.0)),
            (&[("retry-after-ms", "60000")], Some(60.0)),
            (&[("retry-after", "60.5")], Some(60.5)),
            (&[("retry-after", "-3")], None),
            (&[("retry-after", "NaN")], None),
            (&[("retry-after", "1e400")], None),
            (&[("retry-after", "")], None),
            (&[("retry-after", "soon")], None),
            (&[("retry-after-ms", "4250")], Some(4.25)),
            (
                &[("retry-after-ms", "4250"), ("retry-after", "5")],
                Some(4.25),
            ),
            (&[("retry-after-ms", "x"), ("retry-after", "5")], Some(5.0)),
            (&[("retry-after", "1.5")], Some(1.5)),
            (&[("retry-after", "1e30")], Some(86_400.0)),
            (&[("retry-after", "99999999999999999999")], Some(86_400.0)),
            (&[("retry-after-ms", "1e300")], Some(86_400.0)),
            (
                &[("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")],
                Some(86_400.0),
            ),
            (
                &[("retry-after", "Sun, 29 Nov 2026 23:00:12 GMT")],
                Some(12.0),
            ),
            (
                &[("retry-after", "Sun, 29 Nov 2026 22:00:00 GMT")],
                Some(0.0),
            ),
            (
                &[
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-reset-requests", "6m0s"),
                ],
                Some(360.0),
            ),
            (
                &[
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "850ms"),
                ],
                Some(0.85),
            ),
            (
                &[
                    ("x-ratelimit-remaining-tokens", "9"),
                    ("x-ratelimit-reset-tokens", "850ms"),
                ],
                None,
            ),
            (
                // Not told, as opposed to none.
                &[
                    ("x-ratelimit-remaining-tokens", "-1"),
                    ("x-ratelimit-reset-tokens", "850ms"),
                ],
                None,
            ),
            (
                &[
                    ("x-ratelimit-remaining", "0"),
                    ("x-ratelimit-reset", "1795993205000"),
                ],
                Some(5.0),
            ),
        ] {
            assert_eq!(wait(headers, "slow"), expected, "{headers:?}");
        }
    }

    #[test]
    fn a_wait_in_the_message_is_read_last() {
        for (message, expected) in [
            ("Please retry in 34.074824224s.", Some(34.074_824_224)),
            ("Please try again in 120ms.", Some(0.12)),
            ("Please try again in 6m54.72s. Visit", Some(414.72)),
            ("try again in 6m 11.52s", Some(371.52)),
            ("try again in 1h23m45.6s", Some(5_025.6)),
            ("Please retry after 7 seconds.", Some(7.0)),
            ("try again in 5", None),
            ("try again in a moment", None),
            ("try again in 5 sheep", None),
            (
                "try again in 99999999999999999999999999999h",
                Some(86_400.0),
            ),
        ] {
            let got = wait(&[], message);
            let same = match (got, expected) {
                (Some(a), Some(b)) => (a - b).abs() < 1e-6,
                (a, b) => a == b,
            };
            assert!(same, "{message}: {got:?}");
        }
        assert_eq!(wait(&[("retry-after", "2")], "try again in 9s"), Some(2.0));
    }
}
