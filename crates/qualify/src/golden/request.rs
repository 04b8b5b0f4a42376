//! What an item asks, read with the parser that reads clients' requests.

use super::Keys;
use crate::scorers::Form;
use evenkeel_core::{ChatRequest, Output, ToolChoice};
use evenkeel_providers::wire::openai::decode_request;
use evenkeel_schema_adapter::Adapter;
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// The ways to write a question; an item has one of them.
const QUESTIONS: [&str; 3] = ["prompt", "messages", "input"];

/// The name that a schema goes out under.
const SCHEMA_NAME: &str = "answer";

/// A question that was read.
pub(super) struct Question {
    pub(super) request: ChatRequest,
    pub(super) form: Form,
    /// Whether the item says which tools are to be called.
    pub(super) chooses: bool,
}

/// Takes the keys of the question; none where it is faulty.
pub(super) fn read(keys: &mut Keys<'_>, adapter: &Adapter) -> Option<Question> {
    let messages = messages(keys);
    let max_tokens = keys.count("max_tokens");
    let schema = keys.value("schema").filter(|schema| !schema.is_null());
    let tools = keys.array("tools");
    let tool_choice = keys.value("tool_choice").filter(|choice| !choice.is_null());
    let chooses = tool_choice.is_some();
    if tools.as_ref().is_some_and(Vec::is_empty) {
        keys.fault_of("tools", "must not be empty");
        return None;
    }
    if chooses && tools.is_none() {
        keys.fault_of("tool_choice", "needs `tools`");
        return None;
    }
    let mut body = Map::new();
    body.insert("model".into(), json!("golden"));
    body.insert("messages".into(), Value::Array(messages?));
    // The name that is not kept in its written form.
    let optional = [
        ("max_completion_tokens", max_tokens.map(Value::from)),
        ("tools", tools.map(Value::Array)),
        ("tool_choice", tool_choice),
    ];
    for (key, value) in optional {
        body.extend(value.map(|value| (key.to_owned(), value)));
    }
    let body = Value::Object(body).to_string();
    let mut request = match decode_request(body.as_bytes()) {
        Ok(read) => read.request,
        Err(error) => {
            keys.fault(error.to_string());
            return None;
        }
    };
    if let Some(schema) = schema {
        request.output = Output::JsonSchema {
            name: SCHEMA_NAME.into(),
            schema,
            strict: true,
            description: None,
        };
    }
    check_tools(&request, keys)?;
    match Form::new(&request, adapter) {
        Ok(form) => Some(Question {
            request,
            form,
            chooses,
        }),
        Err(what) => {
            keys.fault(what);
            None
        }
    }
}

fn messages(keys: &mut Keys<'_>) -> Option<Vec<Value>> {
    let given: Vec<&str> = QUESTIONS.into_iter().filter(|key| keys.has(key)).collect();
    let prompt = keys.text("prompt");
    let messages = keys.array("messages");
    let input = keys.value("input").filter(|input| !input.is_null());
    match given.as_slice() {
        [] => {
            keys.fault("asks nothing: one of `prompt`, `messages` and `input` is needed");
            return None;
        }
        [_] => {}
        several => {
            let several = several.join("` and `");
            keys.fault(format!("has `{several}`: one of them asks the question"));
            return None;
        }
    }
    let input = input.map(|input| match input {
        Value::String(text) => text,
        other => other.to_string(),
    });
    if input.as_ref().is_some_and(|text| text.trim().is_empty()) {
        keys.fault_of("input", "must not be empty");
        return None;
    }
    messages.or_else(|| {
        let text = prompt.or(input)?;
        Some(vec![json!({"role": "user", "content": text})])
    })
}

/// What no parser of requests looks at: names, and which tool is chosen.
fn check_tools(request: &ChatRequest, keys: &mut Keys<'_>) -> Option<()> {
    let mut names = HashSet::new();
    for tool in &request.tools {
        if tool.name.trim().is_empty() {
            keys.fault_of("tools", "has a tool with an empty name");
            return None;
        }
        if !names.insert(tool.name.as_str()) {
            keys.fault_of("tools", &format!("has two tools named `{}`", tool.name));
            return None;
        }
    }
    if let Some(ToolChoice::Named(name)) = &request.tool_choice
        && !names.contains(name.as_str())
    {
        keys.fault_of(
            "tool_choice",
            &format!("names `{name}`, none of its `tools`"),
        );
        return None;
    }
    Some(())
}
