//! The form in which a ticket is kept: its request as `OpenAI`'s JSON, which is
//! what the gateway lives by and reads back without loss.

use evenkeel_core::{
    Baggage, CallContext, ChatRequest, ClockOverrides, Complexity, ModelId, TicketError,
};
use evenkeel_providers::wire::openai::{Options, decode_request, encode_request};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A request of a role, as text. It is read back before it is kept: a ticket
/// must not ask for something else than its caller did.
pub(super) fn write_request(request: &ChatRequest, role: &str) -> Result<String, TicketError> {
    let write = |request: &ChatRequest| encode_request(request, role, false, &Options::default());
    let written = write(request);
    if !written.adapted.is_empty() {
        return Err(TicketError::Unwritable(written.adapted.join("; ")));
    }
    let text = written.body.to_string();
    let read = read_request(&text).map_err(TicketError::Unwritable)?;
    if write(&read).body == written.body {
        return Ok(text);
    }
    let message = "it would not read back the same".to_owned();
    Err(TicketError::Unwritable(message))
}

pub(super) fn read_request(text: &str) -> Result<ChatRequest, String> {
    let read = decode_request(text.as_bytes()).map_err(|error| error.to_string())?;
    Ok(read.request)
}

/// Tells one request of a role from another, beside the caller's key for it.
pub(super) fn fingerprint(request: &str) -> Vec<u8> {
    digest(&SHA256, request.as_bytes()).as_ref().to_vec()
}

/// What accompanies a call, as far as it outlives it.
pub(super) fn write_context(context: &CallContext) -> String {
    let CallContext {
        request_id,
        // Both have columns of their own.
        caller: _,
        idempotency_key: _,
        session,
        workflow,
        degradation,
        baggage,
        task,
        complexity,
        min_capability,
        pinned_roster,
        prompt_variables,
        // They ended with the call.
        clocks: _,
        trace: _,
    } = context;
    let mut said = Map::new();
    for (name, value) in [
        ("request_id", request_id),
        ("session", session),
        ("workflow", workflow),
        ("task", task),
    ] {
        if let Some(value) = value {
            said.insert(name.to_owned(), Value::from(&**value));
        }
    }
    if let Some(baggage) = baggage.write(degradation) {
        said.insert("baggage".to_owned(), Value::from(baggage));
    }
    if let Some(complexity) = complexity {
        said.insert("complexity".to_owned(), complexity.as_str().into());
    }
    if let Some(least) = min_capability {
        said.insert("min_capability".to_owned(), json!(least));
    }
    if let Some(models) = pinned_roster {
        let models: Vec<&str> = models.iter().map(ModelId::as_str).collect();
        said.insert("pinned_roster".to_owned(), json!(models));
    }
    if !prompt_variables.is_empty() {
        said.insert("prompt_variables".to_owned(), json!(prompt_variables));
    }
    Value::Object(said).to_string()
}

pub(super) fn read_context(text: &str) -> Result<CallContext, String> {
    let said: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let word = |name: &str| said[name].as_str().map(Arc::from);
    let variables = said["prompt_variables"].as_object();
    let variables: BTreeMap<String, String> = variables
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect();
    let pinned = said["pinned_roster"].as_array();
    let pinned: Option<Result<Vec<ModelId>, _>> = pinned.map(|models| {
        let models = models
            .iter()
            .map(|model| model.as_str().unwrap_or_default());
        models.map(ModelId::new).collect()
    });
    let baggage = Baggage::read(said["baggage"].as_str());
    Ok(CallContext {
        request_id: word("request_id"),
        caller: None,
        idempotency_key: None,
        session: word("session"),
        workflow: word("workflow"),
        degradation: baggage.degradation(),
        baggage,
        task: word("task"),
        complexity: said["complexity"].as_str().and_then(Complexity::named),
        min_capability: said["min_capability"].as_f64(),
        pinned_roster: pinned.transpose().map_err(|error| error.to_string())?,
        prompt_variables: variables,
        clocks: ClockOverrides::default(),
        trace: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Extra, Part};

    fn request(body: &Value) -> ChatRequest {
        decode_request(body.to_string().as_bytes()).unwrap().request
    }

    #[test]
    fn a_request_comes_back_with_every_field_known_or_not() {
        let body = json!({
            "model": "planner",
            "messages": [
                { "role": "developer", "content": "Be brief.", "cache": true },
                { "role": "user", "name": "ann", "content": [
                    { "type": "text", "text": "What is this? é \u{1f30a}" },
                    { "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==", "detail": "low" } },
                    { "type": "input_audio", "input_audio": { "data": "AA==", "format": "wav" } },
                ] },
                { "role": "assistant", "content": null, "tool_calls": [
                    { "id": "c1", "type": "function", "function": { "name": "f", "arguments": "{\"x\": 1.10}" } },
                ] },
                { "role": "tool", "tool_call_id": "c1", "content": "done" },
            ],
            "tools": [{ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } }],
            "tool_choice": "required",
            "response_format": { "type": "json_schema", "json_schema": { "name": "a", "schema": { "type": "object" }, "strict": true } },
            "temperature": 0.1, "seed": -3, "max_tokens": 12, "stop": "END", "user": "u",
            "metadata": { "a": "b" }, "reasoning_effort": "low",
            "x_future": { "deep": [1, 2.5, null] },
        });
        let request = request(&body);
        let text = write_request(&request, "planner").unwrap();
        assert_eq!(read_request(&text).unwrap(), request);
    }

    /// No wire of the gateway makes such a request yet; one that did would lose a part here.
    #[test]
    fn what_would_not_come_back_is_refused() {
        let mut foreign = ChatRequest::user("hello");
        foreign.messages[0].parts.push(Part::Other(Extra {
            dialect: "another",
            fields: Map::from_iter([("type".to_owned(), json!("thing"))]),
        }));
        let refused = write_request(&foreign, "planner");
        assert!(
            matches!(refused, Err(TicketError::Unwritable(_))),
            "{refused:?}"
        );
    }

    #[test]
    fn what_accompanies_a_call_comes_back() {
        let context = CallContext {
            request_id: Some("r".into()),
            session: Some("s".into()),
            workflow: Some("w \"quoted\"".into()),
            task: Some("code_review".into()),
            complexity: Complexity::named("high"),
            min_capability: Some(0.85),
            pinned_roster: Some(vec![ModelId::new("a/m").unwrap()]),
            prompt_variables: BTreeMap::from([("product".to_owned(), "boat".to_owned())]),
            ..CallContext::default()
        };
        let read = read_context(&write_context(&context)).unwrap();
        assert_eq!(format!("{read:?}"), format!("{context:?}"));
        let carries = CallContext {
            baggage: Baggage::read(["vendor=x;p=1,evenkeel.degraded=1"]),
            ..CallContext::default()
        };
        let read = read_context(&write_context(&carries)).unwrap();
        let others = read.baggage.write(&read.degradation);
        assert_eq!(others.as_deref(), Some("vendor=x;p=1"));
        let nothing = read_context(&write_context(&CallContext::default())).unwrap();
        assert!(nothing.session.is_none() && nothing.prompt_variables.is_empty());
    }
}
