//! What makes an answer valid, whatever it is worth.

use super::Answered;
use evenkeel_core::{ChatRequest, Output, ToolCall, ToolChoice, Value};
use evenkeel_schema_adapter::{Adapter, Checker};
use std::sync::Arc;

/// The schema of an answer and those of the tools that it may call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Form {
    schema: Option<Arc<Checker>>,
    /// By name; a tool without a schema takes any object.
    tools: Vec<(String, Option<Arc<Checker>>)>,
    must_call: bool,
}

impl Form {
    /// What `request` asks for.
    ///
    /// # Errors
    /// A schema that is none, and whose.
    pub(crate) fn new(request: &ChatRequest, adapter: &Adapter) -> Result<Self, String> {
        let schema = match &request.output {
            Output::JsonSchema { schema, .. } => Some(adapter.checker(schema)),
            Output::Text | Output::JsonObject => None,
        };
        let schema = schema.transpose().map_err(|error| error.to_string())?;
        let mut tools = Vec::with_capacity(request.tools.len());
        for tool in &request.tools {
            let checker = tool.parameters.as_ref().map(|s| adapter.checker(s));
            let checker = checker
                .transpose()
                .map_err(|error| format!("tool `{}`: {error}", tool.name))?;
            tools.push((tool.name.clone(), checker));
        }
        let must_call = matches!(
            request.tool_choice,
            Some(ToolChoice::Required | ToolChoice::Named(_))
        );
        Ok(Self {
            schema,
            tools,
            must_call,
        })
    }

    /// From now on an answer without a call is not valid.
    pub(crate) fn must_call(&mut self) {
        self.must_call = true;
    }

    pub(crate) fn schema(&self) -> Option<&Arc<Checker>> {
        self.schema.as_ref()
    }

    /// Whether the answer is valid; none where nothing is asked of its form.
    pub(crate) fn check(&self, answer: &Answered<'_>) -> Option<bool> {
        if self.schema.is_none() && self.tools.is_empty() {
            return None;
        }
        let mut calls = answer.response.tool_calls().peekable();
        if calls.peek().is_some() {
            return Some(calls.all(|call| self.takes(call)));
        }
        if self.must_call {
            return Some(false);
        }
        let Some(schema) = &self.schema else {
            return Some(true);
        };
        Some(answer.json().is_some_and(|json| schema.is_valid(json)))
    }

    fn takes(&self, call: &ToolCall) -> bool {
        let Some((_, checker)) = self.tools.iter().find(|(name, _)| *name == call.name) else {
            return false;
        };
        let arguments = arguments(call);
        arguments.is_some_and(|arguments| {
            arguments.is_object() && checker.as_ref().is_none_or(|c| c.is_valid(&arguments))
        })
    }
}

/// The arguments of a call; none where they are no JSON, `{}` where there are none.
pub(super) fn arguments(call: &ToolCall) -> Option<Value> {
    match call.arguments.trim() {
        "" => Some(Value::Object(evenkeel_core::Map::new())),
        text => serde_json::from_str(text).ok(),
    }
}
