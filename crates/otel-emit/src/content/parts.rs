//! Messages and their parts in the conventions' schema.

use super::Kept;
use evenkeel_core::{Message, Part, Role, Value};
use serde_json::json;

/// One message.
pub(super) fn message(kept: &Kept, message: &Message) -> Value {
    let role = match message.role {
        Role::System | Role::Developer => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let parts: Vec<Value> = message.parts.iter().map(|p| part(kept, p)).collect();
    json!({ "role": role, "parts": parts })
}

/// One part. What is no text is told by its kind: an image's bytes are not kept.
pub(super) fn part(kept: &Kept, part: &Part) -> Value {
    match part {
        Part::Text(text) | Part::Refusal(text) => {
            json!({ "type": "text", "content": kept.text(text) })
        }
        Part::Reasoning(reasoning) => {
            json!({ "type": "reasoning", "content": kept.text(&reasoning.text) })
        }
        Part::ToolCall(call) => json!({
            "type": "tool_call",
            "id": kept.text(&call.id),
            "name": kept.text(&call.name),
            "arguments": kept.text(&call.arguments),
        }),
        Part::ToolResult(result) => {
            let text: String = result
                .parts
                .iter()
                .filter_map(|part| match part {
                    Part::Text(text) => Some(text.as_str()),
                    _ => None,
                })
                .collect();
            json!({
                "type": "tool_call_response",
                "id": kept.text(&result.call_id),
                "response": kept.text(&text),
            })
        }
        Part::Image(image) if image.url.starts_with("data:") => {
            json!({ "type": "blob", "modality": "image", "content": "" })
        }
        Part::Image(image) => {
            json!({ "type": "uri", "modality": "image", "uri": kept.text(&image.url) })
        }
        _ => json!({ "type": "other" }),
    }
}

#[cfg(test)]
mod tests {
    use crate::content::{Capture, CaptureContent, Captured};
    use evenkeel_core::{ChatRequest, Message, Part, Role, Tool, ToolCall, Value};
    use opentelemetry::KeyValue;
    use std::sync::Arc;

    fn captured(redaction: Option<fn(&str) -> String>) -> Captured {
        let capture = Capture {
            content: CaptureContent::Span,
            redaction: redaction.map(|f| Arc::new(f) as _),
        };
        Captured::of(capture).unwrap()
    }

    fn read(said: &[KeyValue], key: &str) -> Value {
        let told = said.iter().find(|kv| kv.key.as_str() == key).unwrap();
        serde_json::from_str(&told.value.as_str()).unwrap()
    }

    #[test]
    fn a_request_is_told_in_the_conventions_messages() {
        let mut request = ChatRequest::user("hello");
        request
            .messages
            .insert(0, Message::text(Role::System, "be brief"));
        request.messages.push(Message {
            parts: vec![Part::ToolCall(ToolCall {
                id: "c1".into(),
                name: "find".into(),
                arguments: "{\"q\":1}".into(),
                ..ToolCall::default()
            })],
            ..Message::text(Role::Assistant, "")
        });
        let said = captured(None).request(&request);
        insta::assert_snapshot!(read(&said, "gen_ai.system_instructions"), @r#"[{"type":"text","content":"be brief"}]"#);
        insta::assert_snapshot!(read(&said, "gen_ai.input.messages"), @r#"[{"role":"user","parts":[{"type":"text","content":"hello"}]},{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"find","arguments":"{\"q\":1}"}]}]"#);
        assert_eq!(said.len(), 2, "no tools, no attribute of theirs");
    }

    #[test]
    fn every_part_is_cut_and_the_whole_stays_json() {
        let long = "ä\"".repeat(5_000);
        let mut request = ChatRequest::user(&*long);
        request.tools.push(Tool {
            name: "t".into(),
            description: Some(long.clone()),
            parameters: Some(Value::String(long)),
            strict: None,
            extra: evenkeel_core::Extra::default(),
        });
        let said = captured(None).request(&request);
        let messages = read(&said, "gen_ai.input.messages");
        let text = messages[0]["parts"][0]["content"].as_str().unwrap();
        assert!((4_000..=4_096).contains(&text.len()));
        let tools = read(&said, "gen_ai.tool.definitions");
        assert!(tools[0]["parameters"].as_str().unwrap().len() <= 4_096);
    }

    #[test]
    fn of_a_long_history_the_last_messages_are_kept() {
        let mut request = ChatRequest::default();
        for n in 0..200 {
            let text = format!("{n} {}", "x".repeat(4_000));
            request.messages.push(Message::text(Role::User, text));
        }
        let said = captured(None).request(&request);
        let messages = read(&said, "gen_ai.input.messages");
        let messages = messages.as_array().unwrap();
        assert!((20..40).contains(&messages.len()));
        let last = messages.last().unwrap()["parts"][0]["content"]
            .as_str()
            .unwrap();
        assert!(last.starts_with("199 "));
    }

    #[test]
    fn a_redaction_sees_every_text_before_it_is_cut() {
        let mut request = ChatRequest::user("call 555-1234");
        request.tools.push(Tool {
            name: "t".into(),
            description: Some("555".into()),
            parameters: Some(serde_json::json!({ "default": "555" })),
            strict: None,
            extra: evenkeel_core::Extra::default(),
        });
        let said = captured(Some(|text| text.replace("555", "###"))).request(&request);
        let all: String = said.iter().map(|kv| kv.value.to_string()).collect();
        assert!(!all.contains("555") && all.contains("###-1234"), "{all}");
    }
}
