//! `generationConfig`: neutral form to JSON.

use super::config_read::JSON;
use super::options::Thinking;
use super::{openapi, own_field, thinking};
use crate::wire::adapted::{Adapted, done, what};
use evenkeel_core::{ChatRequest, Output};
use serde_json::{Map, Value};

/// Most texts that may end an answer. Google's reference, `stopSequences`.
const MAX_STOPS: usize = 5;
/// Highest temperature. Google's reference, `temperature`.
const MAX_TEMPERATURE: f64 = 2.0;

/// The `generationConfig` of a request; empty where nothing is asked.
pub(super) fn config(
    request: &ChatRequest,
    how: Thinking,
    adapted: &mut Adapted,
) -> Map<String, Value> {
    let mut map = Map::new();
    sampling(request, &mut map, adapted);
    if let Some(tokens) = request.max_output_tokens {
        map.insert("maxOutputTokens".into(), tokens.into());
    }
    if !request.stop.is_empty() {
        if request.stop.len() > MAX_STOPS {
            adapted.note(what::STOP, done::TOO_MANY);
        }
        let stops = request.stop.iter().take(MAX_STOPS);
        map.insert("stopSequences".into(), stops.map(String::as_str).collect());
    }
    let kept = match own_field(&request.extra, "generationConfig") {
        Some(Value::Object(kept)) => Some(kept),
        _ => None,
    };
    output(&request.output, kept, &mut map, adapted);
    think(request, kept, how, &mut map, adapted);
    for (name, value) in kept.into_iter().flatten() {
        if !WRITTEN.contains(&name.as_str()) {
            map.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    map
}

/// Fields whose kept form is written only where it still holds.
const WRITTEN: [&str; 4] = [
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "thinkingConfig",
];

fn sampling(request: &ChatRequest, map: &mut Map<String, Value>, adapted: &mut Adapted) {
    let sampling = &request.sampling;
    let temperature = sampling.temperature.map(|asked| {
        let taken = asked.clamp(0.0, MAX_TEMPERATURE);
        if !(0.0..=MAX_TEMPERATURE).contains(&asked) {
            adapted.clamped("temperature");
        }
        taken
    });
    for (name, value) in [
        ("temperature", temperature),
        ("topP", sampling.top_p),
        ("presencePenalty", sampling.presence_penalty),
        ("frequencyPenalty", sampling.frequency_penalty),
    ] {
        if let Some(value) = value {
            map.insert(name.into(), value.into());
        }
    }
    if let Some(top_k) = sampling.top_k {
        map.insert("topK".into(), top_k.into());
    }
    if let Some(seed) = sampling.seed {
        // 32 bits in Google's reference.
        let taken = seed.clamp(i32::MIN.into(), i32::MAX.into());
        if taken != seed {
            adapted.clamped("seed");
        }
        map.insert("seed".into(), taken.into());
    }
}

fn output(
    output: &Output,
    kept: Option<&Map<String, Value>>,
    map: &mut Map<String, Value>,
    adapted: &mut Adapted,
) {
    let kept = |name: &str| kept.and_then(|kept| kept.get(name));
    match output {
        Output::Text => {
            for name in ["responseMimeType", "responseSchema", "responseJsonSchema"] {
                if let (Some(value), Some(_)) = (kept(name), kept("responseMimeType")) {
                    map.insert(name.into(), value.clone());
                }
            }
        }
        Output::JsonObject => {
            map.insert("responseMimeType".into(), JSON.into());
        }
        Output::JsonSchema {
            schema,
            description,
            ..
        } => {
            if description.is_some() {
                adapted.left_out(what::SCHEMA_DESCRIPTION);
            }
            map.insert("responseMimeType".into(), JSON.into());
            match kept("responseSchema").filter(|raw| openapi::to_json_schema(raw) == *schema) {
                Some(raw) => map.insert("responseSchema".into(), raw.clone()),
                None if openapi::is_openapi(schema) => {
                    map.insert("responseSchema".into(), schema.clone())
                }
                None => map.insert("responseJsonSchema".into(), schema.clone()),
            };
        }
    }
}

fn think(
    request: &ChatRequest,
    kept: Option<&Map<String, Value>>,
    how: Thinking,
    map: &mut Map<String, Value>,
    adapted: &mut Adapted,
) {
    let mut config = match kept.and_then(|kept| kept.get("thinkingConfig")) {
        Some(Value::Object(config)) => config.clone(),
        _ => Map::new(),
    };
    if let Some(reasoning) = request.reasoning {
        thinking::write(reasoning, how, &mut config, adapted);
    }
    if !config.is_empty() {
        map.insert("thinkingConfig".into(), config.into());
    }
}
