//! Token counts.

use evenkeel_core::Usage;
use serde_json::{Map, Value};

/// Reads a `usageMetadata` object; none where it counts nothing.
///
/// Prompts of the provider's own tools count as input, thoughts as output:
/// neither is inside the count beside it.
pub(super) fn read(value: &Value) -> Option<Usage> {
    let count = |name: &str| value.get(name).and_then(Value::as_u64);
    let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
    };
    let reasoning = count("thoughtsTokenCount");
    let input = sum(count("promptTokenCount"), count("toolUsePromptTokenCount"));
    let output = sum(count("candidatesTokenCount"), reasoning);
    let total = count("totalTokenCount");
    if [input, output, total].into_iter().flatten().all(|n| n == 0) {
        // Nothing, or zeros in the place of counts: no answer takes no input.
        return None;
    }
    let rest = |known: Option<u64>| total.unwrap_or(0).saturating_sub(known.unwrap_or(0));
    Some(Usage {
        input: input.unwrap_or_else(|| rest(output)),
        output: output.unwrap_or_else(|| rest(input)),
        cached: count("cachedContentTokenCount"),
        cache_write: None,
        reasoning,
    })
}

/// Writes a `usageMetadata` object.
pub(super) fn write(usage: Usage) -> Value {
    let mut map = Map::new();
    let candidates = usage.output.saturating_sub(usage.reasoning.unwrap_or(0));
    map.insert("promptTokenCount".into(), usage.input.into());
    map.insert("candidatesTokenCount".into(), candidates.into());
    let total = usage.input.saturating_add(usage.output);
    map.insert("totalTokenCount".into(), total.into());
    for (name, count) in [
        ("thoughtsTokenCount", usage.reasoning),
        ("cachedContentTokenCount", usage.cached),
    ] {
        if let Some(count) = count {
            map.insert(name.into(), count.into());
        }
    }
    Value::Object(map)
}
