//! Rate limits read from headers, as the providers write them.

use crate::fixtures;
use evenkeel_core::{Allowance, RateLimits};
use evenkeel_providers::wire::rate_limits;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// 2026-11-29 23:00:00 UTC.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_795_993_200)
}

fn read(headers: &[(&str, &str)]) -> Option<RateLimits> {
    let map: HeaderMap = headers
        .iter()
        .map(|(name, value)| {
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        })
        .collect();
    rate_limits(&map, now())
}

fn allowance(limit: u64, remaining: u64, reset_ms: u64) -> Allowance {
    Allowance {
        limit: Some(limit),
        remaining: Some(remaining),
        reset: Some(Duration::from_millis(reset_ms)),
    }
}

#[test]
fn openai_writes_resets_as_durations() {
    let limits = read(&[
        ("x-ratelimit-limit-requests", "500"),
        ("x-ratelimit-remaining-requests", "499"),
        ("x-ratelimit-reset-requests", "120ms"),
        ("x-ratelimit-limit-tokens", "30000"),
        ("x-ratelimit-remaining-tokens", "29100"),
        ("x-ratelimit-reset-tokens", "1m1.8s"),
    ])
    .unwrap();
    assert_eq!(limits.requests, allowance(500, 499, 120));
    assert_eq!(limits.tokens, allowance(30_000, 29_100, 61_800));
    assert_eq!(limits.input_tokens, Allowance::default());
    for (text, ms) in [("1s", 1_000), ("6m0s", 360_000), ("2m59.56s", 179_560)] {
        let limits = read(&[("x-ratelimit-reset-requests", text)]).unwrap();
        assert_eq!(limits.requests.reset, Some(Duration::from_millis(ms)));
    }
}

#[test]
fn anthropic_writes_times_and_counts_input_and_output_apart() {
    let limits = read(&[
        ("anthropic-ratelimit-requests-limit", "1000"),
        ("anthropic-ratelimit-requests-remaining", "998"),
        ("anthropic-ratelimit-requests-reset", "2026-11-29T23:00:01Z"),
        ("anthropic-ratelimit-input-tokens-limit", "40000"),
        ("anthropic-ratelimit-input-tokens-remaining", "0"),
        (
            "anthropic-ratelimit-input-tokens-reset",
            "2026-11-29T23:00:13Z",
        ),
        ("anthropic-ratelimit-output-tokens-remaining", "8000"),
        ("anthropic-ratelimit-tokens-reset", "2026-11-29T22:00:00Z"),
        ("anthropic-priority-input-tokens-remaining", "7"),
    ])
    .unwrap();
    assert_eq!(limits.requests, allowance(1_000, 998, 1_000));
    assert_eq!(limits.input_tokens, allowance(40_000, 0, 13_000));
    assert_eq!(limits.output_tokens.remaining, Some(8_000));
    assert_eq!(limits.tokens.reset, Some(Duration::ZERO), "it is past");
}

#[test]
fn mistral_names_the_minute_and_openrouter_nothing() {
    let limits = read(&[
        ("x-ratelimit-limit-req-minute", "60"),
        ("x-ratelimit-remaining-req-minute", "12"),
        ("x-ratelimit-limit-tokens-minute", "500000"),
        ("x-ratelimit-remaining-tokens-minute", "0"),
    ])
    .unwrap();
    assert_eq!(
        (limits.requests.limit, limits.requests.remaining),
        (Some(60), Some(12))
    );
    assert_eq!(limits.tokens.remaining, Some(0));
    let limits = read(&[
        ("x-ratelimit-limit", "20"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1795993205000"),
    ])
    .unwrap();
    assert_eq!(limits.requests, allowance(20, 0, 5_000));
}

#[test]
fn azure_reports_what_is_left_alone() {
    let limits = read(&[("x-ratelimit-remaining-tokens", "0")]).unwrap();
    let expected = Allowance {
        remaining: Some(0),
        ..Allowance::default()
    };
    assert_eq!(limits.tokens, expected);
}

#[test]
fn what_cannot_be_read_is_left_out() {
    assert_eq!(read(&[]), None);
    assert_eq!(read(&[("content-type", "application/json")]), None);
    for (name, value) in [
        ("x-ratelimit-remaining-requests", "many"),
        ("x-ratelimit-remaining-requests", ""),
        ("x-ratelimit-remaining-requests", "NaN"),
        ("x-ratelimit-reset-requests", "in a while"),
        ("x-ratelimit-remaining-images", "3"),
        ("x-ratelimit-", "3"),
        ("anthropic-ratelimit-", "3"),
        ("anthropic-ratelimit-requests-reset", "2026-13-29T23:00:01Z"),
    ] {
        assert_eq!(read(&[(name, value)]), None, "{name}: {value}");
    }
    let fraction = read(&[("x-ratelimit-remaining-requests", "12.7")]).unwrap();
    assert_eq!(fraction.requests.remaining, Some(12));
}

/// Trap 76.
#[test]
fn an_absurd_reset_is_cut_to_a_day() {
    for (name, value) in [
        ("anthropic-ratelimit-tokens-reset", "9999-01-01T00:00:00Z"),
        ("x-ratelimit-reset-tokens", "99999999999999999999999h"),
        ("x-ratelimit-reset-tokens", "1e300"),
    ] {
        let limits = read(&[(name, value)]).unwrap();
        let day = Duration::from_secs(86_400);
        assert_eq!(limits.tokens.reset, Some(day), "{name}: {value}");
    }
}

/// Azure and OpenAI-compatible servers write it for no limit, or for one they do not know.
#[test]
fn less_than_none_left_is_not_told() {
    for value in ["-1", "-1.0", "-9999999999999999999999"] {
        assert_eq!(read(&[("x-ratelimit-remaining-tokens", value)]), None);
        assert_eq!(read(&[("x-ratelimit-limit-requests", value)]), None);
    }
    let limits = read(&[
        ("x-ratelimit-remaining-requests", "-1"),
        ("x-ratelimit-remaining-tokens", "0"),
    ])
    .unwrap();
    assert_eq!(limits.requests, Allowance::default());
    assert_eq!(limits.tokens.remaining, Some(0));
}

/// Every answer and error that was recorded: the limits in its headers are read.
#[test]
fn recorded_headers_are_read() {
    let mut with = 0;
    for fixture in fixtures::all() {
        let read = rate_limits(&fixture.headers(), now());
        let any = fixture.headers().keys().any(|name| {
            let name = name.as_str();
            name.starts_with("x-ratelimit-") || name.starts_with("anthropic-ratelimit-")
        });
        assert_eq!(read.is_some(), any, "{}", fixture.file);
        with += usize::from(any);
    }
    assert!(with > 20, "{with} fixtures with limits");
}

proptest! {
    #[test]
    fn no_header_can_make_it_panic(
        headers in prop::collection::vec(
            (
                prop::sample::select(vec![
                    "x-ratelimit-limit-requests", "x-ratelimit-remaining-tokens",
                    "x-ratelimit-reset-requests", "x-ratelimit-reset",
                    "x-ratelimit-remaining-req-minute", "x-ratelimit-limit-tokens-minute",
                    "anthropic-ratelimit-requests-reset", "anthropic-ratelimit-tokens-limit",
                    "anthropic-ratelimit-input-tokens-remaining",
                ]),
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..24),
                    "[0-9.e+-]{0,24}".prop_map(String::into_bytes),
                    "[0-9]{1,6}(ms|s|m|h)[0-9.]{0,6}s?".prop_map(String::into_bytes),
                    "[+-]?[0-9]{4,6}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,12}Z".prop_map(String::into_bytes),
                ],
            ),
            0..12,
        ),
        seconds in 0u64..4_000_000_000,
    ) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                map.append(HeaderName::from_static(name), value);
            }
        }
        let _ = rate_limits(&map, UNIX_EPOCH + Duration::from_secs(seconds));
    }

    #[test]
    fn what_is_written_is_read(
        limit in any::<u64>(),
        remaining in any::<u64>(),
        seconds in 0u64..10_000,
    ) {
        let read = read(&[
            ("x-ratelimit-limit-tokens", &limit.to_string()),
            ("x-ratelimit-remaining-tokens", &remaining.to_string()),
            ("x-ratelimit-reset-tokens", &format!("{}m{}s", seconds / 60, seconds % 60)),
        ]);
        prop_assert_eq!(read.unwrap().tokens, allowance(limit, remaining, seconds * 1_000));
    }
}
