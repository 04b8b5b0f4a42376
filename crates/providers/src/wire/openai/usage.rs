//! Token counts.

use evenkeel_core::Usage;
use serde_json::{Map, Value};

/// Reads a `usage` object; none where it counts nothing.
pub(in crate::wire) fn read(value: &Value) -> Option<Usage> {
    let count = |name: &str| value.get(name).and_then(Value::as_u64);
    let inner = |group: &str, name: &str| value.get(group)?.get(name)?.as_u64();
    let (input, output, total) = (
        count("prompt_tokens"),
        count("completion_tokens"),
        count("total_tokens"),
    );
    if [input, output, total].into_iter().flatten().all(|n| n == 0) {
        // Nothing, or zeros in the place of counts: no answer takes no input.
        return None;
    }
    let rest = |known: Option<u64>| total.unwrap_or(0).saturating_sub(known.unwrap_or(0));
    Some(Usage {
        input: input.unwrap_or_else(|| rest(output)),
        output: output.unwrap_or_else(|| rest(input)),
        cached: inner("prompt_tokens_details", "cached_tokens")
            .or_else(|| count("prompt_cache_hit_tokens")),
        cache_write: inner("prompt_tokens_details", "cache_write_tokens"),
        reasoning: inner("completion_tokens_details", "reasoning_tokens"),
    })
}

/// Writes a `usage` object.
pub(in crate::wire) fn write(usage: Usage) -> Value {
    let mut map = Map::new();
    map.insert("prompt_tokens".into(), usage.input.into());
    map.insert("completion_tokens".into(), usage.output.into());
    let total = usage.input.saturating_add(usage.output);
    map.insert("total_tokens".into(), total.into());
    let input = [
        ("cached_tokens", usage.cached),
        ("cache_write_tokens", usage.cache_write),
    ];
    let output = [("reasoning_tokens", usage.reasoning)];
    for (group, counts) in [
        ("prompt_tokens_details", &input[..]),
        ("completion_tokens_details", &output[..]),
    ] {
        let known: Map<String, Value> = counts
            .iter()
            .filter_map(|(name, count)| Some(((*name).to_owned(), (*count)?.into())))
            .collect();
        if !known.is_empty() {
            map.insert(group.into(), known.into());
        }
    }
    Value::Object(map)
}
