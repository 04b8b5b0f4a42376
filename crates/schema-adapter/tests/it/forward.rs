//! A model that answers as the schema on the wire asks: the counterpart of the way back.

use serde_json::{Map, Value};

/// `value` as an answer to `schema`: null where a property has to be there and is not. None where the
/// schema does not let it in. Bounds are not looked at.
pub(crate) fn forward(root: &Value, schema: &Value, value: &Value) -> Option<Value> {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(reference.strip_prefix('#')?)?;
        return forward(root, target, value);
    }
    if value.is_null() && schema.get("nullable") == Some(&Value::Bool(true)) {
        return Some(Value::Null);
    }
    if let Some(Value::Array(branches)) = schema.get("anyOf") {
        return branches.iter().find_map(|b| forward(root, b, value));
    }
    if !has_type(schema, value) {
        return None;
    }
    if let Some(Value::Array(values)) = schema.get("enum")
        && !values.iter().any(|v| equal(v, value))
    {
        return None;
    }
    if schema
        .get("const")
        .is_some_and(|constant| !equal(constant, value))
    {
        return None;
    }
    match value {
        Value::Object(map) => object(root, schema, map),
        Value::Array(items) => {
            let prefix = schema.get("prefixItems").and_then(Value::as_array);
            let forwarded = items.iter().enumerate().map(|(i, item)| {
                let schema = prefix.and_then(|p| p.get(i)).or(schema.get("items"));
                schema.map_or(Some(item.clone()), |schema| forward(root, schema, item))
            });
            forwarded.collect::<Option<Vec<Value>>>().map(Value::Array)
        }
        other => Some(other.clone()),
    }
}

fn object(root: &Value, schema: &Value, map: &Map<String, Value>) -> Option<Value> {
    let empty = Map::new();
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|r| r.iter().any(|n| n == name));
    let mut out = Map::new();
    for (name, schema) in properties {
        match map.get(name) {
            Some(value) => {
                out.insert(name.clone(), forward(root, schema, value)?);
            }
            // A schema of any value means the value itself, not null for its absence.
            None if is_required(name) && schema.as_object().is_some_and(Map::is_empty) => {
                return None;
            }
            None if is_required(name) => {
                out.insert(name.clone(), forward(root, schema, &Value::Null)?);
            }
            None => {}
        }
    }
    for (name, value) in map
        .iter()
        .filter(|(name, _)| !properties.contains_key(*name))
    {
        let value = match schema.get("additionalProperties") {
            Some(Value::Bool(true)) => value.clone(),
            Some(Value::Bool(false)) => return None,
            Some(schema) => forward(root, schema, value)?,
            // A schema of any value, or Gemini's older words, which name every property.
            None if schema.get("type").is_none() => value.clone(),
            None => return None,
        };
        out.insert(name.clone(), value);
    }
    Some(Value::Object(out))
}

fn has_type(schema: &Value, value: &Value) -> bool {
    let is = |name: &str| match name.to_lowercase().as_str() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|n| n.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("type {other}"),
    };
    match schema.get("type") {
        Some(Value::String(name)) => is(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}

/// 1 and 1.0 are one value.
fn equal(a: &Value, b: &Value) -> bool {
    a == b || a.is_number() && a.as_f64() == b.as_f64()
}

/// `value` without properties that are null.
pub(crate) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name.clone(), without_nulls(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
