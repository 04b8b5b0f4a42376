//! Token counts. Cached tokens stand beside `input_tokens`, not inside.

use evenkeel_core::Usage;
use serde_json::{Map, Value, json};

/// Reads a `usage` object; none where it counts nothing.
pub(super) fn read(value: &Value) -> Option<Usage> {
    let count = |name: &str| value.get(name).and_then(Value::as_u64);
    let cached = count("cache_read_input_tokens");
    let cache_write = count("cache_creation_input_tokens");
    let input = [count("input_tokens"), cached, cache_write]
        .into_iter()
        .flatten()
        .fold(0, u64::saturating_add);
    let output = count("output_tokens").unwrap_or(0);
    // No answer takes no input: these are zeros in the place of counts.
    (input > 0 || output > 0).then(|| Usage {
        input,
        output,
        cached,
        cache_write,
        reasoning: value
            .get("output_tokens_details")
            .and_then(|d| d.get("thinking_tokens")?.as_u64()),
    })
}

/// Writes a `usage` object.
pub(super) fn write(usage: Usage) -> Map<String, Value> {
    let beside = usage
        .cached
        .unwrap_or(0)
        .saturating_add(usage.cache_write.unwrap_or(0));
    let mut map = Map::new();
    map.insert(
        "input_tokens".into(),
        usage.input.saturating_sub(beside).into(),
    );
    for (name, count) in [
        ("cache_creation_input_tokens", usage.cache_write),
        ("cache_read_input_tokens", usage.cached),
    ] {
        if let Some(count) = count {
            map.insert(name.into(), count.into());
        }
    }
    map.insert("output_tokens".into(), usage.output.into());
    if let Some(count) = usage.reasoning {
        map.insert(
            "output_tokens_details".into(),
            json!({"thinking_tokens": count}),
        );
    }
    map
}

/// The written form kept in `raw` where it still counts `usage`, else `usage`
/// written; zeros where nothing was counted, since the format requires counts.
pub(super) fn form(raw: Option<&Value>, usage: Option<Usage>) -> Map<String, Value> {
    match (raw, usage) {
        (Some(raw @ Value::Object(map)), Some(_)) if read(raw) == usage => map.clone(),
        (_, usage) => write(usage.unwrap_or_default()),
    }
}
