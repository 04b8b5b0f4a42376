//! Tools and the choice among them: JSON to neutral form.

use super::names::{camel_keys, camel_value};
use super::{extra, openapi, tools_write};
use crate::wire::RequestError;
use crate::wire::fields::Fields;
use evenkeel_core::{Tool, ToolChoice};
use serde_json::{Map, Value};

/// The tools of a `tools` array: functions, and what the provider runs itself,
/// which is known by its field and otherwise opaque.
pub(super) fn tools(entries: Vec<Value>) -> Result<Vec<Tool>, RequestError> {
    let mut tools = Vec::new();
    for (i, entry) in entries.into_iter().enumerate() {
        let path = format!("tools[{i}]");
        let Value::Object(entry) = entry else {
            return Err(RequestError::wrong_type(path, "an object", &entry));
        };
        let mut entry = Fields::new(camel_keys(entry), path);
        let path = entry.path("functionDeclarations");
        let declared = entry.array("functionDeclarations")?.unwrap_or_default();
        for (i, function) in declared.into_iter().enumerate() {
            let fields = Fields::of(camel_value(function), format!("{path}[{i}]"))?;
            tools.push(function_of(fields)?);
        }
        tools.extend(entry.rest().into_iter().map(provider_tool));
    }
    Ok(tools)
}

fn function_of(mut fields: Fields) -> Result<Tool, RequestError> {
    let name = fields.required_string("name")?;
    let description = fields.string("description")?;
    let parameters = match (
        fields.take("parametersJsonSchema"),
        fields.peek("parameters"),
    ) {
        (Some(schema), _) => Some(schema),
        // The written form stays.
        (None, Some(openapi)) => Some(openapi::to_json_schema(openapi)),
        (None, None) => None,
    };
    Ok(Tool {
        name,
        description,
        parameters,
        strict: None,
        extra: extra(fields.rest()),
    })
}

fn provider_tool((name, settings): (String, Value)) -> Tool {
    let mut fields = Map::new();
    fields.insert(name.clone(), settings);
    Tool {
        name,
        description: None,
        parameters: None,
        strict: None,
        extra: extra(fields),
    }
}

/// What a `toolConfig` says, and what of it has no neutral form.
pub(super) fn choice(
    config: Map<String, Value>,
) -> Result<(Option<ToolChoice>, Map<String, Value>), RequestError> {
    let mut fields = Fields::new(camel_keys(config), "toolConfig");
    let path = fields.path("functionCallingConfig");
    let Some(calling) = fields.object("functionCallingConfig")? else {
        return Ok((None, fields.rest()));
    };
    let calling = camel_keys(calling);
    let choice = choice_of(Fields::new(calling.clone(), path))?;
    let written = choice
        .as_ref()
        .map(|choice| tools_write::calling(choice, |n| n));
    if written.as_ref() != Some(&calling) {
        fields.keep("functionCallingConfig", calling.into());
    }
    Ok((choice, fields.rest()))
}

/// The choice that a kept `functionCallingConfig` says.
pub(super) fn choice_of_written(calling: &Value) -> Option<ToolChoice> {
    let calling = calling.as_object()?.clone();
    choice_of(Fields::new(calling, "")).ok().flatten()
}

fn choice_of(mut calling: Fields) -> Result<Option<ToolChoice>, RequestError> {
    let mode = calling.string("mode")?.unwrap_or_default();
    let names = calling.array("allowedFunctionNames")?.unwrap_or_default();
    Ok(match (mode.as_str(), &names[..]) {
        // The answer obeys the schemas, or is text.
        ("AUTO" | "VALIDATED", _) => Some(ToolChoice::Auto),
        ("NONE", _) => Some(ToolChoice::None),
        ("ANY", [Value::String(name)]) => Some(ToolChoice::Named(name.clone())),
        ("ANY", _) => Some(ToolChoice::Required),
        _ => None,
    })
}
