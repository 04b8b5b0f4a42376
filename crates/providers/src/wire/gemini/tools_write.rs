//! Tools and the choice among them: neutral form to JSON.

use super::{DIALECT, add_unknown, openapi, own_field, tools_read};
use crate::wire::adapted::{Adapted, what};
use crate::wire::tool_names::ToolNames;
use evenkeel_core::{ChatRequest, Tool, ToolChoice};
use serde_json::{Map, Value, json};

/// Adds `tools` and `toolConfig` to a body.
pub(super) fn write(
    request: &ChatRequest,
    names: &ToolNames,
    map: &mut Map<String, Value>,
    adapted: &mut Adapted,
) {
    let mut functions = Vec::new();
    let mut entries = Vec::new();
    for tool in &request.tools {
        if let Some(settings) = provider_run(tool) {
            entries.push(json!({&tool.name: settings}));
        } else if is_foreign(tool) {
            adapted.foreign(what::SERVER_TOOL);
        } else {
            if tool.strict == Some(true) {
                adapted.left_out(what::STRICT_TOOL);
            }
            functions.push(function(tool, names));
        }
    }
    if !functions.is_empty() {
        entries.insert(0, json!({"functionDeclarations": functions}));
    }
    let has_tools = !entries.is_empty();
    if has_tools {
        map.insert("tools".into(), entries.into());
    }
    if let Some(config) = tool_config(request, has_tools, names) {
        map.insert("toolConfig".into(), config);
    }
    if request.parallel_tool_calls == Some(false) && has_tools {
        adapted.left_out(what::PARALLEL);
    }
}

/// The settings of a tool that this provider runs itself.
fn provider_run(tool: &Tool) -> Option<&Value> {
    let bare = tool.description.is_none() && tool.parameters.is_none();
    own_field(&tool.extra, &tool.name).filter(|_| bare && tool.extra.fields.len() == 1)
}

/// Whether another provider runs the tool: it has a type that is no function's.
fn is_foreign(tool: &Tool) -> bool {
    let kind = tool.extra.fields.get("type").and_then(Value::as_str);
    tool.extra.dialect != DIALECT && kind.is_some_and(|kind| !matches!(kind, "function" | "custom"))
}

fn function(tool: &Tool, names: &ToolNames) -> Value {
    let mut map = Map::new();
    map.insert("name".into(), names.wire(&tool.name).into());
    if let Some(description) = &tool.description {
        map.insert("description".into(), description.as_str().into());
    }
    if let Some(schema) = tool.parameters.as_ref().filter(|s| !takes_nothing(s)) {
        match own_field(&tool.extra, "parameters")
            .filter(|raw| openapi::to_json_schema(raw) == *schema)
        {
            Some(raw) => map.insert("parameters".into(), raw.clone()),
            None if openapi::is_openapi(schema) => map.insert("parameters".into(), schema.clone()),
            None => map.insert("parametersJsonSchema".into(), schema.clone()),
        };
    }
    add_unknown(&tool.extra, &["parameters"], &mut map);
    Value::Object(map)
}

/// Whether a schema allows an empty object only: the format wants it left out
/// then ("should be non-empty for OBJECT type").
fn takes_nothing(schema: &Value) -> bool {
    let Value::Object(schema) = schema else {
        return false;
    };
    schema.iter().all(|(name, value)| match name.as_str() {
        "type" => value == "object",
        "properties" => value.as_object().is_some_and(Map::is_empty),
        "required" => value.as_array().is_some_and(Vec::is_empty),
        "additionalProperties" => *value == Value::Bool(false),
        "$schema" | "title" | "description" => true,
        _ => false,
    })
}

fn tool_config(request: &ChatRequest, has_tools: bool, names: &ToolNames) -> Option<Value> {
    let kept = own_field(&request.extra, "toolConfig").and_then(Value::as_object);
    let mut config = kept.cloned().unwrap_or_default();
    let raw = config.shift_remove("functionCallingConfig");
    match &request.tool_choice {
        // Without tools the format refuses a mode, and these two say nothing.
        Some(ToolChoice::Auto | ToolChoice::None) if !has_tools => {}
        Some(choice) => {
            let holds = raw
                .as_ref()
                .and_then(tools_read::choice_of_written)
                .is_some_and(|read| read == *choice);
            let calling = match raw {
                Some(raw) if holds => raw,
                _ => calling(choice, |name| names.wire(name)).into(),
            };
            config.insert("functionCallingConfig".into(), calling);
        }
        // A mode that no neutral choice says.
        None => {
            let kept = raw.filter(|raw| tools_read::choice_of_written(raw).is_none());
            config.extend(kept.map(|raw| ("functionCallingConfig".to_owned(), raw)));
        }
    }
    (!config.is_empty()).then(|| config.into())
}

/// The `functionCallingConfig` of a choice.
pub(super) fn calling<'a>(
    choice: &'a ToolChoice,
    wire: impl FnOnce(&'a str) -> &'a str,
) -> Map<String, Value> {
    let mut map = Map::new();
    let mode = match choice {
        ToolChoice::Auto => "AUTO",
        ToolChoice::None => "NONE",
        ToolChoice::Required | ToolChoice::Named(_) => "ANY",
    };
    map.insert("mode".into(), mode.into());
    if let ToolChoice::Named(name) = choice {
        map.insert("allowedFunctionNames".into(), json!([wire(name)]));
    }
    map
}
